"""Events of a batch as columns: `rows` and `arrow` make them, and `batches` encodes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from reefcast.client.encoding import check_topics
from reefcast.errors import InvalidValueError

CHUNK = 4096
"""Rows that are turned into columns at a time, so that their Python objects are freed soon."""


class Special(NamedTuple):
    """What is no attribute: the `topics` of all events, and the columns that hold each event's
    topics and payload ("" if there is none)."""

    topics: tuple[str, ...] = ()
    topics_column: str = ""
    payload_column: str = ""


class Block(NamedTuple):
    """Events with the same names of attributes. `rows`: their places in the batch, counted from 0;
    `columns`: the values of each of the `names`, None where there is none; `topics`: one topic or a
    tuple for each event; `payloads`: bytes for each event; both None where there are none."""

    rows: Sequence[int]
    names: Sequence[Any]
    columns: Sequence[Sequence[Any]]
    topics: Sequence[Any]
    payloads: Sequence[Any]


def special_of(topics: Iterable[str], topics_column: str, payload_column: str) -> Special:
    """Make a `Special` of the keywords of `publish_many`. Raises `InvalidValueError` if they
    contradict each other."""
    names = check_topics(topics) if topics else ()
    if names and topics_column:
        raise InvalidValueError(
            "give either topics (for all events) or topics_column (each event's own), not both"
        )
    if topics_column and topics_column == payload_column:
        raise InvalidValueError(f"column {topics_column!r} cannot be both topics and payload")
    return Special(names, topics_column, payload_column)


def block_of(rows: Sequence[int], columns: Mapping[Any, Sequence[Any]], special: Special) -> Block:
    """Make a block of columns by name, some of which may be special."""
    columns = dict(columns)
    none: Sequence[Any] = [None] * len(rows)
    topics: Sequence[Any] = [special.topics] * len(rows) if special.topics else none
    if special.topics_column:
        topics = [*map(_tuple, columns.pop(special.topics_column, none))]
    payloads = columns.pop(special.payload_column, none) if special.payload_column else none
    return Block(rows, list(columns), list(columns.values()), topics, payloads)


def _tuple(cell: Any) -> Any:
    """Make a tuple of a list or a set, which cannot be a key."""
    return tuple(cell) if isinstance(cell, list | set | frozenset) else cell
