"""A CloudEvent, and its data as bytes.

The data is what the publisher sent, byte for byte: a JSON value as it was written, a text in the
encoding of its media type. What an event loses by this: the difference between no data and data of
zero bytes."""

from __future__ import annotations

import codecs
from typing import Any

import msgspec

from reefcast.cloudevents.context import DATA_TYPE, Context
from reefcast.model.json_attributes import is_deep

_decode = msgspec.json.Decoder(Any).decode


class CloudEvent(msgspec.Struct, frozen=True, gc=False):
    """`context`: its attributes (`context.check_context`); `data`: empty if there is none."""

    context: Context
    data: bytes = b""

    @property
    def data_type(self) -> str | None:
        """The media type of the data, None if nothing is said of it."""
        kind = self.context.get(DATA_TYPE)
        return kind if isinstance(kind, str) else None


def essence_of(media_type: str) -> str:
    """Return a media type without parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def is_json_type(media_type: str) -> bool:
    """Return whether a media type declares JSON: `*/json` or `*/*+json` (JSON format, section
    3.1.1)."""
    subtype = essence_of(media_type).partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")


def is_json(data: bytes) -> bool:
    """Return whether bytes are a JSON value that can be read everywhere: in UTF-8, not nested too
    deep, and with numbers of float64."""
    if not data or is_deep(data):
        return False
    try:
        _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def charset_of(media_type: str) -> str | None:
    """Return the Python name of the encoding of texts of a media type, UTF-8 if it names none; None
    if nobody knows it."""
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            try:
                found = codecs.lookup(value.strip().strip('"'))
            except (LookupError, ValueError):
                return None
            return found.name if found.name in _ENCODINGS else None
    return "utf-8"


_ENCODINGS = frozenset(("utf-8", "ascii", "iso8859-1", "cp1252", "utf-16-le", "utf-16-be"))
"""The encodings of which each text has one encoding, and no mark in front. Others travel as
bytes."""


def text_of(data: bytes, media_type: str) -> str | None:
    """Return the text that bytes of a media type are, if it says that they are a text, and if the
    text says all of them; else None."""
    kind = essence_of(media_type)
    if not (
        kind.startswith("text/") or kind.endswith(("/xml", "+xml")) or "charset=" in media_type
    ):
        return None
    charset = charset_of(media_type)
    if charset is None:
        return None
    try:
        text = data.decode(charset)
        return text if text.encode(charset) == data else None
    except UnicodeError:
        return None
