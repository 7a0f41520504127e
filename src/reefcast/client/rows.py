"""The arguments of `publish_many` as blocks of columns: mappings here, tables in `arrow`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from reefcast.client.blocks import CHUNK, Block, Special, block_of
from reefcast.client.encoding import merge_attributes
from reefcast.errors import InvalidValueError


def blocks_of(events: object, special: Special) -> Iterator[Block]:
    """Yield all rows, each in one block. `events`: mappings (or Structs, or dataclasses), a pandas
    data frame, or a table that Arrow reads. Raises `InvalidValueError` for anything else, and
    `LocalError` if pyarrow is needed and not installed."""
    if type(events).__module__.partition(".")[0] == "pandas" and hasattr(events, "columns"):
        from reefcast.client.arrow import blocks_of_frame

        return blocks_of_frame(events, special)
    if hasattr(events, "__arrow_c_stream__") or hasattr(events, "__arrow_c_array__"):
        from reefcast.client.arrow import blocks_of_table

        return blocks_of_table(events, special)
    return _blocks_of_mappings(_listed(events), special)


def _listed(events: Any) -> Sequence[Any]:
    if isinstance(events, list | tuple):
        return events
    if isinstance(events, Mapping | str | bytes) or not isinstance(events, Iterable):
        raise InvalidValueError(
            f"publish_many takes a list of events, an Arrow table or a data frame, and this is a "
            f"{type(events).__name__}; one event goes by publish(...)"
        )
    return list(events)


def _blocks_of_mappings(rows: Sequence[Any], special: Special) -> Iterator[Block]:
    """Make a block of those rows of a chunk that have the same names."""
    for start in range(0, len(rows), CHUNK):
        mappings = [
            row if type(row) is dict else _mapping(start + i, row)
            for i, row in enumerate(rows[start : start + CHUNK])
        ]
        names = tuple(mappings[0])
        if all(tuple(each) == names for each in mappings):
            yield _block(range(start, start + len(mappings)), names, mappings, special)
            continue
        shapes: dict[tuple[Any, ...], list[int]] = {}
        for i, each in enumerate(mappings):
            shapes.setdefault(tuple(each), []).append(i)
        for shape, its in shapes.items():
            yield _block([start + i for i in its], shape, [mappings[i] for i in its], special)


def _mapping(row: int, given: Any) -> Mapping[Any, Any]:
    try:
        return merge_attributes(given, {})
    except InvalidValueError as error:
        raise InvalidValueError(f"row {row}: {error}; nothing was published") from error


def _block(
    rows: Sequence[int], names: tuple[Any, ...], mappings: list[Mapping[Any, Any]], special: Special
) -> Block:
    columns = {name: [*map(itemgetter(name), mappings)] for name in names}
    return block_of(rows, columns, special)
