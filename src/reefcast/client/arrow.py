"""Arrow tables and pandas data frames as blocks of columns (see `blocks`).

Null cells are missing attributes. In a data frame so are the cells that pandas calls missing,
except NaN in a column of floats: that is a number, as everywhere else. Columns of structs become
attributes whose names have dots. Times, durations, dates and decimals travel in the forms of
`model.carried`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reefcast.client.blocks import CHUNK, Block, Special, block_of
from reefcast.errors import InvalidValueError
from reefcast.extras import extra_for

with extra_for("publish_many of a table"):
    import pyarrow as pa
    import pyarrow.compute as pc


def blocks_of_table(given: Any, special: Special) -> Iterator[Block]:
    """Yield the rows of a table, or of an object that exports one to Arrow, as blocks. Raises
    `InvalidValueError`."""
    table = given if isinstance(given, pa.Table) else pa.table(given)
    _check_names(table.column_names, special)
    for start in range(0, table.num_rows, CHUNK):
        some = table.slice(start, CHUNK)
        columns: dict[str, Sequence[Any]] = {}
        for name, column in zip(some.column_names, some.columns, strict=True):
            _add(columns, name, column)
        yield block_of(range(start, start + some.num_rows), columns, special)


def blocks_of_frame(frame: Any, special: Special) -> Iterator[Block]:
    """Yield the rows of a data frame, without its index, as blocks. Raises `InvalidValueError`."""
    _check_names(list(frame.columns), special)
    for start in range(0, len(frame), CHUNK):
        some = frame.iloc[start : start + CHUNK]
        columns: dict[Any, Sequence[Any]] = {}
        for name, series in some.items():
            if _is_numpy(series, "biufc"):
                columns[name] = series.to_numpy().tolist()
            elif _is_numpy(series, "O"):
                columns[name] = _objects(series)
            else:
                _add(columns, name, pa.array(series, from_pandas=True))
        yield block_of(range(start, start + len(some)), columns, special)


def _check_names(names: Sequence[Any], special: Special) -> None:
    """Raise `InvalidValueError` for a name that occurs twice, or does not exist."""
    for name in names:
        if names.count(name) > 1:
            raise InvalidValueError(f"two columns are named {name!r}; rename or drop one")
    for name in (special.topics_column, special.payload_column):
        if name and name not in names:
            raise InvalidValueError(f"there is no column {name!r}; the columns are {names}")


def _is_numpy(series: Any, kinds: str) -> bool:
    return getattr(series.dtype, "kind", "") in kinds and not hasattr(series.dtype, "na_value")


def _objects(series: Any) -> list[Any]:
    """Return the values of a column of objects; NaN there means missing in pandas."""
    gaps = series.isna().tolist()
    return [None if gap else value for gap, value in zip(gaps, series.tolist(), strict=True)]


def _add(columns: dict[Any, Sequence[Any]], name: Any, column: Any) -> None:
    """Add a column, or those of its fields."""
    if not pa.types.is_struct(column.type):
        if name in columns:
            raise InvalidValueError(
                f"attribute {name!r} occurs twice: as a column, and as a field of a column of "
                "structs; rename one of them"
            )
        columns[name] = _values(name, column)
        return
    fields = [column.type.field(i).name for i in range(column.type.num_fields)]
    for field, part in zip(fields, column.flatten(), strict=True):
        if not field:
            raise InvalidValueError(f"a field of column {name!r} has no name")
        _add(columns, f"{name}.{field}", part)


def _values(name: Any, column: Any) -> list[Any]:
    """Return the values as Python objects, or as they travel where Arrow makes that form itself."""
    types, kind = pa.types, column.type
    values: list[Any]
    if types.is_dictionary(kind):
        return _values(name, column.cast(kind.value_type))
    if types.is_run_end_encoded(kind):
        return _values(name, pc.run_end_decode(column))
    if types.is_timestamp(kind):
        values = _instants(name, column).to_pylist()
    elif types.is_duration(kind):
        values = _exactly(name, column, pa.duration("us")).cast(pa.int64()).to_pylist()
    elif types.is_time64(kind):
        values = _exactly(name, column, pa.time64("us")).to_pylist()
    else:
        how = {"maps_as_pydicts": "strict"} if types.is_map(kind) else {}  # which takes longer
        values = column.to_pylist(**how)
    return values


def _instants(name: Any, column: Any) -> Any:
    """Convert times to microseconds since 1970."""
    if column.type.tz is None and column.null_count < len(column):
        raise InvalidValueError(
            f"column {name!r} holds times without a time zone: cast it to timestamp('us', 'UTC') "
            "if they are UTC, or say which zone they are of (in pandas: .dt.tz_localize)"
        )
    return _exactly(name, column, pa.timestamp("us", column.type.tz)).cast(pa.int64())


def _exactly(name: Any, column: Any, kind: Any) -> Any:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise InvalidValueError(
            f"column {name!r} has nanoseconds (or is out of range), and times travel as "
            f"microseconds: cast it to {kind} with safe=False, which loses them"
        ) from error
