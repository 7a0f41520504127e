"""Arrow's batches out of the bodies of events: compiled code reads them, no event is decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from reefcast.matching.columnar import layout
from reefcast.matching.columnar.tables import Bodies, Column, Maps, Table, Texts, Wanted, known
from reefcast.pipeline.connector.columns import (
    ATTRIBUTES,
    PAYLOAD,
    PUBLISHER,
    RESERVED,
    SEQ,
    TIMESTAMP,
    TOPICS,
    is_rest,
    leaves,
)
from reefcast.pipeline.connector.forms import FORMS
from reefcast.pipeline.connector.leftovers import Lost, not_shown, text_of_floats, with_lost

KINDS: dict[type[DataType], tuple[int, ...]] = {
    LongType: (layout.LONG,),
    IntegerType: (layout.INTEGER,),
    DoubleType: (layout.DOUBLE,),
    StringType: (layout.STRING,),
    BooleanType: (layout.BOOLEAN,),
    TimestampType: (layout.LONG, layout.STRING),
    DateType: (layout.INTEGER, layout.STRING),
    DecimalType: (layout.LONG, layout.DOUBLE, layout.STRING),
}
"""How the values of an attribute are read for a column; one of them is not NULL, or none."""

ARROW = {
    layout.LONG: pa.int64(),
    layout.INTEGER: pa.int32(),
    layout.DOUBLE: pa.float64(),
    layout.STRING: pa.string(),
    layout.BOOLEAN: pa.bool_(),
}
BATCH_ROWS = 8192


class _Place(NamedTuple):
    """The first of the columns of an attribute in a table, and how many there are."""

    first: int
    columns: int


class Columns:
    """Makes Arrow's batches out of bodies. `present`: columns that must not be NULL."""

    def __init__(self, schema: StructType, present: Sequence[str] = ()) -> None:
        self._schema = schema
        self._arrow = to_arrow_schema(schema, timezone="UTC")
        self._present = present
        self._places: dict[str, _Place] = {}
        attributes: list[tuple[str, int]] = []
        for field in schema:
            if field.name in RESERVED or is_rest(field.dataType):
                continue
            for name, kind in leaves(field.name, field.dataType):
                kinds = KINDS[type(kind)]
                self._places[name] = _Place(len(attributes), len(kinds))
                attributes += [(name, each) for each in kinds]
        rests = [number for number, field in enumerate(schema) if is_rest(field.dataType)]
        self._rest = rests[0] if rests else None
        names = set(schema.names)
        self._wanted = Wanted(
            tuple(attributes),
            times=TIMESTAMP in names,
            seqs=SEQ in names,
            publishers=PUBLISHER in names,
            topics=TOPICS in names,
            payloads=PAYLOAD in names,
            all=ATTRIBUTES in names,
            rest=self._rest is not None,
        )

    def batches(self, portions: Iterable[Sequence[bytes] | Bodies]) -> Iterator[pa.RecordBatch]:
        """Yield the events of these portions, each of which is a batch, or a few."""
        for portion in portions:
            bodies = portion if isinstance(portion, Bodies) else Bodies.of(portion)
            for start in range(0, len(bodies), BATCH_ROWS):
                yield self._batch(bodies.between(start, start + BATCH_ROWS))

    def _batch(self, bodies: Bodies) -> pa.RecordBatch:
        table = Table(self._wanted, bodies)
        lost: list[Lost] = []
        columns = [
            self._column(table, field.name, field.dataType, kind.type, lost)
            for field, kind in zip(self._schema, self._arrow, strict=True)
        ]
        if lost and self._rest is not None:
            columns[self._rest] = with_lost(columns[self._rest], lost)
        batch = pa.RecordBatch.from_arrays(columns, schema=self._arrow)
        for name in self._present:
            batch = batch.filter(batch.column(name).is_valid())
        return batch

    def _column(
        self, table: Table, name: str, kind: DataType, arrow: pa.DataType, lost: list[Lost]
    ) -> pa.Array:
        make = _OF_EVENT.get(name)
        if make is not None:
            return make(table)
        if is_rest(kind):
            return _as_map(known(table.rest), arrow)
        return self._attribute(table, name, kind, arrow, lost)

    def _attribute(
        self, table: Table, name: str, kind: DataType, arrow: pa.DataType, lost: list[Lost]
    ) -> pa.Array:
        """Return the column of an attribute; append to `lost` what it has no value for, though the
        attribute has the right type."""
        if isinstance(kind, StructType):
            parts = [
                self._attribute(table, f"{name}.{field.name}", field.dataType, part.type, lost)
                for field, part in zip(kind, arrow, strict=True)
            ]
            return _as_struct(parts, arrow)
        place = self._places[name]
        kinds = self._wanted.attributes[place.first : place.first + place.columns]
        columns = table.columns[place.first : place.first + place.columns]
        arrays = [
            _array(column, ARROW[each]) for column, (_, each) in zip(columns, kinds, strict=True)
        ]
        form = FORMS.get(type(kind))
        if form is None:
            return arrays[0]
        made = form(arrays, arrow)
        if self._rest is not None:
            lost += not_shown(name, arrays, made)
        return made


# --- arrays ---------------------------------------------------------------------------------------


def _array(column: Column, kind: pa.DataType) -> pa.Array:
    valid = column.valid
    nulls = len(valid) - int(np.count_nonzero(valid))
    bits = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
    if isinstance(column.values, Texts):
        return _texts(column.values, kind, bits, nulls)
    values = column.values
    if pa.types.is_boolean(kind):
        values = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(kind, len(valid), [bits, pa.py_buffer(values)], nulls)


def _texts(
    texts: Texts, kind: pa.DataType | None = None, bits: Any = None, nulls: int = 0
) -> pa.Array:
    buffers = [bits, pa.py_buffer(texts.ends), pa.py_buffer(texts.data)]
    return pa.Array.from_buffers(kind or pa.string(), len(texts.ends) - 1, buffers, nulls)


def _times(table: Table) -> pa.Array:
    return pa.array(known(table.times)).cast(pa.timestamp("us", "UTC"))


def _topics(table: Table) -> pa.Array:
    ends, texts = known(table.topics)
    return pa.ListArray.from_arrays(pa.array(ends), _texts(texts))


def _as_struct(parts: list[pa.Array], arrow: pa.DataType) -> pa.Array:
    """Make structs; one without any field is NULL."""
    some = pc.is_valid(parts[0])
    for part in parts[1:]:
        some = pc.or_(some, pc.is_valid(part))
    return pa.StructArray.from_arrays(parts, fields=list(arrow), mask=pc.invert(some))


# --- maps -----------------------------------------------------------------------------------------


def _values(maps: Maps) -> pa.Array:
    """Return the texts of the entries, with those of floats, as Arrow writes them: with a point or
    an exponent."""
    texts = _texts(maps.values)
    if not len(maps.floats):
        return texts
    floats = text_of_floats(pa.array(maps.floats))
    mask = np.zeros(len(texts), bool)
    mask[maps.float_at] = True
    return pc.replace_with_mask(texts, pa.array(mask), floats)


def _as_map(maps: Maps, arrow: pa.DataType) -> pa.Array:
    found = pa.MapArray.from_arrays(pa.array(maps.ends), _texts(maps.keys), _values(maps))
    return found.cast(arrow)


def _as_json(table: Table) -> pa.Array:
    maps: Maps = known(table.all)
    entries = pc.binary_join_element_wise(_texts(maps.keys), _values(maps), ": ")
    rows = pa.ListArray.from_arrays(pa.array(maps.ends), entries)
    return pc.binary_join_element_wise("{", pc.binary_join(rows, ", "), "}", "")


_OF_EVENT: dict[str, Callable[[Table], pa.Array]] = {
    TIMESTAMP: _times,
    PUBLISHER: lambda table: _texts(known(table.publishers)),
    SEQ: lambda table: pa.array(known(table.seqs)),
    TOPICS: _topics,
    PAYLOAD: lambda table: _texts(known(table.payloads), pa.binary()),
    ATTRIBUTES: _as_json,
}
