"""Events of HTTP as publications, and back."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.http.content import event_of, split, told
from reefcast.http.problems import HttpError
from reefcast.model.json_attributes import attributes_of_json
from reefcast.model.publication import Publication
from reefcast.mqtt.content import ContentOptions, attributes_of
from reefcast.mqtt.packets import Publish
from reefcast.mqtt.properties import Properties

NAMES = st.text(max_size=5)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES.filter(lambda name: name != "topic"), VALUES, max_size=5)


def encoded(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


@given(OBJECTS)
def test_the_same_attributes_as_by_mqtt(value: dict[str, Any]) -> None:
    """A client of MQTT that says that its payload is JSON publishes the same, but for its QoS."""
    body = encoded(value)
    if attributes_of_json(body) is None:  # an integer beyond float64
        return
    posted = event_of(body, ("t",), None)
    packet = Publish("t", body, 0, properties=Properties(content_type="application/json"))
    attributes, _ = attributes_of(packet, ContentOptions())
    assert posted.attributes == {name: v for name, v in attributes.items() if name != "mqtt.qos"}
    assert (posted.payload, posted.topics) == (body, ("t",))


@given(OBJECTS, st.sampled_from([(), ("t",), ("a", "b")]), st.none() | st.floats(1, 9))
def test_what_is_posted_comes_out_again(
    value: dict[str, Any], topics: tuple[str, ...], expires_s: float | None
) -> None:
    body = encoded(value)
    if attributes_of_json(body) is None:
        return
    posted = event_of(body, topics, expires_s)
    publication = Publication("c", 7, 5, posted.attributes, posted.topics, posted.payload)
    line = msgspec.json.encode(told(publication))
    assert b"\n" not in line and b"\r" not in line
    event = json.loads(line)
    assert event["data"] == value
    assert event["topics"] == list(topics)
    assert event["attributes"].get("$expires_s") == expires_s
    assert (event["id"], event["time"]) == ("c:7", "1970-01-01T00:00:00.000005Z")


@given(st.lists(OBJECTS, max_size=4))
def test_lists_and_lines_bring_the_same(values: list[dict[str, Any]]) -> None:
    as_list, is_list = split(encoded(values), "application/json; charset=utf-8")
    lines, are_several = split(b"\n".join(map(encoded, values)), "application/x-ndjson")
    assert (is_list, are_several) == (True, True)
    assert list(map(json.loads, as_list)) == list(map(json.loads, lines)) == values


@pytest.mark.parametrize(
    ("value", "topics"),
    [("a", ("a",)), (["a", "b"], ("a", "b")), ("", ()), ([], ()), (None, ())],
)
def test_topics_of_the_member(value: Any, topics: tuple[str, ...]) -> None:
    assert event_of(encoded({"topic": value, "n": 1}), (), None).topics == topics
    assert event_of(encoded({"topic": value}), ("q",), None).topics == ("q",)


@pytest.mark.parametrize("value", [1, {"a": 1}, ["a", 1], True])
def test_topics_that_are_none(value: Any) -> None:
    with pytest.raises(HttpError, match="topic"):
        event_of(encoded({"topic": value}), (), None)


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("attributes", "payload", "field", "value"),
    [
        ({}, b"", None, None),
        ({}, b"{}", "data_base64", b"{}"),
        ({"content.type": "application/json"}, b'{\r\n"a": 1}', "data", {"a": 1}),
        ({"content.type": "application/json"}, b"{", "data_base64", b"{"),
        ({"content.type": "application/json"}, b'{"a": "\xff"}', "data_base64", b'{"a": "\xff"}'),
        ({"content.type": "application/json"}, DEEP, "data_base64", DEEP),
        ({"content.type": "a/b+json; v=1"}, b"[1]", "data", [1]),
        ({"content.type": "text/plain"}, b"a\nb", "data", "a\nb"),
        ({"content.type": "text/plain"}, b"\xff", "data_base64", b"\xff"),
        ({"mqtt.format": 1}, b"hello", "data", "hello"),
        ({"content.type": 5}, b"x", "data_base64", b"x"),
    ],
)
def test_payloads(attributes: Any, payload: bytes, field: str | None, value: Any) -> None:
    line = msgspec.json.encode(told(Publication("c", 1, 0, attributes, (), payload)))
    event = json.loads(line)
    found = {name: each for name, each in event.items() if name.startswith("data")}
    if "data_base64" in found:
        found["data_base64"] = b64decode(found["data_base64"])
    assert found == ({} if field is None else {field: value})


def test_numbers_that_json_does_not_have() -> None:
    attributes = {"a": float("nan"), "b": float("inf"), "c": 1.5, "d": 2**63 - 1}
    event = json.loads(msgspec.json.encode(told(Publication("c", 1, 0, attributes, (), b""))))
    assert event["attributes"] == {"c": 1.5, "d": 2**63 - 1}


@pytest.mark.parametrize(
    ("time_us", "time"),
    [
        (-(2**63), "0001-01-01T00:00:00.000000Z"),
        (0, "1970-01-01T00:00:00.000000Z"),
        (2**63 - 1, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_times_that_no_calendar_has(time_us: int, time: str) -> None:
    assert told(Publication("c", 1, time_us, {}, (), b"")).time == time
