"""Rows of arrays as PUBLISH frames: the Python side of `writing`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from reefcast.matching.columnar import layout as at
from reefcast.matching.columnar.tables import Array, Texts
from reefcast.matching.columnar.writing import write_frames
from reefcast.model import wire

_encode = msgspec.msgpack.Encoder().encode
_HEAD = wire.published_head(0)
_LENGTH_BYTES = wire.LENGTH_BYTES
_AROUND = 64
"""The most bytes of a frame around publisher, attributes, topics and payload, with their heads."""
_NUMBER_BYTES, _SIZE_BYTES = 9, 5


class Attribute(NamedTuple):
    """A column: `kind` is LONG, DOUBLE, BOOLEAN (a byte for each) or STRING; `valid`: a byte for
    each row, None if nothing is missing."""

    name: str
    kind: int
    values: Array | Texts
    valid: Array | None


class Rows(NamedTuple):
    """Rows to be published: the time of each; `topics`: how many all rows up to each have (int32,
    beginning with 0), and their texts; None: no row has any."""

    times: Array
    attributes: list[Attribute]
    topics: tuple[Array, Texts] | None
    payloads: Texts | None


def frames_of(publisher: str, first: int, rows: Rows) -> list[bytes]:
    """Return the frames of all rows, which are numbered from `first` on."""
    kept: list[Any] = [_bytes(_encode(publisher)), _bytes(_HEAD[_LENGTH_BYTES:])]
    words, count = np.zeros(at.W_WORDS, np.int64), len(rows.times)
    words[at.W_ROWS], words[at.W_FIRST] = count, first
    words[at.W_PUBLISHER], words[at.W_PUBLISHER_SIZE] = _address(kept[0]), len(kept[0])
    words[at.W_HEAD], words[at.W_HEAD_SIZE] = _address(kept[1]), len(kept[1])
    words[at.W_COUNTED] = int.from_bytes(_HEAD[:_LENGTH_BYTES], "big")
    words[at.W_TIMES] = _address(rows.times)
    room = count * (_AROUND + len(kept[0]))
    columns = np.zeros((len(rows.attributes) + 1, at.A_WORDS), np.int64)
    words[at.W_COLUMNS], words[at.W_COLUMN_COUNT] = _address(columns), len(rows.attributes)
    for column, attribute in zip(columns, rows.attributes, strict=False):
        key = _bytes(_encode(attribute.name))
        kept.append(key)
        room += count * (len(key) + _NUMBER_BYTES) + _describe(column, key, attribute)
    if rows.topics is not None:
        ends, texts = rows.topics
        words[at.W_TOPIC_ENDS], words[at.W_TOPIC_TEXTS] = _address(ends), _address(texts.ends)
        words[at.W_TOPIC_BYTES] = _address(texts.data)
        room += _SIZE_BYTES * len(texts.ends) + _size(texts)
    if rows.payloads is not None:
        words[at.W_PAYLOADS] = _address(rows.payloads.ends)
        words[at.W_PAYLOAD_BYTES] = _address(rows.payloads.data)
        room += _size(rows.payloads)
    out, ends = np.empty(room, np.uint8), np.zeros(count + 1, np.int64)
    words[at.W_OUT], words[at.W_ENDS] = _address(out), _address(ends[1:])
    write_frames(_address(words))
    whole = out[: int(ends[-1])].tobytes()
    return [whole[start:end] for start, end in pairwise(ends.tolist())]


def _describe(column: Array, key: Array, attribute: Attribute) -> int:
    """Write the words of a column; return how many bytes its texts need at most."""
    column[at.A_KIND] = attribute.kind
    column[at.A_KEY], column[at.A_KEY_SIZE] = _address(key), len(key)
    column[at.A_VALID] = 0 if attribute.valid is None else _address(attribute.valid)
    if not isinstance(attribute.values, Texts):
        column[at.A_VALUES] = _address(attribute.values)
        return 0
    column[at.A_VALUES] = _address(attribute.values.ends)
    column[at.A_BYTES] = _address(attribute.values.data)
    return _size(attribute.values)


def _size(texts: Texts) -> int:
    return int(texts.ends[-1]) - int(texts.ends[0])


def _bytes(data: bytes) -> Array:
    return np.frombuffer(data, np.uint8)


def _address(array: Any) -> int:
    return int(array.ctypes.data)
