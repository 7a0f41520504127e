"""Columns of events as a compiled kernel reads them: by raw address, in Arrow's memory layout.

`match_batch` brings each column into one of seven forms (`FLOAT64` to `BOOL8`), without copying
those that have one already: numpy arrays of float64, int64 and bool that are contiguous, and Arrow
arrays of float64, int64, bool, string, large_string and null, slices too. Everything else that can
hold values is converted: smaller numbers, decimals (to float64), dictionaries, chunks, lists,
masked arrays, numpy and pandas strings. For anything else it raises a `LocalError` that names the
column.

Missing is what Arrow calls null: None in lists and object arrays, a mask, a null in Arrow or in
pandas' own types. NaN in a column of floats is NaN, from pandas too; in an object column of pandas,
which has no other word for it, NaN is missing.

A column `topic` of lists of strings says that an event has several topics (no topic, if its list is
null or empty). Then an event becomes as many rows as it has topics; see `Columns.event_of_row`.

Costs: 0.6 us for each contiguous float64, int64 or bool array of numpy, 2 us for an Arrow array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_int64
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reefcast.errors import LocalError
from reefcast.matching.machine import Array
from reefcast.model.filters import TOPIC
from reefcast.model.publication import INT64_MAX, Value

if TYPE_CHECKING:
    import pyarrow as pa

FLOAT64, INT64, BOOL, STRING, LARGE_STRING, NULL, BOOL8 = range(7)
"""Forms of a column. BOOL is a bitmap (lowest bit first), BOOL8 has a byte for each; STRING has
offsets of int32, LARGE_STRING of int64; NULL is missing everywhere and has no memory."""

TYPE, VALUES, OFFSETS, VALIDITY, FIRST = range(5)
"""The words of a row of `Columns.table`: the form; the addresses of values (of strings: of their
bytes, UTF-8), offsets (0 except for strings) and validity bitmap (0: nothing is missing); and the
place of the first row's value, offset and bit, counted in elements from these addresses."""

TABLE_WIDTH = 6
"""Places in a row of `Columns.table`; the last one is spare."""

ARRAY_HEAD = object.__basicsize__
"""The offset of an array's data pointer from the address of the array object."""

LARGEST_STRING_BYTES = 2**31 - 1
"""The largest size that int32 offsets can express."""

_IN_PLACE = {np.dtype(float): FLOAT64, np.dtype(np.int64): INT64, np.dtype(bool): BOOL8}
_NO_NUMBERS = (0, 0, 0, 0)
_word_at = c_int64.from_address
_Descriptor = tuple[int, int, int, int, int, int]


class Columns(NamedTuple):
    """Columns under `names`, described in `table` (int64, `len(names)` x `TABLE_WIDTH`).

    `rows` is the length of every column. `event_of_row` is None if row i is event i; otherwise
    (events with several topics) it gives the event of each row, ascending, and each of the `events`
    has at least one row. `keep` are the objects that own the memory: the addresses are valid as
    long as they live."""

    names: list[str]
    table: Array
    rows: int
    events: int
    event_of_row: Array | None
    keep: list[Any]


def _address(array: Array) -> int:
    """Return the address of the first value. Reading the array's data pointer is several times
    faster than `array.ctypes.data`."""
    return _word_at(id(array) + ARRAY_HEAD).value


def columns_of(columns: Any) -> Columns:
    """Describe a mapping of names to columns, a pyarrow Table or RecordBatch, or a data frame.

    A column is a numpy array (masked too), a pyarrow Array or ChunkedArray, a pandas Series, a list
    or tuple, or any object with Arrow's C interface. Raises `LocalError` if lengths differ, and for
    columns whose values are none of the model (bytes, times, nested data, mixed kinds)."""
    named = columns if type(columns) is dict else _named(columns)
    described: list[int] = []
    keep: list[Any] = []
    rows = -1
    for name, given in named.items():
        column = given
        if not isinstance(name, str):
            raise LocalError(f"the column name {name!r} is not a string; rename the column")
        if type(column) is np.ndarray and column.flags.carray and column.ndim == 1:
            code = _IN_PLACE.get(column.dtype)
        else:
            code = None
        if code is not None:
            described += (code, _address(column), *_NO_NUMBERS)
        else:
            column = _plain(name, column)
            if name == TOPIC and _is_nested(column):
                return _with_topics(named)
            described += _descriptor(column)
        if len(column) != rows:
            if rows >= 0:
                _refuse_lengths(named)
            rows = len(column)
        keep.append(column)
    rows = _row_count(columns) if rows < 0 else rows
    table = np.array(described, np.int64).reshape(-1, TABLE_WIDTH)
    return Columns(list(named), table, rows, rows, None, keep)


def row_of(columns: Columns, row: int) -> dict[str, Value]:
    """Return one row as the attributes of an event, as the twin of indexes takes it."""
    values: dict[str, Value] = {}
    for name, column in zip(columns.names, columns.keep, strict=True):
        cell = column[row]
        value = cell.as_py() if hasattr(cell, "as_py") else cell.item()
        if value is not None:
            values[name] = value
    return values


# --- what was given ------------------------------------------------------------------------------


def _named(columns: Any) -> Mapping[str, Any]:
    if isinstance(columns, Mapping):
        return columns
    if _library(columns) == "pandas" and columns.ndim == 2:
        names, given = list(columns.columns), [series for _, series in columns.items()]
    elif hasattr(columns, "column_names") and hasattr(columns, "num_rows"):
        names, given = columns.column_names, columns.columns
    elif hasattr(columns, "__arrow_c_stream__"):
        import pyarrow as pa

        return _named(pa.table(columns))
    else:
        raise LocalError(
            f"columns cannot be taken from a {type(columns).__name__}; give a mapping of names to "
            "columns, a pyarrow Table or RecordBatch, or a data frame"
        )
    named = dict(zip(names, given, strict=True))
    if len(named) < len(given):
        twice = next(name for name in named if list(names).count(name) > 1)
        raise LocalError(f"two columns are named {twice!r}; rename or drop one")
    return named


def _library(thing: object) -> str:
    """Return the package of the thing's class: this recognises a Series without loading pandas."""
    return type(thing).__module__.partition(".")[0]


def _row_count(columns: Any) -> int:
    """Return the number of rows of columns that may be none; a table has a number even then."""
    return int(getattr(columns, "num_rows", 0))


def _refuse_lengths(named: Mapping[str, Any]) -> None:
    lengths = ", ".join(f"{name!r} {len(column)}" for name, column in named.items())
    raise LocalError(f"columns must be equally long, but their lengths are: {lengths}")


# --- to one of the forms -------------------------------------------------------------------------


def _plain(name: str, column: Any) -> Any:
    """Return a contiguous numpy array of float64, int64 or bool, or an Arrow array of one of the
    forms (or of lists, under the name `topic`)."""
    if isinstance(column, np.ndarray):
        return _plain_numpy(name, column)
    if _library(column) == "pandas":
        return _plain_pandas(name, column)
    if _library(column) == "pyarrow" or isinstance(column, list | tuple):
        return _plain_arrow(name, _as_arrow(name, column))
    if hasattr(column, "__arrow_c_stream__"):
        import pyarrow as pa

        return _plain_arrow(name, pa.chunked_array(column))
    if hasattr(column, "__arrow_c_array__") or (
        isinstance(column, Sequence) and not isinstance(column, str | bytes | bytearray)
    ):
        return _plain_arrow(name, _as_arrow(name, column))
    raise LocalError(
        f"column {name!r} is of type {type(column).__name__}; a column is a numpy array, a pyarrow "
        "Array or ChunkedArray, a pandas Series or a list"
    )


def _plain_numpy(name: str, array: Array) -> Any:
    if array.ndim != 1:
        raise LocalError(f"column {name!r} has {array.ndim} dimensions; a column has one")
    kind = array.dtype.kind
    if kind not in "biufOUT":
        raise _unsupported(name, f"numpy {array.dtype}")
    if kind in "biuf" and not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if kind in "UT":
        array = array.astype(object)  # pyarrow does not know dtype T, and ends U at a NUL
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(array)
        return _plain_arrow(name, _as_arrow(name, array.data, mask=mask))
    if kind in "OUT":
        return _plain_arrow(name, _as_arrow(name, array))
    if kind == "u" and array.dtype.itemsize == 8:
        too_large = array > INT64_MAX
        if too_large.any():
            raise _beyond_int64(name, int(too_large.argmax()), array[too_large.argmax()])
    wanted = {"b": np.bool_, "f": np.float64}.get(kind, np.int64)
    return np.require(array, wanted, ["C_CONTIGUOUS", "ALIGNED"])


def _plain_pandas(name: str, series: Any) -> Any:
    """Convert a pandas Series. NaN in a column of floats stays NaN; elsewhere pandas decides what
    is missing."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind != "O":
        return _plain_numpy(name, series.to_numpy())
    return _plain_arrow(name, _as_arrow(name, series, from_pandas=True))


def _as_arrow(name: str, column: Any, **how: Any) -> Any:
    import pyarrow as pa

    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    try:
        return pa.array(column, **how)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        reason = str(error).strip().rstrip(".").partition("\n")[0]
        raise LocalError(
            f"column {name!r} cannot be read: {reason}; a column holds int64 or float64 or bool or "
            "str, and None where the attribute is missing"
        ) from error


def _plain_arrow(name: str, array: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds, given = pa.types, array.type
    if given.id in _arrow_codes():
        return _in_one_piece(array)
    if kinds.is_dictionary(given):
        return _plain_arrow(name, array.cast(given.value_type))
    if kinds.is_run_end_encoded(given):
        return _plain_arrow(name, pc.run_end_decode(array))
    if kinds.is_floating(given) or kinds.is_decimal(given):
        array = array.cast(pa.float64())
    elif kinds.is_integer(given):
        array = _to_int64(name, array)
    elif kinds.is_string_view(given):
        array = array.cast(pa.large_string())
    elif name != TOPIC or not _is_nested(array):
        raise _unsupported(name, str(given))
    return _in_one_piece(array)


def _to_int64(name: str, array: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_uint64(array.type):
        largest = pa.scalar(INT64_MAX, pa.uint64())
        row = pc.index(pc.greater(array, largest), True).as_py()
        if row >= 0:
            raise _beyond_int64(name, row, array[row].as_py())
    return array.cast(pa.int64())


def _in_one_piece(array: Any) -> pa.Array:
    import pyarrow as pa

    if not isinstance(array, pa.ChunkedArray):
        return array
    if array.num_chunks == 1:
        return array.chunk(0)
    if pa.types.is_string(array.type) and array.nbytes > LARGEST_STRING_BYTES:
        array = array.cast(pa.large_string())
    return array.combine_chunks()


def _beyond_int64(name: str, row: int, value: object) -> LocalError:
    return LocalError(
        f"column {name!r}, row {row}: {value} does not fit into int64; cast the column to float64, "
        "or leave the row out"
    )


def _unsupported(name: str, given: str) -> LocalError:
    advice = "cast it to one of these"
    if "time" in given or "date" in given or "duration" in given:
        advice = "cast times to int64 (microseconds, as `reefcast publish` does) or to text"
    elif "binary" in given or "|S" in given:
        advice = "decode bytes to str"
    elif "list" in given:
        advice = f"only {TOPIC!r} may be a column of lists, of strings"
    return LocalError(
        f"column {name!r} is of type {given}, which holds no values of an event (int64, float64, "
        f"bool or str): {advice}"
    )


# --- what the kernel reads -----------------------------------------------------------------------


def _descriptor(column: Any) -> _Descriptor:
    """Return the row of `Columns.table` for a result of `_plain` other than lists."""
    if isinstance(column, np.ndarray):
        return (_IN_PLACE[column.dtype], column.ctypes.data, *_NO_NUMBERS)
    code = _arrow_codes()[column.type.id]
    if code == NULL:
        return (NULL, 0, *_NO_NUMBERS)
    validity, *others = [0 if each is None else each.address for each in column.buffers()]
    offsets, values = others if code in (STRING, LARGE_STRING) else (0, others[0])
    return (code, values, offsets, validity if column.null_count else 0, column.offset, 0)


@cache
def _arrow_codes() -> dict[int, int]:
    """Return the form for the number of each Arrow type."""
    import pyarrow as pa

    return {
        pa.float64().id: FLOAT64,
        pa.int64().id: INT64,
        pa.bool_().id: BOOL,
        pa.string().id: STRING,
        pa.large_string().id: LARGE_STRING,
        pa.null().id: NULL,
    }


# --- several topics ------------------------------------------------------------------------------


def _is_nested(column: Any) -> bool:
    """Return whether this is an Arrow array of lists of strings."""
    if isinstance(column, np.ndarray):
        return False
    import pyarrow as pa

    kinds, given = pa.types, column.type
    lists = (
        kinds.is_list,
        kinds.is_large_list,
        kinds.is_fixed_size_list,
        kinds.is_list_view,
        kinds.is_large_list_view,
    )
    if not any(is_list(given) for is_list in lists):
        return False
    texts = (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_null)
    return any(is_text(given.value_type) for is_text in texts)


def _with_topics(named: Mapping[str, Any]) -> Columns:
    """Return the columns with a row for each topic of an event."""
    import pyarrow as pa

    plain = {name: _plain(name, column) for name, column in named.items()}
    events = len(plain[TOPIC])
    if any(len(column) != events for column in plain.values()):
        _refuse_lengths(plain)
    event_of_row, topics = _exploded(plain[TOPIC])
    taken = pa.array(event_of_row)
    rows = {
        name: column[event_of_row] if isinstance(column, np.ndarray) else column.take(taken)
        for name, column in plain.items()
        if name != TOPIC
    }
    described = columns_of({**rows, TOPIC: topics})
    return described._replace(events=events, event_of_row=event_of_row)


def _exploded(lists: pa.Array) -> tuple[Array, pa.Array]:
    """Return the event and the topic of each row; an event without topics has one row, with a
    null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    events = pc.list_parent_indices(lists).to_numpy()
    topics = pc.list_flatten(lists)
    there = topics.is_valid().to_numpy(zero_copy_only=False)
    events, topics = events[there].astype(np.int64), topics.drop_null()
    without = np.setdiff1d(np.arange(len(lists)), events)
    if without.size:
        events = np.concatenate((events, without))
        topics = pa.concat_arrays([topics, pa.nulls(without.size, topics.type)])
        order = np.argsort(events, kind="stable")
        events, topics = events[order], topics.take(pa.array(order))
    return np.ascontiguousarray(events), topics
