"""An event's attributes as an instance of a type: the inverse of `flat` and `carried`.

The type says what an attribute means: a number is a time where the type has a datetime, and names
with dots are nested where it has a Struct, a dataclass, a TypedDict or a dict. msgspec checks the
values, and builds the instance."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from reefcast.errors import InvalidValueError
from reefcast.model.carried import EPOCH
from reefcast.model.publication import Value

T = TypeVar("T")
Attributes = Mapping[str, Value]
Fields = inspect.StructType | inspect.DataclassType | inspect.TypedDictType

_TYPES_KEPT = 256
_NESTED = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.DictType)
_ODD = (*_NESTED, inspect.DateTimeType, inspect.TimeDeltaType)
_NUMBERS = (inspect.IntType, inspect.FloatType)
_MISSING = object()
_PATH = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)
"""How msgspec writes a position: after dots, fields by the names of attributes."""
_ENTRY = "[...]"
"""How it writes an entry of a dict."""
_FROM_MICROSECONDS: dict[type[inspect.Type], Callable[[int], object]] = {
    inspect.DateTimeType: lambda number: EPOCH + timedelta(microseconds=number),
    inspect.TimeDeltaType: lambda number: timedelta(microseconds=number),
}


class _MisfitError(Exception):
    """How the event differs from the type."""


def read_as(type: type[T], attributes: Attributes, event: str) -> T:
    """Return the attributes as an instance of `type`. Raises `InvalidValueError`, which names the
    `event`, the attribute and the type."""
    name = getattr(type, "__name__", str(type))
    key: Any = type  # which a checker takes for one that may not be hashable
    try:
        known, direct = _known(key)
        if direct:
            with suppress(msgspec.ValidationError):  # found again below, with a better message
                return msgspec.convert(attributes, type)
        return msgspec.convert(_whole(known, "", attributes), type)
    except _MisfitError as misfit:
        what = str(misfit)
    except msgspec.ValidationError as error:
        what = _in_words(str(error), attributes)
    except NameError as error:
        raise InvalidValueError(
            f"no event can be read as {name}: {error} in its module, where its annotations are "
            "looked up; define it there, and not within a function"
        ) from error
    except TypeError as error:
        raise InvalidValueError(f"no event can be read as {name}: {error}") from error
    raise InvalidValueError(f"{event} is no {name}: {what}")


def _in_words(error: str, attributes: Attributes) -> str:
    place = _PATH.fullmatch(error)
    if place is None:
        return error
    what, path = place.groups()
    wanted = re.compile(r"\..+".join(map(re.escape, path.split(_ENTRY))))
    found = [name for name in attributes if wanted.fullmatch(f".{name}")]
    if len(found) == 1:
        return f"attribute {found[0]!r} is {attributes[found[0]]!r}: {what}"
    return f"attribute {path.replace(_ENTRY, '.*').lstrip('.')!r}: {what}"


@lru_cache(_TYPES_KEPT)
def _known(type: Hashable) -> tuple[inspect.Type, bool]:
    """Return what msgspec knows of the type, and whether it may read attributes directly, which is
    ten times as fast. Raises `TypeError` for a type that it does not accept."""
    info = _nested(inspect.type_info(type))
    if info is None:
        raise TypeError("write a Struct of msgspec, a dataclass, a TypedDict or dict[str, ...]")
    return info, isinstance(info, Fields) and all(map(_is_direct, info.fields))


def _is_direct(field: inspect.Field) -> bool:
    """Return whether msgspec can read the field without preparation."""
    odd = (*_ODD, inspect.NoneType) if field.required else _ODD
    return not any(isinstance(each, odd) for each in _alternatives(field.type))


# --- nested things --------------------------------------------------------------------------------


def _whole(info: inspect.Type, prefix: str, attributes: Attributes) -> dict[str, object]:
    """Return the contents of a nested type: the attributes whose names begin with `prefix`."""
    if isinstance(info, inspect.DictType):
        return dict(_entries(info, prefix, attributes))
    assert isinstance(info, Fields)
    if isinstance(info, inspect.StructType) and info.array_like:
        raise TypeError(f"{info.cls.__name__} is array_like, so its fields have no names")
    return dict(_fields(info, prefix, attributes))


def _entries(
    info: inspect.DictType, prefix: str, attributes: Attributes
) -> Iterator[tuple[str, object]]:
    """Yield the entries of a dict. Keys are whole names with dots; with nested values, the part
    before the next dot."""
    keys = _below(prefix, attributes)
    if _nested(info.value_type) is not None:
        keys = dict.fromkeys(key.partition(".")[0] for key in keys)
    for key in keys:
        yield key, _value(info.value_type, prefix + key, attributes, required=True)


def _fields(info: Fields, prefix: str, attributes: Attributes) -> Iterator[tuple[str, object]]:
    names = {field.encode_name for field in info.fields}
    for field in info.fields:
        name = prefix + field.encode_name
        value = _value(field.type, name, attributes, required=field.required)
        if value is not _MISSING:
            yield field.encode_name, value
        elif field.required:
            raise _MisfitError(
                f"it has no attribute {name!r}; give the field a default, or ask for events with "
                f"{name} IS NOT NULL"
            )
    strict = isinstance(info, inspect.StructType) and info.forbid_unknown_fields
    tag = getattr(info, "tag_field", None)
    if strict or tag:
        for key in _below(prefix, attributes):
            if key == tag or (strict and not names & {key, key.partition(".")[0]}):
                yield key, attributes[prefix + key]  # for msgspec to judge


def _below(prefix: str, attributes: Attributes) -> dict[str, None]:
    """Return the rest of the names that begin with `prefix`, in their order."""
    size = len(prefix)
    return {name[size:]: None for name in attributes if name.startswith(prefix)}


# --- values ---------------------------------------------------------------------------------------


def _value(info: inspect.Type, name: str, attributes: Attributes, *, required: bool) -> object:
    """Return the value of a field of this type; if it is missing, None if that is allowed, or
    `_MISSING`."""
    nested = _nested(info)
    prefix = f"{name}."
    if nested is not None and any(each.startswith(prefix) for each in attributes):
        return _whole(nested, prefix, attributes)
    if name in attributes:
        return _single(info, name, attributes[name])
    if required and any(isinstance(each, inspect.NoneType) for each in _alternatives(info)):
        return None
    if required and nested is not None:
        return _whole(nested, prefix, attributes)
    return _MISSING


def _single(info: inspect.Type, name: str, value: Value) -> object:
    """Return a number as a time where only that is allowed; msgspec converts everything else."""
    alternatives = _alternatives(info)
    if isinstance(value, int) and not isinstance(value, bool):
        for each in alternatives:
            make = _FROM_MICROSECONDS.get(type(each))
            if make is not None and not any(isinstance(kind, _NUMBERS) for kind in alternatives):
                return _in_range(make, name, value)
    return value


def _in_range(make: Callable[[int], object], name: str, number: int) -> object:
    try:
        return make(number)
    except OverflowError:
        raise _MisfitError(f"attribute {name!r} is {number}, too many microseconds") from None


def _alternatives(info: inspect.Type) -> tuple[inspect.Type, ...]:
    """Return the types of a union, or the type itself."""
    if isinstance(info, inspect.Metadata):
        return _alternatives(info.type)
    return info.types if isinstance(info, inspect.UnionType) else (info,)


def _nested(info: inspect.Type) -> inspect.Type | None:
    """Return the part of a type that takes names below its own; None if there is none."""
    found = [each for each in _alternatives(info) if isinstance(each, _NESTED)]
    if len(found) > 1:
        raise TypeError("one of its fields takes several nested types: write one of them")
    return found[0] if found else None
