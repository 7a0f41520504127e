"""CloudEvents as publications, and publications as CloudEvents."""

from __future__ import annotations

import json

import pytest
from cloudevents_strategies import NAMES, events
from hypothesis import given
from hypothesis import strategies as st

from reefcast.cloudevents.context import ContextValue, canonical, check_context
from reefcast.cloudevents.events import CloudEvent, is_json
from reefcast.cloudevents.http_modes import decode_message, encode_binary
from reefcast.cloudevents.json_format import decode_event, encode_event
from reefcast.cloudevents.mapping import event_of, publication_of
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication, Value, check_attributes
from reefcast.model.wire import decode_publication, encode_publication
from reefcast.mqtt.content import ContentOptions, outbound_of
from reefcast.mqtt.content import publication_of as mqtt_publication
from reefcast.mqtt.packets import Publish
from reefcast.mqtt.properties import Properties
from reefcast.sessions.events import EXPIRES

NOW_US = 1_764_000_000_123_456
MINIMAL = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
JSON = "application/json"


@given(events())
def test_an_event_comes_out_as_it_went_in(event: CloudEvent) -> None:
    publication = publication_of(event, "p", 1, NOW_US)
    assert check_attributes(publication.attributes) == publication.attributes
    carried = decode_publication(encode_publication(publication))
    context = {n: v for n, v in event.context.items() if (n, v) != ("topic", "")}
    assert event_of(carried) == CloudEvent(context, event.data)


VALUES = st.one_of(
    st.text(max_size=4), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats()
)
NATIVE = st.dictionaries(
    st.one_of(
        NAMES,
        st.sampled_from(
            (
                *("id", "source", "type", "subject", "time", "specversion", "datacontenttype"),
                *(
                    "data",
                    "data.a",
                    "data.a.b",
                    "data.",
                    "content.type",
                    "mqtt.qos",
                    "A b",
                    EXPIRES,
                ),
            )
        ),
    ),
    st.one_of(VALUES, st.sampled_from(("1.0", JSON, "2026-11-26T00:00:00Z", "/s"))),
    max_size=6,
)


@given(NATIVE, st.lists(st.text(max_size=3), max_size=2), st.sampled_from((b"", b"x", b'{"a":1}')))
def test_every_publication_is_a_cloudevent(
    attributes: dict[str, Value], topics: list[str], payload: bytes
) -> None:
    made = Publication("p/\x01ä", 7, NOW_US, attributes, tuple(topics), payload)
    event = event_of(made)
    assert check_context(event.context) == event.context
    assert decode_event(encode_event(event)).context.keys() >= event.context.keys()
    assert decode_message(*encode_binary(event))[0].data == event.data
    assert not payload or event.data == payload


def of(attributes: dict[str, Value], payload: bytes = b"", *topics: str) -> CloudEvent:
    return event_of(Publication("client-1", 7, NOW_US, attributes, topics, payload))


DEFAULTS = {
    "specversion": "1.0",
    "id": "client-1:7",
    "source": "/reefcast/client-1",
    "type": "reefcast.event",
    "time": "2025-11-24T16:00:00.123456Z",
}


def test_events_of_native_programs() -> None:
    assert of({}) == CloudEvent(DEFAULTS)
    plain = of({"type": "quote", "price": 9.5, "volume": 3, "order.id": 4}, b"", "fx", "all")
    more = {"type": "quote", "volume": 3, "topic": "fx", "datacontenttype": JSON}
    assert plain.context == DEFAULTS | more
    assert json.loads(plain.data) == {"type": "quote", "price": 9.5, "volume": 3, "order.id": 4}
    with_payload = of({"price": 9.5, "volume": 3, "order.id": 4, "content.type": "a/b"}, b"\0")
    assert with_payload.data == b"\0"
    others = {"reefcastattributes": '{"price": 9.5, "order.id": 4}'}
    assert with_payload.context == DEFAULTS | {"volume": 3, "datacontenttype": "a/b"} | others


def test_events_of_json_and_mqtt_have_their_members_in_the_payload() -> None:
    payload = b'{"price":9.5,"volume":3}'
    members: dict[str, Value] = {"price": 9.5, "volume": 3, "content.type": JSON}
    context = DEFAULTS | {"volume": 3, "datacontenttype": JSON}
    assert of(members, payload) == CloudEvent(context, payload)
    by_mqtt: dict[str, Value] = {"mqtt.qos": 1, "price": 9.5, "volume": 3}
    assert of(by_mqtt, payload).context == DEFAULTS | {"volume": 3}
    assert of({"mqtt.qos": 0}, b"") == CloudEvent(DEFAULTS)


def test_attributes_that_cannot_stand_there_are_replaced() -> None:
    wrong: dict[str, Value] = {"id": "x", "source": "a b", "type": "", "time": 5, "subject": "a\nb"}
    context = of(wrong).context
    assert {name: context[name] for name in DEFAULTS} == DEFAULTS
    assert context["subject"] == "a\ufffdb"


def test_a_native_program_publishes_a_cloudevent() -> None:
    event = of({**MINIMAL, "data.a.b": 1, "data.c": 2.5, "order.id": 4, "n": 1}, b"", "fx")
    others = {"reefcastattributes": '{"order.id": 4}', "topic": "fx", "datacontenttype": JSON}
    assert event.context == MINIMAL | {"n": 1} | others
    assert json.loads(event.data) == {"a": {"b": 1}, "c": 2.5}
    assert of({**MINIMAL, "data": 5}).data == b"5"
    wrong = of({**MINIMAL, "price": 2.5})  # no CloudEvent has such an attribute
    assert wrong.context["id"] == "client-1:7"


def as_mqtt(event: CloudEvent) -> Publish:
    """Return the event as an MQTT client publishes it in binary mode."""
    pairs = {n: canonical(v) for n, v in event.context.items() if n != "datacontenttype"}
    said = Properties(content_type=event.data_type, user_properties=tuple(pairs.items()))
    return Publish("fx", event.data, 1, properties=said)


@given(events())
def test_cloudevents_of_mqtt_in_binary_mode(event: CloudEvent) -> None:
    made, _ = mqtt_publication("p", 1, NOW_US, "fx", as_mqtt(event), ContentOptions())
    texts: dict[str, ContextValue] = {n: canonical(v) for n, v in event.context.items()}
    assert event_of(made) == CloudEvent(texts | {"topic": "fx"}, event.data)
    own = publication_of(CloudEvent(texts, event.data), "p", 1, NOW_US).attributes
    assert made.attributes.items() >= {n: v for n, v in own.items() if n != EXPIRES}.items()


@given(events())
def test_cloudevents_reach_mqtt_in_binary_mode(event: CloudEvent) -> None:
    published = publication_of(event, "p", 1, NOW_US)
    found = outbound_of(published, NOW_US)
    if found is None:
        return  # it has expired
    texts = {
        n: canonical(v) for n, v in event.context.items() if n not in ("datacontenttype", "topic")
    }
    assert dict(found.properties.user_properties) == texts
    assert (found.payload, found.properties.content_type) == (event.data, event.data_type)


def test_cloudevents_of_mqtt_in_structured_mode_and_wrong_ones() -> None:
    event = CloudEvent({**MINIMAL, "datacontenttype": JSON}, b'{"price":3}')
    said = Properties(content_type="application/cloudevents+json")
    message = Publish("fx", encode_event(event), 0, properties=said)
    made, _ = mqtt_publication("p", 1, NOW_US, "fx", message, ContentOptions())
    assert event_of(made) == event
    assert parse_filter("data.price = 3 AND type = 't'").matches(made)
    wrong = Properties(user_properties=(("specversion", "1.0"), ("id", "1")))
    message = Publish("fx", b"x", 0, properties=wrong)
    made, _ = mqtt_publication("p", 1, NOW_US, "fx", message, ContentOptions())
    assert "specversion" not in made.attributes


def test_expiry() -> None:
    event = CloudEvent({**MINIMAL, "expirytime": "2025-11-24T16:00:02.123456Z"})
    assert publication_of(event, "p", 1, NOW_US).attributes[EXPIRES] == 2.0
    assert publication_of(event, "p", 1, NOW_US + 9_000_000).attributes[EXPIRES] == 1e-6
    assert of({EXPIRES: 2}).context["expirytime"] == "2025-11-24T16:00:02.123456Z"


@pytest.mark.parametrize(
    ("data", "filter"),
    [
        (b'{"order":{"price":3}}', "data.order.price = 3 AND type = 't' AND n = 5"),
        (b'{"source":"x","topic":"y"}', "data.source = 'x' AND data.topic = 'y' AND source = '/s'"),
        (b"21.5", "data > 21 AND topic = 'fx'"),
        (b'1,"id":2', "data IS NULL AND id = '1'"),
        (b"[1]", "data IS NULL AND \"content.type\" = 'application/json'"),
    ],
)
def test_what_filters_see(data: bytes, filter: str) -> None:
    event = CloudEvent({**MINIMAL, "n": 5, "topic": "fx", "datacontenttype": JSON}, data)
    publication = publication_of(event, "p", 1, NOW_US)
    assert publication.topics == ("fx",)
    assert parse_filter(filter).matches(publication)
    assert is_json(data) or event_of(publication).data == data
