"""What `next_table` can be asked for; apart from `tables`, which needs pyarrow."""

from __future__ import annotations

from typing import TypedDict

from reefcast.errors import InvalidValueError

MAX_ROWS = 65_536


class Beside(TypedDict, total=False):
    """The names of columns for what events have beside their attributes; by default there are
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
