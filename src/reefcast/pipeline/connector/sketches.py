"""A sketch remembers a set of events in few bytes: what there is now and was not then can be read
off it, and that this failed is noticed.

Theory of operation
-------------------
A sketch has two invertible Bloom lookup tables (Goodrich and Mitzenmacher, 2011; for the difference
of two sets: Eppstein and others, "What's the difference?", SIGCOMM 2011). An event is counted and
XORed into three cells of each. What two sets have in common cancels out when the cells of one are
taken from those of the other; a cell that has one thing left tells it, and it is taken out of its
other cells, until nothing is left.

- In the cells *of events* the hash of the event says which ones are its own. They tell some 80
  events in which the sets differ, whatever these are.
- In the cells *of publishers* the hash of the publisher does. A cell with events of one publisher
  left, however many, says how many, and the XOR of their hashes. Events come from their publisher
  in the order of their numbers, so that those which came too late follow on each other there: the
  one run of so many with this XOR is looked up among what there is now.

So a publisher that was cut off may be late with any number of events, and some 500 publishers may
be. Sketches of one `third` (the cells in which a publisher has one of its three) can be added and
compared, and any with an empty one."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reefcast.pipeline.connector.ids import Hashes, Ids, mixed

PLACES = 3
THIRD = 48
"""A third of the cells of events."""
PUBLISHERS_THIRD = 256
"""A third of the cells of publishers. Those of few are mostly zeros, which a text does without."""
CELL_BYTES = 20

Places = npt.NDArray[np.int16]


class Difference(NamedTuple):
    """Hashes that only the one set has, and those that only the other has."""

    more: Hashes
    less: Hashes


class _Cells:
    """`counts`; `keys`: the XOR of the hashes; `checks`: of events, the XOR of what is made of
    them, of publishers, the sum of theirs."""

    def __init__(self, third: int) -> None:
        self.third = third
        self.counts = np.zeros(PLACES * third, np.int32)
        self.keys = np.zeros(PLACES * third, np.uint64)
        self.checks = np.zeros(PLACES * third, np.uint64)

    def places(self, values: Hashes) -> Iterator[Places]:
        """Yield the cells of these values, for each third."""
        third = np.uint64(self.third)
        for place in range(PLACES):
            spread = mixed(values ^ np.uint64(0x9E3779B97F4A7C15 * (place + 1) % 2**64))
            yield (spread % third + np.uint64(place) * third).astype(np.int16)

    @property
    def is_empty(self) -> bool:
        return not (self.counts.any() or self.keys.any() or self.checks.any())

    def to_bytes(self) -> bytes:
        return self.counts.tobytes() + self.keys.tobytes() + self.checks.tobytes()

    @classmethod
    def of_bytes(cls, data: bytes) -> _Cells:
        cells = cls(len(data) // CELL_BYTES // PLACES)
        count = PLACES * cells.third
        cells.counts = np.frombuffer(data, np.int32, count).copy()
        words = np.frombuffer(data, np.uint64, offset=4 * count).reshape(2, count).copy()
        cells.keys, cells.checks = words
        return cells


class Sketch:
    """A sketch of a set of events. `third`: see the module; 0 for the sketches of older versions,
    which have cells of events alone."""

    def __init__(self, ids: Ids | None = None, third: int = PUBLISHERS_THIRD) -> None:
        self._events, self._publishers = _Cells(THIRD), _Cells(third)
        if ids is not None and len(ids.hashes):
            self._put(ids, 1)

    @property
    def third(self) -> int:
        return self._publishers.third

    @property
    def is_empty(self) -> bool:
        """Whether the set is empty."""
        return self._events.is_empty

    def _put(self, ids: Ids, sign: int) -> None:
        self._put_hashes(ids.hashes, sign)
        cells = self._publishers
        for places in cells.places(ids.publishers) if cells.third else ():
            at, order, starts = _grouped(places)
            cells.counts[at] += sign * np.diff(starts, append=len(order)).astype(np.int32)
            cells.keys[at] ^= np.bitwise_xor.reduceat(ids.hashes[order], starts)
            sums = np.add.reduceat(ids.publishers[order], starts)
            cells.checks[at] += sums if sign > 0 else -sums

    def _put_hashes(self, hashes: Hashes, sign: int) -> None:
        checks, cells = mixed(hashes + np.uint64(1)), self._events
        for places in cells.places(hashes):
            at, order, starts = _grouped(places)
            cells.counts[at] += sign * np.diff(starts, append=len(order)).astype(np.int32)
            cells.keys[at] ^= np.bitwise_xor.reduceat(hashes[order], starts)
            cells.checks[at] ^= np.bitwise_xor.reduceat(checks[order], starts)

    def plus(self, other: Sketch) -> Sketch:
        return self._joined(other, 1)

    def minus(self, other: Sketch) -> Sketch:
        return self._joined(other, -1)

    def _joined(self, other: Sketch, sign: int) -> Sketch:
        if other.is_empty:  # perhaps of an older version: an empty text says no third
            return self
        mine = Sketch(third=other.third) if self.is_empty else self
        both = Sketch(third=other.third)
        for into, one, more in zip(both._tables, mine._tables, other._tables, strict=True):
            into.counts = one.counts + sign * more.counts
            into.keys = one.keys ^ more.keys
        both._events.checks = mine._events.checks ^ other._events.checks
        sums = other._publishers.checks
        both._publishers.checks = mine._publishers.checks + (sums if sign > 0 else -sums)
        return both

    @property
    def _tables(self) -> tuple[_Cells, _Cells]:
        return self._events, self._publishers

    def missed(self, ids: Ids) -> Difference | None:
        """Return the hashes of those of these events that this set lacks, and of those that only
        this set has; None if that cannot be told."""
        rest = Sketch(ids, self.third).minus(self)
        if rest.is_empty:
            return Difference(ids.hashes[:0], ids.hashes[:0])
        return _Peeling(ids, rest).run()

    # --- as a text --------------------------------------------------------------------------------

    def __str__(self) -> str:
        data = self._events.to_bytes() + self._publishers.to_bytes()
        return "" if self.is_empty else base64.b85encode(zlib.compress(data)).decode()

    @classmethod
    def of_text(cls, text: str) -> Sketch:
        sketch = cls()
        if text:
            data = zlib.decompress(base64.b85decode(text))
            split = CELL_BYTES * PLACES * THIRD
            sketch._events = _Cells.of_bytes(data[:split])
            sketch._publishers = _Cells.of_bytes(data[split:])
        return sketch


def _grouped(places: Places) -> tuple[Places, npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the different places, an order in which equal ones follow on each other, and where
    each begins there."""
    order = np.argsort(places, kind="stable")
    in_order = places[order]
    starts = np.flatnonzero(np.diff(in_order, prepend=-1))
    return in_order[starts], order, starts


class _Peeling:
    """Takes apart the difference `rest` of the cells of `ids` and those of another set. `_late`:
    which of `ids`, in the order of publishers and numbers, the other set lacks."""

    def __init__(self, ids: Ids, rest: Sketch) -> None:
        self._ids = ids.where(np.lexsort((ids.seqs, ids.publishers)))
        self._rest = rest
        self._late = np.zeros(len(ids.hashes), bool)
        self._less: list[Hashes] = []
        self._alone = 0
        self._names, starts = np.unique(self._ids.publishers, return_index=True)
        self._starts = np.append(starts, len(ids.hashes))
        self._by_hash = np.argsort(self._ids.hashes)

    def run(self) -> Difference | None:
        while self._take_runs() or self._take_alone():
            pass
        if not self._rest.is_empty:
            return None
        return Difference(
            self._ids.hashes[self._late],
            np.concatenate(self._less) if self._less else self._ids.hashes[:0],
        )

    def _take_runs(self) -> bool:
        """Take out runs of events of one publisher each; return whether there were any."""
        cells, found = self._rest._publishers, False
        for places in cells.places(self._names) if cells.third else ():
            sums = cells.counts[places].astype(np.uint64) * self._names
            pure = (cells.counts[places] > 0) & (cells.checks[places] == sums)
            for publisher in np.flatnonzero(pure).tolist():
                found |= self._take_run(publisher, int(places[publisher]))
        return found

    def _take_run(self, publisher: int, cell: int) -> bool:
        """Take out the events in a cell, which are of this publisher."""
        cells = self._rest._publishers
        first, end = self._starts[publisher : publisher + 2]
        rows = first + np.flatnonzero(~self._late[first:end])
        count, key = int(cells.counts[cell]), cells.keys[cell]
        if not 0 < count <= len(rows):
            return False
        ends = np.zeros(len(rows) + 1, np.uint64)
        np.bitwise_xor.accumulate(self._ids.hashes[rows], out=ends[1:])
        runs = np.flatnonzero(ends[count:] ^ ends[: len(ends) - count] == key)
        if not len(runs):
            return False
        self._take(rows[runs[-1] : runs[-1] + count])
        return True

    def _take(self, rows: npt.NDArray[Any]) -> None:
        self._late[rows] = True
        self._rest._put(self._ids.where(rows), -1)

    def _take_alone(self) -> bool:
        """Take out events each of which is alone in one of its cells; return whether there were
        any."""
        cells = self._rest._events
        alone = np.abs(cells.counts) == 1
        alone &= mixed(cells.keys + np.uint64(1)) == cells.checks
        keys, first = np.unique(cells.keys[alone], return_index=True)
        signs = cells.counts[alone][first]
        self._alone += len(keys)
        if not len(keys) or self._alone > len(cells.counts):
            return False
        more, less = keys[signs > 0], keys[signs < 0]
        places = np.searchsorted(self._ids.hashes, more, sorter=self._by_hash)
        rows = self._by_hash[np.minimum(places, len(self._by_hash) - 1)] if len(more) else places
        if (self._ids.hashes[rows] != more).any():  # no hashes, but what is left of many
            return False
        if len(rows):
            self._take(rows)
        if len(less):
            self._less.append(less)
            self._rest._put_hashes(less, 1)
        return True
