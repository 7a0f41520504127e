"""The compiled index. How it works: see `kernels`; how its tables grow: see `tables`.

Costs: `benchmarks/bench_matching.py` prints them. Rows with patterns that are more than a prefix,
or with residual expressions, are decided in Python one by one where all else holds: a few
microseconds each. Every attribute that some filter names is looked up in every event. An index
belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from reefcast.errors import LocalError
from reefcast.matching.kernels import match_events
from reefcast.matching.old_machine import Array
from reefcast.matching.old_predicates import Predicate, predicate_of
from reefcast.matching.tables import Store
from reefcast.model.expression import attributes_of
from reefcast.model.filters import TOPIC, Conjunction, Filter, parse_filter
from reefcast.model.publication import Publication, Value

K = TypeVar("K", bound=Hashable)
Event = Mapping[str, Value]


def _plain(value: object) -> Value:
    """Subclasses (numpy.float64, say) as what they are; msgpack takes only the types themselves."""
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return plain(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be matched")


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def _looks_at_topic(filter: Filter) -> bool:
    return any(
        TOPIC in c.constraints or any(TOPIC in attributes_of(r) for r in c.residuals)
        for c in filter.conjunctions
    )


class BitmapIndex(Generic[K]):
    """See `interface.MatchIndex`; `scan.ScanIndex` is the twin that says what is right."""

    def __init__(self) -> None:
        self._store = Store()
        self._keys: list[K] = []  # of each row
        self._firsts: dict[K, int] = {}  # its first row; -1 for a filter without any
        self._checks: dict[int, Conjunction] = {}  # of a row: what Python must decide about it
        self._topical: set[K] = set()  # keys of the filters that look at the topic
        self._out = np.empty(1024, np.int64)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, key: object) -> bool:
        return key in self._firsts

    def memory_bytes(self) -> int:
        """Bytes of the compiled tables."""
        return self._store.memory_bytes()

    # --- changes ---------------------------------------------------------------------------------

    def add(self, key: K, filter: Filter) -> None:
        if key in self._firsts:
            raise LocalError(f"key {key!r} is in the index already; remove it first")
        count = len(filter.conjunctions)
        if not self._store.has_room(count):
            self._rebuild(count)
        first = self._store.row_count
        strings = self._store.strings
        # All predicates before the first row: should one fail, the tables are as they were.
        rows = [
            (c, [(name, predicate_of(d, strings)) for name, d in c.constraints.items()])
            for c in filter.conjunctions
        ]
        for conjunction, predicates in rows:
            self._append(first, conjunction, predicates)
        self._keys.extend([key] * count)
        self._firsts[key] = first if count else -1
        if _looks_at_topic(filter):
            self._topical.add(key)

    def remove(self, key: K) -> None:
        first = self._firsts.pop(key, None)
        if first is None:
            raise LocalError(f"key {key!r} is not in the index")
        self._topical.discard(key)
        if first >= 0:
            for row in self._store.kill(first):
                self._checks.pop(row, None)

    def _append(
        self, first: int, conjunction: Conjunction, predicates: list[tuple[str, Predicate]]
    ) -> None:
        inexact = {name: conjunction.constraints[name] for name, p in predicates if not p.exact}
        checked = bool(inexact or conjunction.residuals)
        row = self._store.append(first, checked, predicates)
        if checked:
            self._checks[row] = Conjunction(inexact, conjunction.residuals)

    def _rebuild(self, needed: int) -> None:
        kept = self._store.rebuild(needed).tolist()
        if len(kept) == len(self._keys):
            return  # no row has moved
        moved = {old: new for new, old in enumerate(kept)}
        self._keys = [self._keys[old] for old in kept]
        self._checks = {moved[old]: check for old, check in self._checks.items()}
        self._firsts = {key: moved.get(first, -1) for key, first in self._firsts.items()}

    # --- matching --------------------------------------------------------------------------------

    def match(self, publication: Publication) -> list[K]:
        return self.match_many((publication,))[0]

    def match_many(self, publications: Sequence[Publication]) -> list[list[K]]:
        if self._topical and any(publication.topics for publication in publications):
            return self._match_topics(publications)
        rows, offsets = self._match_events([p.attributes for p in publications])
        keys = list(map(self._keys.__getitem__, rows))
        return [keys[start:end] for start, end in pairwise(offsets)]

    def _match_topics(self, publications: Sequence[Publication]) -> list[list[K]]:
        """Each publication is as many events as it has topics; rows ascend as filters came."""
        events: list[Event] = []
        ends = [0]
        for publication in publications:
            attributes = publication.attributes
            if publication.topics:
                events.extend({**attributes, TOPIC: topic} for topic in publication.topics)
            else:
                events.append(attributes)
            ends.append(len(events))
        rows, offsets = self._match_events(events)
        return [
            [self._keys[row] for row in sorted(set(rows[offsets[start] : offsets[end]]))]
            for start, end in pairwise(ends)
        ]

    def _match_events(self, events: Sequence[Event]) -> tuple[list[int], list[int]]:
        """First rows of the filters found, ascending for each event; where each event begins."""
        names = self._store.names
        values: list[Any] = []
        for event in events:
            values.extend(map(event.get, names))
        start = len(events) + 1
        numbers = self._run_kernel(np.frombuffer(_encode(values), np.uint8), len(events))
        if self._checks:
            return self._check(events, numbers[start:], numbers[:start])
        return numbers[start:], numbers[:start]

    def _run_kernel(self, data: Array, events: int) -> list[int]:
        """Offsets and rows as `kernels.match_events` writes them."""
        while True:
            found = -1
            if len(self._out) > events:
                found = match_events(self._store.addresses, data, events, self._out)
            if found >= 0:
                numbers: list[int] = self._out[: events + 1 + found].tolist()
                return numbers
            self._out = np.empty(2 * (len(self._out) + events), np.int64)

    def _check(
        self, events: Sequence[Event], found: list[int], offsets: list[int]
    ) -> tuple[list[int], list[int]]:
        """Decides the rows that the kernel left to Python (written as -1 - row)."""
        rows: list[int] = []
        ends = [0]
        for event, (start, end) in zip(events, pairwise(offsets), strict=True):
            last = -1
            for row in found[start:end]:
                first = row if row >= 0 else self._firsts[self._keys[-1 - row]]
                if first != last and (row >= 0 or self._checks[-1 - row].holds(event)):
                    rows.append(first)
                    last = first
            ends.append(len(rows))
        return rows, ends


def warm_up() -> None:
    """Uses every kernel once, with the types that it is used with."""
    index: BitmapIndex[int] = BitmapIndex()
    index.add(0, parse_filter("a = 'x' AND b > 1"))
    index.match(Publication("warm_up", 1, 0, {"a": "x", "b": 2}))
