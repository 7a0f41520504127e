"""The official SDK reads what we write, and we read what it writes.

Where the SDK (2.2.0) differs from the standard, which we follow, these tests leave the matter out:

- It gives an event without `time` the current one, and keeps `null` members as attributes.
- In headers it writes a Boolean as `True`, reads invalid UTF-8 as U+FFFD, and knows no quoted
  values.
- It ignores the charset of media types, and takes no `*/json` for JSON but `application` and
  `text`.
- Data without a media type is read as JSON if that is possible, else as a text, in binary mode.
- It checks neither URIs, nor media types, nor characters, nor the range of integers; it reads any
  time of ISO 8601."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as SdkEvent
from cloudevents_strategies import JSON_VALUES, TEXTS, contexts, events
from hypothesis import given
from hypothesis import strategies as st

from reefcast.cloudevents.context import Context, time_us_of
from reefcast.cloudevents.events import CloudEvent, is_json, is_json_type
from reefcast.cloudevents.http_modes import decode_message, encode_binary
from reefcast.cloudevents.json_format import STRUCTURED_TYPE, encode_event

FORMAT = JSONFormat()


def same_context(ours: Context, theirs: dict[str, Any]) -> None:
    theirs = dict(theirs)
    if "time" in ours:
        ours = {**ours, "time": time_us_of(str(ours["time"])) or 0}
        theirs["time"] = us_of(theirs["time"])
    else:
        theirs.pop("time", None)
    assert ours == theirs
    assert list(map(type, ours.values())) == [type(theirs[name]) for name in ours]


def us_of(time: datetime) -> int:
    return time_us_of(time.isoformat()) or 0


def expected_data(event: CloudEvent) -> object:
    """Return what the SDK should make of the data of a structured event."""
    kind = event.data_type
    if not event.data:
        return None
    if kind is not None and is_json_type(kind) and is_json(event.data):
        return json.loads(event.data)
    if kind is not None and kind.startswith("text/"):
        return event.data.decode("latin-1" if "8859" in kind else "utf-8")
    return event.data


@given(events())
def test_the_sdk_reads_structured_events(event: CloudEvent) -> None:
    read = FORMAT.read(SdkEvent, encode_event(event))
    same_context(event.context, read.get_attributes())
    assert read.get_data() == expected_data(event)


@given(events(values=TEXTS))
def test_the_sdk_reads_binary_events(event: CloudEvent) -> None:
    headers, body = encode_binary(event)
    read = http.from_binary(http.HTTPMessage(dict(headers), body), FORMAT, SdkEvent)
    same_context(event.context, read.get_attributes())
    assert body == event.data


@st.composite
def written(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> SdkEvent:
    attributes: dict[str, Any] = dict(draw(contexts(values)))
    if "time" in attributes:
        attributes["time"] = datetime.fromisoformat(attributes["time"])
    data: Any = None
    kind = draw(st.sampled_from(("none", "json", "text", "bytes")))
    if kind == "json":
        data = draw(JSON_VALUES.filter(lambda value: isinstance(value, dict)))
        attributes["datacontenttype"] = "application/json"
    elif kind == "text":
        data = draw(st.text(min_size=1, max_size=5))
        attributes["datacontenttype"] = "text/plain"
    elif kind == "bytes":
        data = draw(st.binary(min_size=1, max_size=5))
    return SdkEvent(attributes, data)


def same_data(ours: CloudEvent, theirs: SdkEvent) -> None:
    data: Any = theirs.get_data()
    if isinstance(data, dict):
        assert json.loads(ours.data) == data
    else:
        assert ours.data == (data.encode() if isinstance(data, str) else data or b"")


@given(written(st.one_of(TEXTS, st.booleans(), st.integers(-(2**31), 2**31 - 1))))
def test_we_read_structured_events_of_the_sdk(event: SdkEvent) -> None:
    message = http.to_structured(event, FORMAT)
    (read,) = decode_message(list(message.headers.items()), message.body)
    assert message.headers["content-type"] == STRUCTURED_TYPE
    same_context(read.context, event.get_attributes())
    same_data(read, event)


@given(written(TEXTS))
def test_we_read_binary_events_of_the_sdk(event: SdkEvent) -> None:
    message = http.to_binary(event, FORMAT)
    (read,) = decode_message(list(message.headers.items()), message.body)
    same_context(read.context, event.get_attributes())
    same_data(read, event)
