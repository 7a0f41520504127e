"""The data types of fields (section 1.5 of both standards): reading strictly, and writing.

What cannot be written (a text that is too long) is a mistake of our caller, hence no `MqttError`.
"""

from __future__ import annotations

from reefcast.errors import InvalidValueError
from reefcast.mqtt.reasons import MqttError, Reason

MOST_VARIABLE = (1 << 28) - 1
"""The greatest variable byte integer, hence the most bytes that can follow a fixed header."""
_MOST_TEXT = (1 << 16) - 1
_TEXT_SHOWN = 60


def malformed(sentence: str) -> MqttError:
    return MqttError(Reason.MALFORMED_PACKET, sentence)


def forbidden(sentence: str) -> MqttError:
    """Return the error for a packet that can be read, with data that the protocol forbids."""
    return MqttError(Reason.PROTOCOL_ERROR, sentence)


def shown(text: str) -> str:
    """Return a text of the other side for a sentence: quoted, and cut off if it is long."""
    return repr(text) if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]!r}..."


class Cursor:
    """Reads the fields of one packet one after the other. `packet` names it in sentences; `at` is
    the position of the next field in `data`, `end` the position behind the packet, and `start` the
    one behind its fixed header (`at` if it is not given). `in_properties` says that
    `end` is that of the properties.

    Each method takes the name of the field."""

    __slots__ = ("_start", "at", "data", "end", "in_properties", "packet")

    def __init__(self, packet: str, data: bytes, at: int, end: int, start: int = -1) -> None:
        self.packet = packet
        self.data = data
        self.at = at
        self.end = end
        self.in_properties = False
        self._start = at if start < 0 else start

    @property
    def left(self) -> int:
        return self.end - self.at

    @property
    def place(self) -> str:
        """Where the cursor is, in words; the bytes behind the fixed header are counted from 0."""
        return f"at byte {self.at - self._start} behind the fixed header"

    def byte(self, field: str) -> int:
        at = self.at
        if at >= self.end:
            raise self._too_short(1, field)
        self.at = at + 1
        return self.data[at]

    def two_bytes(self, field: str) -> int:
        at = self.at
        if at + 2 > self.end:
            raise self._too_short(2, field)
        self.at = at + 2
        return self.data[at] << 8 | self.data[at + 1]

    def four_bytes(self, field: str) -> int:
        at = self.at
        if at + 4 > self.end:
            raise self._too_short(4, field)
        self.at = at + 4
        return int.from_bytes(self.data[at : at + 4])

    def variable(self, field: str) -> int:
        """Read a variable byte integer in its shortest form (MQTT-1.5.5-1)."""
        value = self.byte(field)
        if value < 0x80:
            return value
        value &= 0x7F
        for shift in (7, 14, 21):
            byte = self.byte(field)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if not byte:
                    raise malformed(
                        f"{self.packet}: the {field} has more bytes than it needs, {self.place}; "
                        f"encode {value} in its shortest form"
                    )
                return value
        raise malformed(
            f"{self.packet}: the {field} has more than four bytes, {self.place}; the greatest "
            f"number is {MOST_VARIABLE}"
        )

    def binary(self, field: str) -> bytes:
        at = self.at + 2
        if at > self.end:
            raise self._too_short(2, f"length of the {field}")
        end = at + (self.data[at - 2] << 8 | self.data[at - 1])
        if end > self.end:
            raise self._too_short(end - at + 2, field)
        self.at = end
        return self.data[at:end]

    def text(self, field: str) -> str:
        raw = self.binary(field)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = "\0"
        return decoded(raw, f"{self.packet}: the {field}") if "\0" in text else text

    def packet_id(self) -> int:
        """Read a packet identifier (MQTT-2.2.1-3; MQTT-2.3.1-1 of 3.1.1)."""
        number = self.two_bytes("packet identifier")
        if not number:
            raise forbidden(f"{self.packet} has packet identifier 0; use one from 1 to 65535")
        return number

    def finish(self) -> None:
        """Check that nothing is left."""
        if self.at != self.end:
            raise malformed(
                f"{self.packet} has {self.left} more bytes than its fields need, {self.place}; "
                "leave them out"
            )

    def _too_short(self, size: int, field: str) -> MqttError:
        what = f"the property list of {self.packet}" if self.in_properties else self.packet
        return malformed(
            f"{what} ends within the {field}, which begins {self.place} and needs "
            f"{size} bytes; send the whole field, or correct the lengths"
        )


def decoded(raw: bytes, what: str) -> str:
    """Return a text that came as UTF-8 (MQTT-1.5.4-1 and -2); `what` begins the sentence if it is
    none. A byte order mark is a character like others (MQTT-1.5.4-3)."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise malformed(
            f"{what} is not UTF-8: {error.reason} at its byte {error.start}; send UTF-8"
        ) from None
    if "\0" in text:
        raise malformed(
            f"{what} contains the character U+0000 at its character {text.index(chr(0))}; remove it"
        )
    return text


def variable(value: int) -> bytes:
    """Return the variable byte integer of `value`, in its shortest form."""
    if value < 0x80:
        return value.to_bytes()
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def binary(raw: bytes) -> bytes:
    if len(raw) > _MOST_TEXT:
        raise InvalidValueError(
            f"MQTT has no field for {len(raw)} bytes; send at most {_MOST_TEXT}"
        )
    return len(raw).to_bytes(2) + raw


def text(value: str) -> bytes:
    if "\0" in value:
        raise InvalidValueError(
            f"{shown(value)} contains the character U+0000, which no text of MQTT may; remove it"
        )
    try:
        return binary(value.encode())
    except UnicodeEncodeError:
        raise InvalidValueError(
            f"{shown(value)} contains half a surrogate pair, which UTF-8 cannot encode; remove it"
        ) from None
