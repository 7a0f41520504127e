"""Subscriptions on their way to the executors.

Executors parse the texts, for that is what takes long. What indexes need comes back: the normal
form, packed. An index itself cannot be shipped, for its tables lie in memory by address; but made
of packed filters it is ready at once. For 10 000
filters of flights, in ms of one core:

    broadcast     bytes   from bytes to an index
    texts          0.8M                    1 350
    filters        5.0M                    1 050   (Filter objects, pickled)
    packed         0.8M                       50
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    StringType,
    StructField,
    StructType,
)

from reefcast.errors import FilterSyntaxError, LocalError
from reefcast.model.expression import attributes_of
from reefcast.model.filters import Filter
from reefcast.model.language import parse
from reefcast.pipeline.matching.events import by_place, places
from reefcast.pipeline.matching.shared import parallelism

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SHOWN_ERRORS = 3
REMEMBERED = 1 << 16
"""Texts whose parsed form a process of the executors keeps, some 200 bytes each: where interests
are spread unevenly, many subscriptions say the same."""

_TEXTS = ArrayType(StringType())
PARSED = {
    "packed": BinaryType(),
    "attributes": _TEXTS,
    "error": StringType(),
}


class Filters(NamedTuple):
    """`data`: a stream of Arrow's with the columns id and packed (see `parsed`); `id_type`:
    Spark's type of the ids; `attributes`: the names of all that indexes of them look at."""

    data: bytes
    id_type: DataType
    attributes: frozenset[str]


def gathered(subscriptions: DataFrame, id_name: str, filter_name: str) -> Filters:
    """Collect and parse the subscriptions. Raises `LocalError` for filters that cannot be read."""
    import pyarrow.compute as pc

    place = places(subscriptions, [id_name, filter_name])
    kinds = [subscriptions.schema[place[name]].dataType for name in (id_name, filter_name)]
    if not isinstance(kinds[1], StringType):
        raise LocalError(
            f"column {filter_name!r} holds no texts: it is {kinds[1].simpleString().upper()}"
        )
    rows = by_place(subscriptions).select(
        F.col(f"c{place[id_name]}").alias("id"), F.col(f"c{place[filter_name]}").alias("filter")
    )
    schema = StructType([StructField(*field) for field in {"id": kinds[0], **PARSED}.items()])
    table = _spread(rows).mapInArrow(parsed, schema).toArrow()
    _refuse(table)
    names = pc.list_flatten(table["attributes"]).unique().to_pylist()
    return Filters(to_bytes(table), kinds[0], frozenset(names))


def _spread(rows: DataFrame) -> DataFrame:
    """Distribute the rows: most often all subscriptions are in one file, and parsing is slow."""
    return rows.repartition(parallelism(rows.sparkSession))


def to_bytes(table: pa.Table) -> bytes:
    """Encode what executors need of the parsed subscriptions; `worker` reads it."""
    import pyarrow as pa

    needed, sink = table.select(["id", "packed"]), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, needed.schema) as stream:
        stream.write_table(needed)
    return bytes(sink.getvalue())


def _refuse(table: pa.Table) -> None:
    """Raise `LocalError` if a row has an error."""
    wrong = table.filter(table["error"].is_valid())
    if not wrong.num_rows:
        return
    shown = wrong.slice(0, SHOWN_ERRORS).select(["id", "error"]).to_pylist()
    told = "\n".join(f"subscription {row['id']!r}: {row['error']}" for row in shown)
    more = wrong.num_rows - len(shown)
    raise LocalError(told + (f"\nand {more} more that cannot be read" if more else ""))


# --- in the executors ----------------------------------------------------------------------------


def parsed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield for each id and filter the id, the packed normal form, the attributes' names, and an
    error or null."""
    import pyarrow as pa

    kinds = [pa.binary(), pa.list_(pa.string()), pa.string()]
    for batch in batches:
        rows = [parsed_text(text) for text in batch.column(1).to_pylist()]
        columns = zip(*rows, strict=True) if rows else [()] * len(PARSED)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays([batch.column(0), *arrays], ["id", *PARSED])


@lru_cache(maxsize=REMEMBERED)
def parsed_text(text: str | None) -> tuple[bytes, tuple[str, ...], str | None]:
    """Parse a filter without `parse_filter`, which keeps whole filters."""
    if text is None:
        return b"", (), "it has no filter: NULL; a filter that everything matches is TRUE"
    try:
        filter = Filter(text, parse(text))
    except FilterSyntaxError as error:
        return b"", (), str(error)
    return filter.packed, _attributes(filter), None


def _attributes(filter: Filter) -> tuple[str, ...]:
    """Return the names that an index reads."""
    names: set[str] = set()
    for conjunction in filter.conjunctions:
        names.update(conjunction.constraints, *map(attributes_of, conjunction.residuals))
    return tuple(sorted(names))
