"""What the context attributes of a CloudEvent may be.

An attribute is a Boolean, an Integer of 32 bits, or a text; Binary, URI, URI-reference and
Timestamp travel as texts. A name consists of lower-case letters and digits; `data` is none.

Two checks are milder than the standard: `dataschema` may have a fragment, which RFC 3986,
section 4.3, excludes and the JSON schema of CloudEvents allows; and names may exceed the 20
characters that are recommended, up to `MOST_NAME_CHARS`.

Source: CloudEvents 1.0.2, "Context Attributes" and "Type System"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from reefcast.errors import InvalidValueError

ContextValue = str | int | bool
Context = dict[str, ContextValue]

SPECVERSION, VERSION = "specversion", "1.0"
DATA_TYPE = "datacontenttype"
REQUIRED = ("specversion", "id", "source", "type")
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
MOST_NAME_CHARS = 100
MOST_ATTRIBUTES = 200
MOST_TEXT_CHARS = 65_536

_NAME = re.compile(r"[a-z0-9]+")
_CHARS, _ENCODED = r"A-Za-z0-9\-._~!$&'()*+,;=", "%[0-9A-Fa-f]{2}"
_PCHAR = rf"(?:[{_CHARS}:@]|{_ENCODED})"
_NO_COLON = rf"(?:[{_CHARS}@]|{_ENCODED})"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_HOST = rf"(?:\[[{_CHARS}:]+\]|(?:[{_CHARS}]|{_ENCODED})*)"
_AUTHORITY = rf"//(?:(?:[{_CHARS}:]|{_ENCODED})*@)?{_HOST}(?::[0-9]*)?"
_TAIL = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_ABEMPTY = rf"(?:/{_PCHAR}*)*"
_ROOTED = rf"/(?:{_PCHAR}+(?:/{_PCHAR}*)*)?"
_WITH_SCHEME = rf"{_SCHEME}(?:{_AUTHORITY}{_ABEMPTY}|{_ROOTED}|{_PCHAR}+(?:/{_PCHAR}*)*|)"
_RELATIVE = rf"(?:{_AUTHORITY}{_ABEMPTY}|{_ROOTED}|{_NO_COLON}+(?:/{_PCHAR}*)*|)"
_URI = re.compile(_WITH_SCHEME + _TAIL)
_URI_REFERENCE = re.compile(rf"(?:{_WITH_SCHEME}|{_RELATIVE}){_TAIL}")
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = r'"(?:[^"\\\x00-\x1f\x7f]|\\[\t\x20-\x7e])*"'
_MEDIA_TYPE = re.compile(
    rf"{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*(?:{_TOKEN}=(?:{_TOKEN}|{_QUOTED}))?)*"
)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?([Zz]|([+\-])(\d{2}):(\d{2}))"
)
_NO_CHARACTERS = "".join(
    f"{chr(plane | 0xFFFE)}{chr(plane | 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
)
_DISALLOWED = re.compile(rf"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_NO_CHARACTERS}]")
_EPOCH = datetime(1970, 1, 1)


class CloudEventError(InvalidValueError):
    """What is said to be a CloudEvent is none."""


def is_name(name: str) -> bool:
    """Return whether a context attribute can have this name."""
    return name != "data" and len(name) <= MOST_NAME_CHARS and _NAME.fullmatch(name) is not None


def is_value(value: object) -> bool:
    """Return whether a context attribute can have this value, if its name asks for nothing."""
    if isinstance(value, str):
        return len(value) <= MOST_TEXT_CHARS and _DISALLOWED.search(value) is None
    if isinstance(value, int):
        return INT32_MIN <= value <= INT32_MAX
    return False


def is_allowed(name: str, value: object) -> bool:
    """Return whether the context attribute `name` can have this value."""
    try:
        _checked(name, value)
    except CloudEventError:
        return False
    return True


def replaced(text: str) -> str:
    """Return a text with U+FFFD in the place of each character that no attribute may have."""
    return _DISALLOWED.sub("\ufffd", text)


def is_uri_reference(text: str) -> bool:
    """Return whether a text is a URI-reference (RFC 3986, section 4.1)."""
    return _URI_REFERENCE.fullmatch(text) is not None


def is_uri(text: str) -> bool:
    """Return whether a text is a URI (RFC 3986, section 3)."""
    return _URI.fullmatch(text) is not None


def is_media_type(text: str) -> bool:
    """Return whether a text is a media type with its parameters (RFC 2045, section 5.1)."""
    return _MEDIA_TYPE.fullmatch(text) is not None


def time_us_of(text: str) -> int | None:
    """Return the microseconds UTC of a timestamp (RFC 3339), rounded down; None if it is none. A
    leap second counts as the second behind it."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    leap = second == 60
    if leap and minute != 59:
        return None
    try:
        local = datetime(year, month, day, hour, minute, 59 if leap else second)
        since = local - _EPOCH + timedelta(seconds=1 if leap else 0)
    except ValueError:
        return None
    offset = 0
    if found[9]:
        hours, minutes = int(found[10]), int(found[11])
        if hours > 23 or minutes > 59:
            return None
        offset = (hours * 60 + minutes) * (-1 if found[9] == "-" else 1)
    micros = int((found[7] or "0")[:6].ljust(6, "0"))
    return (since - timedelta(minutes=offset)) // timedelta(microseconds=1) + micros


def timestamp_of(time_us: int) -> str:
    """Return the timestamp of microseconds UTC; those before the year 1 or behind 9999 as the
    nearest one that can be written."""
    lowest, highest = -62_135_596_800_000_000, 253_402_300_799_999_999
    moment = _EPOCH + timedelta(microseconds=min(max(time_us, lowest), highest))
    return moment.isoformat() + "Z"


def canonical(value: ContextValue) -> str:
    """Return the text that stands for a value where values are texts ("Type System")."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def check_context(attributes: Mapping[str, object]) -> Context:
    """Return the context attributes of an event, without those that are None. Raises
    `CloudEventError`, which names the attribute."""
    checked: Context = {}
    for name, value in attributes.items():
        if value is None:
            continue
        if not is_name(name):
            raise CloudEventError(_no_name(name))
        checked[name] = _checked(name, value)
    for name in REQUIRED:
        if name not in checked:
            raise CloudEventError(f"the attribute {name!r} is missing, and every event needs it")
    if len(checked) > MOST_ATTRIBUTES:
        raise CloudEventError(
            f"the event has {len(checked)} attributes; it may have {MOST_ATTRIBUTES}"
        )
    return checked


def _checked(name: str, value: object) -> ContextValue:
    if not isinstance(value, str | int):
        raise CloudEventError(
            f"the attribute {name!r} is {_kind_of(value)}; it may be a text, an integer or a "
            "boolean"
        )
    asked = _ASKED.get(name)
    if asked is None:
        if not is_value(value):
            raise CloudEventError(f"the attribute {name!r} {_no_value(value)}")
        return value
    if not isinstance(value, str):
        raise CloudEventError(f"the attribute {name!r} is {_kind_of(value)}; it must be a text")
    if not is_value(value):
        raise CloudEventError(f"the attribute {name!r} {_no_value(value)}")
    if not value:
        raise CloudEventError(f"the attribute {name!r} is empty; leave it out or give it a value")
    holds, words = asked
    if not holds(value):
        raise CloudEventError(f"the attribute {name!r} is {_short(value)}; it must be {words}")
    return value


def _anything(text: str) -> bool:
    return True


_ASKED: dict[str, tuple[Callable[[str], bool], str]] = {
    SPECVERSION: (VERSION.__eq__, f"{VERSION!r}, the only version that is understood here"),
    "id": (_anything, ""),
    "type": (_anything, ""),
    "subject": (_anything, ""),
    "source": (is_uri_reference, "a URI-reference (RFC 3986); percent-encode other characters"),
    "dataschema": (is_uri, "a URI with a scheme (RFC 3986)"),
    DATA_TYPE: (is_media_type, "a media type such as 'application/json' (RFC 2046)"),
    "time": (
        lambda text: time_us_of(text) is not None,
        "a timestamp such as '2026-11-26T17:35:00Z' (RFC 3339)",
    ),
    "expirytime": (
        lambda text: time_us_of(text) is not None,
        "a timestamp such as '2026-11-26T17:35:00Z' (RFC 3339)",
    ),
}
"""What attributes must be that have a meaning here."""


def _no_name(name: str) -> str:
    if name == "data":
        return "an attribute cannot be called 'data', which is the event's data"
    if len(name) > MOST_NAME_CHARS:
        return f"the attribute {_short(name)} has a name of more than {MOST_NAME_CHARS} characters"
    return (
        f"the attribute {_short(name)} has a name that is not allowed: use lower-case letters "
        "(a to z) and digits only"
    )


def _no_value(value: str | int) -> str:
    if isinstance(value, int):
        return f"is {value}; an integer is from {INT32_MIN} to {INT32_MAX}"
    if len(value) > MOST_TEXT_CHARS:
        return f"has {len(value)} characters; it may have {MOST_TEXT_CHARS}"
    found = _DISALLOWED.search(value)
    assert found is not None
    return (
        f"contains U+{ord(found[0]):04X} at position {found.start() + 1}, which is a control "
        "character, half of a surrogate pair, or no character"
    )


def _kind_of(value: object) -> str:
    kinds = {bool: "a boolean", int: "an integer", float: "a number that is no integer"}
    kinds |= {list: "a list", dict: "an object"}
    return kinds.get(type(value), f"of type {type(value).__name__}")


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:97] + "...")
