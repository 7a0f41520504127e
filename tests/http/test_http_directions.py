"""Native clients, and those of MQTT, HTTP and CloudEvents, see each other's events the same way:
whoever publishes one, everybody reads the same names, values and topic
(docs/reference/content.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.cloudevents.events import CloudEvent
from reefcast.cloudevents.json_format import decode_event, encode_event
from reefcast.cloudevents.mapping import event_of as cloudevent_of
from reefcast.cloudevents.mapping import publication_of as cloudevent_published
from reefcast.http.content import event_of, told
from reefcast.model.flat import as_sent
from reefcast.model.json_attributes import attributes_of_json, is_reserved_name
from reefcast.model.publication import INT64_MAX, INT64_MIN, Publication, Value
from reefcast.model.wire import decode_publication, encode_publication
from reefcast.mqtt.content import ContentOptions, outbound_of, packet_of, publication_of, topic_for
from reefcast.mqtt.packets import MQTT_5, Publish
from reefcast.mqtt.properties import Properties

NOW_US = 1_764_000_000_123_456
TOPIC = "stock/IBM"
LEAVES = st.one_of(
    st.booleans(),
    st.integers(INT64_MIN, INT64_MAX),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
NAMES = st.text("abcde", min_size=1, max_size=3)
OBJECTS = st.dictionaries(
    NAMES, st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=3)), max_size=4
).filter(lambda value: attributes_of_json(json.dumps(value).encode()))
"""Objects with at least one value."""
Names = Mapping[str, Value]


def by_native(value: dict[str, Any]) -> Publication:
    return Publication("p", 1, NOW_US, as_sent(value), (TOPIC,))


def by_http(value: dict[str, Any]) -> Publication:
    posted = event_of(json.dumps({"topic": TOPIC, **value}).encode(), (), None)
    return Publication("p", 1, NOW_US, posted.attributes, posted.topics, posted.payload)


def by_mqtt(value: dict[str, Any]) -> Publication:
    said = Properties(content_type="application/json")
    packet = Publish(TOPIC, json.dumps(value).encode(), 1, properties=said)
    return publication_of("p", 1, NOW_US, TOPIC, packet, ContentOptions())[0]


def by_cloudevents(value: dict[str, Any]) -> Publication:
    context = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "topic": TOPIC}
    context["datacontenttype"] = "application/json"
    event = CloudEvent(dict(context), json.dumps(value).encode())
    return cloudevent_published(event, "p", 1, NOW_US)


def own(attributes: Names) -> Names:
    """Return the attributes that no protocol gave."""
    return {name: value for name, value in attributes.items() if not is_reserved_name(name)}


def members(payload: bytes) -> Names:
    found = attributes_of_json(payload)
    assert found is not None
    return own(found)


def to_native(publication: Publication) -> tuple[Names, str]:
    return own(publication.attributes), publication.topics[0]


def to_http(publication: Publication) -> tuple[Names, str]:
    said = msgspec.json.decode(msgspec.json.encode(told(publication)))
    return own(said["attributes"]), said["topics"][0]


def to_mqtt(publication: Publication) -> tuple[Names, str]:
    outbound, topic = outbound_of(publication, NOW_US), topic_for(publication, "stock/+")
    assert outbound is not None
    assert topic is not None
    packet = packet_of(outbound, topic, 0, MQTT_5)
    assert packet.properties.content_type == "application/json"
    return members(packet.payload), packet.topic


def to_cloudevents(publication: Publication) -> tuple[Names, str]:
    event = decode_event(encode_event(cloudevent_of(publication)))
    assert event.data_type == "application/json"
    return members(event.data), str(event.context["topic"])


@pytest.mark.long
@pytest.mark.parametrize("read", [to_native, to_http, to_mqtt, to_cloudevents])
@pytest.mark.parametrize("publish", [by_native, by_http, by_mqtt])
@given(value=OBJECTS)
def test_everybody_reads_the_same(
    publish: Callable[[dict[str, Any]], Publication],
    read: Callable[[Publication], tuple[Names, str]],
    value: dict[str, Any],
) -> None:
    carried = decode_publication(encode_publication(publish(value)))
    assert read(carried) == (members(json.dumps(value).encode()), TOPIC)


@pytest.mark.parametrize("read", [to_mqtt, to_cloudevents])
@given(value=OBJECTS)
def test_data_of_cloudevents_is_the_payload(
    read: Callable[[Publication], tuple[Names, str]], value: dict[str, Any]
) -> None:
    carried = decode_publication(encode_publication(by_cloudevents(value)))
    expected = members(json.dumps(value).encode())
    assert read(carried) == (expected, TOPIC)
    for found, topic in (to_native(carried), to_http(carried)):
        data = {n.removeprefix("data."): v for n, v in found.items() if n.startswith("data.")}
        assert (data, topic) == (expected, TOPIC)
