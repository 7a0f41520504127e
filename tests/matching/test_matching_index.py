"""The compiled index against its slow, obvious twin, over random adds, removes and matches."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast import matching
from reefcast.errors import LocalError
from reefcast.matching.index import CompiledIndex
from reefcast.matching.scan import ScanIndex
from reefcast.model.expression import literal_to_sql
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication

NAMES = ("a", "b", "c", "topic")
INTS = (0, 1, -1, 7, 127, 128, -32, -33, 255, 256, 300, -129, 65_535, 65_536, -32_769, 2**31, 2**32)
EDGES = (2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, 2**63 - 512, -(2**63))
FLOATS = (0.0, -0.0, 0.5, -1.5, 7.0, 2.0**53, 2.0**53 + 2, 2.0**62, 2.0**63, -(2.0**63), 1e300)
SPECIAL = (math.nan, math.inf, -math.inf)
NUMBERS = (*INTS, *EDGES, *FLOATS)
STRINGS = (
    "",
    "a",
    "b",
    "ab",
    "a/b",
    "a/c",
    "a/b/c",
    "é",
    "日本",
    "🐠",
    "'",
    "%_",
    "x" * 31,
    "x" * 32,
)
LONG = ("y" * 255, "y" * 256, "z" * 70_000)

numbers = st.sampled_from(NUMBERS)
strings = st.sampled_from(STRINGS) | st.text(max_size=3)
values = (
    numbers
    | st.sampled_from(SPECIAL)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | strings
    | st.sampled_from(LONG)
    | st.booleans()
)
names = st.sampled_from(NAMES)
number_literals = numbers.filter(lambda n: n > -(2**63)).map(literal_to_sql) | st.sampled_from(
    ["(1e308 * 10)", "(-1e308 * 10)", "(1e308 * 10 - 1e308 * 10)"]
)
string_literals = strings.map(literal_to_sql)
literals = number_literals | string_literals | st.sampled_from(["TRUE", "FALSE"])
comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def listed(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(items, min_size=1, max_size=4).map(lambda texts: f"({', '.join(texts)})")


in_lists = st.one_of(
    listed(numbers.filter(lambda n: n >= 0).map(literal_to_sql)), listed(string_literals)
)
predicates = st.one_of(
    st.builds("{} {} {}".format, names, comparisons, literals),
    st.builds("{} BETWEEN {} AND {}".format, names, number_literals, number_literals),
    st.builds("{} {} {}".format, names, st.sampled_from(["IN", "NOT IN"]), in_lists),
    st.builds(
        "{} {} {}".format,
        names,
        st.sampled_from(["LIKE", "NOT LIKE"]),
        st.sampled_from(["'a%'", "'%b'", "'a/_'", "'%'", "'_'", "'%é%'", "''"]),
    ),
    st.builds("{} {}".format, names, st.sampled_from(["IS NULL", "IS NOT NULL"])),
    st.builds("{}".format, st.sampled_from(["a", "NOT b", "TRUE", "FALSE"])),
    st.builds("topic MATCHES {}".format, st.sampled_from(["'a/+'", "'a/#'", "'#'", "'+/b/c'"])),
    st.builds("{} {} {} + 1".format, names, comparisons, names),
)
filters = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
).map(parse_filter)
publications = st.builds(
    Publication,
    st.just("p"),
    st.just(1),
    st.just(0),
    st.dictionaries(names, values),
    st.lists(st.sampled_from(STRINGS), max_size=3).map(tuple),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(filters, max_size=12), st.lists(publications, max_size=6))
def test_finds_what_the_twin_finds(stored, events):
    twin, index = ScanIndex(), CompiledIndex()
    for key, stored_filter in enumerate(stored):
        twin.add(key, stored_filter)
        index.add(key, stored_filter)
    assert ordered(index.match_many(events)) == twin.match_many(events)


POOL = [*NUMBERS, *SPECIAL, *STRINGS, *LONG[:2], True, False]


def random_predicate(rng: random.Random) -> str:
    """Like `predicates`, but drawn fast, for long sequences."""
    name = rng.choice(NAMES)
    number = literal_to_sql(rng.choice(NUMBERS[:-2]).__abs__() % 2**63)
    string = literal_to_sql(rng.choice(STRINGS))
    choices = (
        f"{name} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {number}",
        f"{name} {rng.choice(['=', '<>', '=', '='])} {string}",
        f"{name} {rng.choice(['IN', 'NOT IN'])} ({string}, 'b', 'k{rng.randrange(900)}')",
        f"{name} NOT IN ({number}, 5)",
        f"{name} BETWEEN {rng.randint(-50, 50)} AND {rng.randint(0, 99)}",
        f"{name} IS {rng.choice(['', 'NOT '])}NULL",
        f"{name} LIKE 'a%'",
        f"{name} = {rng.choice(['TRUE', 'FALSE'])}",
        "topic MATCHES 'a/+'",
        f"{name} > c",
    )
    return rng.choice(choices)


def random_filter(rng: random.Random):
    terms = [random_predicate(rng) for _ in range(rng.randint(1, 4))]
    return parse_filter(rng.choice([" AND ", " AND ", " OR "]).join(terms))


def random_publication(rng: random.Random) -> Publication:
    attributes = {
        name: rng.choice([rng.choice(POOL), rng.randint(-60, 110), f"k{rng.randrange(900)}"])
        for name in NAMES
        if rng.random() < 0.8
    }
    topics = rng.sample(STRINGS, rng.choice([0, 0, 1, 3]))
    return Publication("p", 1, 0, attributes, tuple(topics))


@pytest.mark.parametrize("seed", range(4))
def test_stays_with_the_twin_while_filters_come_and_go(seed):
    """Long enough for rebuilds: growing, with dead rows, and after strings went out of use."""
    rng = random.Random(seed)
    twin, index = ScanIndex(), CompiledIndex()
    live: list[int] = []
    for key in range(900):
        stored_filter = random_filter(rng)
        twin.add(key, stored_filter)
        index.add(key, stored_filter)
        live.append(key)
        while live and rng.random() < (0.2 if key < 400 else 0.53):
            gone = live.pop(rng.randrange(len(live)))
            twin.remove(gone)
            index.remove(gone)
        if key % 15 == 0:
            events = [random_publication(rng) for _ in range(8)]
            assert ordered(index.match_many(events)) == twin.match_many(events)
    assert len(index) == len(twin) == len(live)


def test_many_attributes_come_one_by_one():
    index = CompiledIndex()
    for number in range(150):
        index.add(number, parse_filter(f"x{number} = {number} AND y = 'v{number}'"))
    for number in (0, 63, 64, 149):
        event = Publication("p", 1, 0, {f"x{number}": number, "y": f"v{number}"})
        assert index.match(event) == [number]


def test_many_strings_of_one_attribute():
    """More than there are buckets, so several share one."""
    index = CompiledIndex()
    for number in range(3000):
        index.add(number, parse_filter(f"s = 'v{number}'"))
    events = [Publication("p", 1, 0, {"s": f"v{n}"}) for n in (0, 1, 1500, 2999, 3000)]
    assert index.match_many(events) == [[0], [1], [1500], [2999], []]


def test_many_keys_found_at_once():
    index = CompiledIndex()
    for number in range(5000):
        index.add(number, parse_filter("TRUE"))
    event = Publication("p", 1, 0, {})
    assert index.match_many([event, event]) == [list(range(5000))] * 2


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_any_number_of_values_in_a_batch(count):
    index = CompiledIndex()
    index.add("key", parse_filter("a = 1"))
    events = [Publication("p", 1, 0, {"a": number % 2}) for number in range(count)]
    assert index.match_many(events) == [["key"] * (number % 2) for number in range(count)]


def test_match_equals_match_many():
    rng = random.Random(7)
    index = CompiledIndex()
    for key in range(100):
        index.add(key, random_filter(rng))
    events = [random_publication(rng) for _ in range(50)]
    assert [index.match(event) for event in events] == index.match_many(events)


def test_subclasses_of_the_types_are_taken_as_they_are():
    index = CompiledIndex()
    index.add("key", parse_filter("a > 1"))
    assert index.match(Publication("p", 1, 0, {"a": np.float64(1.5)})) == ["key"]


@pytest.mark.parametrize("make", [ScanIndex, CompiledIndex, matching.new_index])
def test_keys_are_unique_and_in_the_order_of_adding(make):
    index = make()
    for key in ("z", "a", "m"):
        index.add(key, parse_filter("a = 1 OR b = 2"))
    index.remove("z")
    index.add("z", parse_filter("a = 1"))
    assert index.match(Publication("p", 1, 0, {"a": 1, "b": 2})) == ["a", "m", "z"]
    assert len(index) == 3
    assert "z" in index
    assert "q" not in index
    with pytest.raises(LocalError, match="'z' is in the index already"):
        index.add("z", parse_filter("a = 1"))
    with pytest.raises(LocalError, match="'q' is not in the index"):
        index.remove("q")


def test_importing_the_package_loads_no_compiler():
    code = "import sys, reefcast.matching; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_tables_do_not_grow_under_churn():
    index = CompiledIndex()
    sizes = []
    for number in range(3000):
        index.add(number, parse_filter(f"s = 'v{number}' AND x{number % 7} IN (1, {number})"))
        if number >= 50:
            index.remove(number - 50)
        sizes.append(index.memory_bytes())
    assert max(sizes[1500:]) <= 2 * max(sizes[:1500])
