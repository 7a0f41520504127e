"""Conjunctions as the kernels of covering read them: a *box*, one interval for each attribute.

All values of an attribute lie on one line: missing, then booleans, numbers, strings. A constraint
becomes an interval of that line: `IS NOT NULL` is all but missing. So covering and intersection are
comparisons of ends, whatever the kinds. An end is (kind, key, rest), in this order:

- numbers: the key is that of the float64 nearest to it (see `numbers`), the rest is twice what is
  missing to the number itself, so that an open end is the odd number beside a closed one;
- strings: the key is the first 8 bytes of UTF-8. A longer string (or one that ends with a zero
  byte) is a *long text*, stored once, with a code; it comes after a short one with the same key,
  and two long ones are compared byte by byte. The rest is four times the code (0: short), plus
  whether the end is open;
- booleans: the keys are 0 and 1.

A box is *exact* if it holds for the same events as the conjunction. Otherwise (several members,
exclusions, patterns, residuals) it holds for more events, and `model.covering` decides. A box is
*exact for meeting* if it suffices to decide intersection, for which residuals count as satisfiable,
and conditions on the strings of topics never exclude each other."""

from __future__ import annotations

import math
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple, TypeVar

import numpy as np

from reefcast.matching.machine import Array
from reefcast.model.constraint import Constraint
from reefcast.model.filters import TOPIC, Conjunction
from reefcast.model.publication import Value
from reefcast.model.values import Kind, is_nan

T = TypeVar("T")

MISSING, BOOLEAN, NUMBER, STRING = range(4)
LEAST, MOST = -(2**63), 2**63 - 1
ZERO = 1 << 15
"""The rest of a number that equals a float64; no rest is negative."""
BELOW_ALL, ABOVE_ALL = 0, 2 * ZERO
NAN_REST = ZERO + 2

_NUMBERS = NUMBER | NUMBER << 4
_STRINGS = STRING | STRING << 4
_BOOLEANS = BOOLEAN | BOOLEAN << 4
_THERE = BOOLEAN | STRING << 4

Ends = tuple[Any, Any, int, int, int]
"""Low key, high key, low rest, high rest, kinds; the keys of numbers are floats here."""

NULL_ENDS: Ends = (0, 0, 0, 0, MISSING)
PRESENT_ENDS: Ends = (LEAST, MOST, 0, 1, _THERE)
ANY_STRING: Ends = (LEAST, MOST, 1, 1, _STRINGS)


class Box(NamedTuple):
    """The box of a conjunction. `data`: one record for each of `records` attributes, see
    `cover.layout`. `unknown`: whether the conjunction names an attribute that no stored box has,
    which is left out."""

    data: bytes
    records: int
    exact: bool
    meets_exactly: bool
    unknown: bool


def number_end(number: Any) -> tuple[float, int]:
    """Return a number as float64 and rest: the difference of an int64 (or uint64) from the nearest
    float64 is small."""
    if isinstance(number, float):
        return (math.inf, NAN_REST) if is_nan(number) else (number + 0.0, ZERO)  # -0.0 is 0.0
    nearest = float(number)
    return nearest, ZERO + 2 * (number - int(nearest))


@lru_cache(maxsize=1 << 12)
def _layout(keys: str) -> Struct:
    """Return the struct layout of a box. `keys`: "d" for each attribute with numbers as keys, "q"
    for others."""
    return Struct("<" + "".join(f"{key}{key}iiii" for key in keys))


class Coder:
    """Assigns numbers to attributes and codes to long texts.

    Both live as long as they have users. The kernels count these in `attribute_users` and
    `text_users`, and report those that lost their last user."""

    def __init__(self) -> None:
        self.attribute_users = np.zeros(64, np.int64)
        self.text_users = np.zeros(64, np.int64)
        self.text_addresses = np.zeros(64, np.int64)
        self.text_sizes = np.zeros(64, np.int64)
        self.version = 0  # changes with every address above and every number that is freed
        self._attributes: dict[str, int] = {}
        self._names: list[str] = []
        self._free_attributes: list[int] = []
        self._codes: dict[bytes, int] = {}
        self._texts: list[bytes] = [b""]
        self._free_codes: list[int] = []
        self._fresh: list[int] = []  # codes given out that have no user yet

    def memory_bytes(self) -> int:
        tables = (self.attribute_users, self.text_users, self.text_addresses, self.text_sizes)
        return sum(table.nbytes for table in tables) + sum(map(len, self._codes))

    def text(self, code: int) -> bytes:
        return self._texts[code]

    # --- boxes -----------------------------------------------------------------------------------

    def box(self, conjunction: Conjunction, *, new: bool, meeting: bool = False) -> Box:
        """Return the box of a conjunction. `new`: give numbers to new attributes. `meeting`: for
        intersection, where any two strings are compatible as topics."""
        attributes = self._attributes
        fields: list[Any] = []
        keys = ""
        exact = meets = True
        unknown = False
        for name, constraint in conjunction.constraints.items():
            attribute = attributes.get(name)
            if attribute is None:
                if not new:
                    unknown = True
                    continue
                attribute = self._new_attribute(name)
            low, high = constraint.low, constraint.high
            if (
                type(low) is type(high) is float and not constraint.excluded
            ):  # the usual case, made fast
                low_rest, high_rest = ZERO + constraint.low_open, ZERO - constraint.high_open
                fields += (low + 0.0, high + 0.0, low_rest, high_rest, attribute, _NUMBERS)
                keys += "d"
                continue
            ends, whole = self._ends(constraint)
            if not whole:
                exact = False
            if name == TOPIC and constraint.kind is Kind.STRING:
                ends = ANY_STRING if meeting else ends
            elif not whole:
                meets = False
            fields += ends[:4]
            fields += (attribute, ends[4])
            keys += "d" if ends[4] == _NUMBERS else "q"
        data = _layout(keys).pack(*fields)
        return Box(data, len(keys), exact and not conjunction.residuals, meets, unknown)

    def _ends(self, c: Constraint) -> tuple[Ends, bool]:
        """Return the ends of a constraint, and whether they express all of it."""
        kind = c.kind
        if kind is Kind.NUMBER:
            return self._number_ends(c)
        if kind is Kind.STRING:
            return self._string_ends(c)
        if c.missing:
            return NULL_ENDS, True
        if kind is None:
            return PRESENT_ENDS, True
        members = c.members or (False, True)
        return (int(members[0]), int(members[-1]), 0, 0, _BOOLEANS), True

    def _number_ends(self, c: Constraint) -> tuple[Ends, bool]:
        members, low, high = c.members, c.low, c.high
        if members is not None:
            low, high = members[0], members[-1]
        low_key, low_rest = -math.inf, BELOW_ALL
        if low is not None:
            low_key, low_rest = number_end(low)
            low_rest += c.low_open
        high_key, high_rest = math.inf, ABOVE_ALL
        if high is not None:
            high_key, high_rest = number_end(high)
            high_rest -= c.high_open
        whole = not c.excluded and (members is None or len(members) == 1)
        return (low_key, high_key, low_rest, high_rest, _NUMBERS), whole

    def _string_ends(self, c: Constraint) -> tuple[Ends, bool]:
        members = c.members
        if members is not None:
            low, low_rest = self._string_end(members[0])
            if len(members) == 1:
                return (low, low, low_rest + 1, low_rest + 1, _STRINGS), True
            high, high_rest = self._string_end(members[-1])
            return (low, high, low_rest + 1, high_rest + 1, _STRINGS), False
        low, low_rest, high, high_rest = LEAST, 0, MOST, 0
        if c.low is not None:
            low, low_rest = self._string_end(c.low)
        if c.high is not None:
            high, high_rest = self._string_end(c.high)
        ends = (low, high, low_rest + 1 + c.low_open, high_rest + 1 - c.high_open, _STRINGS)
        return ends, not (c.excluded or c.patterns)

    def _string_end(self, value: Value) -> tuple[int, int]:
        """Return the key of a string's end, and the rest of an end just below the string."""
        data = str(value).encode("utf-8", "surrogatepass")
        key = int.from_bytes(data[:8].ljust(8, b"\0"), "big") + LEAST
        if len(data) <= 8 and not data.endswith(b"\0"):
            return key, 0
        return key, self._code(data) << 2

    # --- numbers of attributes, codes of texts ---------------------------------------------------

    def _new_attribute(self, name: str) -> int:
        self.version += 1
        number = _put(name, self._names, self._free_attributes)
        self.attribute_users = _grown(self.attribute_users, number)
        self._attributes[name] = number
        return number

    def _code(self, data: bytes) -> int:
        code = self._codes.get(data)
        if code is None:
            code = _put(data, self._texts, self._free_codes)
            self._grow_texts(code)
            self._codes[data] = code
            self.text_addresses[code] = np.frombuffer(data, np.uint8).ctypes.data
            self.text_sizes[code] = len(data)
            self._fresh.append(code)
        return code

    def _grow_texts(self, code: int) -> None:
        if code >= len(self.text_users):
            self.version += 1
            self.text_users = _grown(self.text_users, code)
            self.text_addresses = _grown(self.text_addresses, code)
            self.text_sizes = _grown(self.text_sizes, code)

    def settle(self) -> None:
        """Free the codes that a call made and did not use."""
        if self._fresh:
            for code in self._fresh:
                if self.text_users[code] == 0 and self._texts[code]:
                    self.drop_text(code)
            self._fresh.clear()

    def drop_text(self, code: int) -> None:
        self.version += 1
        del self._codes[self._texts[code]]
        self._texts[code] = b""
        self._free_codes.append(code)

    def drop_attribute(self, number: int) -> None:
        self.version += 1
        del self._attributes[self._names[number]]
        self._names[number] = ""
        self._free_attributes.append(number)


def _put(item: T, items: list[T], free: list[int]) -> int:
    """Put the item into a free place, or behind all others; return the place."""
    if not free:
        items.append(item)
        return len(items) - 1
    place = free.pop()
    items[place] = item
    return place


def _grown(table: Array, place: int) -> Array:
    """Return `table` if it has this place, otherwise a copy of twice the length, padded with
    zeros."""
    if place < len(table):
        return table
    return np.concatenate([table, np.zeros(len(table), table.dtype)])
