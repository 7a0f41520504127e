"""Our codec of MQTT 3.1.1 beside a slow, obvious one, on packets and on changed bytes."""

from __future__ import annotations

import random
from typing import Any

import mqtt_3_1_1_twin as twin
from hypothesis import given
from hypothesis import strategies as st
from mqtt_strategies import packets

from fuzzing import changed_bytes
from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.fields import variable
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    Connack,
    Connect,
    Packet,
    Publish,
    Suback,
    Subscribe,
    Unsubscribe,
)
from reefcast.mqtt.reasons import RETURN_CODES

MUTATIONS = 40


def as_fields(packet: Any) -> twin.Fields:
    """One of our packets as the twin has it."""
    fields: twin.Fields = {"type": int(packet.type)}
    if hasattr(packet, "packet_id"):
        fields["packet_id"] = packet.packet_id
    match packet:
        case Connect():
            fields |= {"clean": packet.clean_start, "keep_alive": packet.keep_alive}
            will = packet.will and (
                (packet.will.topic, packet.will.payload, packet.will.qos, packet.will.retain)
            )
            options = {"will": will, "user": packet.user_name, "password": packet.password}
            fields |= {key: value for key, value in options.items() if value is not None}
            fields["client"] = packet.client_id
        case Connack():
            fields |= {"session_present": packet.session_present}
            fields["code"] = RETURN_CODES[packet.reason]
        case Publish():
            fields |= {key: getattr(packet, key) for key in ("topic", "payload", "qos")}
            fields |= {"retain": packet.retain, "dup": packet.dup}
        case Subscribe():
            fields["filters"] = [(each.topic_filter, each.qos) for each in packet.requests]
        case Suback():
            fields["codes"] = list(packet.reasons)
        case Unsubscribe():
            fields["filters"] = list(packet.topic_filters)
    return fields


@given(packets(MQTT_3_1_1))
def test_same_bytes(packet: Packet) -> None:
    data = encode(packet, MQTT_3_1_1)
    assert data == twin.written(as_fields(packet))
    assert twin.read(data) == (as_fields(packet), len(data))


@given(packets(MQTT_3_1_1), st.integers(0))
def test_changed_bytes(packet: Packet, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(MUTATIONS):
        data = changed_bytes(encode(packet, MQTT_3_1_1), rng)[:400]
        if len(data) > 2 and rng.random() < 0.8:
            data = data[:1] + variable(len(data) - 2) + data[2:]
        check_both(data)


def check_both(data: bytes) -> None:
    packets, error = Decoder(MQTT_3_1_1).receive(data)
    try:
        read = twin.read(data)
    except twin.Refused:
        assert (packets, error is None) == ([], False), data
        return
    if read is None:
        assert (packets, error) == ([], None), data
    else:
        assert as_fields(packets[0]) == read[0], data
