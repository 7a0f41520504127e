"""MQTT publications as publications of Reefcast, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mqtt_strategies import VERSIONS, publishes, topic_names, wills

from reefcast.model.filters import Filter
from reefcast.model.json_attributes import attributes_of_json
from reefcast.model.messages import Publish as Published
from reefcast.model.publication import INT64_MAX, INT64_MIN, Publication, Value
from reefcast.model.wire import decode_publication, encode_publication
from reefcast.mqtt.content import (
    ContentOptions,
    Outbound,
    attributes_of,
    delivered_qos,
    encode_body,
    encode_plain,
    outbound_of,
    packet_of,
    publication_of,
    topic_for,
)
from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.packets import MQTT_3_1_1, MQTT_5, Publish, Will
from reefcast.mqtt.properties import NO_PROPERTIES, Properties
from reefcast.sessions.events import expiry_of

NOW_US = 1_764_000_000_123_456
SECOND_US = 1_000_000
JSON = Properties(content_type="application/json")
OPTIONS = tuple(ContentOptions(json, user) for json in (False, True) for user in (False, True))
options = st.sampled_from(OPTIONS)
json_payloads = st.sampled_from(
    (
        *(b"", b"{}", b'{"a":1}', b'{"a":{"b":2.5},"a.c":null}', b"[1]", b"21.5", b'{"a"'),
        *(b'{"mqtt.qos":2,"topic":"x","$expires_s":1}', b'{"content":{"type":"x"},"k":"v"}'),
    )
)
content_types = st.sampled_from(("application/json", "text/plain", "a/b+json; charset=utf-8", ""))


@st.composite
def messages(draw: Callable[..., Any]) -> Publish:
    """Draw publications of clients, often with JSON and with names that collide."""
    packet = draw(publishes(MQTT_5))
    kept = msgspec.structs.asdict(packet.properties)
    kept["subscription_identifiers"] = ()
    if draw(st.booleans()):
        kept["content_type"] = draw(content_types)
    if draw(st.booleans()):
        names = st.sampled_from(("a", "a.b", "k", "mqtt.qos", "topic", "$x", "", "u"))
        kept["user_properties"] = tuple(draw(st.lists(st.tuples(names, names), max_size=4)))
    made = Properties(**kept)
    if draw(st.booleans()):
        packet = msgspec.structs.replace(packet, payload=draw(json_payloads))
    plain = made == NO_PROPERTIES
    return msgspec.structs.replace(packet, properties=NO_PROPERTIES if plain else made)


def publication(
    attributes: dict[str, Value], payload: bytes = b"", topics: tuple[str, ...] = ("t",)
) -> Publication:
    return Publication("shop", 1, NOW_US, attributes, topics, payload)


def outbound(made: Publication, now_us: int = NOW_US) -> Outbound:
    found = outbound_of(made, now_us)
    assert found is not None
    return found


def read(message: Publish | Will, options: ContentOptions = OPTIONS[0]) -> dict[str, Value]:
    return attributes_of(message, options)[0]


def decoded(packet: Publish, version: int) -> Publish:
    """Return a packet as a client receives it."""
    packets, error = Decoder(version).receive(encode(packet, version))
    assert error is None
    (received,) = packets
    assert isinstance(received, Publish)
    return received


# --- both ways -----------------------------------------------------------------------------------


@given(messages(), topic_names, options)
def test_what_came_by_mqtt_leaves_as_it_came(
    message: Publish, topic: str, options: ContentOptions
) -> None:
    made, _ = publication_of("m", 1, NOW_US, topic, message, options)
    arrived = decode_publication(encode_publication(made))
    name = topic_for(arrived, "#" if not topic.startswith("$") else topic)
    assert name == topic
    packet = packet_of(outbound(arrived), name, 2, MQTT_5, retain=message.retain, packet_id=7)
    kept = msgspec.structs.replace(message.properties, topic_alias=None)
    expected = msgspec.structs.replace(
        message,
        topic=topic,
        dup=False,
        packet_id=7 if message.qos else 0,
        properties=NO_PROPERTIES if kept == NO_PROPERTIES else kept,
    )
    assert decoded(packet, MQTT_5) == expected


@given(messages(), topic_names, options)
def test_older_clients_get_topic_and_payload(
    message: Publish, topic: str, options: ContentOptions
) -> None:
    made, _ = publication_of("m", 1, NOW_US, topic, message, options)
    packet = packet_of(
        outbound(made), topic, 0, MQTT_3_1_1, subscription_identifiers=(1, 2), retain=True
    )
    assert decoded(packet, MQTT_3_1_1) == Publish(topic, message.payload, 0, True)


@given(messages(), topic_names, options, st.integers(1, INT64_MAX), st.integers(0, INT64_MAX))
def test_the_encoding_is_that_of_the_publication(
    message: Publish, topic: str, options: ContentOptions, seq: int, time_us: int
) -> None:
    slowly, unreadable = publication_of("mqtt:ä", seq, time_us, topic, message, options)
    body = encode_body("mqtt:ä", seq, time_us, topic, message, options)
    assert body == (encode_publication(slowly), unreadable)
    assert decode_publication(body[0]) == slowly


@given(messages(), topic_names, options, st.sampled_from(VERSIONS))
@example(Publish("t", bytes(200)), "t" * 200, OPTIONS[0], MQTT_5)
@example(Publish("t", b"x" * 20_000), "t", OPTIONS[0], MQTT_3_1_1)
def test_the_encoding_of_plain_packets_is_that_of_others(
    message: Publish, topic: str, options: ContentOptions, version: int
) -> None:
    made, _ = publication_of("m", 1, NOW_US, topic, message, options)
    quickly = encode_plain(made, topic, version)
    properties = msgspec.structs.replace(message.properties, topic_alias=None)
    assert (quickly is not None) == (not message.qos and properties == NO_PROPERTIES)
    if quickly is not None:
        assert quickly == encode(packet_of(outbound(made), topic, 2, version), version)


# --- from MQTT -----------------------------------------------------------------------------------


def twin(message: Publish, options: ContentOptions) -> dict[str, Value]:
    """Read the table of `content` line by line."""
    kept = message.properties
    kind = (kept.content_type or "").split(";")[0]
    found: dict[str, Value] = {"mqtt.qos": message.qos}
    if message.retain:
        found["mqtt.retain"] = True
    if kept.content_type is not None:
        found["content.type"] = kept.content_type
    users: dict[str, Value] = {}
    if options.user_properties:
        for name, value in kept.user_properties:
            if name and name != "topic" and not name.startswith(("mqtt.", "$", "content.")):
                users.setdefault(name, value)
    is_json = kind == "application/json" or kind.endswith("+json")
    if is_json or (kept.content_type is None and options.json):
        users |= attributes_of_json(message.payload) or {}
    return found | users


@given(messages(), options)
def test_what_subscribers_see(message: Publish, options: ContentOptions) -> None:
    shown = read(message, options)
    others = ("mqtt.format", "$expires_s", "mqtt.response_topic", "mqtt.correlation")
    names = [name for name in shown if name not in (*others, "mqtt.user_properties")]
    expected = twin(message, options)
    assert {name: shown[name] for name in names} == expected


def test_the_table() -> None:
    properties = Properties(
        payload_format_indicator=1,
        message_expiry_interval=60,
        content_type="text/plain",
        response_topic="answers/7",
        correlation_data=b"\0\xff",
        user_properties=(("b", "2"), ("a", "1"), ("b", "é")),
    )
    made, unreadable = publication_of(
        "m", 3, NOW_US, "a/b", Publish("", b"x", 1, True, properties=properties), OPTIONS[1]
    )
    assert not unreadable
    assert made == Publication(
        "m",
        3,
        NOW_US,
        {
            "mqtt.qos": 1,
            "mqtt.retain": True,
            "mqtt.format": 1,
            "$expires_s": 60,
            "content.type": "text/plain",
            "mqtt.response_topic": "answers/7",
            "mqtt.correlation": "AP8=",
            "mqtt.user_properties": '[["b","2"],["a","1"],["b","é"]]',
            "b": "2",
            "a": "1",
        },
        ("a/b",),
        b"x",
    )
    assert read(Publish("t")) == {"mqtt.qos": 0}


@given(wills(MQTT_5), options)
def test_a_will_is_read_like_a_publication(will: Will, options: ContentOptions) -> None:
    same = Publish(will.topic, will.payload, will.qos, will.retain, properties=will.properties)
    assert attributes_of(will, options) == attributes_of(same, options)


@pytest.mark.parametrize(
    ("content_type", "asked", "is_read"),
    [
        ("application/json", False, True),
        ("application/json; charset=utf-8", False, True),
        ("Application/JSON ;x=1", False, True),
        ("application/cloudevents+json", False, True),
        ("application/cloudevents+json;a=b+c", False, True),
        ("application/jsonl", True, False),
        ("text/plain; a=+json", True, False),
        ("text/plain", True, False),
        ("", True, False),
        (None, False, False),
        (None, True, True),
    ],
)
def test_which_payloads_are_json(content_type: str | None, asked: bool, is_read: bool) -> None:
    properties = Properties(content_type=content_type)
    message = Publish("t", b'{"a":1}', properties=properties)
    options = ContentOptions(json=asked)
    assert ("a" in read(message, options)) == is_read
    broken = msgspec.structs.replace(message, payload=b'{"a":')
    attributes, unreadable = attributes_of(broken, options)
    assert unreadable == is_read and "a" not in attributes


def test_an_empty_payload_is_no_broken_one() -> None:
    assert attributes_of(Publish("t", b"", properties=JSON), OPTIONS[2])[1] is False


def test_a_payload_wins_over_user_properties_and_neither_pretends() -> None:
    pairs = (("a", "user"), ("b", "first"), ("b", "second"), ("mqtt.qos", "2"), ("topic", "x"))
    reserved = (("$expires_s", "9"), ("reply.to", "me"), ("content.type", "x"), ("", "x"))
    message = Publish(
        "t",
        b'{"a":1,"mqtt":{"qos":2,"new":1},"$expires_s":5,"topic":"y","reply":{"to":"z","":1}}',
        properties=Properties(user_properties=pairs + reserved),
    )
    shown = read(message, ContentOptions(json=True, user_properties=True))
    pairs_as_text = shown.pop("mqtt.user_properties")
    assert shown == {"mqtt.qos": 0, "a": 1, "b": "first"}
    assert json.loads(str(pairs_as_text)) == [list(pair) for pair in pairs + reserved]


def test_too_many_user_properties_give_no_attributes() -> None:
    pairs = tuple((str(number), "x") for number in range(1001))
    some, many = (
        Publish("t", properties=Properties(user_properties=each)) for each in (pairs[:-1], pairs)
    )
    assert len(read(some, OPTIONS[1])) == 1002
    assert set(read(many, OPTIONS[1])) == {"mqtt.qos", "mqtt.user_properties"}


# --- to MQTT -------------------------------------------------------------------------------------


def test_a_program_of_our_own_without_a_payload() -> None:
    attributes: dict[str, Value] = {
        "z": 1,
        "order.price": 2.5,
        "a": "é\0",
        "ok": True,
        "mqtt.x": 1,
        "reply.to": "me",
        "$trace": "x",
        "topic": "t",
        "content.type": "text/plain",
        "nan": float("nan"),
        "inf": float("inf"),
        "big": INT64_MIN,
    }
    found = outbound(publication(attributes))
    shown = '{"z":1,"order.price":2.5,"a":"é\\u0000","ok":true,"big":-9223372036854775808}'
    assert found.payload.decode() == shown
    assert found.properties == Properties(
        content_type="application/json", payload_format_indicator=1
    )
    older = packet_of(found, "t", 1, MQTT_3_1_1, packet_id=1)
    assert older == Publish("t", shown.encode(), 1, packet_id=1)


def test_a_program_of_our_own_with_a_payload() -> None:
    made = publication({"a": 1, "content.type": "image/png"}, b"\x89PNG")
    found = outbound(made)
    assert found == Outbound(b"\x89PNG", None, False, Properties(content_type="image/png"))
    assert outbound(publication({"a": 1}, b"x")).properties is NO_PROPERTIES


def test_nothing_is_nothing() -> None:
    assert outbound(publication({})) == Outbound(b"", None, False, Properties())
    assert outbound(publication({"reply.to": "me"})).payload == b""
    assert outbound(publication({"mqtt.qos": 0, "a": 1})).payload == b""


@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_quality_of_a_delivery(granted: int) -> None:
    for published in (0, 1, 2):
        came = outbound(publication({"mqtt.qos": published}))
        assert delivered_qos(came, granted) == min(published, granted)
    for odd in (3, -1, True, 1.0, "1"):
        assert delivered_qos(outbound(publication({"mqtt.qos": odd})), granted) == granted


def test_subscription_identifiers_are_each_subscribers_own() -> None:
    properties = Properties(content_type="text/plain")
    shared = Outbound(b"x", 1, True, properties)
    packet = packet_of(shared, "t", 2, MQTT_5, packet_id=9, subscription_identifiers=(3, 4))
    assert packet.properties == Properties(
        content_type="text/plain", subscription_identifiers=(3, 4)
    )
    assert shared.properties is properties
    assert packet_of(shared, "t", 0, MQTT_5, dup=False).properties is properties


ODD: tuple[Value, ...] = (
    *(0, 1, 2, -1, True, 1.0, 2.5, float("nan"), float("inf"), 1e300, INT64_MAX, INT64_MIN),
    *("", "a", "a\0", "+", "a/#", "é" * 40_000, "x" * 65_536, "AP8=", "AP8", "é=", "A" * 87_384),
    *('[["a","b"]]', '[["a","b\\u0000"]]', '[["a"]]', "[[1,2]]", "{}", '[["a","b"],["a","c"]]'),
)
SPECIAL = (
    *("mqtt.qos", "mqtt.retain", "mqtt.format", "$expires_s", "content.type"),
    *("mqtt.response_topic", "mqtt.correlation", "mqtt.user_properties", "mqtt.other", "a"),
)


@given(
    st.dictionaries(st.sampled_from(SPECIAL), st.sampled_from(ODD)),
    st.sampled_from((b"", b"x")),
    st.sampled_from(VERSIONS),
)
def test_whatever_programs_of_our_own_say_becomes_a_packet(
    attributes: dict[str, Value], payload: bytes, version: int
) -> None:
    found = outbound_of(publication(attributes, payload), NOW_US)
    if found is None:
        assert attributes["$expires_s"] == 0
        return
    packet = packet_of(found, "t", 1, version, packet_id=1)
    received = decoded(packet, version)
    if version == MQTT_5:
        assert received == msgspec.structs.replace(packet, properties=received.properties)
        assert received.properties == packet.properties
    else:
        assert received == packet
    if payload:
        assert received.payload == payload


# --- expiry --------------------------------------------------------------------------------------


@given(st.integers(0, (1 << 32) - 1), st.integers(0, 1 << 33), st.integers(-SECOND_US, SECOND_US))
@example(10, 10, 0)
@example(10, 10, -1)
@example(0, 0, 0)
@example(0, 0, 1)
@example((1 << 32) - 1, 0, -5)
def test_the_interval_that_is_left(interval: int, seconds: int, more_us: int) -> None:
    properties = Properties(message_expiry_interval=interval)
    message = Publish("t", b"x", properties=properties)
    made, _ = publication_of("m", 1, NOW_US, "t", message, OPTIONS[0])
    elapsed_us = seconds * SECOND_US + more_us
    found = outbound_of(made, NOW_US + elapsed_us)
    left_us = interval * SECOND_US - max(elapsed_us, 0)
    if left_us > 0 or (interval == 0 and elapsed_us <= 0):
        assert found is not None
        assert found.properties == Properties(message_expiry_interval=-(-left_us // SECOND_US))
    else:
        assert found is None


@given(st.sampled_from((1, 10, (1 << 32) - 1)), st.sampled_from((-1, 1)))
def test_sessions_and_packets_agree_on_when_it_is_over(interval: int, side: int) -> None:
    message = Publish("t", properties=Properties(message_expiry_interval=interval))
    made, _ = publication_of("m", 1, NOW_US, "t", message, OPTIONS[0])
    now_us = NOW_US + interval * SECOND_US + side * 1000
    over = 0 < expiry_of(Published(made)) <= now_us / 1e6
    assert over == (side > 0) == (outbound_of(made, now_us) is None)


@pytest.mark.parametrize("lifetime", [0, -1, True, "5", float("nan")])
def test_what_is_no_lifetime_is_none(lifetime: Value) -> None:
    assert outbound(publication({"$expires_s": lifetime}, b"x")).properties == Properties()


@pytest.mark.parametrize("lifetime", [1e300, float("inf"), INT64_MAX, 1 << 32])
def test_a_long_lifetime_is_the_longest_interval(lifetime: Value) -> None:
    found = outbound(publication({"$expires_s": lifetime}, b"x"))
    assert found.properties.message_expiry_interval == (1 << 32) - 1


# --- topics --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topics", "pattern", "name"),
    [
        (("a",), "a", "a"),
        (("a", "b/c", "b/d"), "b/#", "b/c"),
        (("a/+", "a/b"), "a/#", "a/b"),
        (("a/+",), "a/#", None),
        (("#",), "#", None),
        (("a\0",), "#", None),
        (("é" * 32_768,), "#", None),
        (("é" * 32_767,), "#", "é" * 32_767),
        (("$a", "b"), "#", "b"),
        ((), "#", None),
    ],
)
def test_the_topic_of_a_delivery(topics: tuple[str, ...], pattern: str, name: str | None) -> None:
    assert topic_for(publication({}, topics=topics), pattern) == name


def test_the_topic_may_be_an_attribute() -> None:
    made = publication({"topic": "a/b"}, topics=())
    assert Filter("topic MATCHES 'a/+'").matches(made)
    assert topic_for(made, "a/+") == "a/b"
    assert topic_for(publication({"topic": 5}, topics=()), "#") is None
