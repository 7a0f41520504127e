"""The compiled index. How it works: see `partitions`, `blocks` and `cuts`, in this order.

Costs: `reefcast-lab bench match` prints them, docs/explanation/matching.md explains them. Use an
index from one thread only."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, NoReturn, TypeVar

import msgspec
import numpy as np

from reefcast.errors import InvalidValueError, LocalError
from reefcast.matching import engine, plan
from reefcast.matching.columns import columns_of
from reefcast.matching.interface import Matches
from reefcast.matching.keys import Keys
from reefcast.matching.machine import Array
from reefcast.matching.state import S_BYTES, S_SEED, STATE_WORDS
from reefcast.model.filters import TOPIC, Filter, packed_once
from reefcast.model.publication import INT64_MAX, INT64_MIN, Publication, Value
from reefcast.model.values import kind_of, plain

K = TypeVar("K", bound=Hashable)
Event = Mapping[str, Value]

BYTES_HEAD = bytes.__basicsize__ - 1
"""The offset of the characters of `bytes` from the object's address, in CPython. Passing an address
costs a tenth of passing an array."""

NOTHING = 2
"""Words of `out` that are used when one event finds nothing: its offsets."""

MANY_KEYS = 256
"""From this many keys per event on, lists are made event by event: as lists of Python objects, the
results of many events do not fit into the processor's caches."""

FIRST_ROOM = 8192
"""Words for results, at first."""

_encode = msgspec.msgpack.Encoder(enc_hook=plain).encode


class CompiledIndex(Generic[K]):
    """See `interface.MatchIndex`; `scan.ScanIndex` is the twin that defines what is right."""

    def __init__(self) -> None:
        self._numbers = np.zeros(STATE_WORDS, np.int64)
        self._state = int(self._numbers.ctypes.data)
        self._numbers[S_SEED] = hash("a number that nobody outside this process knows")
        engine.start(self._state)
        weakref.finalize(self, _finish, self._numbers)
        self._keys = Keys[K]()
        self._is_topical = bytearray()  # by handle: whether the filter has a condition on topics
        self._topical = 0  # how many have
        self._room = 0
        self._enlarge_out(FIRST_ROOM)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied: a copy would share memory that is freed with the original."""
        raise LocalError(
            "a compiled index can be neither copied nor pickled; add its filters to another one"
        )

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: Any) -> bool:
        return self._keys.handle_of(key) is not None

    @property
    def address(self) -> int:
        """The address of the state, for kernels of other modules."""
        return self._state

    @property
    def is_topical(self) -> bool:
        """Whether some filter has a condition on topics."""
        return self._topical > 0

    def handle_of(self, key: K) -> int:
        """Return the handle of a filter; see `engine`."""
        handle = self._keys.handle_of(key)
        if handle is None:
            raise LocalError(f"key {key!r} is not in the index")
        return handle

    def handles(self) -> Iterable[tuple[K, int]]:
        """Return each key with its handle."""
        return self._keys.items()

    def memory_bytes(self) -> int:
        """Return the bytes of the compiled tables, and of those that map keys; not of keys and
        filters."""
        return int(self._numbers[S_BYTES]) + self._keys.memory_bytes() + len(self._is_topical)

    def plan(self) -> dict[str, Any]:
        """Return how the filters are stored: partitions, bitmaps, buckets; see `plan.plan_of`."""
        found = {"filters": len(self), "bytes": self.memory_bytes()}
        return {**found, **plan.plan_of(self._state)}

    def plan_of(self, key: K) -> list[dict[str, Any]]:
        """Return where a filter's conjunctions are stored, and how they are matched; see
        `plan.places_of`."""
        return plan.places_of(self._state, self.handle_of(key))

    # --- changes ---------------------------------------------------------------------------------

    def add(self, key: K, filter: Filter) -> None:
        if key in self:
            raise LocalError(f"key {key!r} is in the index already; remove it first")
        packed = packed_once(filter)
        handle = self._keys.new_handle(key)
        if filter.looks_at_topics():
            self._note_topical(handle)
        engine.add_filter(self._state, handle, id(packed) + BYTES_HEAD)
        self._keys.enter(key, handle)  # last: whatever raises before this changes no other filter

    def _note_topical(self, handle: int) -> None:
        missing = handle + 1 - len(self._is_topical)
        if missing > 0:
            self._is_topical.extend(bytes(missing))
        self._is_topical[handle] = 1
        self._topical += 1

    def remove(self, key: K) -> None:
        engine.remove_filter(self._state, self.handle_of(key))
        handle = self._keys.remove(key)
        if handle < len(self._is_topical) and self._is_topical[handle]:
            self._is_topical[handle] = 0
            self._topical -= 1

    # --- matching --------------------------------------------------------------------------------

    def match(self, publication: Publication) -> list[K]:
        if self._topical and publication.topics:
            return self._match_topics([publication])[0]
        event = publication.attributes
        packed = _pack((event,))
        end = engine.match_events(self._state, id(packed) + BYTES_HEAD, self._out_at, self._room)
        if end < 0:
            end = self._again((event,), packed, end)
        if end == NOTHING:
            return []
        keys: list[K] = self._keys.array[self._out[NOTHING:end]].tolist()
        return keys

    def match_many(self, publications: Sequence[Publication]) -> list[list[K]]:
        if self._topical and any(publication.topics for publication in publications):
            return self._match_topics(publications)
        found, offsets = self._find([publication.attributes for publication in publications])
        if len(found) > MANY_KEYS * len(publications):
            return [self._keys.array[found[start:end]].tolist() for start, end in pairwise(offsets)]
        keys = self._keys.array[found].tolist()
        return [keys[start:end] for start, end in pairwise(offsets)]

    def match_batch(self, columns: Any) -> Matches:
        given = columns_of(columns)
        names = [name.encode() for name in given.names]
        places = [id(name) + BYTES_HEAD for name in names]
        numbers = np.array(
            [
                engine.attribute_number(self._state, place, len(name))
                for place, name in zip(places, names, strict=True)
            ],
            np.int64,
        )
        table, attributes = given.table.ctypes.data, numbers.ctypes.data
        end = engine.TOO_SHORT
        while True:
            end = engine.match_columns(
                self._state, table, attributes, len(names), given.rows, self._out_at, self._room
            )
            if end >= 0:
                break
            self._enlarge_out(given.rows)
        first = given.rows + 1
        found, offsets = self._out[first:end], self._out[:first].copy()
        if given.event_of_row is not None:
            found, offsets = _of_events(found, offsets, given.event_of_row, given.events)
        return Matches(offsets, self._keys.array[found])

    def _match_topics(self, publications: Sequence[Publication]) -> list[list[K]]:
        """Match publications with several topics: each becomes as many events as it has topics."""
        events: list[Event] = []
        ends = [0]
        for publication in publications:
            attributes = publication.attributes
            if publication.topics:
                events.extend({**attributes, TOPIC: topic} for topic in publication.topics)
            else:
                events.append(attributes)
            ends.append(len(events))
        found, offsets = self._find(events)
        return [
            self._keys.array[_once(found[offsets[start] : offsets[end]])].tolist()
            for start, end in pairwise(ends)
        ]

    def _find(self, events: Sequence[Event]) -> tuple[Array, list[int]]:
        """Return the handles of the filters found, and where those of each event begin and end."""
        packed = _pack(events)
        end = engine.match_events(self._state, id(packed) + BYTES_HEAD, self._out_at, self._room)
        if end < 0:
            end = self._again(events, packed, end)
        first = len(events) + 1
        return self._out[first:end], self._out[:first].tolist()

    def _again(self, events: Sequence[Event], packed: bytes, end: int) -> int:
        """Match again with more room for results."""
        while end < 0:
            if end == engine.NO_VALUE:
                raise LocalError(_what_is_no_value(events))
            self._enlarge_out(len(events))
            end = engine.match_events(
                self._state, id(packed) + BYTES_HEAD, self._out_at, self._room
            )
        return end

    def _enlarge_out(self, events: int) -> None:
        room = 2 * (self._room + events)
        self._out = np.empty(room, np.int64)
        self._room = room  # not before there are so many results
        self._out_at = int(self._out.ctypes.data)


def _pack(events: Sequence[Event]) -> bytes:
    try:
        return _encode(events)
    except (InvalidValueError, OverflowError, TypeError, UnicodeEncodeError):
        raise LocalError(_what_is_no_value(events)) from None


def _once(found: Array) -> Array:
    return np.array(list(dict.fromkeys(found.tolist())), np.int64)


def _of_events(
    found: Array, offsets: Array, event_of_row: Array, events: int
) -> tuple[Array, Array]:
    """Combine the results of the rows of a batch to those of its events, some of which have several
    rows."""
    rows = np.searchsorted(event_of_row, np.arange(events + 1))
    starts = offsets[rows].tolist()
    parts = [_once(found[start:end]) for start, end in pairwise(starts)]
    ends = np.cumsum([0, *map(len, parts)])
    return np.concatenate(parts) if parts else found, ends


def _what_is_no_value(events: Sequence[Event]) -> str:
    for number, event in enumerate(events):
        if not isinstance(event, dict):
            return f"event {number} is a {type(event).__name__}, not a dict"
        for name, value in event.items():
            if not isinstance(name, str):
                return f"event {number}: the attribute name {name!r} is not a string"
            try:
                kind_of(value)
            except InvalidValueError as error:
                return f"event {number}, attribute {name!r}: {error}"
            if isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
                return f"event {number}, attribute {name!r}: {value} does not fit into 64 bits"
    return "a string in an event holds half of a surrogate pair, which is not a character"


def _finish(numbers: Array) -> None:
    engine.finish(int(numbers.ctypes.data))
