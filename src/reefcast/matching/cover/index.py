"""The compiled covering index. How it works: see `cover.layout`; its tables: `cover.table`.

Filters with the same normal form are stored once, as one *entry* with several keys. What the boxes
say alone is decided by the kernels, and for filters of several conjunctions by counting the rows
that they find: one covers another if for each conjunction of the other one, some exact box of its
own covers that. About the others that they find, `model.covering` decides, in a few microseconds
each. Between filters of many conjunctions, boxes find more than `model.covering`, which must not
compare them all.

Use an index from one thread only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar, cast

import numpy as np

from reefcast.errors import LocalError
from reefcast.matching.cover.coding import Box
from reefcast.matching.cover.layout import COVERED, COVERING, EQUAL, MEETING
from reefcast.matching.cover.owners import Owners
from reefcast.matching.cover.table import ALL, Table
from reefcast.matching.machine import Array
from reefcast.model.covering import covers, equals, intersects
from reefcast.model.filters import Conjunction, Filter, has_residuals

K = TypeVar("K", bound=Hashable)

NONE = np.empty(0, np.int64)


def form_of(filter: Filter) -> bytes | str:
    """Return a value that is equal for filters with the same normal form, whatever their texts: the
    packed form, or the text of filters with residual conditions, which the packed form leaves
    out."""
    if has_residuals(filter):
        return filter.text
    return filter.packed


_DECIDE: dict[int, Callable[[Filter, Filter], bool]] = {
    COVERING: covers,
    COVERED: lambda stored, filter: covers(filter, stored),
    MEETING: intersects,
    EQUAL: equals,
}


class Entries:
    """Filters by number, each stored once; the number is that of the filter's first conjunction.

    `filters` has None for a number that is unused, or that belongs to a further conjunction."""

    def __init__(self) -> None:
        self.filters: list[Filter | None] = []
        self.table = Table()
        self._further: dict[int, list[int]] = {}  # numbers of the further conjunctions
        self._owners = Owners()
        self._empty: dict[int, None] = {}  # filters that never match: they have no rows
        self._free: list[int] = []
        self._asked: tuple[Filter | None, int, bool, list[Box]] = (None, 0, False, [])

    # --- changes ---------------------------------------------------------------------------------

    def add(self, filter: Filter) -> int:
        conjunctions = filter.conjunctions
        coder = self.table.coder
        number = self._number()
        self.filters[number] = filter
        if not conjunctions:
            self._empty[number] = None
            return number
        numbers = [number, *(self._number() for _ in conjunctions[1:])]
        exact: list[bool] = []
        for one, conjunction in zip(numbers, conjunctions, strict=True):
            # Make room first: this may free codes of texts that nobody else uses.
            place = self.table.room(len(conjunction.constraints))
            box = coder.box(conjunction, new=True)
            doubts = (len(conjunctions) > 1 or not box.exact) + 2 * (not box.meets_exactly)
            self.table.add(box, place, one, doubts)
            exact.append(box.exact)
        if len(conjunctions) > 1:
            self._further[number] = numbers[1:]
            self._owners.add(numbers, exact)
        coder.settle()
        return number

    def remove(self, number: int) -> None:
        if number in self._empty:
            del self._empty[number]
        else:
            self.table.remove(number)
        further = self._further.pop(number, ())
        if further:
            self._owners.remove([number, *further])
        for one in further:
            self.table.remove(one)
            self._free.append(one)
        self.filters[number] = None
        self._free.append(number)

    def mark(self, number: int, mark: bool) -> None:
        """Mark the filter, or remove the mark; not for a filter that never matches."""
        self.table.mark(number, mark)
        for one in self._further.get(number, ()):
            self.table.mark(one, mark)

    def _number(self) -> int:
        if self._free:
            return self._free.pop()
        self.filters.append(None)
        self._owners.make_room(len(self.filters))
        return len(self.filters) - 1

    def memory_bytes(self) -> int:
        lists = (self.filters, self._further, self._empty, self._free)
        own = self._owners.memory_bytes() + sum(map(sys.getsizeof, lists))
        return self.table.memory_bytes() + own

    # --- searching -------------------------------------------------------------------------------

    def find(self, filter: Filter, mode: int, *, marked: bool = False, enough: int = ALL) -> Array:
        """Find the entries that answer, and return their numbers, each once (`marked`: only marked
        entries, none of which is empty). For a filter of one conjunction, return not many more than
        `enough`. The result is a view that is valid until the next call, or an array of its own."""
        conjunctions = filter.conjunctions
        if len(conjunctions) == 1:
            found = self._find_one(filter, conjunctions[0], mode, marked, enough)
        elif mode == MEETING:
            found = self._find_meeting(filter, marked)
        elif mode == COVERED:
            found = self._find_covered(filter, marked)
        else:
            found = self._find_covering(filter, mode, marked)
        self.table.coder.settle()
        if self._empty and not marked and (mode == COVERED or (mode == EQUAL and not conjunctions)):
            found = np.concatenate([found, np.fromiter(self._empty, np.int64)])
        return found

    def _boxes(self, filter: Filter, mode: int) -> list[Box]:
        """Return the boxes of a filter, and remember the last ones: a caller often asks about a
        filter twice, or adds it."""
        coder = self.table.coder
        known, version, meeting, boxes = self._asked
        if known is not filter or version != coder.version or meeting != (mode == MEETING):
            meeting = mode == MEETING
            boxes = [coder.box(c, new=False, meeting=meeting) for c in filter.conjunctions]
            self._asked = (filter, coder.version, meeting, boxes)
        return boxes

    def _find_one(
        self, filter: Filter, asked: Conjunction, mode: int, marked: bool, enough: int
    ) -> Array:
        box = self._boxes(filter, mode)[0]
        answers, doubts = self._search(box, mode, marked, enough)
        if not (box.meets_exactly if mode == MEETING else box.exact or mode == COVERING):
            # No box covers less than itself, or equals it: residuals exclude exact boxes.
            if mode != COVERED or not asked.residuals:
                doubts = np.concatenate([answers, doubts])
            answers = NONE
        if self._further:
            answers, doubts = self._by_filter(mode, box, answers, doubts)
        if not len(doubts):
            return answers
        return self._decide(filter, mode, answers, doubts.tolist())

    def _by_filter(self, mode: int, box: Box, answers: Array, doubts: Array) -> tuple[Array, Array]:
        """Replace conjunctions by their filters, each once: those that answer for a box, and those
        that are doubtful."""
        owners = self._owners.of[doubts]
        if mode == MEETING:
            return np.unique(self._owners.of[answers]), owners
        sizes = self._owners.sizes[owners]
        sure = np.zeros(len(owners), bool)
        if mode == COVERING:
            sure = self._owners.exact[doubts]
        elif mode == COVERED:  # each of a filter's conjunctions must be there
            whole = np.bincount(owners, minlength=1)[owners] == sizes
            owners, sure = owners[whole], whole[whole] & box.exact
        return np.concatenate([answers, np.unique(owners[sure])]), owners[~sure]

    def _search(self, box: Box, mode: int, marked: bool, enough: int = ALL) -> tuple[Array, Array]:
        if box.unknown and mode in (COVERED, EQUAL):
            return NONE, NONE
        return self.table.search(box, mode, marked=marked, enough=enough)

    def _rows(self, box: Box, mode: int, marked: bool) -> Array:
        """Return the conjunctions whose boxes answer, doubtful or not."""
        return np.concatenate(self._search(box, mode, marked))

    def _decide(self, filter: Filter, mode: int, answers: Array, doubts: Iterable[int]) -> Array:
        """Return the answers, and the doubtful ones that `model.covering` confirms."""
        decide, filters = _DECIDE[mode], self.filters
        open_ones = sorted(set(doubts).difference(answers.tolist()))
        agreed = []
        for number in open_ones:
            stored = filters[number]
            if stored is not None and decide(stored, filter):
                agreed.append(number)
        return np.concatenate([answers, np.array(agreed, np.int64)])

    # Filters of several conjunctions: tables of bool, by filter or by conjunction.

    def _find_meeting(self, filter: Filter, marked: bool) -> Array:
        """Find what intersects one of the filter's conjunctions."""
        candidates: set[int] = set()
        for box in self._boxes(filter, MEETING):
            candidates.update(self._owners.of[self._rows(box, MEETING, marked)].tolist())
        return self._decide(filter, MEETING, NONE, candidates)

    def _find_covered(self, filter: Filter, marked: bool) -> Array:
        """Find the filters all of whose conjunctions lie within some of this one's."""
        sure, maybe = (np.zeros(len(self.filters), bool) for _ in range(2))
        for box in self._boxes(filter, COVERED):
            rows = self._rows(box, COVERED, marked)
            maybe[rows] = True
            if box.exact:
                sure[rows] = True
        with_all = self._owners.with_all
        return self._agreed(filter, COVERED, with_all(sure), with_all(maybe))

    def _find_covering(self, filter: Filter, mode: int, marked: bool) -> Array:
        """Find what covers each conjunction of the filter, or equals the filter. Everything covers
        a filter without conjunctions."""
        if not filter.conjunctions:
            if mode == EQUAL or marked:
                return NONE
            stored = [n for n, f in enumerate(self.filters) if f is not None]
            return np.array(stored, np.int64)
        sure, maybe = (np.ones(len(self.filters), bool) for _ in range(2))
        for box in self._boxes(filter, mode):
            answers, doubts = self._search(box, COVERING, marked)
            certain = np.concatenate([answers, doubts[self._owners.exact[doubts]]])
            sure &= self._owners.with_one(certain, len(sure))
            maybe &= self._owners.with_one(np.concatenate([answers, doubts]), len(maybe))
            if not maybe.any():
                return NONE
        found = self._agreed(filter, COVERING, sure, maybe)
        if mode == EQUAL and len(found):
            found = np.intersect1d(found, self._find_covered(filter, marked))
        return found

    def _agreed(self, filter: Filter, mode: int, sure: Array, maybe: Array) -> Array:
        """Return the numbers of the sure ones, and of those that Python confirms."""
        doubts = np.flatnonzero(maybe & ~sure)
        return self._decide(filter, mode, np.flatnonzero(sure), doubts.tolist())


class CompiledCoverIndex(Generic[K]):
    """See `cover.CoverIndex`; `cover.scan.ScanCoverIndex` is the twin that defines what is
    right."""

    def __init__(self) -> None:
        self._entries = Entries()
        self._numbers: dict[K, int] = {}  # the entry of each key
        self._of_form: dict[bytes | str, int] = {}
        self._keys: Array = np.zeros(
            64, np.int64
        )  # the key of each entry; objects unless all are int64
        self._several: dict[int, dict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: object) -> bool:
        return key in self._numbers

    def memory_bytes(self) -> int:
        """Return the bytes of the index, without the filters, their texts and the keys
        themselves."""
        lists = (self._numbers, self._of_form, self._several, *self._several.values())
        own = self._keys.nbytes + sum(map(sys.getsizeof, lists))
        return self._entries.memory_bytes() + own

    def add(self, key: K, filter: Filter) -> None:
        if key in self._numbers:
            raise LocalError(f"key {key!r} is in the index already; remove it first")
        number = self._of_form.get(form_of(filter))
        if number is None:
            number = self._of_form[form_of(filter)] = self._entries.add(filter)
            self._put_key(number, key)
        elif number in self._several:
            self._several[number][key] = None
        else:
            self._several[number] = {self._key(number): None, key: None}
        self._numbers[key] = number

    def remove(self, key: K) -> None:
        number = self._numbers.pop(key, None)
        if number is None:
            raise LocalError(f"key {key!r} is not in the index")
        keys = self._several.get(number)
        if keys is not None:
            del keys[key]
            if len(keys) == 1:
                self._put_key(number, *keys)
                del self._several[number]
            return
        filter = self._entries.filters[number]
        assert filter is not None, "an entry lives as long as it has keys"
        del self._of_form[form_of(filter)]
        self._put_key(number, 0)
        self._entries.remove(number)

    def _put_key(self, number: int, key: Any) -> None:
        if self._keys.dtype == np.int64 and not (type(key) is int and -(2**63) <= key < 2**63):
            self._keys = self._keys.astype(object)
        if number >= len(self._keys):
            room = np.zeros(2 * number - len(self._keys), self._keys.dtype)
            self._keys = np.concatenate([self._keys, room])
        self._keys[number] = key

    def _key(self, number: int) -> K:
        return cast(K, self._keys.item(number))

    def covering(self, filter: Filter) -> list[K]:
        return self._find(filter, COVERING)

    def covered(self, filter: Filter) -> list[K]:
        return self._find(filter, COVERED)

    def intersecting(self, filter: Filter) -> list[K]:
        return self._find(filter, MEETING)

    def equal(self, filter: Filter) -> list[K]:
        return self._find(filter, EQUAL)

    def _find(self, filter: Filter, mode: int) -> list[K]:
        found = self._entries.find(filter, mode)
        if not self._several:
            keys: list[K] = self._keys.take(found).tolist()
            return keys
        return self._spread(found.tolist())

    def _spread(self, numbers: list[int]) -> list[K]:
        keys: list[Any] = []
        for number in numbers:
            several = self._several.get(number)
            if several is None:
                keys.append(self._key(number))
            else:
                keys.extend(several)
        return keys
