"""Frames in kernels: cutting them, and writing them. `model.frame_layout` says how they
lie."""

from __future__ import annotations

from reefcast.matching.chains import mixed
from reefcast.matching.machine import (
    Int,
    compare_bytes,
    copy_bytes,
    get1,
    get8,
    part,
    put1,
    put8,
    unit,
)
from reefcast.matching.packed import ARRAY16, FIXED_ARRAY, FIXED_MAP, UINT8, big_endian
from reefcast.matching.passage.bodies import read_body
from reefcast.matching.passage.layout import (
    F_BODY,
    F_CHOICE,
    F_END,
    F_EVENT,
    F_HEADER,
    F_START,
    H_AT,
    H_NUMBER,
    H_SIZE,
    H_WORDS,
    HOPS_HEADERS,
    K_HEADER_MASK,
    K_HEADERS,
)
from reefcast.model import frame_layout
from reefcast.model.frame_layout import MAX_FRAME_BYTES
from reefcast.model.wire import FIRST_HEADER, SHORT_HEADER_BYTES, FrameKind

PUBLISH, PUBLISH_AGAIN = int(FrameKind.PUBLISH), int(FrameKind.PUBLISH_AGAIN)
DELIVER = int(FrameKind.DELIVER)
(LENGTH_AT, LENGTH_BYTES), (KIND_AT, _), (HEADER_LENGTH_AT, HEADER_LENGTH_BYTES) = (
    frame_layout.PARTS
)
HEAD_BYTES, PARTS_BYTES = frame_layout.HEAD.bytes, frame_layout.PARTS.bytes
COUNTED = frame_layout.PARTS.counted
HOPS_BYTES = len(FIRST_HEADER)
"""The size of a header with nothing but a small hop count: an array of one."""
MOST_HEADER_BYTES = SHORT_HEADER_BYTES
"""The most bytes of a header that kernels know or write."""
NO_HEADER = -1
MOST_NUMBER_BYTES = 9


# --- cutting --------------------------------------------------------------------------------------


@part
def frame_end(at: Int, end: Int) -> Int:
    """Return where the PUBLISH or PUBLISH_AGAIN frame ends; 0 if there is none that is whole."""
    if end - at < HEAD_BYTES:
        return 0
    length, kind = big_endian(at + LENGTH_AT, LENGTH_BYTES), get1(at, KIND_AT)
    if not 1 <= length <= MAX_FRAME_BYTES or at + LENGTH_BYTES + length > end:
        return 0
    return at + LENGTH_BYTES + length if kind in (PUBLISH, PUBLISH_AGAIN) else 0


@unit
def header_slot(desk: Int, head: Int, size: Int) -> Int:
    """Return the slot of a header in the table of those that are known, or the free one that it
    would get."""
    hashed, mask = size, get8(desk, K_HEADER_MASK)
    for i in range(size):
        hashed = mixed(hashed ^ get1(head, i))
    at = hashed & mask
    while True:
        slot = get8(desk, K_HEADERS) + 8 * H_WORDS * at
        if get8(slot, H_AT) == 0:
            return slot
        if get8(slot, H_SIZE) == size and compare_bytes(get8(slot, H_AT), head, size) == 0:
            return slot
        at = (at + 1) & mask


@part
def _number_of(desk: Int, head: Int, size: Int, most_hops: Int) -> Int:
    """Return the number of a header; NO_HEADER if it is unknown, or of a publication that came over
    more than `most_hops` links."""
    if size == HOPS_BYTES and get1(head, 0) == FIXED_ARRAY + 1 and get1(head, 1) < HOPS_HEADERS:
        return get1(head, 1) if get1(head, 1) <= most_hops else NO_HEADER
    if most_hops == 0 or not HOPS_BYTES < size <= MOST_HEADER_BYTES:
        return NO_HEADER
    slot = header_slot(desk, head, size)
    return get8(slot, H_NUMBER) if get8(slot, H_AT) != 0 else NO_HEADER


@unit
def read_frame(desk: Int, at: Int, end: Int, most_hops: Int, publication: Int) -> None:
    """Write the F_* words of a PUBLISH frame; one whose header is not known is not plain."""
    head = at + PARTS_BYTES
    body = end + 1
    if head <= end:
        body = head + big_endian(at + HEADER_LENGTH_AT, HEADER_LENGTH_BYTES)
    number = NO_HEADER
    if body <= end and get1(at, KIND_AT) == PUBLISH:
        number = _number_of(desk, head, body - head, most_hops)
    put8(publication, F_START, at)
    put8(publication, F_BODY, body)
    put8(publication, F_END, end)
    put8(publication, F_HEADER, number)
    put8(publication, F_CHOICE, 0)
    if number != NO_HEADER:
        read_body(body, end, publication)
    else:
        put8(publication, F_EVENT, 0)


# --- writing --------------------------------------------------------------------------------------


@part
def _put_big_endian(at: Int, value: Int, size: Int) -> None:
    for i in range(size):
        put1(at, i, value >> (8 * (size - 1 - i)))


@part
def write_array_head(at: Int, count: Int) -> Int:
    """Write the head of an array, and return where it ends."""
    if count < 16:
        put1(at, 0, FIXED_ARRAY + count)
        return at + 1
    put1(at, 0, ARRAY16)
    _put_big_endian(at + 1, count, 2)
    return at + 3


@part
def write_number(at: Int, number: Int) -> Int:
    """Write a number of at least 0, as short as possible, and return where it ends."""
    if number < FIXED_MAP:
        put1(at, 0, number)
        return at + 1
    log = 3
    if number < 1 << 8:
        log = 0
    elif number < 1 << 16:
        log = 1
    elif number < 1 << 32:
        log = 2
    put1(at, 0, UINT8 + log)
    _put_big_endian(at + 1, number, 1 << log)
    return at + 1 + (1 << log)


@part
def finish_frame(frame: Int, kind: Int, head_end: Int, publication: Int) -> Int:
    """Write the rest of a frame of which the header is there, and return where it ends."""
    body = get8(publication, F_BODY)
    size = get8(publication, F_END) - body
    header = head_end - frame - PARTS_BYTES
    copy_bytes(head_end, body, size)
    _put_big_endian(frame + LENGTH_AT, COUNTED + header + size, LENGTH_BYTES)
    put1(frame, KIND_AT, kind)
    _put_big_endian(frame + HEADER_LENGTH_AT, header, HEADER_LENGTH_BYTES)
    return head_end + size


@part
def write_publish(frame: Int, header: Int, publication: Int) -> Int:
    """Write the copy for a neighbour, and return where it ends. `header`: a byte that says of how
    many bytes, and these."""
    head, size = frame + PARTS_BYTES, get1(header, 0)
    copy_bytes(head, header + 1, size)
    return finish_frame(frame, PUBLISH, head + size, publication)
