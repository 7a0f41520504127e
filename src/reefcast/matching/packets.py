"""Kernels between MQTT and the frames of the native protocol, for plain publications: with QoS 0,
and nothing but a topic and a payload. Most are plain; all others are left to the caller.

`publish_frames` makes PUBLISH frames of the packets that came in one read, `publish_packets` makes
packets of the DELIVER frames for one client. Both stop at the first one that is not plain, is not
whole, or has no room; what they write has the bytes that the readable way writes
(`mqtt.content`, `mqtt.encoding`). Topics must be printable ASCII: others are left, too, so that
nothing has to be known of UTF-8 here.

Python and the kernels share the words W_*."""

from __future__ import annotations

import numpy as np

from reefcast.matching.index import BYTES_HEAD
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
)
from reefcast.matching.packed import big_endian
from reefcast.model import frame_layout
from reefcast.model.wire import FIRST_HEADER, FrameKind

W_OUT, W_ROOM, W_SIZE, W_END, W_VERSION, W_MOST_BYTES = range(6)
W_ATTRIBUTES, W_ATTRIBUTES_SIZE, W_PUBLISHER, W_PUBLISHER_SIZE, W_LAST, W_NOW = range(6, 12)
W_NEED, WORDS = 12, 13
"""Where to write and how many bytes may be written there; how many were; where the input ended. The
protocol level; the most bytes of a packet; the encoded attributes of a plain publication. The
encoded publisher, the number of its last publication, and the time (microseconds UTC). How many
bytes a packet that is not whole needs to have for more to be known of it, 0 if there is none."""
MQTT_5 = 5
PUBLISH_QOS_0 = 0x30
FRAME_BYTES = 64
"""The most bytes of a frame around publisher, attributes, topic and payload."""
_PUBLISH, _DELIVER = int(FrameKind.PUBLISH), int(FrameKind.DELIVER)
_PARTS_BYTES, _COUNTED = frame_layout.PARTS.bytes, frame_layout.PARTS.counted
_HEAD_BYTES, _LENGTH_BYTES = len(FIRST_HEADER), frame_layout.LENGTH.size
_KIND_AT = frame_layout.KIND.at
_HEADER_AT = _PARTS_BYTES - 4
_FIRST_1, _FIRST_2 = FIRST_HEADER
_HASH, _PLUS, _DOLLAR = (ord(each) for each in "#+$")
_EVENT, _UINT64, _ONE_TOPIC = 0x96, 0xCF, 0x91
_STR, _STR8, _STR16 = 0xA0, 0xD9, 0xDA
_BIN8, _BIN16, _BIN32 = 0xC4, 0xC5, 0xC6


@part
def _put_big(at: Int, value: Int, size: Int) -> Int:
    """Write a number, the highest byte first, and return where it ends."""
    for i in range(size):
        put1(at, i, value >> (8 * (size - 1 - i)))
    return at + size


@part
def _is_plain_topic(at: Int, size: Int) -> bool:
    """Return whether a topic is one of a client, in printable ASCII, without wildcards."""
    if size == 0 or get1(at, 0) == _DOLLAR:
        return False
    for i in range(size):
        byte = get1(at, i)
        if byte < 0x20 or byte > 0x7E or byte in (_HASH, _PLUS):
            return False
    return True


# --- packets to frames ----------------------------------------------------------------------------


@part
def _put_text_head(at: Int, size: Int) -> Int:
    if size < 32:
        put1(at, 0, _STR + size)
        return at + 1
    if size < 256:
        put1(at, 0, _STR8)
        return _put_big(at + 1, size, 1)
    put1(at, 0, _STR16)
    return _put_big(at + 1, size, 2)


@part
def _put_payload_head(at: Int, size: Int) -> Int:
    if size < 256:
        put1(at, 0, _BIN8)
        return _put_big(at + 1, size, 1)
    if size < 65536:
        put1(at, 0, _BIN16)
        return _put_big(at + 1, size, 2)
    put1(at, 0, _BIN32)
    return _put_big(at + 1, size, 4)


@part
def _put_event(words: Int, at: Int, seq: Int, topic: Int, size: Int, end: Int) -> Int:
    """Write the body of a publication whose topic has `size` bytes, with the payload behind it
    up to `end`; return where it ends."""
    put1(at, 0, _EVENT)
    copy_bytes(at + 1, get8(words, W_PUBLISHER), get8(words, W_PUBLISHER_SIZE))
    at += 1 + get8(words, W_PUBLISHER_SIZE)
    put1(at, 0, _UINT64)
    at = _put_big(at + 1, seq, 8)
    put1(at, 0, _UINT64)
    at = _put_big(at + 1, get8(words, W_NOW), 8)
    copy_bytes(at, get8(words, W_ATTRIBUTES), get8(words, W_ATTRIBUTES_SIZE))
    at += get8(words, W_ATTRIBUTES_SIZE)
    put1(at, 0, _ONE_TOPIC)
    at = _put_text_head(at + 1, size)
    copy_bytes(at, topic, size)
    payload = topic + size + (1 if get8(words, W_VERSION) == MQTT_5 else 0)
    at = _put_payload_head(at + size, end - payload)
    copy_bytes(at, payload, end - payload)
    return at + end - payload


@part
def _length_end(at: Int, end: Int) -> Int:
    """Return where the remaining length that begins at `at` ends; 0 if it is longer than it needs
    to be, `end` + 1 if it is not whole."""
    for i in range(4):
        if at + i >= end:
            return end + 1
        if get1(at, i) < 0x80:
            return 0 if i > 0 and get1(at, i) == 0 else at + i + 1
    return 0


@part
def _length_between(at: Int, end: Int) -> Int:
    length = 0
    for i in range(end - at):
        length |= (get1(at, i) & 0x7F) << (7 * i)
    return length


@kernel
def publish_frames(words: Int, data: Int, end: Int, most: Int) -> Int:
    """Write the frames of at most `most` plain PUBLISH packets between two addresses; return how
    many there are. The first one has the number `W_LAST` + 1, or the time if that is more."""
    out = get8(words, W_OUT)
    stop, last = out + get8(words, W_ROOM), get8(words, W_LAST)
    is_5 = get8(words, W_VERSION) == MQTT_5
    fixed = FRAME_BYTES + get8(words, W_PUBLISHER_SIZE) + get8(words, W_ATTRIBUTES_SIZE)
    count = need = 0
    while count < most and data < end and get1(data, 0) == PUBLISH_QOS_0:
        start = _length_end(data + 1, end)
        if start > end:
            need = start - data
        if start == 0 or start > end:
            break
        length = _length_between(data + 1, start)
        packet_end = start + length
        if packet_end - data > get8(words, W_MOST_BYTES) or length < 3:
            break
        if packet_end > end:
            need = packet_end - data
            break
        size, topic = big_endian(start, 2), start + 2
        behind = topic + size
        if behind + (1 if is_5 else 0) > packet_end or not _is_plain_topic(topic, size):
            break
        if is_5 and get1(behind, 0) != 0:
            break
        if stop - out < fixed + length:
            break
        last = last + 1 if last + 1 > get8(words, W_NOW) else get8(words, W_NOW)
        head = out + _PARTS_BYTES
        put1(head, 0, _FIRST_1)
        put1(head, 1, _FIRST_2)
        body_end = _put_event(words, head + _HEAD_BYTES, last, topic, size, packet_end)
        _put_big(out, _COUNTED + body_end - head, _LENGTH_BYTES)
        put1(out, _KIND_AT, _PUBLISH)
        _put_big(out + _HEADER_AT, _HEAD_BYTES, 4)
        out, data = body_end, packet_end
        count += 1
    put8(words, W_SIZE, out - get8(words, W_OUT))
    put8(words, W_END, data)
    put8(words, W_LAST, last)
    put8(words, W_NEED, need)
    return count


# --- frames to packets ----------------------------------------------------------------------------


@part
def _text_at(at: Int) -> Int:
    """Return where the bytes of a text begin; 0 if there is none."""
    head = get1(at, 0)
    if _STR <= head < _STR + 32:
        return at + 1
    if head == _STR8:
        return at + 2
    return at + 3 if head == _STR16 else 0


@part
def _text_size(at: Int) -> Int:
    head = get1(at, 0)
    if head < _STR8:
        return head - _STR
    return big_endian(at + 1, 1 if head == _STR8 else 2)


@part
def _behind_number(at: Int) -> Int:
    """Return where a number ends; 0 if there is none."""
    head = get1(at, 0)
    if head < 0x80 or head >= 0xE0:
        return at + 1
    if 0xCC <= head <= 0xCF:
        return at + 1 + (1 << (head - 0xCC))
    return at + 1 + (1 << (head - 0xD0)) if 0xD0 <= head <= 0xD3 else 0


@part
def _topic_of(words: Int, body: Int) -> Int:
    """Return where the topic of a plain event is; 0 if it is not plain."""
    if get1(body, 0) != _EVENT:
        return 0
    at = _text_at(body + 1)
    if at == 0:
        return 0
    at = _behind_number(at + _text_size(body + 1))
    if at == 0:
        return 0
    at = _behind_number(at)
    size = get8(words, W_ATTRIBUTES_SIZE)
    if at == 0 or compare_bytes(at, get8(words, W_ATTRIBUTES), size) != 0:
        return 0
    at += size
    if get1(at, 0) != _ONE_TOPIC or _text_at(at + 1) == 0:
        return 0
    return at + 1


@part
def _payload_at(at: Int) -> Int:
    head = get1(at, 0)
    return at + 1 + (1 << (head - _BIN8)) if _BIN8 <= head <= _BIN32 else 0


@part
def _put_length(at: Int, length: Int) -> Int:
    while length >= 0x80:
        put1(at, 0, 0x80 | (length & 0x7F))
        length >>= 7
        at += 1
    put1(at, 0, length)
    return at + 1


@kernel
def publish_packets(words: Int, data: Int, end: Int, most: Int) -> Int:
    """Write the PUBLISH packets of at most `most` plain DELIVER frames between two addresses, all
    of which are whole; return how many there are."""
    out = get8(words, W_OUT)
    stop = out + get8(words, W_ROOM)
    more = 1 if get8(words, W_VERSION) == MQTT_5 else 0
    count = 0
    while count < most and data < end and get1(data, _KIND_AT) == _DELIVER:
        frame_end = data + _LENGTH_BYTES + big_endian(data, _LENGTH_BYTES)
        at = _topic_of(words, data + _PARTS_BYTES + big_endian(data + _HEADER_AT, 4))
        if at == 0:
            break
        topic, size = _text_at(at), _text_size(at)
        payload = _payload_at(topic + size)
        if payload == 0 or not _is_plain_topic(topic, size):
            break
        length = 2 + size + more + frame_end - payload
        if length + 5 > get8(words, W_MOST_BYTES) or stop - out < length + 5:
            break
        put1(out, 0, PUBLISH_QOS_0)
        out = _put_big(_put_length(out + 1, length), size, 2)
        copy_bytes(out, topic, size)
        out += size
        if more:
            put1(out, 0, 0)
        copy_bytes(out + more, payload, frame_end - payload)
        out += more + frame_end - payload
        data = frame_end
        count += 1
    put8(words, W_SIZE, out - get8(words, W_OUT))
    put8(words, W_END, data)
    return count


compile_units()


class Packets:
    """The memory that the kernels write to, and their calls. `attributes`: those of a plain
    publication, encoded."""

    ROOM = 1 << 20
    """Bytes that one call writes, at most."""

    def __init__(self, attributes: bytes) -> None:
        self._words = np.zeros(WORDS, np.int64)
        self._address = int(self._words.ctypes.data)
        self._said = self._words.data
        self._out = np.empty(self.ROOM, np.uint8)
        self._written = self._out.data
        self._attributes = attributes
        self._said[W_OUT], self._said[W_ROOM] = self._out.ctypes.data, self.ROOM
        self._said[W_ATTRIBUTES] = id(attributes) + BYTES_HEAD
        self._said[W_ATTRIBUTES_SIZE] = len(attributes)

    def frames(
        self,
        data: bytes,
        version: int,
        most_bytes: int,
        publisher: bytes,
        last: int,
        now_us: int,
        most: int,
    ) -> tuple[bytes, int, int, int, int]:
        """Return the frames of the plain packets that `data` begins with, at most `most`; how many
        they are; where they end in `data`; how many bytes from there on a packet needs to have that
        is not whole; the number of the last one. `publisher`: encoded."""
        said, base = self._said, id(data) + BYTES_HEAD
        said[W_VERSION], said[W_MOST_BYTES] = version, most_bytes
        said[W_PUBLISHER], said[W_PUBLISHER_SIZE] = id(publisher) + BYTES_HEAD, len(publisher)
        said[W_LAST], said[W_NOW] = last, now_us
        count = publish_frames(self._address, base, base + len(data), most)
        frames = bytes(self._written[: said[W_SIZE]])
        return frames, count, said[W_END] - base, said[W_NEED], said[W_LAST]

    def packets(
        self, data: bytes, start: int, version: int, most_bytes: int, most: int
    ) -> tuple[bytes, int, int]:
        """Return the packets of the plain DELIVER frames that begin at `start`, at most `most`, all
        of which are whole; how many they are; where they end in `data`."""
        said, base = self._said, id(data) + BYTES_HEAD
        said[W_VERSION], said[W_MOST_BYTES] = version, most_bytes
        count = publish_packets(self._address, base + start, base + len(data), most)
        return bytes(self._written[: said[W_SIZE]]), count, said[W_END] - base
