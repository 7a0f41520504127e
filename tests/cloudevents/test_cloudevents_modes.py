"""CloudEvents in HTTP messages: what goes in comes out, in each mode; what is wrong is said."""

from __future__ import annotations

import json
import re

import pytest
from cloudevents_strategies import events
from hypothesis import given
from hypothesis import strategies as st

from reefcast.cloudevents.context import CloudEventError, canonical
from reefcast.cloudevents.events import CloudEvent
from reefcast.cloudevents.http_modes import (
    Mode,
    UnknownFormatError,
    decode_message,
    encode_binary,
    encode_value,
    mode_of,
)
from reefcast.cloudevents.json_format import BATCH_TYPE, STRUCTURED_TYPE, encode_batch, encode_event

MINIMAL = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
STRUCTURED = [("Content-Type", f"{STRUCTURED_TYPE}; charset=UTF-8")]
BATCHED = [("Content-Type", BATCH_TYPE)]


def as_texts(event: CloudEvent) -> CloudEvent:
    """Return the event with texts as attributes, as headers have them."""
    return CloudEvent({name: canonical(v) for name, v in event.context.items()}, event.data)


@given(events())
def test_binary_there_and_back(event: CloudEvent) -> None:
    headers, body = encode_binary(event)
    assert all(ascii.isascii() and ascii.isprintable() for pair in headers for ascii in pair)
    assert decode_message(headers, body) == [as_texts(event)]


@given(st.lists(events(), max_size=3))
def test_batched_and_structured_there_and_back(events: list[CloudEvent]) -> None:
    assert decode_message(BATCHED, encode_batch(events)) == events
    for event in events:
        assert decode_message(STRUCTURED, encode_event(event)) == [event]


def one(**members: object) -> CloudEvent:
    return decode_message(STRUCTURED, json.dumps(MINIMAL | members).encode())[0]


def test_the_example_of_the_standard_for_headers() -> None:
    encoded = "Euro%20%E2%82%AC%20%F0%9F%98%80"
    assert encode_value("Euro € 😀") == encoded
    headers = [*required(), ("ce-subject", encoded), ("ce-a", r'"a \"quoted\" text"')]
    event = decode_message([*headers, ("CE-B", "%45%75ro%"), ("x-other", "y")], b"")[0]
    assert event.context["subject"] == "Euro € 😀"
    assert event.context["a"] == 'a "quoted" text'
    assert event.context["b"] == "Euro%"


def required() -> list[tuple[str, str]]:
    return [(f"ce-{name}", value) for name, value in MINIMAL.items()]


def test_data_as_it_was_written() -> None:
    pretty = (
        b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{ "a" : 1.0,\n "b":[]}}'
    )
    event = decode_message(STRUCTURED, pretty)[0]
    assert event.data == b'{ "a" : 1.0,\n "b":[]}'
    assert event.data_type == "application/json"  # as the standard implies it
    assert one(data="x", datacontenttype="text/plain").data == b"x"
    assert one(data="x").data == b'"x"'
    assert one(data=None).data == b"null"
    assert one(data_base64="AAE=").data == b"\0\1"
    assert one(subject=None, data_base64=None) == CloudEvent(dict(MINIMAL))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"id": None}, "'id' is missing"),
        ({"id": ""}, "'id' is empty"),
        ({"id": 5}, "'id' is an integer; it must be a text"),
        ({"specversion": "0.3"}, "the only version that is understood"),
        ({"source": "a b"}, "a URI-reference"),
        ({"dataschema": "/relative"}, "a URI with a scheme"),
        ({"time": "2026-02-30T00:00:00Z"}, "a timestamp"),
        ({"time": "2026-11-26"}, "a timestamp"),
        ({"datacontenttype": "json"}, "a media type"),
        ({"Extension": "x"}, "a name that is not allowed"),
        ({"a-b": "x"}, "a name that is not allowed"),
        ({"ext": 2**31}, "an integer is from"),
        ({"ext": 1.5}, "a number must be an integer"),
        ({"ext": {"a": 1}}, "'ext' is an object"),
        ({"ext": [1]}, "'ext' is a list"),
        ({"subject": "a\nb"}, "contains U+000A at position 2"),
        ({"subject": "\ufdd0"}, "contains U+FDD0"),
        ({"data": 1, "data_base64": "AA=="}, "both 'data' and 'data_base64'"),
        ({"data_base64": "A"}, "no Base64"),
        ({"data_base64": 7}, "must be a text"),
        ({"data": {"a": 1}, "datacontenttype": "text/plain"}, "the data is no text"),
        ({"data": "€", "datacontenttype": "text/plain; charset=ascii"}, "is no text of"),
        ({"data": "x", "datacontenttype": "text/plain; charset=utf-7"}, "not known here"),
    ],
)
def test_what_is_wrong_with_a_structured_event(members: dict[str, object], words: str) -> None:
    with pytest.raises(CloudEventError, match=re.escape(words)):
        one(**members)


@pytest.mark.parametrize("document", [b"", b"[]", b"{", b'"a"', b'{"id": "\xff"}', b"[" * 300])
def test_what_is_no_document(document: bytes) -> None:
    with pytest.raises(CloudEventError):
        decode_message(STRUCTURED, document)


def test_a_wrong_event_of_a_batch_has_its_number() -> None:
    assert decode_message(BATCHED, b"[]") == []
    with pytest.raises(CloudEventError, match="event 2 of the batch: the attribute 'type'"):
        decode_message(BATCHED, json.dumps([MINIMAL, MINIMAL | {"type": ""}]).encode())
    with pytest.raises(CloudEventError, match="no JSON array"):
        decode_message(BATCHED, b"{}")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("ce-type", "again"), "more than once"),
        (("ce-datacontenttype", "a/b"), "Content-Type says"),
        (("ce-data", "x"), "the event's data"),
        (("ce-subject", "%C0%A0"), "no UTF-8"),
        (("ce-a_b", "x"), "not allowed"),
        (("ce-time", "now"), "a timestamp"),
        (("Content-Type", "nothing"), "a media type"),
    ],
)
def test_what_is_wrong_with_a_binary_event(more: tuple[str, str], words: str) -> None:
    with pytest.raises(CloudEventError, match=words):
        decode_message([*required(), more], b"")


def test_modes() -> None:
    assert mode_of(STRUCTURED) is Mode.STRUCTURED
    assert mode_of(BATCHED) is Mode.BATCHED
    assert mode_of(required()) is Mode.BINARY
    assert mode_of([("content-type", "application/json")]) is None
    assert mode_of([*required(), ("Content-Type", BATCH_TYPE.upper())]) is Mode.BATCHED
    for kind in ("application/cloudevents+avro", f"{STRUCTURED_TYPE}; charset=utf-16-le"):
        with pytest.raises(UnknownFormatError):
            mode_of([("Content-Type", kind)])
