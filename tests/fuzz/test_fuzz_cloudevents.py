"""CloudEvents and subscriptions as anybody may send them: accepted, or `CloudEventError` and
`SubscriptionError`, and never another error. What is accepted comes out as it went in."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec

from fuzzing import OFTEN_AND_SOAKED, changed_bytes, changed_text, changed_tree, knock
from reefcast.cloudevents.context import CloudEventError, canonical
from reefcast.cloudevents.events import CloudEvent
from reefcast.cloudevents.filters import SubscriptionError
from reefcast.cloudevents.http_modes import Headers, decode_message, encode_binary
from reefcast.cloudevents.json_format import BATCH_TYPE, STRUCTURED_TYPE, encode_event
from reefcast.cloudevents.mapping import event_of, publication_of
from reefcast.cloudevents.sinks import AllowedSinks
from reefcast.cloudevents.subscriptions import kept_subscription, kept_text, read_subscription, told
from reefcast.cloudevents.translating import prefilter_of
from reefcast.errors import FilterSyntaxError, LimitError
from reefcast.model.filters import parse_filter

EVENT = {
    "specversion": "1.0",
    "id": "A234-1234",
    "source": "https://example.com/a?b=c",
    "type": "com.example.event",
    "subject": "Euro € 😀",
    "time": "2018-04-05T17:31:00.123Z",
    "expirytime": "2018-04-05T17:31:00+02:00",
    "datacontenttype": "application/json; charset=utf-8",
    "dataschema": "https://example.com/schema",
    "topic": "a/b",
    "flag": True,
    "n": 5,
    "data": {"a": {"b": [1, 2.5, None]}, "c": "x"},
}
HEADERS = [
    *((f"ce-{name}", str(value)) for name, value in EVENT.items() if isinstance(value, str)),
    ("Content-Type", "text/plain"),
]
HEADERS[7:8] = []
WORDS = (
    "%",
    "%C0%A0",
    '"',
    "\\",
    "ce-",
    "text/plain",
    "+json",
    ";charset=utf-16",
    "9999-12-31",
    ":",
)
SUBSCRIPTION = {
    "source": "/s",
    "types": ["a", "b"],
    "config": {"contentmode": "structured", "attempts": "3", "rate": 5},
    "filters": [
        {"exact": {"type": "a", "n": "5"}},
        {"any": [{"prefix": {"subject": "x%_!'"}}, {"not": {"suffix": {"m": "true"}}}]},
        {"all": [{"sql": "n > 5 AND type LIKE 'a%'"}]},
    ],
    "sink": "https://sink.example/hook?x=y",
    "sinkcredential": {"credentialtype": "PLAIN", "identifier": "u", "secret": "p"},
    "protocol": "HTTP",
    "protocolsettings": {"method": "PUT", "headers": {"X-A": "b"}},
}
ALLOWED = AllowedSinks(["sink.example"])


def made_message(rng: random.Random) -> tuple[Headers, bytes]:
    kind = rng.randrange(3)
    if kind == 0:
        headers = [
            (n, changed_text(v, rng, WORDS) if rng.random() < 0.2 else v) for n, v in HEADERS
        ]
        return headers, changed_bytes(b"some text", rng)
    event: Any = EVENT
    for _ in range(rng.choice((0, 1, 1, 2))):
        event = changed_tree(event, rng)
    tree = event if kind == 1 else [EVENT, event]
    try:
        body = json.dumps(tree, default=str).encode()
    except (TypeError, ValueError):
        body = repr(tree).encode()
    if rng.random() < 0.4:
        body = changed_bytes(body, rng)
    return [("Content-Type", STRUCTURED_TYPE if kind == 1 else BATCH_TYPE)], body


class EventDoor:
    """The door of events. `accepted`: how many came in."""

    def __init__(self) -> None:
        self.accepted = 0

    def __call__(self, message: tuple[Headers, bytes]) -> None:
        try:
            events = decode_message(*message)
        except CloudEventError:
            return
        for event in events:
            self.accepted += 1
            assert decode_message([("content-type", STRUCTURED_TYPE)], encode_event(event)) == [
                event
            ]
            texts = CloudEvent({n: canonical(v) for n, v in event.context.items()}, event.data)
            assert decode_message(*encode_binary(event)) == [texts]
            context = {n: v for n, v in event.context.items() if (n, v) != ("topic", "")}
            if "topic" in context:
                context["topic"] = canonical(context["topic"])
            published = publication_of(event, "p", 1, 1_700_000_000_000_000)
            assert event_of(published) == CloudEvent(context, event.data)


@OFTEN_AND_SOAKED
def test_events(count: int) -> None:
    door = EventDoor()
    knock(door, made_message, count)
    assert door.accepted


def made_subscription(rng: random.Random) -> Any:
    document: Any = SUBSCRIPTION
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        document = changed_tree(document, rng)
    if isinstance(document, dict) and rng.random() < 0.2:
        sink = changed_text(str(SUBSCRIPTION["sink"]), rng, (*WORDS, "@", "#", "//", "..", "[::1]"))
        document = {**document, "sink": sink}
    try:
        return msgspec.json.decode(json.dumps(document, default=str))
    except msgspec.DecodeError:  # NaN
        return None


class SubscriptionDoor:
    """The door of subscriptions. `accepted`: how many came in."""

    def __init__(self) -> None:
        self.accepted = 0

    def __call__(self, document: Any) -> None:
        try:
            read = read_subscription(document, ALLOWED)
        except SubscriptionError as error:
            assert len(str(error)) < 4000
            return
        self.accepted += 1
        assert read.sink.lower().startswith("https://sink.example")
        assert kept_subscription(kept_text(read), "", ALLOWED) == read
        assert "secret" not in str(told(read))
        try:
            parse_filter(prefilter_of(read.wanted).text)
        except (LimitError, FilterSyntaxError) as error:
            raise AssertionError("a translation is no filter") from error


@OFTEN_AND_SOAKED
def test_subscriptions(count: int) -> None:
    door = SubscriptionDoor()
    knock(door, made_subscription, count)
    assert door.accepted
