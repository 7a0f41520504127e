"""The tables of the bitmap index: how they grow, and when their slots are cut anew.

Rows, predicates and members are only ever appended, in the same order, so a row's number tells when
its filter was added. A row that goes just loses its bit in `alive`. When all rows are used up, one
rebuild drops the dead ones, doubles the room if most are alive, forgets attributes and strings that
nobody uses, and cuts the slots anew at quantiles of the bounds there are. A rebuild of n rows thus
comes after at least n / 2 additions: its cost for each is constant.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from reefcast.matching.kernels import (
    ATTRIBUTE,
    ATTRIBUTE_COUNT,
    FIRST_BUCKET,
    MEMBER,
    NUMBER,
    PREDICATE,
    ROW,
    ROW_COUNT,
    STRING,
    VALUE,
    Tables,
    addresses_of,
    enter_rows,
)
from reefcast.matching.old_machine import Array
from reefcast.matching.old_predicates import Predicate
from reefcast.matching.strings import Strings, grown

NUMBER_BUCKETS = 64
"""Most intervals that the numbers of an attribute are cut into."""

STRING_BUCKETS = 256
"""The same for strings; more, because equality is the rule there."""

MIN_ROWS = 64
EMPTY_SLOTS = FIRST_BUCKET + 2
"""Slots of an attribute without boundaries."""


def quantiles(values: Array, limit: int) -> Array:
    """At most `limit` ascending values that cut `values` into parts of equal weight."""
    values = np.sort(values[np.isfinite(values)])
    distinct = np.unique(values)
    if len(distinct) <= limit:
        return distinct
    return np.unique(values[np.arange(limit) * len(values) // limit])


class Store:
    """`addresses` is what the kernels take; valid until the next change."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.row_count = 0
        self.strings = Strings()
        self._attributes: dict[str, int] = {}
        self._predicate_count = self._member_count = self._slot_count = 0
        self._rows = np.empty(MIN_ROWS, ROW)
        self._predicates = np.empty(4 * MIN_ROWS, PREDICATE)
        self._members = np.empty(MIN_ROWS, MEMBER)
        self._alive = np.zeros(MIN_ROWS // 64, np.uint64)
        self._event = np.empty(8, VALUE)
        self._table = self._boundaries = np.empty(0)
        self._excluded = np.empty((0, 0), np.uint64)
        self._occupied = np.empty(0, np.uint8)
        self._tables: tuple[Array | None, ...] = (None,) * len(Tables._fields)
        self._cut_slots(MIN_ROWS)

    # --- rows ------------------------------------------------------------------------------------

    def has_room(self, rows: int) -> bool:
        return self.row_count + rows <= len(self._rows)

    def append(self, first: int, checked: bool, predicates: Iterable[tuple[str, Predicate]]) -> int:
        """Enters a row and returns its number; there must be room."""
        row = self.row_count
        start = self._predicate_count
        for name, predicate in predicates:
            self._append_predicate(self._attribute(name), predicate)
        self._rows[row] = (start, self._predicate_count, first, checked)
        self._alive[row >> 6] |= np.uint64(1 << (row & 63))
        self.row_count = row + 1
        self._refresh()
        enter_rows(self.addresses, row, row + 1)
        return row

    def kill(self, first: int) -> range:
        """Takes the bits of the filter whose first row this is; returns its rows."""
        end = first
        while end < self.row_count and self._rows["first"][end] == first:
            self._alive[end >> 6] &= ~np.uint64(1 << (end & 63))
            end += 1
        return range(first, end)

    def rebuild(self, needed: int) -> Array:
        """Makes room for `needed` more rows. Returns the old numbers of the rows kept, ascending;
        their new numbers are 0, 1, 2, ..."""
        kept = self._compact()
        self._drop_strings()
        self._drop_attributes()
        capacity = MIN_ROWS
        while capacity < 2 * self.row_count or capacity < self.row_count + needed:
            capacity *= 2
        rows = np.empty(capacity, ROW)
        rows[: self.row_count] = self._rows[: self.row_count]
        self._rows = rows
        bits = np.zeros(capacity, np.uint8)
        bits[: self.row_count] = 1
        self._alive = np.packbits(bits, bitorder="little").view(np.uint64)
        self._cut_slots(capacity)
        enter_rows(self.addresses, 0, self.row_count)
        return kept

    def memory_bytes(self) -> int:
        return sum(table.nbytes for table in self._tables if table is not None)

    # --- appending -------------------------------------------------------------------------------

    def _append_predicate(self, attribute: int, p: Predicate) -> None:
        start, count = self._member_count, len(p.members)
        self._members = grown(self._members, start + count)
        self._members[start : start + count] = list(p.members)
        self._member_count = start + count
        self._predicates = grown(self._predicates, self._predicate_count + 1)
        self._predicates[self._predicate_count] = (
            p.low[0],
            p.high[0],
            p.low[1],
            p.high[1],
            attribute,
            p.kinds,
            start,
            -count if p.negated else count,
            p.from_text,
            p.to_text,
        )
        self._predicate_count += 1

    def _attribute(self, name: str) -> int:
        number = self._attributes.get(name)
        if number is None:
            number = self._attributes[name] = len(self.names)
            self.names.append(name)
            self._table = grown(self._table, number + 1)
            self._event = grown(self._event, number + 1)
            self._table[number] = (self._slot_count, 0, 0, 0, 0)
            self._slot_count += EMPTY_SLOTS
            if self._slot_count > len(self._excluded):
                self._widen()
        return number

    def _widen(self) -> None:
        excluded = np.zeros((2 * self._slot_count, self._excluded.shape[1]), np.uint64)
        excluded[: len(self._excluded)] = self._excluded
        self._excluded = excluded
        occupied = np.zeros(2 * self._slot_count, np.uint8)
        occupied[: len(self._occupied)] = self._occupied
        self._occupied = occupied

    def _refresh(self) -> None:
        tables = Tables(
            self._excluded,
            self._occupied,
            self._alive,
            self._rows,
            self._predicates,
            self._members,
            self._table,
            self._boundaries,
            self.strings.entries,
            self.strings.buckets,
            self.strings.characters,
            self._event,
        )
        if any(new is not old for new, old in zip(tables, self._tables, strict=True)):
            self._tables = tables
            self.addresses = addresses_of(tables)
        self.addresses[ROW_COUNT] = self.row_count
        self.addresses[ATTRIBUTE_COUNT] = len(self.names)

    # --- rebuilding ------------------------------------------------------------------------------

    def _compact(self) -> Array:
        """Drops dead rows with their predicates and members."""
        alive = np.unpackbits(self._alive.view(np.uint8), bitorder="little")[: self.row_count]
        kept = np.flatnonzero(alive)
        rows = self._rows[: self.row_count]
        predicates = self._predicates[: self._predicate_count]
        members = self._members[: self._member_count]
        of_row = rows["end"] - rows["start"]
        keep_predicate = np.repeat(alive, of_row).astype(bool)
        keep_member = np.repeat(keep_predicate, np.abs(predicates["count"]))
        members, predicates, rows = members[keep_member], predicates[keep_predicate], rows[kept]
        predicates["members"] = _starts(np.abs(predicates["count"]))
        rows["start"] = _starts(of_row[kept])
        rows["end"] = rows["start"] + of_row[kept]
        rows["first"] = np.searchsorted(kept, rows["first"])
        self._rows, self._predicates, self._members = rows, predicates, members
        self.row_count, self._predicate_count = len(rows), len(predicates)
        self._member_count = len(members)
        return kept

    def _drop_strings(self) -> None:
        """Gives the strings in use new codes, in the order of the old ones."""
        predicates, members = self._predicates, self._members
        of_strings = predicates["kinds"] == 1 << STRING
        member = np.repeat(of_strings, np.abs(predicates["count"]))
        places = [(members["value"], member)]
        for field in ("low", "high"):
            places.append((predicates[field], of_strings & np.isfinite(predicates[field])))
        for field in ("from_text", "to_text"):
            places.append((predicates[field], predicates[field] >= 0))
        used = np.unique(np.concatenate([column[where] for column, where in places]))
        for column, where in places:
            column[where] = np.searchsorted(used, column[where])
        self.strings.keep(used.astype(np.int64))

    def _drop_attributes(self) -> None:
        used, numbers = np.unique(self._predicates["attribute"], return_inverse=True)
        self._predicates["attribute"] = numbers
        self.names = [self.names[number] for number in used.tolist()]
        self._attributes = {name: number for number, name in enumerate(self.names)}

    def _cut_slots(self, capacity: int) -> None:
        """Cuts the slots of all attributes and clears the bitmaps, for `capacity` rows."""
        cuts = [self._cuts(number) for number in range(len(self.names))]
        self._table = np.zeros(max(8, len(cuts)), ATTRIBUTE)
        slot = start = 0
        for number, (numbers, strings) in enumerate(cuts):
            middle = start + len(numbers)
            self._table[number] = (slot, start, len(numbers), middle, len(strings))
            start = middle + len(strings)
            slot += EMPTY_SLOTS + len(numbers) + len(strings)
        self._slot_count = slot
        self._boundaries = np.concatenate([np.empty(0), *(part for cut in cuts for part in cut)])
        room = slot + 8 * EMPTY_SLOTS
        self._excluded = np.zeros((room, capacity // 64), np.uint64)
        self._occupied = np.zeros(room, np.uint8)
        self._refresh()

    def _cuts(self, attribute: int) -> tuple[Array, Array]:
        mine = self._predicates["attribute"][: self._predicate_count] == attribute
        return (
            quantiles(self._bounds(mine, NUMBER), NUMBER_BUCKETS),
            quantiles(self._bounds(mine, STRING), STRING_BUCKETS),
        )

    def _bounds(self, mine: Array, kind: int) -> Array:
        """All bounds and members of the predicates that ask for values of this kind only."""
        predicates = self._predicates[: self._predicate_count]
        mine = mine & (predicates["kinds"] == 1 << kind)
        members = self._members[: self._member_count]["value"]
        return np.concatenate(
            [
                predicates["low"][mine],
                predicates["high"][mine],
                members[np.repeat(mine, np.abs(predicates["count"]))],
            ]
        )


def _starts(counts: Array) -> Array:
    return np.cumsum(counts) - counts
