"""Recognize the frames of each protocol in compiled code.

Only the head of a frame is read; that of an event reaches to its time. Every body is the encoding
of a `Publication` of `PUBLISHER`, with a number of four bytes and a time of eight bytes, so number
and time are always at the same place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reefcast.matching.kernel_cache import njit
from reefcast.model.wire import FrameKind
from reefcast.protocol.client_ids import identity_of

REEFCAST, MQTT, NATS = 0, 1, 2
CUT, DELIVERY, NUMBERED, QUESTION, OTHER = 0, 1, 2, 3, 4
"""What a frame is: not enough of it is there to tell; an event; another frame that is numbered; one
that must be answered; any other."""
PUBLISHER, SECRET = identity_of("client", "bench")
"""An id as a client of the library has it: it goes with each event."""
SEQ_AT = 1 + 1 + len(PUBLISHER) + 1
"""Behind the head of the array, the publisher with its head, and the head of the number."""
TIME_AT = SEQ_AT + 5
FIRST_SEQ = 1 << 16
"""The least number for which msgpack needs four bytes."""

Bytes = npt.NDArray[np.uint8]
_AGAIN, _DELIVER = int(FrameKind.DELIVER_AGAIN), int(FrameKind.DELIVER)
_CONTROL, _DROPPED = int(FrameKind.CONTROL), int(FrameKind.DROPPED)
_MQTT_PUBLISH = 3
_M, _P, _O, _CR, _LF, _SPACE, _ZERO = (ord(each) for each in "MPO\r\n 0")


@njit(cache=True)
def number_at(data: Bytes, at: Any, count: int) -> Any:
    """Read a number of so many bytes, the highest first."""
    number = np.int64(0)
    for k in range(count):
        number = number << 8 | np.int64(data[at + k])
    return number


@njit(cache=True)
def _delivery(body: Any, end: Any, size: Any) -> tuple[int, Any, Any]:
    """Return the head of an event whose body begins there; `CUT` if its time has not come yet."""
    stamp = body + TIME_AT
    return (DELIVERY if stamp + 8 <= size else CUT), stamp, end


@njit(cache=True)
def _reefcast(data: Bytes, start: Any, size: Any) -> tuple[int, Any, Any]:
    if size - start < 9:
        short = size - start < 5 or number_at(data, start, 4) > size - start - 4
        if short:
            return CUT, start, start
    end = start + 4 + number_at(data, start, 4)
    kind = data[start + 4]
    if kind in (_DELIVER, _AGAIN):
        return _delivery(start + 9 + number_at(data, start + 5, 4), end, size)
    return (NUMBERED if kind in (_CONTROL, _DROPPED) else OTHER), start, end


@njit(cache=True)
def _mqtt(data: Bytes, start: Any, size: Any) -> tuple[int, Any, Any]:
    length, shift, at = np.int64(0), 0, start + 1
    while True:
        if at >= size:
            return CUT, start, start
        length |= np.int64(data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            break
    if data[start] >> 4 == _MQTT_PUBLISH:
        return _delivery(at + 3, at + length, size)  # behind a topic of one letter
    return OTHER, start, at + length


@njit(cache=True)
def _nats(data: Bytes, start: Any, size: Any) -> tuple[int, Any, Any]:
    at = start
    while at < size and data[at] != _LF:
        at += 1
    if at >= size:
        return CUT, start, start
    if data[start] == _M:  # MSG subject sid bytes
        length, digit, scale = np.int64(0), at - 2, np.int64(1)
        while data[digit] != _SPACE:
            length += scale * (np.int64(data[digit]) - _ZERO)
            scale *= 10
            digit -= 1
        return _delivery(at + 1, at + 3 + length, size)
    asks = data[start] == _P and data[start + 1] != _O  # PING, not PONG
    return (QUESTION if asks else OTHER), start, at + 1


@njit(cache=True)
def head(protocol: int, data: Bytes, start: Any, size: Any) -> tuple[int, Any, Any]:
    """Return (what the frame at `start` is, where its time is if it is an event, where the next
    frame begins). `data` holds `size` bytes; the frame may end behind them."""
    if protocol == REEFCAST:
        return _reefcast(data, start, size)
    if protocol == MQTT:
        return _mqtt(data, start, size)
    return _nats(data, start, size)


@njit(cache=True)
def stamp(data: Bytes, places: npt.NDArray[np.int64], seq: int, now_us: int) -> None:
    """Write numbers from `seq` on, and the time, into the bodies that begin at `places`."""
    for i in range(places.size):
        for k in range(4):
            data[places[i] + SEQ_AT + k] = (seq + i) >> (24 - 8 * k) & 255
        for k in range(8):
            data[places[i] + TIME_AT + k] = now_us >> (56 - 8 * k) & 255
