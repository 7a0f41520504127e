"""The members of a JSON object as attributes: `{"order": {"price": 3}}` is the attribute
`order.price`.

For payloads of clients that know no attributes. The rule is that of `flat`; what is refused there
is left out here, because nobody would read the refusal. So there is no attribute for an array, an
integer beyond int64, or an empty name; of a name that occurs twice (`{"a": {"b": 1}, "a.b": 2}`)
the first one counts, and of equal keys in one object the last one, as usual in JSON.

Whatever a payload holds, this takes time and room in proportion to its size."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from reefcast.model.filters import TOPIC
from reefcast.model.flat import MAX_DEPTH
from reefcast.model.language import MAX_LENGTH
from reefcast.model.publication import INT64_MAX, INT64_MIN, Value, is_plain

MAX_JSON_BYTES = 256 * 1024
"""The longest payload that is looked at: a broker does nothing else meanwhile."""
MAX_ATTRIBUTES = 1000
"""The most values of one object, with objects that are not empty; one with more gives no
attributes."""
MAX_NAMES_CHARS = 64 * 1024
"""The most characters of all their names; each nested object repeats that of the one around it."""
MAX_TEXT_CHARS = MAX_LENGTH
"""The most characters of a text; a longer one is left out, because no filter could contain it."""

RESERVED = ("$", "content.", "mqtt.", "reply.")
"""How the names begin that a protocol gives to what it knows itself, and clients of our own."""
CONTENT_TYPE = "content.type"
"""The attribute that says of what kind a payload is, as a media type."""
JSON_TYPE = "application/json"

_MOST_LEVELS = MAX_DEPTH + 1
"""The object around everything is no level of `flat`."""
_SMALL_BYTES = min(MAX_TEXT_CHARS, MAX_NAMES_CHARS)
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_AS_PARENTHESES = bytes.maketrans(b"{[}]", b"(())")
_NO_BRACKETS = bytes(set(range(256)) - set(b"{[}]"))
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def is_reserved_name(name: str) -> bool:
    """Return whether no payload can give an attribute this name."""
    return not name or name == TOPIC or name.startswith(RESERVED)


def is_json_type(content_type: str) -> bool:
    """Return whether a payload of this media type is JSON (RFC 8259; RFC 6839, section 3.1)."""
    essence = content_type.partition(";")[0].strip().lower()
    return essence == JSON_TYPE or essence.endswith("+json")


def members_of(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Return the attributes that a JSON object shows in the place of a payload; it has no NaN and
    no infinity."""
    return {
        name: value
        for name, value in attributes.items()
        if not is_reserved_name(name) and (type(value) is not float or math.isfinite(value))
    }


def attributes_of_json(payload: bytes) -> dict[str, Value] | None:
    """Return the members of a JSON object as attributes, in their order. None if the payload is no
    JSON object, exceeds `MAX_JSON_BYTES`, `MAX_DEPTH`, `MAX_ATTRIBUTES` or `MAX_NAMES_CHARS`, or
    has a number that is beyond float64 (RFC 8259, section 6, allows such limits)."""
    if len(payload) > MAX_JSON_BYTES or is_deep(payload):
        return None
    try:
        members = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    small = len(payload) <= _SMALL_BYTES and len(members) <= MAX_ATTRIBUTES
    return members if small and _is_flat(members) else _flattened(members)


def is_deep(payload: bytes) -> bool:
    """Return whether brackets are open around each other beyond the limit; any answer will do for
    what is no JSON. The decoder's own limit depends on who calls it.

    Nearly all payloads have fewer brackets in all. In others the innermost pairs are removed, all
    at once, as often as there may be levels."""
    if len(payload) <= _MOST_LEVELS or payload.count(b"{") + payload.count(b"[") <= _MOST_LEVELS:
        return False
    brackets = _STRING.sub(b"", payload).translate(_AS_PARENTHESES, _NO_BRACKETS)
    for _ in range(_MOST_LEVELS):
        if not brackets:
            return False
        brackets = brackets.replace(b"()", b"")
    return bool(brackets)


def _is_flat(members: dict[str, Any]) -> bool:
    """Return whether small members are attributes as they are. For speed: most are."""
    if TOPIC in members or not is_plain(members):
        return False
    reserved = [name for name in members if name.startswith(RESERVED)]
    return not reserved


def _flattened(members: dict[str, Any]) -> dict[str, Value] | None:
    flat: dict[str, Value] = {}
    count, room = 0, MAX_NAMES_CHARS
    around: list[tuple[str, Iterator[tuple[str, Any]]]] = [("", iter(members.items()))]
    while around:
        prefix, items = around[-1]
        for key, value in items:
            kind = type(value)
            if kind is str:
                travels = len(value) <= MAX_TEXT_CHARS
            elif kind is int:
                travels = INT64_MIN <= value <= INT64_MAX
            else:
                travels = kind is float or kind is bool or (kind is dict and value)
            if not travels or not key:
                continue
            name = prefix + key
            count, room = count + 1, room - len(name)
            if count > MAX_ATTRIBUTES or room < 0:
                return None
            if kind is dict:
                name += "."
                if not name.startswith(RESERVED):
                    around.append((name, iter(value.items())))
                    break
            elif name not in flat and (prefix or not is_reserved_name(name)):
                flat[name] = value
        else:
            around.pop()
    return flat
