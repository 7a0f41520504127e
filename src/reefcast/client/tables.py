"""Events as an Arrow table: many of them in one call, without an object for each.

An attribute becomes a column of int64, double, bool or string. A mixture of int64 and double
becomes double; any other mixture becomes text: numbers as Python writes them, TRUE and FALSE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa

from reefcast.client.beside import Beside
from reefcast.errors import InvalidValueError
from reefcast.model import wire
from reefcast.model.publication import Publication, Value

_TYPES: dict[frozenset[type], pa.DataType] = {
    frozenset(): pa.null(),
    frozenset((int,)): pa.int64(),
    frozenset((float,)): pa.float64(),
    frozenset((int, float)): pa.float64(),
    frozenset((bool,)): pa.bool_(),
    frozenset((str,)): pa.string(),
}
_NOTHING = frozenset((type(None),))
_BESIDE: dict[str, tuple[Callable[[Publication], Any], pa.DataType]] = {
    "publisher_column": (attrgetter("publisher"), pa.string()),
    "seq_column": (attrgetter("seq"), pa.int64()),
    "time_column": (attrgetter("time_us"), pa.timestamp("us", "UTC")),
    "topics_column": (attrgetter("topics"), pa.list_(pa.string())),
    "payload_column": (attrgetter("payload"), pa.binary()),
}


def table_of(bodies: Sequence[bytes], beside: Beside, schema: pa.Schema | None = None) -> pa.Table:
    """Decode events into a table, in their order; the columns of `beside` come first.

    `schema`: these attributes in these types. Raises `InvalidValueError` for a column name that
    would occur twice and for values that do not fit a type, `ProtocolError` for bytes that are no
    event."""
    publications = wire.decode_publications(bodies)
    columns: dict[str, Any] = {}
    for key, name in beside.items():
        if key not in _BESIDE:
            raise InvalidValueError(f"next_table has no option {key!r}; it has {[*_BESIDE]}")
        take, kind = _BESIDE[key]
        if name:
            _add(columns, str(name), pa.array([*map(take, publications)], kind))
    events = [publication.attributes for publication in publications]
    if schema is None:
        for name in dict.fromkeys(chain.from_iterable(events)):
            _add(columns, name, _column(_values(name, events)))
    else:
        for field in schema:
            array = _cast(field, _column(_values(field.name, events)))
            _add(columns, field.name, array)
    return pa.table(columns)


def _add(columns: dict[str, Any], name: str, array: Any) -> None:
    if name in columns:
        raise InvalidValueError(
            f"the table would have two columns {name!r}: give the one beside the attributes "
            "another name"
        )
    columns[name] = array


def _values(name: str, events: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the values of one attribute; None where it is missing."""
    try:
        return [*map(itemgetter(name), events)]
    except KeyError:
        return [event.get(name) for event in events]


def _column(values: list[Any]) -> Any:
    kinds = frozenset(map(type, values)) - _NOTHING
    kind = _TYPES.get(kinds)
    if kind is None:
        return pa.array([*map(_text, values)], pa.string())
    if len(kinds) > 1:  # Arrow refuses integers that equal no double
        values = [None if value is None else float(value) for value in values]
    return pa.array(values, kind)


def _text(value: Value | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).upper() if isinstance(value, bool) else repr(value)


def _cast(field: pa.Field, array: Any) -> Any:
    try:
        return array.cast(field.type)
    except pa.ArrowException as error:
        raise InvalidValueError(
            f"attribute {field.name!r} came as {array.type} and cannot be read as {field.type}: "
            f"{error}"
        ) from error
