"""Bodies of events trimmed to some of their attributes, with or without the payload. `layout` says
how Python and the kernel see the memory.

Values are copied as they are encoded. Of several values of one name, which no client of ours
writes, all stay: the last one counts, as before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from reefcast.matching.columnar.layout import (
    N_COUNT,
    N_ENDS,
    N_NAMES,
    N_OUT,
    N_PAYLOAD,
    N_PLACES,
    N_PUBLICATION,
    N_WORDS,
    P_COLUMN,
    P_NAME,
    P_SIZE,
    P_WORDS,
    PLACES,
)
from reefcast.matching.columnar.tables import Bodies
from reefcast.matching.columnar.writing import put_count
from reefcast.matching.machine import (
    Int,
    compare_bytes,
    compile_units,
    copy_bytes,
    get1,
    get8,
    kernel,
    part,
    put1,
    put8,
    unit,
)
from reefcast.matching.packed import (
    FIXED_ARRAY,
    FIXED_MAP,
    MAP16,
    end_of_value,
    read_array,
    read_map,
    read_string,
)
from reefcast.matching.passage.bodies import BYTES8, FEWEST_FIELDS, MOST_FIELDS, read_body
from reefcast.matching.passage.layout import F_EVENT

_MORE = 8
"""A trimmed body may have so many bytes more: the heads of what it lacked before."""


@unit
def _is_among(words: Int, name: Int, size: Int) -> Int:
    names = get8(words, N_NAMES)
    for number in range(get8(words, N_COUNT)):
        same = get8(names, 2 * number + 1) == size
        if same and compare_bytes(get8(names, 2 * number), name, size) == 0:
            return 1
    return 0


@part
def _is_wanted(words: Int, place: Int, name: Int, size: Int) -> Int:
    """Return whether the attribute at this place of its event is wanted: most events have the names
    of the one before, in their order."""
    if place >= PLACES:
        return _is_among(words, name, size)
    entry = words + 8 * (N_PLACES + place * P_WORDS)
    if get8(entry, P_SIZE) != size or compare_bytes(get8(entry, P_NAME), name, size) != 0:
        put8(entry, P_COLUMN, _is_among(words, name, size))
        put8(entry, P_NAME, name)
        put8(entry, P_SIZE, size)
    return get8(entry, P_COLUMN)


@unit
def _end_of_map(event: Int) -> Int:
    count, at = read_map(event)
    for _ in range(count):
        start, size = read_string(at)
        at = end_of_value(start + size)
    return at


@unit
def _put_wanted(words: Int, out: Int, event: Int) -> Int:
    """Write the wanted attributes of the map at `event`; return where they end."""
    count, first = read_map(event)
    wanted, at = 0, first
    for place in range(count):
        start, size = read_string(at)
        wanted += _is_wanted(words, place, start, size)
        at = end_of_value(start + size)
    out, at = put_count(out, wanted, FIXED_MAP, MAP16), first
    for place in range(count):
        start, size = read_string(at)
        end = end_of_value(start + size)
        if _is_wanted(words, place, start, size) != 0:
            copy_bytes(out, at, end - at)
            out += end - at
        at = end
    return out


@part
def _end_of_topics(at: Int) -> Int:
    count, at = read_array(at)
    for _ in range(count):
        start, size = read_string(at)
        at = start + size
    return at


@part
def _copy(out: Int, start: Int, end: Int) -> Int:
    copy_bytes(out, start, end - start)
    return out + end - start


@unit
def _trim(words: Int, out: Int, start: Int, end: Int, event: Int) -> Int:
    """Write a body with what is wanted of it; return where it ends."""
    fields = get1(start, 0) - FIXED_ARRAY
    put1(out, 0, FIXED_ARRAY | MOST_FIELDS)
    out = _copy(out + 1, start + 1, event)
    topics = _end_of_map(event)
    if get8(words, N_COUNT) < 0:
        out = _copy(out, event, topics)
    else:
        out = _put_wanted(words, out, event)
    payload = topics
    if fields > FEWEST_FIELDS:
        payload = _end_of_topics(topics)
        out = _copy(out, topics, payload)
    else:
        out = put_count(out, 0, FIXED_ARRAY, 0)
    if fields == MOST_FIELDS and get8(words, N_PAYLOAD) != 0:
        return _copy(out, payload, end)
    put1(out, 0, BYTES8)
    put1(out, 1, 0)
    return out + 2


@kernel
def trim_bodies(words: Int, data: Int, offsets: Int, count: Int) -> None:
    """Write what is wanted of bodies, which lie at `data` with these `offsets` (int64, one more
    than bodies); nothing of a body that is not as our clients write it."""
    publication, out = words + 8 * N_PUBLICATION, get8(words, N_OUT)
    for place in range(PLACES):
        put8(words + 8 * (N_PLACES + place * P_WORDS), P_SIZE, -1)
    at = out
    for row in range(count):
        start, end = data + get8(offsets, row), data + get8(offsets, row + 1)
        read_body(start, end, publication)
        event = get8(publication, F_EVENT)
        if event != 0:
            at = _trim(words, at, start, end, event)
        put8(get8(words, N_ENDS), row, at - out)


compile_units()


class Trimmer:
    """Trims bodies to the attributes of these `names` (None: all), with or without their
    payload."""

    def __init__(self, names: Collection[str] | None, *, payload: bool) -> None:
        self._words = np.zeros(N_WORDS, np.int64)
        encoded = [name.encode() for name in sorted(names or ())]
        self._names = [np.frombuffer(name or b"\0", np.uint8) for name in encoded]
        wanted = zip(map(_address, self._names), map(len, encoded), strict=True)
        self._wanted = np.array([*wanted], np.int64).reshape(-1)
        self._words[N_NAMES] = _address(self._wanted)
        self._words[N_COUNT] = -1 if names is None else len(encoded)
        self._words[N_PAYLOAD] = payload

    def trim(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Return what is wanted of each body; nothing of one that is not as our clients write
        it."""
        together, count = Bodies.of(bodies), len(bodies)
        out = np.empty(int(together.offsets[-1]) + _MORE * count, np.uint8)
        ends = np.zeros(count + 1, np.int64)
        words = self._words.copy()  # of this call: others may run in other threads
        words[N_OUT], words[N_ENDS] = _address(out), _address(ends[1:])
        data, offsets = _address(together.data), _address(together.offsets)
        trim_bodies(_address(words), data, offsets, count)
        whole = out[: int(ends[-1])].tobytes()
        return [whole[start:end] for start, end in pairwise(ends.tolist())]


def _address(array: Any) -> int:
    return int(array.ctypes.data)
