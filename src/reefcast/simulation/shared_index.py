"""One matching for the whole simulated network.

In a simulation all brokers live in one process, and a publication meets much the same filters at
every hop. So each publication is matched once against all different filters of the network, and
what a broker's index has to answer is where its own rows with these filters lead: the same result
as an index of its own, without doing the same work at each hop.

Theory of operation
-------------------
Filters are numbered for the whole network; a publication's answer is an array of numbers, kept
until a filter comes or `REMEMBERED` other publications were asked about. Each broker has an array
of bit masks by that number: bit 0 stands for its own clients, each other bit for a neighbour from
which a row with this filter came. The OR of the masks of all matching filters says to which next
hops the publication goes; rows are looked at one by one only for local clients.

Publications of one publisher often match the same filters. Equal answers are one object, and what a
broker makes of an answer that came back is kept, until a row comes or goes there.

The twin is `matching.scan.ScanIndex` with `routing.tables.next_hops_of`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reefcast.errors import LocalError
from reefcast.matching import new_index
from reefcast.matching.interface import EventIndex
from reefcast.matching.kernel_cache import njit
from reefcast.model.filters import Filter
from reefcast.model.messages import LinkName
from reefcast.model.publication import Publication
from reefcast.routing.tables import K, NextHopIndex, NextHops, Row, T, next_hops_of

REMEMBERED = 20_000
ANSWERS_OF_A_BROKER = 2_000
LOCAL = 1
HOPS_OF_A_MASK = 62
Numbers = NDArray[np.int64]


@njit(cache=True)
def combine(
    masks: Numbers, counts: Numbers, numbers: Numbers, local: Numbers
) -> tuple[int, int, int]:
    """Return (OR of the masks of `numbers`, how many of them are local, the sum of their counts),
    and fill `local` with the local ones."""
    mask, locals_found, rows = 0, 0, 0
    for number in numbers:
        of_one = masks[number]
        if of_one:
            mask |= of_one
            rows += counts[number]
            if of_one & LOCAL:
                local[locals_found] = number
                locals_found += 1
    return mask, locals_found, rows


class Answer:
    """Numbers of the filters that publications match. `again`: that more than one matches them."""

    __slots__ = ("again", "numbers")

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.again = False


class SharedMatching:
    """The different filters of a network, numbered below `size`, and how many rows use each."""

    def __init__(self) -> None:
        self.size = 0
        self._index: EventIndex[int] = new_index()
        self._numbers: dict[Filter, int] = {}
        self._users: dict[int, int] = {}
        self._free: list[int] = []
        self._young: dict[int, tuple[Publication, Answer]] = {}
        self._old: dict[int, tuple[Publication, Answer]] = {}
        self._answers: dict[bytes, Answer] = {}

    def new_index(self) -> SharedIndex:
        """Return an index for one broker."""
        return SharedIndex(self)

    def use(self, filter: Filter) -> int:
        """Count one more row with this filter; return the filter's number."""
        number = self._numbers.get(filter)
        if number is None:
            number = self._free.pop() if self._free else self.size
            self.size = max(self.size, number + 1)
            self._numbers[filter] = number
            self._users[number] = 0
            self._index.add(number, filter)
            self._young, self._old, self._answers = {}, {}, {}
        self._users[number] += 1
        return number

    def release(self, filter: Filter) -> None:
        """Count one row less with this filter."""
        number = self._numbers[filter]
        self._users[number] -= 1
        if not self._users[number]:
            self._index.remove(number)
            del self._numbers[filter], self._users[number]
            self._free.append(number)

    def match(self, publication: Publication) -> Answer:
        """Return the numbers of the filters that hold; perhaps also of some that nobody uses any
        more."""
        key = id(publication)  # of an object that the entry keeps alive
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key) or (publication, self._answer(publication))
            if len(self._young) >= REMEMBERED:
                self._old, self._young = self._young, {}
            self._young[key] = found
        return found[1]

    def _answer(self, publication: Publication) -> Answer:
        numbers = np.array(self._index.match(publication), dtype=np.int64)
        numbers.sort()
        key = numbers.tobytes()
        answer = self._answers.get(key)
        if answer is not None:
            answer.again = True
            return answer
        if len(self._answers) >= REMEMBERED:
            self._answers = {}
        answer = self._answers[key] = Answer(numbers)
        return answer


class SharedIndex(NextHopIndex):
    """See the module's docstring and `matching.interface.EventIndex`."""

    def __init__(self, shared: SharedMatching) -> None:
        self._shared = shared
        self._rows: list[tuple[Row, ...]] = []  # by the filter's number
        self._locals: list[tuple[tuple[LinkName, int], ...]] = []  # clients and their subscriptions
        self._masks = np.zeros(64, np.int64)  # by the filter's number
        self._counts = np.zeros(64, np.int64)  # rows, by the filter's number
        self._local = np.empty(64, np.int64)
        self._numbers: dict[Row, int] = {}
        self._hops: list[LinkName] = []
        self._hops_of: dict[int, list[LinkName]] = {}
        self._kept: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: object) -> bool:
        return key in self._numbers

    def add(self, key: Row, filter: Filter) -> None:
        if key in self._numbers:
            raise LocalError(f"row {key.id} is in the index already; remove it first")
        number = self._numbers[key] = self._shared.use(filter)
        self._grow()
        self._set_rows(number, (*self._rows[number], key))

    def remove(self, key: Row) -> None:
        if key not in self._numbers:
            raise LocalError(f"row {key.id} is not in the index")
        number = self._numbers.pop(key)
        self._set_rows(number, tuple(row for row in self._rows[number] if row is not key))
        self._shared.release(key.filter)

    def _set_rows(self, number: int, rows: tuple[Row, ...]) -> None:
        self._rows[number] = rows
        self._counts[number] = len(rows)
        self._kept = {}
        self._locals[number] = tuple((row.last_hop, row.number) for row in rows if row.local)
        mask = 0
        for row in rows:
            mask |= LOCAL if row.local else self._bit_of(row.next_hop)
        self._masks[number] = mask

    def _bit_of(self, hop: LinkName) -> int:
        if hop not in self._hops:
            self._hops.append(hop)
        return 2 << min(self._hops.index(hop), HOPS_OF_A_MASK - 1)

    def _grow(self) -> None:
        """Make room for the filters that came to other brokers in the meantime."""
        size = self._shared.size
        if size == len(self._rows):
            return
        self._locals += [()] * (size - len(self._rows))
        self._rows += [()] * (size - len(self._rows))
        if size > len(self._masks):
            more = np.zeros(size, np.int64)
            self._masks = np.concatenate((self._masks, more))
            self._counts = np.concatenate((self._counts, more))
            self._local = np.empty(len(self._masks), np.int64)

    # --- matching ---------------------------------------------------------------------------------

    def match(self, publication: Publication) -> list[Row]:
        self._grow()
        return self._matching(self._shared.match(publication))

    def _matching(self, answer: Answer) -> list[Row]:
        rows = self._rows
        return [row for number in answer.numbers.tolist() for row in rows[number]]

    def match_many(self, publications: Sequence[Publication]) -> list[list[Row]]:
        return [self.match(publication) for publication in publications]

    def next_hops(self, publications: Sequence[Publication]) -> list[NextHops]:
        if len(publications) == 1:  # as almost always; and an answer that is kept needs no growing
            answer = self._shared.match(publications[0])
            kept = self._kept.get(answer)
            if kept is not None:
                return [kept]
        self._grow()
        if len(self._hops) > HOPS_OF_A_MASK:
            return [next_hops_of(self.match(publication)) for publication in publications]
        return [self._next_hops_of(self._shared.match(publication)) for publication in publications]

    def _next_hops_of(self, answer: Answer) -> NextHops:
        next_hops: NextHops | None = self._kept.get(answer)
        if next_hops is None:
            next_hops = self._combined(answer.numbers)
            self._keep(answer, answer, next_hops)
        return next_hops

    def digests(
        self,
        publications: Sequence[Publication],
        keys: Sequence[K],
        digest: Callable[[list[Row], K], T],
    ) -> list[T]:
        self._grow()
        found: list[T] = []
        for publication, key in zip(publications, keys, strict=True):
            answer = self._shared.match(publication)
            kept: T | None = self._kept.get((answer, key))
            if kept is None:
                kept = digest(self._matching(answer), key)
                self._keep(answer, (answer, key), kept)
            found.append(kept)
        return found

    def _keep(self, answer: Answer, key: Hashable, made: object) -> None:
        """Keep what was made of an answer, if that comes back."""
        if answer.again:
            if len(self._kept) >= ANSWERS_OF_A_BROKER:
                self._kept = {}
            self._kept[key] = made

    def _combined(self, numbers: Numbers) -> NextHops:
        mask, locals_found, matched = combine(self._masks, self._counts, numbers, self._local)
        hops = self._hops_of.get(mask)
        if hops is None:
            hops = sorted(hop for i, hop in enumerate(self._hops) if mask >> i + 1 & 1)
            self._hops_of[mask] = hops
        local: dict[LinkName, list[int]] = {}
        if mask & LOCAL:
            for number in self._local[:locals_found].tolist():
                for client, subscription in self._locals[number]:
                    if client in local:
                        insort(local[client], subscription)
                    else:
                        local[client] = [subscription]
        return NextHops(local, hops, matched)
