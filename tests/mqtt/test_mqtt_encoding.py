"""What is encoded is decoded again, whatever the reads are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mqtt_strategies import VERSIONS, packets, publishes

from reefcast.errors import InvalidValueError
from reefcast.mqtt import encoding
from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.encoding import encode, publish_parts
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Publish,
    Pubrel,
    Suback,
    Subscribe,
    TopicRequest,
    Unsuback,
    Will,
)
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.reasons import Reason


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_round_trip(version: int, data: st.DataObject) -> None:
    sent = data.draw(st.lists(packets(version), max_size=6))
    stream = b"".join(encode(packet, version) for packet in sent)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    decoder = Decoder(version)
    received: list[Packet] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found, error = decoder.receive(stream[start:end])
        assert error is None
        received += found
    assert received == sent


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_parts_of_a_publish(version: int, data: st.DataObject) -> None:
    packet = data.draw(publishes(version))
    before, behind = publish_parts(packet, version)
    packet_id = packet.packet_id.to_bytes(2) if packet.qos else b""
    assert before + packet_id + behind == encode(packet, version)


def test_longest_fields() -> None:
    text, raw = "é" * 32_767, bytes(65_535)
    kept = Properties(
        authentication_method=text, authentication_data=raw, user_properties=((text, text),)
    )
    sent = [
        Connect(text, will=Will(text, raw), user_name=text, password=raw, properties=kept),
        Publish(text, bytes(3_000_000), properties=Properties(correlation_data=raw)),
    ]
    for packet in sent:
        assert Decoder(MQTT_5).receive(encode(packet, MQTT_5)) == ([packet], None)


def test_too_long_for_its_length() -> None:
    for packet in (
        Publish("é" * 32_768),
        Connect("c" * 65_536),
        Connect("c", user_name="u", password=bytes(65_536)),
        Subscribe(1, (TopicRequest("t" * 65_536),)),
    ):
        with pytest.raises(InvalidValueError, match="at most 65535"):
            encode(packet, MQTT_5)


@pytest.mark.parametrize("version", VERSIONS)
def test_texts_that_mqtt_does_not_have(version: int) -> None:
    with pytest.raises(InvalidValueError, match="U\\+0000"):
        encode(Publish("a\0"), version)
    with pytest.raises(InvalidValueError, match="surrogate"):
        encode(Publish("\ud800"), version)


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "MOST_VARIABLE", 1000)
    with pytest.raises(InvalidValueError, match="1001 bytes behind its fixed header"):
        encode(Publish("a", bytes(997)), MQTT_5)
    with pytest.raises(InvalidValueError, match="the most are 1000"):
        encode(Connect("c", will=Will("w", bytes(2000))), MQTT_5)


def test_numbers_that_do_not_fit() -> None:
    for packet in (
        Puback(65_536),
        Connect("c", keep_alive=-1),
        Publish("a", properties=Properties(topic_alias=65_536)),
    ):
        with pytest.raises(OverflowError):
            encode(packet, MQTT_5)


def test_packets_that_3_1_1_does_not_have() -> None:
    with pytest.raises(InvalidValueError, match="SERVER_BUSY"):
        encode(Disconnect(Reason.SERVER_BUSY), MQTT_3_1_1)
    with pytest.raises(InvalidValueError, match="AUTH"):
        encode(Auth(), MQTT_3_1_1)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.SUCCESS, 0),
        (Reason.UNSUPPORTED_PROTOCOL_VERSION, 1),
        (Reason.CLIENT_IDENTIFIER_NOT_VALID, 2),
        (Reason.SERVER_UNAVAILABLE, 3),
        (Reason.QUOTA_EXCEEDED, 3),
        (Reason.USE_ANOTHER_SERVER, 3),
        (Reason.BAD_USER_NAME_OR_PASSWORD, 4),
        (Reason.NOT_AUTHORIZED, 5),
        (Reason.BANNED, 5),
    ],
)
def test_return_codes(reason: Reason, code: int) -> None:
    assert encode(Connack(False, reason), MQTT_3_1_1) == bytes((0x20, 2, 0, code))


def test_what_3_1_1_leaves_out() -> None:
    user = Properties(user_properties=(("a", "b"),))
    for packet, plain in {
        Publish("a", b"b", properties=user): Publish("a", b"b"),
        Puback(7, Reason.NOT_AUTHORIZED, user): Puback(7),
        Subscribe(7, (TopicRequest("a", 1, True, True, 2),), user): Subscribe(
            7, (TopicRequest("a", 1),)
        ),
        Suback(7, (Reason.QUOTA_EXCEEDED,), user): Suback(7, (Reason.UNSPECIFIED_ERROR,)),
        Unsuback(7, (Reason.NO_SUBSCRIPTION_EXISTED,), user): Unsuback(7),
    }.items():
        assert encode(packet, MQTT_3_1_1) == encode(plain, MQTT_3_1_1)


def test_shortest_forms() -> None:
    for packet, data in {
        Puback(1): b"\x40\2\0\1",
        Pubrel(1, Reason.PACKET_IDENTIFIER_NOT_FOUND): b"\x62\3\0\1\x92",
        Disconnect(): b"\xe0\0",
        Disconnect(Reason.SERVER_BUSY): b"\xe0\1\x89",
        Auth(): b"\xf0\0",
        Publish("a"): b"\x30\4\0\1a\0",
    }.items():
        assert encode(packet, MQTT_5) == data


def test_properties_in_ascending_order_and_only_those_of_the_packet() -> None:
    everything = Properties(
        topic_alias=1, payload_format_indicator=0, receive_maximum=5, message_expiry_interval=2
    )
    data = encode(Publish("a", properties=everything), MQTT_5)
    assert data == b"\x30\x0e\0\1a\x0a\1\0\2\0\0\0\2\x23\0\1"
