"""Our codec of MQTT 5.0 beside another one: the library mqtt5 (PyPI), written in Rust."""

from __future__ import annotations

import random
import re
from typing import Any

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mqtt5_twin import CODES, from_theirs, plain, to_theirs
from mqtt_strategies import packets

from fuzzing import changed_bytes
from reefcast.mqtt import reasons
from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.fields import variable
from reefcast.mqtt.packets import MQTT_5, Auth, Packet, PacketType
from reefcast.mqtt.reasons import MqttError, Reason

MUTATIONS = 30
"""Changed packets that are tried for each one that is drawn."""
ONLY_WE_REFUSE = {
    r"contains the character U\+0000": "MQTT-1.5.4-2",
    r"packet identifier 0": "MQTT-2.2.1-3, -4, -5, -6",
    r"the property list of \w+ ends within": "2.2.2.1: the length is that of all properties",
    r"CONNECT has the reserved connect flag": "MQTT-3.1.2-3",
    r"CONNECT has the will QoS 3": "MQTT-3.1.2-12",
    r"without a will": "MQTT-3.1.2-11, MQTT-3.1.2-13",
    r"authentication data without": "3.1.2.11.10: data without a method is a protocol error",
    r"has Session Present": "MQTT-3.2.2-6",
    r"DUP with QoS 0": "MQTT-3.3.1-2",
    r"the (topic name|will topic) .* contains the wildcard": "MQTT-3.3.2-2, MQTT-4.7.0-1",
    r"the will topic is empty": "MQTT-4.7.3-1",
    r"response topic .* is empty or has a wildcard": "MQTT-3.3.2-14, MQTT-4.7.3-1",
    r"payload format indicator is \d+": "3.3.2.3.2: 0 and 1 are its values",
    r"has no topic filter": "MQTT-3.8.3-2, MQTT-3.10.3-2",
    r"has an empty topic filter": "MQTT-4.7.3-1",
    r"have reserved bits": "MQTT-3.8.3-5",
    r"a shared subscription cannot have No Local": "MQTT-3.8.3-4",
    r"has no reason code": "MQTT-3.8.4-6, 3.11.3: one for each topic filter, of which there is one",
    r"AUTH has no authentication method": "3.15.2.2.2: it is a protocol error to omit it",
}
"""What mqtt5 accepts and we refuse: our sentence, and the statement (or section) that decides."""
PANIC = "PanicException"
"""What mqtt5 raises instead of `ValueError` when a text is not UTF-8."""
SHORTEST_AUTH = b"\xf0\0"
"""What we accept and mqtt5 refuses: section 3.15.2.1 gives this packet a meaning."""


def read_theirs(data: bytes) -> tuple[Any, int] | None:
    """What their decoder makes of bytes: a packet and its size, or None if it refuses them."""
    try:
        return mqtt5.read(memoryview(data))
    except (ValueError, IndexError):
        return None
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        return None


@given(packets(MQTT_5))
def test_they_read_what_we_write(packet: Packet) -> None:
    data = encode(packet, MQTT_5)
    read = read_theirs(data)
    if data == SHORTEST_AUTH:
        assert read is None
    else:
        assert read is not None
        assert (from_theirs(read[0]), read[1]) == (plain(packet), len(data))


@given(packets(MQTT_5))
def test_we_read_what_they_write(packet: Packet) -> None:
    if packet == Auth():
        return
    data = to_theirs(packet).write()
    found, error = Decoder(MQTT_5).receive(data)
    assert error is None
    assert list(map(plain, found)) == [plain(packet)]


# each panic leaves the error of a decoder of UTF-8 that nobody handles
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@given(packets(MQTT_5), st.integers(0))
def test_changed_bytes(packet: Packet, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(MUTATIONS):
        check_both(changed(encode(packet, MQTT_5), rng))


def changed(data: bytes, rng: random.Random) -> bytes:
    """A packet with some changes, and mostly with a remaining length that fits."""
    data = changed_bytes(data, rng)[:400]
    if len(data) > 2 and rng.random() < 0.8:
        return data[:1] + variable(len(data) - 2) + data[2:]
    return data


def check_both(data: bytes) -> None:
    packets, error = Decoder(MQTT_5).receive(data)
    read = read_theirs(data)
    if not packets:
        assert read is None or may_be_refused(error), (data, error)
    elif read is None:
        assert data.startswith(SHORTEST_AUTH), (data, packets)
    else:
        assert plain(packets[0]) == from_theirs(read[0]), data


def may_be_refused(error: MqttError | None) -> bool:
    return error is not None and any(re.search(words, str(error)) for words in ONLY_WE_REFUSE)


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_same_reasons(kind: type) -> None:
    """The tables of reason codes, in sections 3.2 to 3.15."""
    known = getattr(reasons, f"{REASONS_OF.get(kind.type, kind.type.name)}_REASONS")
    theirs = (getattr(CODES[kind], name) for name in dir(CODES[kind]) if name.isupper())
    assert set(known) == set(map(int, theirs))


REASONS_OF = {
    PacketType.PUBREC: "PUBACK",
    PacketType.PUBREL: "PUBREL",
    PacketType.PUBCOMP: "PUBREL",
}
"""Packets that share a table with another."""
VALUES = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), b"\1"),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), b"\0\1"),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), b"\0\0\0\1"),
    **dict.fromkeys((0x03, 0x08, 0x09, 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F), b"\0\1a"),
    0x0B: b"\1",
    0x26: b"\0\1a\0\1b",
}
"""A value for each property."""
PLACES: dict[str, tuple[bytes, bytes]] = {
    "CONNECT": (b"\x10\0\4MQTT\5\2\0\0", b"\0\1c"),
    "WILL": (b"\x10\0\4MQTT\5\6\0\0\0\0\1c", b"\0\1w\0\0"),
    "CONNACK": (b"\x20\0\0", b""),
    "PUBLISH": (b"\x30\0\1a", b""),
    "PUBACK": (b"\x40\0\1\0", b""),
    "PUBREC": (b"\x50\0\1\0", b""),
    "PUBREL": (b"\x62\0\1\0", b""),
    "PUBCOMP": (b"\x70\0\1\0", b""),
    "SUBSCRIBE": (b"\x82\0\1", b"\0\1a\0"),
    "SUBACK": (b"\x90\0\1", b"\0"),
    "UNSUBSCRIBE": (b"\xa2\0\1", b"\0\1a"),
    "UNSUBACK": (b"\xb0\0\1", b"\0"),
    "DISCONNECT": (b"\xe0\0", b""),
    "AUTH": (b"\xf0\0", b""),
}
"""Packets without remaining length: what comes before their properties, and behind them."""
METHOD = b"\x15\0\1m"


@pytest.mark.parametrize("place", PLACES)
def test_same_properties(place: str) -> None:
    """Table 2-4: which packet may have which property; all others are malformed."""
    before, behind = PLACES[place]
    for number in range(128):
        needed = METHOD if (number == 0x16 or place == "AUTH") and number != 0x15 else b""
        body = needed + bytes((number,)) + VALUES.get(number, b"")
        body = before[1:] + bytes((len(body),)) + body + behind
        data = before[:1] + bytes((len(body),)) + body
        packets, error = Decoder(MQTT_5).receive(data)
        assert bool(packets) == (read_theirs(data) is not None), number
        assert packets or (error is not None and error.reason is Reason.MALFORMED_PACKET), number


def test_each_disagreement() -> None:
    """Each class of disagreement exists: else the table above hides something."""
    seen = set()
    for data in DISAGREED:
        found, error = Decoder(MQTT_5).receive(data)
        assert found == []
        assert read_theirs(data) is not None, data
        seen |= {words for words in ONLY_WE_REFUSE if re.search(words, str(error))}
    assert seen == set(ONLY_WE_REFUSE)


DISAGREED = (
    b"0\4\0\1\0\0",
    b"@\2\0\0",
    b"b\x09\0\1\0\1&\0\0\0\0",
    b"\x10\r\0\4MQTT\5\1\0\0\0\0\0",
    b"\x10\r\0\4MQTT\5\x1a\0\0\0\0\0",
    b"\x10\r\0\4MQTT\5\x0a\0\0\0\0\0",
    b"\x10\x10\0\4MQTT\5\2\0\0\3\x16\0\0\0\0",
    b"\x20\3\1\x9f\0",
    b"8\4\0\1a\0",
    b"0\4\0\1+\0",
    b"\x10\x12\0\4MQTT\5\6\0\0\0\0\0\0\0\0\0\0",
    b"0\x08\0\1a\4\x08\0\1#",
    b"0\6\0\1a\2\1\2",
    b"\x82\3\0\1\0",
    b"\x82\6\0\1\0\0\0\0",
    b"\x82\7\0\1\0\0\1a\x40",
    b"\x82\x10\0\1\0\0\x0a$share/g/a\4",
    b"\x90\3\0\1\0",
    b"\xf0\2\x18\0",
)
