"""Nested mappings as attributes: `{"order": {"price": 3}}` is the attribute `order.price`.

Structs of msgspec and dataclasses are mappings of their fields. `typed` is the inverse."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import msgspec

from reefcast.errors import InvalidValueError
from reefcast.model.carried import Form, foreign, form_of
from reefcast.model.publication import Value, check_attributes

MAX_DEPTH = 100
"""The most levels of nested mappings; one that contains itself has no end."""
TYPES_KEPT = 1024


class Dataclass(Protocol):
    """An instance of any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Attributes = Mapping[str, object] | msgspec.Struct | Dataclass
"""The attributes that a program publishes."""

_BUILT_IN = frozenset((int, float, bool, str, type(None)))


def as_sent(attributes: Mapping[str, object]) -> dict[str, Value]:
    """Return the attributes as they are published. Raises `InvalidValueError`."""
    if _BUILT_IN.issuperset(map(type, attributes.values())):
        return check_attributes(attributes)
    return check_attributes(flatten(attributes))


def flatten(attributes: Mapping[str, object]) -> dict[str, object]:
    """Return the attributes by their full names with dots, each in the form in which it travels.

    Raises `InvalidValueError` for what has none, and for a name that occurs twice.
    """
    flat: dict[str, object] = {}
    _add(flat, "", attributes, 0)
    return flat


def _add(flat: dict[str, object], prefix: str, part: Mapping[str, object], depth: int) -> None:
    for key, value in part.items():
        if value is None or value is msgspec.UNSET:
            continue
        if not isinstance(key, str) or not key:
            raise InvalidValueError(_no_name(prefix, key))
        name = prefix + key
        kind: Any = type(value)  # which a checker takes for one that may not be hashable
        form = form_of_class(kind)
        if form is None:
            if depth == MAX_DEPTH:
                raise InvalidValueError(f"attribute {key!r} is nested {MAX_DEPTH} levels deep")
            _add(flat, f"{name}.", fields_of(value), depth + 1)
        elif name in flat:
            raise InvalidValueError(
                f"attribute {name!r} occurs twice: by its whole name, and within a nested "
                "mapping; rename one"
            )
        else:
            flat[name] = form(name, value)


@lru_cache(TYPES_KEPT)  # for speed: these questions take long
def form_of_class(kind: type) -> Form | None:
    """Return the form in which values of a class travel; None if they are nested."""
    form = form_of(kind)
    return None if form is foreign and is_nested(kind) else form


def is_nested(kind: type) -> bool:
    """Return whether values of a class have fields: mappings, Structs and dataclasses."""
    return issubclass(kind, (Mapping, msgspec.Struct)) or dataclasses.is_dataclass(kind)


def _no_name(prefix: str, key: object) -> str:
    if not prefix:
        return f"attribute name {key!r} is not a non-empty string"
    return f"the key {key!r} within attribute {prefix[:-1]!r} is not a non-empty string"


def fields_of(value: Any) -> Mapping[str, object]:
    """Return the fields of a nested value by name."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, msgspec.Struct):
        return _fields_of_struct(value)
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _fields_of_struct(value: msgspec.Struct) -> dict[str, object]:
    """Return the fields by the names that the Struct has for others (`rename=`), and its tag, if it
    has one."""
    names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    fields = {encoded: getattr(value, name) for encoded, name in names}
    config = value.__struct_config__
    if config.tag_field is not None:
        fields[config.tag_field] = config.tag
    return fields
