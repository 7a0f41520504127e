"""Packets from the bytes that arrive (chapters 2 and 3 of both standards), strictly.

Rules
-----
- The first byte of a packet says its type, and its flags. `_READERS` has a reader for each first
  byte that the standard knows, and for all others one that refuses it.
- The first packet of a client is CONNECT. It settles the version, by which all later packets are
  read. The client's own side knows the version beforehand.
- A packet is read when it is complete, and only once; what is known to be wrong of its first bytes
  (its type, its flags, its size) is refused before that.
- Whatever the standard forbids raises `MqttError` with the reason code that the standard names. It
  names 0x81 for what cannot be read (bits that are reserved, lengths that disagree, texts that are
  no UTF-8, properties in the wrong packet), and 0x82 for what can, and is not allowed. Where it
  names none, these two definitions (section 1.2) decide; a topic name with a wildcard gets 0x90,
  which says most.
- What depends on more than the packet (who sent it, in which state, what was agreed in CONNECT) is
  not judged here. Topic filters are not judged either: the SUBACK refuses each by itself.
"""

from __future__ import annotations

from reefcast.mqtt.fields import MOST_VARIABLE, Cursor, forbidden, malformed
from reefcast.mqtt.packets import MQTT_3_1_1, MQTT_5, Packet, PacketType
from reefcast.mqtt.reading import READERS, protocol_level, reserved_auth, unsupported
from reefcast.mqtt.reasons import MqttError, Reason

MOST_BYTES = 5 + MOST_VARIABLE
"""The most bytes of a packet that the standard knows."""
_CONNECT = PacketType.CONNECT << 4


class Decoder:
    """Makes packets of the bytes of one connection.

    `version` is the protocol level, None before a CONNECT told it; a client's own side gives it.
    When a CONNECT asks for a version that is unknown here, `version` is the one in which to answer,
    and None if it names no protocol of MQTT.
    `most_bytes` bounds a packet with its fixed header (5.0: Maximum Packet Size); it may be changed
    between two calls."""

    __slots__ = ("_error", "_need", "_partial", "most_bytes", "version")

    def __init__(self, version: int | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.version: int | None = version
        self.most_bytes = most_bytes
        self._partial = bytearray()
        self._need = 0
        self._error: MqttError | None = None

    @property
    def missing(self) -> int:
        """How many bytes must follow at least for more to be known of a packet of which a part has
        come; 0 if there is none."""
        return max(1, self._need - len(self._partial)) if self._partial else 0

    def receive(self, data: bytes) -> tuple[list[Packet], MqttError | None]:
        """Return the packets that the bytes of a read complete, and the error behind them, if there
        is one. After an error the connection must be closed; further bytes are ignored."""
        packets: list[Packet] = []
        if self._error is not None:
            return packets, self._error
        if self._partial:
            self._partial += data
            if len(self._partial) < self._need:
                return packets, None
            data = bytes(self._partial)
            self._partial = bytearray()
        try:
            start = self._read(data, packets)
        except MqttError as error:
            self._error = error
        else:
            if start < len(data):
                self._partial += memoryview(data)[start:]
        return packets, self._error

    def _read(self, data: bytes, packets: list[Packet]) -> int:
        """Read all packets that are complete; return where the next one begins."""
        at, size, version, most = 0, len(data), self.version, self.most_bytes
        readers, self._need = _READERS, 2
        while at + 2 <= size:
            first, length, start = data[at], data[at + 1], at + 2
            if length > 0x7F:
                if start < size and 0 < data[start] < 0x80:  # most long packets
                    length += (data[start] << 7) - 0x80
                    start += 1
                else:
                    length, start = _long_length(data, at, version)
                if not start:
                    self._need = size - at + 1
                    break
            end = start + length
            if end - at > most:
                raise _too_large(first, end - at, most)
            if end > size:
                self._expect(first, end - at)
                break
            if version is None:
                version = self._begin(first, data, at, start, end)
            packets.append(readers[first](first, data, start, end, version))
            at = end
        return at

    def _expect(self, first: int, size: int) -> None:
        """Wait for a packet of `size` bytes, unless its first byte is wrong."""
        self._need = size
        _check_first_byte(first, self.version)

    def _begin(self, first: int, data: bytes, at: int, start: int, end: int) -> int:
        """Learn the version from the first packet, which must be a CONNECT (MQTT-3.1.0-1)."""
        _check_first_byte(first, None)
        cursor = Cursor("CONNECT", data, start, end)
        level = protocol_level(cursor)
        # bridges of mosquitto set the greatest bit, and ask again without it when they are refused
        self.version = MQTT_5 if level & 0x7F >= MQTT_5 else MQTT_3_1_1
        if level != self.version:
            raise unsupported(f"CONNECT asks for the protocol level {level}")
        if level == MQTT_5:
            _check_shortest(first, data, at, start)
        return self.version


# --- the fixed header ----------------------------------------------------------------------------


def _name(first: int) -> str:
    return PacketType(first >> 4).name if first >> 4 else "a packet of the reserved type 0"


def _long_length(data: bytes, at: int, version: int | None) -> tuple[int, int]:
    """Return a remaining length of more than one byte, and where it ends; 0 if it is not there
    yet."""
    length = data[at + 1] & 0x7F
    for count, byte in enumerate(data[at + 2 : at + 5], 1):
        length |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            if not byte and version == MQTT_5:
                _check_shortest(data[at], data, at, at + 2 + count)
            return length, at + 2 + count
    if len(data) - at >= 5:
        raise malformed(
            f"{_name(data[at])}: the remaining length has more than four bytes; "
            f"the greatest is {MOST_VARIABLE}"
        )
    return 0, 0


def _check_shortest(first: int, data: bytes, at: int, start: int) -> None:
    """Check that a remaining length has no bytes that it does not need (MQTT-1.5.5-1; 3.1.1 does
    not ask for it)."""
    if start - at > 2 and not data[start - 1]:
        raise malformed(
            f"{_name(first)}: the remaining length has {start - at - 1} bytes, more than it "
            "needs; encode it in its shortest form"
        )


def _too_large(first: int, size: int, most: int) -> MqttError:
    return MqttError(
        Reason.PACKET_TOO_LARGE,
        f"{_name(first)} of {size} bytes; a packet may have {most} bytes here",
    )


def _check_first_byte(first: int, version: int | None) -> None:
    """Refuse a packet of which nothing but the first byte needs to be known."""
    if _READERS[first] is _refuse:
        _refuse(first)
    if version == MQTT_3_1_1 and first >> 4 == PacketType.AUTH:
        raise reserved_auth()
    if version is None and first != _CONNECT:
        raise forbidden(f"{_name(first)} came first; the first packet must be CONNECT")


_HINTS = {
    0x16: "; the other end speaks TLS, and this one does not",
    ord("G"): "; the other end may speak HTTP, and this one speaks MQTT",
}


def _refuse(first: int, *_: object) -> Packet:
    """Refuse a first byte with a reserved type or flags that are wrong (MQTT-2.1.3-1)."""
    hint = _HINTS.get(first, "")
    if first >> 4 != PacketType.PUBLISH:
        raise malformed(f"{_name(first)} has the flags {first & 15:04b}, which are reserved{hint}")
    if first & 6 == 6:
        raise malformed("PUBLISH has QoS 3; use 0, 1 or 2")
    raise malformed("PUBLISH has the flag DUP with QoS 0; such a packet is never sent again")


_READERS = tuple(READERS.get(first, _refuse) for first in range(256))
