"""The options of `next_table`, in a module that does not need pyarrow, as `tables` does."""

from __future__ import annotations

from typing import TypedDict

from reefcast.errors import InvalidValueError

MAX_ROWS = 65_536


class Beside(TypedDict, total=False):
    """The names of columns for the parts of an event beside its attributes; by default there are
    none."""

    publisher_column: str
    seq_column: str
    time_column: str
    topics_column: str
    payload_column: str


def check_max_rows(rows: int) -> int:
    """Return `rows`. Raises `InvalidValueError` if a table cannot have so many."""
    if rows < 1:
        raise InvalidValueError(f"max_rows is {rows}; a table has one row at least")
    return rows
