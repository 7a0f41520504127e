"""Bytes of MQTT in any reads: packets, or one `MqttError`, and never another error."""

from __future__ import annotations

import random
from typing import NamedTuple

from fuzzing import OFTEN_AND_SOAKED, changed_bytes, knock
from reefcast.mqtt.decoding import MOST_BYTES, Decoder
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    TopicRequest,
    Unsuback,
    Unsubscribe,
    Will,
)
from reefcast.mqtt.properties import BY_PACKET, Properties
from reefcast.mqtt.reasons import MqttError, Reason

ALL = Properties(
    payload_format_indicator=1,
    message_expiry_interval=60,
    content_type="application/json",
    response_topic="answers/é",
    correlation_data=b"\0\xff",
    subscription_identifiers=(268_435_455,),
    session_expiry_interval=0xFFFFFFFF,
    assigned_client_id="c",
    server_keep_alive=10,
    authentication_method="m",
    authentication_data=b"d",
    request_problem_information=False,
    will_delay_interval=5,
    request_response_information=True,
    response_information="r",
    server_reference="s",
    reason_string="because",
    receive_maximum=10,
    topic_alias_maximum=20,
    topic_alias=1,
    maximum_qos=1,
    retain_available=True,
    user_properties=(("a", "b"), ("a", "")),
    maximum_packet_size=1000,
    wildcard_subscription_available=True,
    subscription_identifiers_available=True,
    shared_subscription_available=False,
)
"""Each packet has those that it may have."""
SENT: tuple[Packet, ...] = (
    Connect("c", False, 10, Will("w", b"gone", 2, True, ALL), "user", b"password", ALL),
    Connect("c"),
    Connack(True, Reason.SUCCESS, ALL),
    Publish("a/b", b"payload"),
    Publish("a/é", bytes(200), 1, True, True, 7, ALL),
    Puback(7, Reason.NO_MATCHING_SUBSCRIBERS, ALL),
    Pubrec(7),
    Pubrel(7, Reason.PACKET_IDENTIFIER_NOT_FOUND),
    Pubcomp(7, Reason.SUCCESS, ALL),
    Subscribe(8, (TopicRequest("a/+", 2, True, True, 2), TopicRequest("$share/g/#", 1)), ALL),
    Suback(8, (Reason.GRANTED_QOS_2, Reason.UNSPECIFIED_ERROR), ALL),
    Unsubscribe(9, ("a/+", "#"), ALL),
    Unsuback(9, (Reason.SUCCESS,), ALL),
    Pingreq(),
    Pingresp(),
)
SENT_IN_5: tuple[Packet, ...] = (
    *SENT,
    Disconnect(Reason.DISCONNECT_WITH_WILL_MESSAGE, ALL),
    Auth(Reason.CONTINUE_AUTHENTICATION, ALL),
)
SENT_IN_3_1_1: tuple[Packet, ...] = (*SENT, Disconnect())


class Stream(NamedTuple):
    """`version`: what the decoder knows; `cuts`: how long each read is, until the bytes end."""

    version: int | None
    data: bytes
    cuts: tuple[int, ...]
    most_bytes: int


def made(rng: random.Random) -> Stream:
    """A conversation with changes, or bytes of no sense."""
    version = rng.choice((MQTT_3_1_1, MQTT_5))
    sent = SENT_IN_5 if version == MQTT_5 else SENT_IN_3_1_1
    parts = [encode(rng.choice(sent), version) for _ in range(rng.choice((1, 1, 2, 5)))]
    is_first = rng.random() < 0.3
    if is_first:
        parts.insert(0, encode(rng.choice(SENT[:2]), version))
    if rng.random() < 0.9:
        at = rng.randrange(len(parts))
        parts[at] = changed_bytes(parts[at], rng)
    data = b"".join(parts)
    if rng.random() < 0.1:
        data = rng.randbytes(rng.choice((1, 5, 50, 500)))
    if rng.random() < 0.02:
        data += encode(Publish("long", rng.randbytes(60_000)), version)
    return Stream(
        None if is_first else version,
        data[: 1 << 16],
        tuple(rng.choice((1, 1, 2, 7, 100)) for _ in range(rng.choice((1, 3, 10)))),
        rng.choice((MOST_BYTES, MOST_BYTES, 100)),
    )


class Received(NamedTuple):
    packets: list[Packet]
    error: MqttError | None
    version: int | None


def received(stream: Stream, *, whole: bool) -> Received:
    """What a decoder makes of a stream, in one read or in many."""
    decoder = Decoder(stream.version, stream.most_bytes)
    packets: list[Packet] = []
    error: MqttError | None = None
    at = 0
    while at < len(stream.data):
        for size in (len(stream.data),) if whole else stream.cuts:
            found, error = decoder.receive(stream.data[at : at + size])
            packets += found
            at += size
    return Received(packets, error, decoder.version)


def door(stream: Stream) -> None:
    packets, error, version = received(stream, whole=True)
    in_reads = received(stream, whole=False)
    assert (in_reads.packets, str(in_reads.error)) == (packets, str(error))
    assert error is None or error.reason.is_failure
    for packet in packets:
        assert version is not None
        again = Decoder(version).receive(encode(packet, version))
        assert again == ([packet], None)


@OFTEN_AND_SOAKED
def test_mqtt(count: int) -> None:
    knock(door, made, count)


def test_each_property_is_there() -> None:
    """What is changed holds each property once."""
    fields = {each.field for place in BY_PACKET.values() for each in place.values()}
    assert fields == set(ALL.__struct_fields__)
    assert all(getattr(ALL, field) is not None for field in fields)
