"""CloudEvents in HTTP messages, requests and responses alike.

| mode | Content-Type | where the event is |
|---|---|---|
| binary | that of the data | headers `ce-NAME`, the data as body |
| structured | `application/cloudevents+json` | body |
| batched | `application/cloudevents-batch+json` | body |

Header values have no types: an attribute that was an Integer is a text when it comes from binary
mode. A per cent sign that begins no code stands for itself, as in the official SDKs.

Source: HTTP Protocol Binding for CloudEvents 1.0.2."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from reefcast.cloudevents.context import DATA_TYPE, CloudEventError, canonical, check_context
from reefcast.cloudevents.events import CloudEvent, charset_of, essence_of
from reefcast.cloudevents.json_format import (
    BATCH_TYPE,
    STRUCTURED_TYPE,
    decode_batch,
    decode_event,
)

Headers = list[tuple[str, str]]

MEDIA_TYPE = "application/cloudevents"
PREFIX = "ce-"
CONTENT_TYPE = "content-type"

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CODES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_TO_ENCODE = re.compile(r"[^!#$&-~]")


class Mode(Enum):
    """How a message carries events."""

    BINARY = "binary"
    STRUCTURED = "structured"
    BATCHED = "batched"


class UnknownFormatError(CloudEventError):
    """A message has a media type of CloudEvents that is not understood here (415)."""


def mode_of(headers: Iterable[tuple[str, str]]) -> Mode | None:
    """Return how a message carries events; None if it says of itself nothing of the kind. Raises
    `UnknownFormatError`."""
    found = None
    for name, value in headers:
        lower = name.lower()
        if lower == CONTENT_TYPE and (mode := _mode_of_type(value)) is not None:
            return mode
        if lower == "ce-specversion":
            found = Mode.BINARY
    return found


def _mode_of_type(content_type: str) -> Mode | None:
    kind = essence_of(content_type)
    if not kind.startswith(MEDIA_TYPE):
        return None
    if kind not in (STRUCTURED_TYPE, BATCH_TYPE):
        raise UnknownFormatError(
            f"the event format {kind[:100]!r} is not understood here: send {STRUCTURED_TYPE!r} or "
            f"{BATCH_TYPE!r}"
        )
    if charset_of(content_type) not in ("utf-8", "ascii"):
        raise UnknownFormatError(f"the content type is {content_type[:200]!r}: send JSON in UTF-8")
    return Mode.BATCHED if kind == BATCH_TYPE else Mode.STRUCTURED


def decode_message(headers: Iterable[tuple[str, str]], body: bytes) -> list[CloudEvent]:
    """Return the events of a message, one if it is not batched. Raises `CloudEventError`."""
    headers = list(headers)
    mode = mode_of(headers)
    if mode is Mode.BATCHED:
        return decode_batch(body)
    if mode is Mode.STRUCTURED:
        return [decode_event(body)]
    return [decode_binary(headers, body)]


def decode_binary(headers: Iterable[tuple[str, str]], body: bytes) -> CloudEvent:
    """Return the event of a message in binary mode. Raises `CloudEventError`."""
    attributes: dict[str, object] = {}
    for header, value in headers:
        lower = header.lower()
        if lower == CONTENT_TYPE:
            name, text = DATA_TYPE, value.strip()
        elif lower.startswith(PREFIX):
            name, text = lower.removeprefix(PREFIX), decode_value(lower, value)
            if name == DATA_TYPE:
                raise CloudEventError(
                    f"the header {header!r} is not allowed: Content-Type says what the data is"
                )
        else:
            continue
        if name in attributes:
            raise CloudEventError(f"the header {header[:100]!r} occurs more than once")
        attributes[name] = text
    return CloudEvent(check_context(attributes), body)


def encode_binary(event: CloudEvent) -> tuple[Headers, bytes]:
    """Return the headers and the body of a message in binary mode."""
    headers = [
        (f"{PREFIX}{name}", encode_value(canonical(value)))
        for name, value in event.context.items()
        if name != DATA_TYPE
    ]
    if event.data_type is not None:
        headers.append((CONTENT_TYPE, event.data_type))
    return headers, event.data


def encode_value(text: str) -> str:
    """Encode the text of an attribute as the value of a header (section 3.1.3.2)."""
    return _TO_ENCODE.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), text)


def decode_value(name: str, value: str) -> str:
    """Return the text of an attribute that is the value of the header `name`. Raises
    `CloudEventError`."""
    value = value.strip(" \t")
    if (quoted := _QUOTED.fullmatch(value)) is not None:
        value = _ESCAPED.sub(r"\1", quoted[1])
    try:
        return _CODES.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), value)
    except UnicodeDecodeError:
        raise CloudEventError(
            f"the header {name[:100]!r} is {value[:100]!r}: its percent-encoded bytes are no UTF-8"
        ) from None
