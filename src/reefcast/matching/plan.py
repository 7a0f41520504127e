"""How a compiled index stores its filters, for `reefcast explain --plan`.

Python reads the state word by word here, which is slow (a microsecond for each partition) and needs
no kernel. For the layout see `state`, `rows` and `partitions`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ctypes import c_int64, c_uint32, string_at
from typing import Any, NamedTuple

from reefcast.matching.chains import H_HEADS, H_ROOM, SHARD_WORDS, SHARDS
from reefcast.matching.numbers import TURN
from reefcast.matching.partitions import ANY_KIND
from reefcast.matching.pieces import PIECE
from reefcast.matching.predicates import ATTRIBUTE_BITS, IS_TEXT, KIND_BITS
from reefcast.matching.rows import (
    BLOCK_MASK,
    FORM_SHIFT,
    MULTI,
    PIECED,
    PRESENT_ONLY,
    PROGRAM,
    VALUED,
)
from reefcast.matching.state import (
    A_NAME,
    A_WORDS,
    C_ATTRIBUTES,
    C_FIRST,
    CA_ATTRIBUTE,
    CA_NUMBERS,
    CA_TEXTS,
    CA_WORDS,
    NUMBER,
    P_ATTRIBUTE,
    P_BLOCKS,
    P_COUNT,
    P_CUTS,
    P_KEY,
    P_KIND,
    P_NEXT,
    P_ROWS,
    P_WORDS,
    S_ATTRIBUTES,
    S_DEFAULT,
    S_FIRST,
    S_PARTITIONS,
    S_PROGRAMMED,
    S_ROWS,
    STRING,
    T_BYTES,
    T_SIZE,
)
from reefcast.model.wording import readable_name, readable_value

BITMAPS, ONE_BY_ONE = "bitmaps", "one by one"
_WORDS = struct.Struct(f"{P_WORDS}q")


class _Partition(NamedTuple):
    """`kind` and `key` as in `partitions`; `attribute` is -1 for the default partition."""

    attribute: int
    kind: int
    key: int
    rows: int
    blocks: int  # 0: its rows are checked one by one
    cuts: int


def plan_of(state: int) -> dict[str, Any]:
    """Describe how the index matches, as JSON-able data; a row is a conjunction of a filter.

    - `rows`; `with_residuals`: those with residual conditions;
    - `partitions`: for each attribute that partitions, `by` value, piece or presence: its `values`
      (partitions) and their `rows`, how many are `checked_one_by_one` and how many have `bitmaps`,
      and the condition and the rows of the `largest`;
    - `default`: the rows of no partition, their `plan`, `blocks` of bitmaps, and for each attribute
      with bitmaps the number of buckets of its values."""
    groups: dict[tuple[int, str], list[_Partition]] = {}
    for partition in _partitions(state):
        group = (partition.attribute, _way(partition.kind))
        groups.setdefault(group, []).append(partition)
    partitions = [_summary(state, group) for group in groups.values()]
    partitions.sort(key=lambda each: (-each["rows"], each["attribute"], each["by"]))
    return {
        "rows": _word(state, S_ROWS),
        "with_residuals": _word(state, S_PROGRAMMED),
        "partitions": partitions,
        "default": _default(state, _partition(_word(state, S_DEFAULT))),
    }


def places_of(state: int, handle: int) -> list[dict[str, Any]]:
    """Return for each row of a filter: the condition of its `partition` (None: the default one),
    its number of `rows`, the `plan` by which they are matched, and whether Python decides about
    this row."""
    found = []
    row = _word(_word(state, S_FIRST), handle)
    while row:
        count, flags = _counts(row)
        bounds = row + 8 * (1 + (count + 2) // 2)
        found.append(_place(state, row, flags, bounds))
        row = _word(bounds, 2 * count + (flags & PROGRAM)) if flags & MULTI else 0
    return found[::-1]  # the last one was put in front


# --- the whole -----------------------------------------------------------------------------------


def _summary(state: int, group: list[_Partition]) -> dict[str, Any]:
    """Sum up all partitions by one attribute; `values` is their number."""
    attribute, kind, *_ = group[0]
    most = max(partition.rows for partition in group)
    # of several, not the first one: addresses decide their order
    largest = min(_condition(state, *each[:3]) for each in group if each.rows == most)
    with_bitmaps = sum(partition.blocks > 0 for partition in group)
    return {
        "attribute": _name(state, attribute),
        "by": _way(kind),
        "values": len(group),
        "rows": sum(partition.rows for partition in group),
        "checked_one_by_one": len(group) - with_bitmaps,
        "bitmaps": with_bitmaps,
        "largest": largest,
        "largest_rows": most,
    }


def _way(kind: int) -> str:
    """Return how an attribute partitions, by P_KIND of the partition."""
    return "presence" if kind == ANY_KIND else "piece" if kind <= PIECE else "value"


def _default(state: int, partition: _Partition) -> dict[str, Any]:
    return {
        "rows": partition.rows,
        "plan": BITMAPS if partition.blocks else ONE_BY_ONE,
        "blocks": partition.blocks,
        "attributes": _buckets(state, partition.cuts) if partition.cuts else [],
    }


def _buckets(state: int, cuts: int) -> list[dict[str, Any]]:
    """Return how the newest cuts divide the values of each attribute: buckets between two
    boundaries, and one for each boundary that is a string."""
    found = []
    for i in range(_word(cuts, C_ATTRIBUTES)):
        entry = cuts + 8 * (C_FIRST + CA_WORDS * i)
        found.append(
            {
                "name": _name(state, _word(entry, CA_ATTRIBUTE)),
                "number_buckets": _word(entry, CA_NUMBERS) + 1,
                "string_buckets": 2 * _word(entry, CA_TEXTS) + 1,
            }
        )
    return found


# --- one row -------------------------------------------------------------------------------------


def _place(state: int, row: int, flags: int, bounds: int) -> dict[str, Any]:
    block = (_word(row) >> 32) & BLOCK_MASK
    condition, beside = None, _partition(_word(state, S_DEFAULT))
    if flags & (VALUED | PRESENT_ONLY | PIECED):
        key = _key_of(row, flags, bounds)
        condition = _condition(state, *key)
        beside = next(each for each in _partitions(state) if each[:3] == key)
    return {
        "partition": condition,
        "rows": beside.rows,
        "plan": BITMAPS if block else ONE_BY_ONE,
        "with_residuals": bool(flags & PROGRAM),
    }


def _key_of(row: int, flags: int, bounds: int) -> tuple[int, int, int]:
    """Return attribute, kind and key of a row's partition, by the row's first predicate."""
    tag = c_uint32.from_address(row + 12).value
    attribute, how = tag & ((1 << ATTRIBUTE_BITS) - 1), tag >> (ATTRIBUTE_BITS + KIND_BITS)
    if flags & PRESENT_ONLY:
        return attribute, ANY_KIND, 0
    if flags & PIECED:
        return attribute, PIECE - (flags >> FORM_SHIFT), _word(bounds, 1)
    return attribute, STRING if how == IS_TEXT else NUMBER, _word(bounds)


def _counts(row: int) -> tuple[int, int]:
    """Return the number of predicates, and the flags."""
    both = c_uint32.from_address(row + 8).value
    return both & 0xFFFF, both >> 16


# --- in words ------------------------------------------------------------------------------------


def _condition(state: int, attribute: int, kind: int, key: int) -> str:
    """Return the condition that every row of a partition has."""
    name = readable_name(_name(state, attribute))
    if kind == ANY_KIND:
        return f"{name} IS NOT NULL"
    if kind <= PIECE:
        piece = key.to_bytes(8, "little", signed=True)[: 1 << (PIECE - kind)]
        return f"{name} LIKE '%{piece.decode(errors='replace')}%'"
    return f"{name} = {readable_value(_text(key) if kind == STRING else _number(key))}"


def _number(key: int) -> float:
    """Return the float64 with this key, see `numbers`."""
    (number,) = struct.unpack("<d", struct.pack("<q", key if key >= 0 else key ^ TURN))
    return float(number)


def _name(state: int, attribute: int) -> str:
    return _text(_word(_word(state, S_ATTRIBUTES), A_WORDS * attribute + A_NAME))


def _text(address: int) -> str:
    return string_at(address + 8 * T_BYTES, _word(address, T_SIZE)).decode()


# --- memory --------------------------------------------------------------------------------------


def _word(address: int, place: int = 0) -> int:
    return c_int64.from_address(address + 8 * place).value


def _partition(address: int) -> _Partition:
    words = _WORDS.unpack(string_at(address, 8 * P_WORDS))
    return _Partition(
        words[P_ATTRIBUTE],
        words[P_KIND],
        words[P_KEY],
        words[P_ROWS],
        words[P_COUNT] if words[P_BLOCKS] else 0,
        words[P_CUTS],
    )


def _partitions(state: int) -> Iterator[_Partition]:
    """Return all partitions except the default one."""
    table = _word(state, S_PARTITIONS)
    for shard in range(table, table + 8 * SHARD_WORDS * SHARDS, 8 * SHARD_WORDS):
        heads = _word(shard, H_HEADS)
        for i in range(_word(shard, H_ROOM)):
            address = _word(heads, i)
            while address:
                yield _partition(address)
                address = _word(address, P_NEXT)
