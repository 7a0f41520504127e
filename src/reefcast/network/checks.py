"""What all sections of a network file are, and checks of their texts and keys, which say where they
are wrong."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import isfinite
from typing import Any

import msgspec

from reefcast.errors import ConfigurationError

_MAY_BE_ZERO = (
    *("jitter_s", "latency_s", "sample", "drain_s", "max_connections", "max_user_connections"),
    *("user_publications_per_s", "user_bytes_per_s", "user_searches_per_s"),
)
"""The keys with numbers that may be 0, in all sections whose numbers are above 0 otherwise."""


class Section(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of the file: an unknown key is an error, and never ignored."""


def address_in(text: str, where: str, example: str) -> tuple[str, int]:
    """Return the host and the port in a text. Raises `ConfigurationError`, which says `where` it
    stands."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigurationError(f'{where} = {text!r} is not host:port, for instance "{example}"')
    return host.strip("[]"), int(port)


def check_keys(given: object, section: type[msgspec.Struct], where: str) -> None:
    """Raise `ConfigurationError` for a key that the section does not have, and say which it has. A
    value that is not a table is left for others to refuse."""
    known = section.__struct_fields__
    for key in given if isinstance(given, dict) else ():
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigurationError(f"{where} has no key {key!r}; {has}")


def check_choices(given: dict[str, Any], section: type[msgspec.Struct], where: str) -> None:
    """Raise `ConfigurationError` for a value that its key cannot have, and say which it can
    have."""
    for name, choices in _choices_of(section).items():
        if name in given and given[name] not in choices:
            named = ", ".join(f'"{choice}"' for choice in choices)
            raise ConfigurationError(f"{where} {name} = {given[name]!r} is none of {named}")


@cache
def _choices_of(section: type[msgspec.Struct]) -> dict[str, tuple[object, ...]]:
    """Return the values that keys can have, of keys that can have only some; a file may have
    thousands of brokers and links, and this takes half a millisecond."""
    info = msgspec.inspect.type_info(section)
    fields = info.fields if isinstance(info, msgspec.inspect.StructType) else ()
    return {
        field.name: field.type.values
        for field in fields
        if isinstance(field.type, msgspec.inspect.LiteralType)
    }


def check_numbers(sections: Iterable[Section]) -> None:
    """Raise `ConfigurationError` for a number that is not finite, or not above 0."""
    for section in sections:
        for field in msgspec.structs.fields(section):
            value = getattr(section, field.name)
            if isinstance(value, bool):
                continue
            if isinstance(value, float) and not isfinite(value):
                raise ConfigurationError(f"{field.name} = {value} must be a finite number")
            may_be_zero = field.name in _MAY_BE_ZERO
            if isinstance(value, (int, float)) and (value < 0 or (value == 0 and not may_be_zero)):
                raise ConfigurationError(f"{field.name} = {value} must be above 0")
