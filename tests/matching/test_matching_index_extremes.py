"""Hard cases: everything equal, everything different, everything large. The index must stay
correct; what it costs, `reefcast-lab bench match` prints."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from matching_harness import Both, event

from reefcast.matching.index import CompiledIndex
from reefcast.model.expression import literal_to_sql
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Value


def filled(texts: list[str]) -> Both:
    both = Both()
    for key, text in enumerate(texts):
        both.add(key, parse_filter(text))
    return both


def emptied(both: Both) -> None:
    """Remove all filters, in an order unrelated to that of adding."""
    keys = list(both.filters)
    Random(3).shuffle(keys)
    for key in keys:
        both.remove(key)
    assert both.index.plan()["rows"] == 0


# --- all alike ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "TRUE",
        "a = 1",
        "a = 'x' AND b BETWEEN 1 AND 2 AND c LIKE '%y%'",
        "a > 1 OR b = 2",
        "a IS NULL",
        "a > b",
        "a = 9007199254740993",
        "a IN ('x', 'y') AND b NOT IN (1, 2)",
    ],
)
def test_all_filters_are_identical(text: str) -> None:
    both = Both()
    for key in range(9000):
        both.add(key, parse_filter(text))
    events = [
        event({"a": a, "b": b, "c": "xyz"}) for a in (1, 2, "x", 2**53 + 1) for b in (0, 1, 2, "x")
    ]
    both.check([*events, event({})])
    for key in range(9000):
        if key % 500:
            both.remove(key)
    both.check([*events, event({})])
    emptied(both)


@pytest.mark.parametrize("value", [0, 0.0, 1e300, 2**53 + 1, "x", ""])
def test_all_boundaries_are_equal(value: Value) -> None:
    text = literal_to_sql(value)
    signs = ("=", "<>", "<", "<=", ">", ">=")
    both = filled([f"{n} {s} {text}" for _ in range(500) for n in "abc" for s in signs])
    beside: list[Value] = ["", "\0", "w", "x", "x\0", "y", -1, 0, -0.0, 1, 5e-324, -5e-324]
    beside += [2**53, 2**53 + 1, 2**53 + 2, 1e300, float(np.nextafter(1e300, 2e300)), 1e301]
    both.check([event({"a": a, "c": a}) for a in beside])
    emptied(both)


def test_every_row_has_one_more_attribute_than_cuts_know() -> None:
    both = filled([f"common > {n % 9} AND own{n} = {n}" for n in range(3000)])
    both.check([event({"common": 5, f"own{n}": n, "own7": 7}) for n in (0, 7, 63, 64, 1024, 2999)])
    emptied(both)


# --- many -----------------------------------------------------------------------------------------


@pytest.mark.long
def test_two_thousand_attributes_come_one_by_one() -> None:
    both, events = Both(), []
    for number in range(2000):
        both.add(number, parse_filter(f"x{number} = {number} AND y = 'v{number}'"))
        events.append(event({f"x{number}": number, "y": f"v{number}", "x0": 0}))
        if number % 100 in (0, 15, 16, 64):
            both.check(events[-3:])
    both.check([event({f"x{number}": number for number in range(2000)} | {"y": "v1999"})])
    found = both.index.match_many(events)
    assert found == [[number] for number in range(2000)]
    for number in range(0, 2000, 2):
        both.remove(number)
    both.check(events[:20])
    emptied(both)


def strings_of_one_attribute(count: int) -> None:
    index: CompiledIndex[int] = CompiledIndex()
    for number in range(count):
        index.add(number, parse_filter(f"s = 'v{number}'"))
    step = max(1, count // 1000)
    asked = [*range(0, count, step), count - 1]
    columns: dict[str, Any] = {"s": [f"v{number}" for number in asked] + ["v", "", "v-1", None]}
    found = index.match_batch(columns)
    assert found.keys.tolist() == asked
    assert np.diff(found.offsets).tolist() == [1] * len(asked) + [0] * 4
    assert index.match(event({"s": f"v{count - 1}"})) == [count - 1]
    full = index.memory_bytes()
    for number in range(count):
        index.remove(number)
    assert index.plan()["partitions"] == []
    assert index.match(event({"s": "v1"})) == []
    assert index.memory_bytes() < full / 2


@pytest.mark.long
def test_fifty_thousand_strings_of_one_attribute() -> None:
    strings_of_one_attribute(50_000)


@pytest.mark.soak
def test_soak_a_million_strings_of_one_attribute() -> None:
    strings_of_one_attribute(1_000_000)


def test_strings_of_one_attribute_with_ranges_and_patterns() -> None:
    texts = [f"s = 'v{n}'" for n in range(3000)]
    texts += [f"s >= 'v{n}' AND s < 'v{n + 1}'" for n in range(0, 3000, 7)]
    texts += [f"s LIKE 'v{n}%'" for n in range(100)] + [f"s LIKE '%{n}' " for n in range(100)]
    texts += [f"s NOT IN ('v{n}', 'v1', 'w')" for n in range(100)]
    both = filled(texts)
    both.check([event({"s": f"v{n}{end}"}) for n in (0, 1, 77, 2999, 3000) for end in ("", "x")])
    emptied(both)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["numbers", "strings", "mixed with others"])
def test_lists_of_five_thousand_members(kind: str) -> None:
    def member(number: int) -> str:
        return f"'m{number}'" if kind == "strings" else str(number)

    def value(number: int) -> Value:
        return f"m{number}" if kind == "strings" else number

    both = Both()
    for key in range(4):
        members = ", ".join(member(number) for number in range(key, 10_000 + key, 2))
        rest = " AND b > 1" if kind.startswith("mixed") else ""
        both.add(key, parse_filter(f"a IN ({members}){rest}"))
        both.add(key + 10, parse_filter(f"a NOT IN ({members}){rest}"))
    for copy in range(30):
        both.add(100 + copy, both.filters[copy % 4 + 10 * (copy % 2)])
    events = [
        event({"a": value(number), "b": 2}) for number in (-1, 0, 1, 2, 3, 4999, 9999, 10_001)
    ]
    both.check([*events, event({"a": 0.5, "b": 2}), event({"a": "m"}), event({})])
    emptied(both)


@pytest.mark.long
def test_a_filter_of_many_conjunctions() -> None:
    """All conjunctions are in one partition, or each one is in another."""
    both = filled(
        [
            " OR ".join(f"a = {n} AND b > {n % 5}" for n in range(start, start + 100))
            for start in range(0, 2000, 25)
        ]
    )
    both.check([event({"a": a, "b": b}) for a in (0, 99, 100, 1000, 1975, 2074) for b in (0, 3, 9)])
    emptied(both)


# --- large ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_strings_of_64_kilobytes() -> None:
    """Some are one byte longer or shorter, in filters and in events."""
    long = "é" * 30_000
    texts = [f"s {sign} '{long}'" for sign in ("=", "<>", "<", "<=", ">", ">=")]
    texts += [f"s LIKE '%{long}'", f"s LIKE '{long}%'", f"s LIKE '%é{long[:9000]}_é%'"]
    both = filled(texts * 2)
    ends: list[Value] = [long, long + "é", long[:-1], long[:-1] + "e", "x" + long, "é" * 100_000]
    ends += ["y" * size for size in (65_535, 65_536, 65_537)]
    both.check([event({"s": end, "t": end}) for end in ends])
    emptied(both)


@pytest.mark.parametrize("size", [0, 1, 30, 31, 32, 255, 256, 65_535, 65_536])
def test_names_and_strings_of_every_packed_length(size: int) -> None:
    index: CompiledIndex[str] = CompiledIndex()
    text = "n" * size
    if size < 60_000:
        index.add("value", parse_filter(f"a = '{text}'"))
        assert index.match(event({"a": text, "b": text})) == ["value"]
        assert index.match(event({"b": text, "a": text + "n"})) == []
    if 0 < size < 60_000:
        index.add("name", parse_filter(f'"{text}" = 5'))
        assert index.match(event({text: 5, "b": 1})) == ["name"]
    assert index.match(event({"z" + text: text, "a": "?"})) == []


@pytest.mark.long
@pytest.mark.parametrize("apart", [23, pytest.param(11, marks=pytest.mark.soak)])
def test_strings_with_a_long_prefix_in_common(apart: int) -> None:
    """They differ in one character, at any place, of whichever words of the processor."""
    prefix = "p" * 500
    words = [prefix[:at] + "q" + prefix[at + 1 :] for at in range(0, 500, apart)]
    words += [prefix[:length] for length in range(0, 500, 47)]
    both = filled(
        [f"s {sign} '{word}'" for word in words for sign in ("=", "<", ">=")]
        + [f"s LIKE '{word}%'" for word in words]
    )
    both.check([event({"s": word + end}) for word in words for end in ("", "q")])
    emptied(both)


def test_strings_that_differ_in_what_a_hash_may_forget() -> None:
    """They have runs of zero bytes of every length, the same words in another order, and lengths
    that wrap."""
    words = ["\0" * length for length in range(40)]
    words += ["".join(order) for order in (("a" * 8, "b" * 8), ("b" * 8, "a" * 8))]
    words += [f"{'a' * n}{'b' * (24 - n)}" for n in range(25)]
    words += [f"{'x' * n}\0{'x' * m}" for n in range(9) for m in range(9)]
    words = list(dict.fromkeys(words))
    index: CompiledIndex[str] = CompiledIndex()
    for word in words:
        index.add(word, parse_filter(f"s = {literal_to_sql(word)}"))
    assert index.match_many([event({"s": word}) for word in words]) == [[word] for word in words]
    for word in words[::2]:
        index.remove(word)
    assert index.match_many([event({"s": word}) for word in words[1::2]]) == [
        [word] for word in words[1::2]
    ]


def test_patterns_that_make_naive_matching_slow() -> None:
    both = filled(
        [
            *("s LIKE '%a%a%a%a%a%a%a%b'", "s LIKE '%ab%ab%ab%ab'", "s LIKE '%_%_%_%_%é'"),
            *("s LIKE 'a%a_a%'", "s LIKE '%%%%'", "s LIKE '____%'", "s LIKE '_é_%'"),
        ]
        * 5
    )
    both.check(
        [
            event({"s": word})
            for word in ("a" * 400, "a" * 400 + "b", "ab" * 9, "é" * 50, "aéa" * 20, "🐠é🐠", "")
        ]
    )


# --- skewed ---------------------------------------------------------------------------------------


def skewed(count: int, seed: int) -> None:
    """Check an index where a third of all filters name one symbol, and prices have a heavy tail."""
    rng = Random(seed)
    texts = []
    for _ in range(count):
        symbol = int(2000 * rng.random() ** 8)
        price = rng.paretovariate(0.5)
        texts.append(f"s = 'S{symbol}' AND p BETWEEN {price} AND {price * (1 + rng.random())}")
    both = filled(texts)
    largest = both.index.plan()["partitions"][0]
    assert largest["largest_rows"] > count / 4
    assert largest["checked_one_by_one"] > 100
    events = [
        event({"s": f"S{int(2000 * rng.random() ** 8)}", "p": rng.paretovariate(0.5)})
        for _ in range(12)
    ]
    both.check(events)
    columns = {name: [each.attributes[name] for each in events] for name in "sp"}
    found = both.index.match_batch(columns)
    expected = [both.expected(each) for each in events]
    batched = [sorted(found.keys[i:j].tolist()) for i, j in pairwise(found.offsets)]
    assert batched == expected


@pytest.mark.long
def test_skew() -> None:
    skewed(10_000, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2))
def test_soak_of_skew(seed: int) -> None:
    skewed(150_000, seed)
