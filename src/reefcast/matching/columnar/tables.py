"""Tables of events, read from bodies by `reading`: arrays of numpy as Arrow lays columns out.

The texts of a column lie behind each other; `ends` says where, beginning with 0."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from reefcast.errors import InternalError
from reefcast.matching.columnar import layout as at
from reefcast.matching.columnar.reading import read_bodies
from reefcast.matching.columnar.texts import JSON_BYTES
from reefcast.model.wire import decode_publication, encode_publication

T = TypeVar("T")
Array = npt.NDArray[Any]

KINDS: dict[int, type[np.generic]] = {
    at.LONG: np.int64,
    at.INTEGER: np.int32,
    at.DOUBLE: np.float64,
    at.BOOLEAN: np.uint8,
}


MOST_LONGER = JSON_BYTES + 2
"""How many times longer texts of maps may be than what stands for them in a body: quotes and
escapes of JSON, the five letters of `false`."""


class Texts(NamedTuple):
    """The bytes of `ends[i]` to `ends[i + 1]` are text i."""

    ends: Array
    data: Array


class Column(NamedTuple):
    """The values of an attribute: an array, or texts; `valid`: whether there is one."""

    values: Array | Texts
    valid: Array


class Maps(NamedTuple):
    """Maps of texts: those of row i are `ends[i]` to `ends[i + 1]` of the entries. The entries at
    `float_at` have no text: they are `floats`."""

    ends: Array
    keys: Texts
    values: Texts
    floats: Array
    float_at: Array


class Wanted(NamedTuple):
    """What to read: the names and kinds of attributes, what every event has (`times`, ...), and
    maps: `all` attributes as JSON, the `rest` that no column takes as it is."""

    attributes: tuple[tuple[str, int], ...] = ()
    times: bool = False
    seqs: bool = False
    publishers: bool = False
    topics: bool = False
    payloads: bool = False
    all: bool = False
    rest: bool = False


class Bodies(NamedTuple):
    """Bodies of events, one behind the other: `offsets` (int64) has one more than there are."""

    data: Any
    offsets: Array

    @classmethod
    def of(cls, bodies: Sequence[bytes]) -> Bodies:
        offsets = np.zeros(len(bodies) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, bodies), np.int64, len(bodies)), out=offsets[1:])
        return cls(np.frombuffer(b"".join(bodies) or b"\0", np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def between(self, first: int, end: int) -> Bodies:
        return Bodies(self.data, self.offsets[first : end + 1])

    def list(self) -> list[bytes]:
        """Return each as bytes of its own."""
        whole, ends = self.data.tobytes(), self.offsets.tolist()
        return [whole[a:b] for a, b in pairwise(ends)]


def known(part: T | None) -> T:
    """Return a part of a table that was wanted."""
    assert part is not None
    return part


class Table:
    """The rows of some bodies. Raises `ProtocolError` for a body that is no event."""

    def __init__(self, wanted: Wanted, bodies: Bodies) -> None:
        if not _Read(self, wanted, bodies).whole:
            bodies = Bodies.of([_as_we_write(body) for body in bodies.list()])
            if not _Read(self, wanted, bodies).whole:
                raise InternalError("an event that was encoded here cannot be read")

    rows: int
    times: Array | None
    seqs: Array | None
    publishers: Texts | None
    topics: tuple[Array, Texts] | None
    payloads: Texts | None
    columns: list[Column]
    all: Maps | None
    rest: Maps | None


def _as_we_write(body: bytes) -> bytes:
    """Encode an event of another program as ours do."""
    return encode_publication(decode_publication(body))


class _Read:
    """One call of the kernel, and the memory for it."""

    def __init__(self, table: Table, wanted: Wanted, bodies: Bodies) -> None:
        self._rows, self._bytes = len(bodies), int(bodies.offsets[-1] - bodies.offsets[0])
        self._words = np.zeros(at.T_WORDS, np.int64)
        self._columns = np.zeros((len(wanted.attributes) + 2, at.C_WORDS), np.int64)
        self._kept: list[Any] = []
        self._finish(table, wanted, bodies)

    def _finish(self, table: Table, wanted: Wanted, bodies: Bodies) -> None:
        words, rows = self._words, self._rows
        table.rows = rows
        table.times = self._numbers(at.T_TIMES, rows) if wanted.times else None
        table.seqs = self._numbers(at.T_SEQS, rows) if wanted.seqs else None
        publishers = self._beside(at.T_PUBLISHERS, 0) if wanted.publishers else None
        payloads = self._beside(at.T_PAYLOADS, 1) if wanted.payloads else None
        most = self._bytes // 2 + 1
        topic_ends = self._ends(rows) if wanted.topics else None
        topics = self._texts(words[at.T_TOPICS :], most) if wanted.topics else None
        words[at.T_TOPIC_ENDS] = 0 if topic_ends is None else _address(topic_ends)
        every = self._maps(at.T_ALL, json=True) if wanted.all else None
        rest = self._maps(at.T_REST, json=False) if wanted.rest else None
        columns = self._attributes(wanted.attributes)
        done = read_bodies(_address(words), _address(bodies.data), _address(bodies.offsets), rows)
        self.whole = done == rows
        if not self.whole:
            return
        table.publishers = _cut(publishers, self._columns[-2], 0)
        table.payloads = _cut(payloads, self._columns[-1], 0)
        table.topics = None
        if topics is not None and topic_ends is not None:
            count = int(words[at.T_TOPIC_COUNT])
            cut = _cut(Texts(topics.ends[: count + 1], topics.data), words, at.T_TOPICS)
            table.topics = (topic_ends, cut)
        table.columns = [
            Column(
                _cut(values, self._columns[i], at.C_TEXTS) if isinstance(values, Texts) else values,
                valid,
            )
            for i, (values, valid) in enumerate(columns)
        ]
        table.all = self._cut_maps(every, at.T_ALL)
        table.rest = self._cut_maps(rest, at.T_REST)

    # --- memory -----------------------------------------------------------------------------------

    def _numbers(self, word: int, count: int) -> Array:
        found = np.empty(count, np.int64)
        self._words[word] = _address(found)
        return found

    def _ends(self, count: int) -> Array:
        found = np.empty(count + 1, np.int32)
        found[0] = 0
        return found

    def _texts(self, words: Array, count: int, factor: int = 1) -> Texts:
        texts = Texts(self._ends(count), np.empty(factor * self._bytes + 16, np.uint8))
        words[at.X_OFFSETS], words[at.X_DATA] = _address(texts.ends), _address(texts.data)
        return texts

    def _beside(self, word: int, number: int) -> Texts:
        words = self._columns[number - 2]
        self._words[word] = _address(words)
        return self._texts(words, self._rows)

    def _maps(self, first: int, *, json: bool) -> Maps:
        words, most = self._words[first:], self._bytes // 2 + 1
        keys = self._texts(words[at.M_KEYS :], most, MOST_LONGER)
        values = self._texts(words[at.M_VALUES :], most, MOST_LONGER)
        maps = Maps(self._ends(self._rows), keys, values, np.empty(most), np.empty(most, np.int64))
        words[at.M_WANTED], words[at.M_JSON] = 1, json
        words[at.M_ENDS] = _address(maps.ends)
        words[at.M_FLOATS], words[at.M_FLOAT_AT] = _address(maps.floats), _address(maps.float_at)
        return maps

    def _cut_maps(self, maps: Maps | None, first: int) -> Maps | None:
        if maps is None:
            return None
        words = self._words[first:]
        count, floats = int(words[at.M_COUNT]), int(words[at.M_FLOAT_COUNT])
        keys = _cut(Texts(maps.keys.ends[: count + 1], maps.keys.data), words, at.M_KEYS)
        values = _cut(Texts(maps.values.ends[: count + 1], maps.values.data), words, at.M_VALUES)
        return Maps(maps.ends, keys, values, maps.floats[:floats], maps.float_at[:floats])

    def _attributes(self, wanted: Sequence[tuple[str, int]]) -> list[tuple[Array | Texts, Array]]:
        self._words[at.T_COLUMNS] = _address(self._columns)
        self._words[at.T_COLUMN_COUNT] = len(wanted)
        last: dict[str, int] = {}
        found: list[tuple[Array | Texts, Array]] = []
        for number, (name, kind) in enumerate(wanted):
            words = self._columns[number]
            encoded = np.frombuffer(name.encode() or b"\0", np.uint8)
            self._kept.append(encoded)
            words[at.C_KIND], words[at.C_NAME] = kind, _address(encoded)
            # a later column of a name is found by way of the one before it
            words[at.C_SIZE] = -1 if name in last else len(name.encode())
            words[at.C_NEXT] = -1
            if name in last:
                self._columns[last[name], at.C_NEXT] = number
            last[name] = number
            valid = np.zeros(self._rows, np.uint8)
            words[at.C_VALID] = _address(valid)
            if kind == at.STRING:
                found.append((self._texts(words[at.C_TEXTS :], self._rows), valid))
            else:
                values = np.zeros(self._rows, KINDS[kind])
                words[at.C_VALUES] = _address(values)
                found.append((values, valid))
        return found


def _address(array: Any) -> int:
    return int(array.ctypes.data)


def _cut(texts: Texts | None, words: Array, first: int) -> Any:
    """Return the texts without the room that is left."""
    if texts is None:
        return None
    return Texts(texts.ends, texts.data[: int(words[first + at.X_USED])])
