"""What the tests of the compiled index share: the index beside its twin, a look at the memory of
its default partition, random filters and events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from ctypes import c_int64
from random import Random
from typing import NamedTuple

from reefcast.matching.index import CompiledIndex
from reefcast.matching.scan import ScanIndex
from reefcast.matching.state import (
    B_ALIVE,
    B_CAPACITY,
    B_CUTS,
    B_USED,
    C_SERIAL,
    P_BLOCKS,
    P_COUNT,
    P_LIST,
    S_DEFAULT,
)
from reefcast.model.expression import literal_to_sql
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.publication import INT64_MAX, INT64_MIN, Publication, Value

NUMBERS: tuple[Value, ...] = (
    *(0, 1, -1, 7, 127, 128, -32, -33, 255, 256, 300, -129, 65_535, 65_536, -32_769, 2**31, 2**32),
    *(2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, -(2**53), 2**62, 2**62 + 1),
    *(INT64_MAX - 512, INT64_MAX - 511, INT64_MAX - 1, INT64_MAX, INT64_MIN, INT64_MIN + 1),
    *(0.0, -0.0, 0.5, -1.5, 7.0, 5e-324, -5e-324, 2.0**53, 2.0**53 + 2, -(2.0**53) - 2),
    *(2.0**62, 2.0**63, -(2.0**63), 2.0**63 - 1024, 1e300, -1e300, 1.7976931348623157e308),
)
SPECIAL: tuple[Value, ...] = (math.nan, math.inf, -math.inf)
STRINGS: tuple[Value, ...] = (
    *("", "a", "b", "ab", "abc", "b!", "a/b", "a/c", "a/b/c", "/", "$s", "$s/a", "\0", "a\0"),
    *("é", "éa", "日本", "🐠", "a🐠b", "\uffff", "\U0010ffff", "'", "%_", "x" * 31, "x" * 32),
)
LONG: tuple[Value, ...] = ("y" * 255, "y" * 256, "z" * 70_000)
VALUES = (*NUMBERS, *SPECIAL, *STRINGS, *LONG[:2], True, False)


def number_to_sql(number: Value) -> str:
    """Write a number in SQL, even one for which the language has no literal."""
    if number == INT64_MIN and isinstance(number, int):
        return "(-9223372036854775807 - 1)"
    if isinstance(number, float) and not math.isfinite(number):
        return {math.inf: "(1e308 * 10)", -math.inf: "(-1e308 * 10)"}.get(
            number, "(1e308 * 10 - 1e308 * 10)"
        )
    return literal_to_sql(number)


def event(attributes: dict[str, Value], topics: Iterable[str] = ()) -> Publication:
    return Publication("p", 1, 0, attributes, tuple(topics))


class Both:
    """A compiled index and its twin under the same keys.

    The twin is asked once for each filter, however many keys there are of it.
    """

    def __init__(self) -> None:
        self.index: CompiledIndex[int] = CompiledIndex()
        self.twin: ScanIndex[Filter] = ScanIndex()
        self.keys: dict[Filter, set[int]] = {}
        self.filters: dict[int, Filter] = {}

    def add(self, key: int, filter: Filter) -> None:
        self.index.add(key, filter)
        self.filters[key] = filter
        if filter not in self.keys:
            self.keys[filter] = set()
            self.twin.add(filter, filter)
        self.keys[filter].add(key)

    def remove(self, key: int) -> None:
        self.index.remove(key)
        filter = self.filters.pop(key)
        self.keys[filter].remove(key)
        if not self.keys[filter]:
            del self.keys[filter]
            self.twin.remove(filter)

    def expected(self, publication: Publication) -> list[int]:
        return sorted(key for found in self.twin.match(publication) for key in self.keys[found])

    def check(self, publications: Sequence[Publication]) -> None:
        found = [sorted(keys) for keys in self.index.match_many(publications)]
        assert [sorted(self.index.match(each)) for each in publications] == found
        for publication, keys in zip(publications, found, strict=True):
            wanted = self.expected(publication)
            if keys != wanted:
                wrong = sorted(set(keys) ^ set(wanted))[:3]
                texts = [self.filters[key].text if key in self.filters else key for key in wrong]
                raise AssertionError(f"{publication.attributes} {publication.topics}: {texts}")
        assert len(self.index) == len(self.filters)


# --- what the default partition looks like --------------------------------------------------------


class Block(NamedTuple):
    capacity: int
    used: int
    alive: int
    cuts: int  # their serial number


def _word(address: int, place: int = 0) -> int:
    return c_int64.from_address(address + 8 * place).value


def default_blocks(index: CompiledIndex[int]) -> list[Block]:
    """Return the blocks of the default partition; none if it is a list of rows."""
    partition = int(index._numbers[S_DEFAULT])
    if not _word(partition, P_BLOCKS):
        return []
    items = _word(partition, P_LIST)
    addresses = [_word(items, i) for i in range(_word(partition, P_COUNT))]
    return [
        Block(
            _word(block, B_CAPACITY),
            _word(block, B_USED),
            _word(block, B_ALIVE),
            _word(_word(block, B_CUTS), C_SERIAL),
        )
        for block in addresses
    ]


def change(before: list[Block], after: list[Block]) -> str:
    """Return what a single add or remove did to the blocks; "" if it has no name."""
    if not before or not after:
        return "to blocks" if after else "to a list" if before else ""
    if len(after) < len(before):
        return "merged"
    last, now = before[-1], after[len(before) - 1]
    anew = now.cuts != last.cuts
    if len(after) > len(before):
        return "refitted" if anew else "next block"
    if now.capacity > last.capacity:
        return "grown" if not anew else "refitted" if len(after) > 1 else "grown anew"
    if now.capacity < last.capacity:
        return "shrunk"
    return "compacted" if anew else ""


# --- filters and events at random -----------------------------------------------------------------


def any_predicate(rng: Random) -> str:
    name = rng.choice(("a", "b", "c", "topic"))
    string, number = literal_to_sql(rng.choice(STRINGS)), number_to_sql(rng.choice(NUMBERS))
    key, sign = f"'k{rng.randrange(900)}'", rng.choice(("=", "<>", "<", "<=", ">", ">="))
    whole = rng.randrange(-(2**63) + 1, 2**63)
    low = rng.randrange(-50, 50)
    like = rng.choice(("a%", "%b", "a/_", "_", "%é%", "%", "k1%", "_b", "a%c%", "x%x", "%/%b%"))
    topic = rng.choice(("a/+", "a/#", "#", "+/b/c", "+/+", "a", "$s/#", "+", "+/#"))
    return rng.choice(
        (
            f"{name} {sign} {number}",
            f"{name} {sign} {low}",
            f"{name} {sign} {low / 4}",
            f"{name} {sign} {string}",
            f"{name} {sign} {key}",
            *(f"a = {key}", f"a = {key}", f"a = {key}", f"b = {low}", f"b = {low}", f"b = {low}.0"),
            f"{name} IN ({string}, 'b', {key})",
            f"{name} NOT IN ({string}, {key})",
            f"{name} IN (1, 2.5, 9007199254740993, {whole})",
            f"{name} NOT IN (3, 9007199254740993, {low})",
            f"{name} BETWEEN {low} AND {low + rng.randrange(60)}",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name} LIKE '{like}'",
            f"{name} NOT LIKE '{like}'",
            f"{name} = {rng.choice(('TRUE', 'FALSE'))}",
            f"{name} <> TRUE",
            name,
            f"NOT {name}",
            f"topic MATCHES '{topic}'",
            f"NOT topic MATCHES '{topic}'",
            f"{name} > c + 1",
        )
    )


def any_event(rng: Random) -> Publication:
    attributes = {
        name: rng.choice(
            (
                rng.choice(VALUES),
                rng.randrange(-60, 110),
                f"k{rng.randrange(900)}",
                rng.randrange(400) / 4,
            )
        )
        for name in ("a", "b", "c", "topic")
        if rng.random() < 0.8
    }
    return event(attributes, map(str, rng.sample(STRINGS, rng.choice((0, 0, 0, 1, 3)))))


def zipf(rng: Random, count: int) -> int:
    """Draw a number below `count`; small numbers are more frequent."""
    return int(count * rng.random() ** 3)


def symbol_predicate(rng: Random) -> str:
    low = rng.randrange(50)
    return rng.choice(
        (
            f"sym = 'S{zipf(rng, 300)}'",
            f"sym = 'S{zipf(rng, 300)}'",
            f"id = {zipf(rng, 200)}",
            f"id = {zipf(rng, 200)}.5",
            f"p BETWEEN {low} AND {low + rng.randrange(50)}",
            f"v > {rng.randrange(100)}",
            f"sym IN ('S{zipf(rng, 300)}', 'S1', 'S2')",
        )
    )


def symbol_event(rng: Random) -> Publication:
    number = zipf(rng, 210)
    attributes: dict[str, Value] = {
        "sym": f"S{zipf(rng, 310)}",
        "id": rng.choice((number, float(number), number + 0.5)),
        "p": rng.randrange(100),
        "v": rng.random() * 110,
    }
    return event({name: value for name, value in attributes.items() if rng.random() < 0.9})


def rare_predicate(rng: Random) -> str:
    name = f"r{rng.randrange(150)}"
    return rng.choice(
        (
            f"{name} > {rng.randrange(10)}",
            f"{name} = {rng.randrange(10)}",
            f"p < {rng.randrange(100)}",
            f"{name} IS NULL",
            f"{name} <> 'S1'",
            f"{name} IS NOT NULL",
        )
    )


def rare_event(rng: Random) -> Publication:
    names = [f"r{rng.randrange(150)}" for _ in range(5)]
    attributes: dict[str, Value] = {
        name: rng.choice((rng.randrange(12), "S1", "S2", True)) for name in names
    }
    return event({**attributes, "p": rng.randrange(100)})


class Workload(NamedTuple):
    predicate: Callable[[Random], str]
    event: Callable[[Random], Publication]

    def filter(self, rng: Random) -> Filter:
        terms = [self.predicate(rng) for _ in range(rng.randint(1, 4))]
        return parse_filter(rng.choice((" AND ", " AND ", " AND ", " OR ")).join(terms))


WORKLOADS = {
    "any": Workload(any_predicate, any_event),
    "symbols": Workload(symbol_predicate, symbol_event),
    "rare": Workload(rare_predicate, rare_event),
}
