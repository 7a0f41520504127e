"""Ids of events: their times and hashes, in columns; and a sketch that remembers a set of them.

A *sketch* is an invertible Bloom lookup table (Goodrich and Mitzenmacher, 2011; for the difference
of two sets: Eppstein and others, "What's the difference?", SIGCOMM 2011). Each hash is counted and
XORed into three of its cells. What two sets have in common cancels out when one sketch is taken
from the other, so that the hashes in which they differ can be read off, if they are not too many:
some 80, whatever the size of the sets. That it failed is noticed.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reefcast.matching.columnar.tables import Bodies, Table, Texts, Wanted, known
from reefcast.model.wire import decode_publication

Hashes = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]

_IDS = Wanted(times=True, seqs=True, publishers=True)
_TOPICS = Wanted(topics=True)
PLACES = 3
CELLS = PLACES * 48


class Ids(NamedTuple):
    """The ids of events in the order of their times: microseconds and hashes."""

    times: Times
    hashes: Hashes

    def between(self, since_us: int, until_us: int) -> Ids:
        first, end = np.searchsorted(self.times, (since_us, until_us))
        return Ids(self.times[first:end], self.hashes[first:end])

    def where(self, chosen: npt.NDArray[np.bool_]) -> Ids:
        return Ids(self.times[chosen], self.hashes[chosen])

    def within(self, hashes: Hashes) -> Ids:
        return self.where(np.isin(self.hashes, hashes))

    def without(self, hashes: Hashes) -> Ids:
        return self.where(~np.isin(self.hashes, hashes))


def no_ids() -> Ids:
    return Ids(np.empty(0, np.int64), np.empty(0, np.uint64))


def ids_of(bodies: Sequence[bytes]) -> Ids:
    """Return the ids of events, which are in the order of their times, as they are encoded."""
    table = _read(bodies)
    return Ids(known(table.times), _hashes(table))


def hashes_of(bodies: Sequence[bytes]) -> Hashes:
    """Return the hashes of encoded events."""
    return _hashes(_read(bodies))


def without(bodies: list[bytes], topics: Sequence[str]) -> list[bytes]:
    """Return the events that are on none of these topics, of events that are on another one."""
    if not topics:
        return bodies
    ends, _ = known(Table(_TOPICS, Bodies.of(bodies)).topics)
    several = np.flatnonzero(np.diff(ends) > 1).tolist()
    others = {i for i in several if not set(topics).isdisjoint(_topics_of(bodies[i]))}
    return [body for i, body in enumerate(bodies) if i not in others] if others else bodies


def _topics_of(body: bytes) -> tuple[str, ...]:
    return decode_publication(body).topics


def joined(parts: Iterable[Ids]) -> Ids:
    some = list(parts)
    if not some:
        return no_ids()
    return Ids(*(np.concatenate(each) for each in zip(*some, strict=True)))


def _read(bodies: Sequence[bytes]) -> Table:
    return Table(_IDS, Bodies.of(bodies))


def _hashes(table: Table) -> Hashes:
    return _hashed(known(table.times), _of_publishers(known(table.publishers)), known(table.seqs))


def _of_publishers(texts: Texts) -> Hashes:
    """Return a number for each name; only different names are looked at one by one."""
    import pyarrow as pa

    names = pa.StringArray.from_buffers(
        len(texts.ends) - 1, pa.py_buffer(texts.ends), pa.py_buffer(texts.data)
    ).dictionary_encode()
    numbers = [_of_publisher(name) for name in names.dictionary.to_pylist()]
    found: Hashes = np.array(numbers, np.uint64)[names.indices.to_numpy()]
    return found


@lru_cache(maxsize=1 << 16)
def _of_publisher(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


def _hashed(times: Times, publishers: Hashes, seqs: Times) -> Hashes:
    return mixed(mixed(mixed(times.view(np.uint64)) ^ publishers) + seqs.view(np.uint64))


def mixed(values: Hashes) -> Hashes:
    """Apply the finalizer of splitmix64: every bit of the result depends on every bit of the
    value."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class Difference(NamedTuple):
    """Hashes that only the one set has, and those that only the other has."""

    more: Hashes
    less: Hashes


class Sketch:
    """A sketch of a set of hashes. Each hash has a cell in each third of the cells."""

    def __init__(self, hashes: Hashes | None = None) -> None:
        self._counts = np.zeros(CELLS, np.int32)
        self._keys = np.zeros(CELLS, np.uint64)
        self._checks = np.zeros(CELLS, np.uint64)
        if hashes is not None and len(hashes):
            self._put(hashes, 1)

    def _put(self, hashes: Hashes, count: int) -> None:
        checks = mixed(hashes + np.uint64(1))
        for cells in _cells_of(hashes):
            np.add.at(self._counts, cells, count)
            np.bitwise_xor.at(self._keys, cells, hashes)
            np.bitwise_xor.at(self._checks, cells, checks)

    def plus(self, other: Sketch) -> Sketch:
        return self._joined(other, 1)

    def minus(self, other: Sketch) -> Sketch:
        return self._joined(other, -1)

    def _joined(self, other: Sketch, sign: int) -> Sketch:
        both = Sketch()
        both._counts = self._counts + sign * other._counts
        both._keys = self._keys ^ other._keys
        both._checks = self._checks ^ other._checks
        return both

    def difference(self, other: Sketch) -> Difference | None:
        """Return what this set has more than the other, and less; None if that cannot be told."""
        rest = self.minus(other)
        found: dict[int, list[int]] = {1: [], -1: []}
        while (pure := rest._pure()) is not None:
            sign, key = pure
            found[sign].append(key)
            rest._put(np.array([key], np.uint64), -sign)
            if len(found[1]) + len(found[-1]) > CELLS:
                return None
        if rest._counts.any() or rest._keys.any():
            return None
        return Difference(np.array(found[1], np.uint64), np.array(found[-1], np.uint64))

    def _pure(self) -> tuple[int, int] | None:
        """Find a hash that is alone in one of its cells, with 1 or -1."""
        alone = np.abs(self._counts) == 1
        alone &= mixed(self._keys + np.uint64(1)) == self._checks
        cells = np.flatnonzero(alone)
        if not len(cells):
            return None
        return int(self._counts[cells[0]]), int(self._keys[cells[0]])

    # --- as a text --------------------------------------------------------------------------------

    def __str__(self) -> str:
        data = self._counts.tobytes() + self._keys.tobytes() + self._checks.tobytes()
        return base64.b85encode(zlib.compress(data)).decode() if self._counts.any() else ""

    @classmethod
    def of_text(cls, text: str) -> Sketch:
        sketch = cls()
        if text:
            data = zlib.decompress(base64.b85decode(text))
            sketch._counts = np.frombuffer(data, np.int32, CELLS).copy()
            rest = np.frombuffer(data, np.uint64, offset=4 * CELLS).reshape(2, CELLS).copy()
            sketch._keys, sketch._checks = rest
        return sketch


def _cells_of(hashes: Hashes) -> Iterator[npt.NDArray[Any]]:
    third = np.uint64(CELLS // PLACES)
    for place in range(PLACES):
        spread = mixed(hashes ^ np.uint64(0x9E3779B97F4A7C15 * (place + 1) % 2**64))
        yield (spread % third + np.uint64(place) * third).astype(np.int64)
