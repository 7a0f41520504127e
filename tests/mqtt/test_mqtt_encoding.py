"""What is encoded is decoded again, whatever the reads are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mqtt_strategies import VERSIONS, packets, publishes

from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.encoding import encode, publish_parts
from reefcast.mqtt.packets import MQTT_5, Connect, Packet, Publish, Will
from reefcast.mqtt.properties import Properties


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
