"""The check that bytes are the body of a publication as publishers' clients write it: the array of
`model.publication.Publication`, of values that attributes may have, and nothing behind it.

A refused body may still be a publication: Python decodes it, and reports what is wrong if it is
not. An accepted body is one for Python, too (a property test compares the two). Nothing behind
`end` is read."""

from __future__ import annotations

from reefcast.matching.machine import Int, get1, get8_anywhere, part, put8, unit
from reefcast.matching.packed import (
    ARRAY16,
    FIXED_ARRAY,
    FIXED_MAP,
    FIXED_STRING,
    FLOAT,
    INT8,
    INT64,
    MAP16,
    NEGATIVE,
    NIL,
    NO,
    STRING8,
    UINT8,
    YES,
    big_endian,
    read_int,
)
from reefcast.matching.passage.layout import F_EVENT, F_SEQ, F_TOPIC, F_TOPICS
from reefcast.model.publication import Publication

HIGH_BITS = -0x7F7F7F7F7F7F7F80
"""The highest bit of each byte of a word: 0 in ASCII."""
UINT64 = INT8 - 1
BYTES8 = 0xC4
MOST_FIELDS = len(Publication.__struct_fields__)
FEWEST_FIELDS = MOST_FIELDS - len(Publication.__struct_defaults__)
"""Publisher, number, time and attributes; topics and payload may follow."""


@part
def _is_between(at: Int, low: Int, high: Int) -> bool:
    return bool(low <= get1(at, 0) <= high)


@part
def _character_end(at: Int, end: Int) -> Int:
    """Return where the non-ASCII character ends that begins at `at`; 0 if it is not UTF-8."""
    lead = get1(at, 0)
    low, high, size = 0x80, 0xBF, 0
    if 0xC2 <= lead <= 0xDF:
        size = 2
    elif 0xE0 <= lead <= 0xEF:
        size = 3
        if lead == 0xE0:
            low = 0xA0  # or two bytes would do
        elif lead == 0xED:
            high = 0x9F  # or it is half of a surrogate pair
    elif 0xF0 <= lead <= 0xF4:
        size = 4
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    if size == 0 or at + size > end or not _is_between(at + 1, low, high):
        return 0
    for i in range(2, size):
        if not _is_between(at + i, 0x80, 0xBF):
            return 0
    return at + size


@unit
def is_text(at: Int, end: Int) -> Int:
    """Return 1 if these bytes are UTF-8, else 0."""
    while at < end:
        if at + 8 <= end and get8_anywhere(at, 0) & HIGH_BITS == 0:
            at += 8
        elif get1(at, 0) < 0x80:
            at += 1
        else:
            at = _character_end(at, end)
            if at == 0:
                return 0
    return 1


@part
def _sized_end(at: Int, end: Int, narrow: Int) -> Int:
    """Return (where it begins, where it ends) of an item with a size of 1, 2 or 4 bytes behind its
    tag, where `narrow` is the tag of the first; (0, 0) if it does not end here."""
    width = 1 << (get1(at, 0) - narrow)
    if at + 1 + width > end:
        return 0, 0
    start = at + 1 + width
    size = big_endian(at + 1, width)
    if size > end - start:
        return 0, 0
    return start, start + size


@part
def text_end(at: Int, end: Int) -> Int:
    """Return where the string ends; 0 if it is none."""
    if at >= end:
        return 0
    tag = get1(at, 0)
    if FIXED_STRING <= tag < NIL:
        start, stop = at + 1, at + 1 + (tag & 31)
    elif STRING8 <= tag < ARRAY16:
        start, stop = _sized_end(at, end, STRING8)
    else:
        return 0
    if start == 0 or stop > end or not is_text(start, stop):
        return 0
    return stop


@part
def int_end(at: Int, end: Int) -> Int:
    """Return where the integer of 64 bits ends; 0 if it is none."""
    if at >= end:
        return 0
    tag = get1(at, 0)
    if tag < FIXED_MAP or tag >= NEGATIVE:
        return at + 1
    if not UINT8 <= tag <= INT64:
        return 0
    stop = at + 1 + (1 << ((tag - UINT8) & 3))
    if stop > end or (tag == UINT64 and get1(at, 1) >= 0x80):
        return 0
    return stop


@part
def _value_end(at: Int, end: Int) -> Int:
    if at >= end:
        return 0
    tag = get1(at, 0)
    if NO <= tag <= YES:
        return at + 1
    if tag == FLOAT:
        return at + 9 if at + 9 <= end else 0
    if FIXED_STRING <= tag < NIL or STRING8 <= tag < ARRAY16:
        return text_end(at, end)
    return int_end(at, end)


@part
def _read_head(at: Int, end: Int, fixed: Int, wide: Int) -> Int:
    """Return (length, where the first item is) of an array or a map; (0, 0) if it is neither."""
    if at >= end:
        return 0, 0
    tag = get1(at, 0)
    if tag & ~15 == fixed:
        return tag & 15, at + 1
    width = 2 << (tag - wide)
    if not wide <= tag <= wide + 1 or at + 1 + width > end:
        return 0, 0
    return big_endian(at + 1, width), at + 1 + width


@part
def _map_end(at: Int, end: Int) -> Int:
    """Return where the map of names to values ends; 0 if it is none."""
    count, at = _read_head(at, end, FIXED_MAP, MAP16)
    i = 0
    while i < count and at != 0:
        at = text_end(at, end)
        if at != 0:
            at = _value_end(at, end)
        i += 1
    return at


@part
def _topics_end(at: Int, end: Int, publication: Int) -> Int:
    count, at = _read_head(at, end, FIXED_ARRAY, ARRAY16)
    put8(publication, F_TOPICS, count)
    put8(publication, F_TOPIC, at)
    i = 0
    while i < count and at != 0:
        at = text_end(at, end)
        i += 1
    return at


@part
def _bytes_end(at: Int, end: Int) -> Int:
    if at >= end or not BYTES8 <= get1(at, 0) <= BYTES8 + 2:
        return 0
    _, stop = _sized_end(at, end, BYTES8)
    return stop


@unit
def read_body(at: Int, end: Int, publication: Int) -> None:
    """Write F_EVENT, F_SEQ, F_TOPICS and F_TOPIC of the body between `at` and `end`."""
    put8(publication, F_EVENT, 0)
    put8(publication, F_TOPICS, 0)
    fields = get1(at, 0) - FIXED_ARRAY if at < end else 0
    if not FEWEST_FIELDS <= fields <= MOST_FIELDS:
        return
    seq = text_end(at + 1, end)
    time = int_end(seq, end) if seq != 0 else 0
    event = int_end(time, end) if time != 0 else 0
    stop = _map_end(event, end) if event != 0 else 0
    if stop != 0 and fields > FEWEST_FIELDS:
        stop = _topics_end(stop, end, publication)
    if stop != 0 and fields == MOST_FIELDS:
        stop = _bytes_end(stop, end)
    if stop == end:
        number, _ = read_int(seq)
        put8(publication, F_SEQ, number)
        put8(publication, F_EVENT, event)
