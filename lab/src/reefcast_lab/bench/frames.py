"""Counting the frames of a stream in compiled code, so that receivers do not set the pace.

A receiver walks from frame to frame and remembers where every hundredth publication starts; only
that one is decoded. The same walk serves Reefcast's frames and MQTT's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reefcast.matching.kernel_cache import njit
from reefcast.model.wire import FrameKind

DECODE_EVERY = 100
_DELIVER = int(FrameKind.DELIVER)
Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


@njit(cache=True)
def _note(places: Places, noted: int, count: int, start: np.int64, end: np.int64) -> int:
    """Notes the publication from `start` to `end`, the `count`th, if it is one to decode; how many
    places are noted then."""
    if count % DECODE_EVERY != 0 or noted + 1 >= places.size:
        return noted
    places[noted] = start
    places[noted + 1] = end
    return noted + 2


@njit(cache=True)
def walk_reefcast(data: Bytes, count: int, places: Places) -> tuple[int, int, Any]:
    """(deliveries in all, places noted, bytes used); `count` deliveries came before.

    `places` gets start and end of the frames to decode, without length and kind.
    """
    start = np.int64(0)
    noted, size = 0, data.size
    while size - start >= 5:
        length = (
            np.int64(data[start]) << 24
            | np.int64(data[start + 1]) << 16
            | np.int64(data[start + 2]) << 8
            | np.int64(data[start + 3])
        )
        end = start + 4 + length
        if end > size:
            break
        if data[start + 4] == _DELIVER:
            count += 1
            noted = _note(places, noted, count, start + 5, end)
        start = end
    return count, noted, start


@njit(cache=True)
def walk_mqtt(data: Bytes, count: int, places: Places) -> tuple[int, int, Any]:
    """The same for MQTT: the places are those of the payloads behind a topic of one letter."""
    start = np.int64(0)
    noted, size = 0, data.size
    while size - start >= 2:
        length = np.int64(0)
        shift, head = 0, start + 1
        whole = False
        while head < size:
            length |= np.int64(data[head] & 127) << shift
            shift += 7
            head += 1
            if data[head - 1] < 128:
                whole = True
                break
        end = head + length
        if not whole or end > size:
            break
        if data[start] >> 4 == 3:
            count += 1
            noted = _note(places, noted, count, head + 3, end)
        start = end
    return count, noted, start
