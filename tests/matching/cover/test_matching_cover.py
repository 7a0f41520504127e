"""The covering index against its slow, obvious twin, over random adds, removes and questions."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import LocalError
from reefcast.matching.cover import new_cover_index
from reefcast.matching.cover.scan import ScanCoverIndex
from reefcast.model.expression import Attribute, Comparison, Literal, literal_to_sql
from reefcast.model.filters import TRUE, Filter, parse_filter

QUESTIONS = ("covering", "covered", "intersecting", "equal")
NAMES = ("a", "b", "topic")
INTS = (0, 1, 2, 5, 7, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**62 + 1, 2**63 - 1, 2**63 - 512)
FLOATS = (0.0, 0.5, 1.0, 7.0, 2.0**53, 2.0**53 + 2, 2.0**62, 2.0**63, 1e300)
LONG = ("aaaaaaaa", "aaaaaaaab", "aaaaaaaac", "aaaaaaaa\0", "aaaaaaaabb", "éééééé", "éééééè")
STRINGS = ("", "a", "ab", "ac", "b", "a/b", "a/c", "a/b/c", "a\0", "日本", "🐠", *LONG)

names = st.sampled_from(NAMES)
numbers = st.one_of(
    st.sampled_from([literal_to_sql(n) for n in (*INTS, *FLOATS)]),
    st.sampled_from([f"-{n}" for n in INTS]),
    st.sampled_from(["(1e308 * 10)", "(-1e308 * 10)", "(1e308 * 10 - 1e308 * 10)"]),
)
strings = st.sampled_from(STRINGS).map(literal_to_sql)
literals = numbers | strings | st.sampled_from(["TRUE", "FALSE"])
comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


def listed(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(items, min_size=1, max_size=3).map(lambda texts: f"({', '.join(texts)})")


predicates = st.one_of(
    st.builds("{} {} {}".format, names, comparisons, literals),
    st.builds("{} BETWEEN {} AND {}".format, names, numbers, numbers),
    st.builds("{} BETWEEN {} AND {}".format, names, strings, strings),
    st.builds(
        "{} {} {}".format,
        names,
        st.sampled_from(["IN", "NOT IN"]),
        listed(st.sampled_from(["0", "1", "2", "5", "7"])) | listed(strings),
    ),
    st.builds(
        "{} {} {}".format,
        names,
        st.sampled_from(["LIKE", "NOT LIKE"]),
        st.sampled_from(["'a%'", "'%b'", "'a/_'", "'%'", "'_'", "'aaaaaaaa%'", "''", "'ab%'"]),
    ),
    st.builds("{} {}".format, names, st.sampled_from(["IS NULL", "IS NOT NULL"])),
    st.sampled_from(["a", "NOT b", "TRUE", "FALSE"]),
    st.builds("topic MATCHES {}".format, st.sampled_from(["'a/+'", "'a/#'", "'#'", "'+/b/c'"])),
    st.builds("{} {} {} + 1".format, names, comparisons, names),
)
filters = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
).map(parse_filter)


def same_answers(index, twin, asked: Filter) -> None:
    for question in QUESTIONS:
        found = getattr(index, question)(asked)
        assert sorted(found) == sorted(getattr(twin, question)(asked)), (question, asked)


def both(stored):
    index, twin = new_cover_index(), ScanCoverIndex()
    for key, filter in enumerate(stored):
        index.add(key, filter)
        twin.add(key, filter)
    return index, twin


@settings(max_examples=200, deadline=None)
@given(st.lists(filters, max_size=14), st.lists(filters, max_size=4))
def test_answers_as_the_twin_does(stored, asked):
    index, twin = both(stored)
    for filter in (*asked, *stored):
        same_answers(index, twin, filter)


def random_predicate(rng: random.Random, names) -> str:
    """Draw a predicate quickly, for long sequences; about half are intervals, so that some cover
    others."""
    name = rng.choice(names)
    low = rng.randint(0, 60)
    string = literal_to_sql(rng.choice(STRINGS))
    choices = (
        *[f"{name} BETWEEN {low} AND {low + rng.choice([0, 5, 10, 40])}"] * 4,
        f"{name} > {low} AND {name} < {low + 20}.5",
        f"{name} {rng.choice(['<', '<=', '>', '>='])} {low}",
        f"{name} {rng.choice(['=', '<>', '=', '<', '>='])} {string}",
        f"{name} = 'key-with-a-long-name-{rng.randrange(300)}'",
        f"{name} BETWEEN 'key-with-a-long-name-{low}' AND 'key-with-a-long-name-{low}9'",
        f"{name} IN ({low}, {rng.randint(0, 60)})",
        f"{name} NOT IN ({low}, 5)",
        f"{name} IS {rng.choice(['', 'NOT '])}NULL",
        f"{name} LIKE 'key-with%{rng.randrange(3)}'",
        f"{name} = {rng.choice(['TRUE', 'FALSE'])}",
        "topic MATCHES 'a/+'",
        f"{name} > b",
    )
    return rng.choice(choices)


def random_filter(rng: random.Random, names=NAMES) -> Filter:
    terms = [random_predicate(rng, names) for _ in range(rng.choice([1, 1, 2, 2, 3, 4]))]
    return parse_filter(rng.choice([" AND ", " AND ", " AND ", " OR "]).join(terms))


@pytest.mark.long
@pytest.mark.parametrize("names", [NAMES, [f"x{i}" for i in range(90)]], ids=["few", "many"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_stays_with_the_twin_while_filters_come_and_go(seed, names):
    """The run is long enough for blocks to grow, to be rebuilt and to be merged. Of 90 names, some
    share a class of bitmaps, and some are too rare for cuts."""
    rng = random.Random(seed)
    index, twin = both([])
    live: list[int] = []
    for key in range(1500):
        filter = random_filter(rng, names)
        index.add(key, filter)
        twin.add(key, filter)
        live.append(key)
        while live and rng.random() < (0.1 if key < 900 else 0.6):
            gone = live.pop(rng.randrange(len(live)))
            index.remove(gone)
            twin.remove(gone)
        if key % 30 == 0:
            same_answers(index, twin, random_filter(rng, names))
            same_answers(index, twin, filter)
    assert len(index) == len(twin) == len(live)
    for key in live:
        index.remove(key)
    assert index.covered(TRUE) == []


def test_more_rows_than_a_block_holds():
    """The intervals are nested, in an order that makes the boundaries of each block out of date at
    once."""
    count = 5000
    index = new_cover_index()
    for key in range(count):
        index.add(key, parse_filter(f"a BETWEEN {-key} AND {key}.5"))
    asked = parse_filter("a BETWEEN -4400 AND 4400.5")
    assert sorted(index.covering(asked)) == list(range(4400, count))
    assert sorted(index.covered(asked)) == list(range(4401))
    assert index.equal(asked) == [4400]
    assert sorted(index.intersecting(parse_filter("a > 4500"))) == list(range(4500, count))
    for key in range(0, count, 2):
        index.remove(key)
    for key in range(1, 4001, 2):
        index.remove(key)
    assert sorted(index.covering(asked)) == list(range(4401, count, 2))


def test_more_attributes_than_there_are_classes():
    index, twin = both(
        [parse_filter(f"x{i} > {i} AND x{(i * 7) % 200} < {i}.5") for i in range(200)]
    )
    wide = " AND ".join(f"x{i} = {i}.25" for i in range(200))
    same_answers(index, twin, parse_filter(wide))
    same_answers(index, twin, parse_filter("x1 = 1 AND x65 = 5 AND x129 = 7"))


def test_an_attribute_that_nobody_has():
    index, _ = both([parse_filter("a > 1")])
    asked = parse_filter("a > 2 AND z = 1")
    assert index.covering(asked) == [0]
    assert index.covered(asked) == []
    assert index.intersecting(asked) == [0]
    assert index.equal(asked) == []


def test_filters_with_the_same_text_share_an_entry():
    index = new_cover_index()
    for key in range(1000):
        index.add(key, parse_filter("a > 1 AND b = 'x'"))
    size = index.memory_bytes()
    asked = parse_filter("a > 2 AND b = 'x'")
    assert sorted(index.covering(asked)) == list(range(1000))
    for key in range(999):
        index.remove(key)
    assert index.covering(asked) == [999]
    index.remove(999)
    assert index.covering(asked) == []
    other = new_cover_index()
    for key in range(1000):
        other.add(key, parse_filter(f"a > {key} AND b = 'x'"))
    assert size < other.memory_bytes()


@pytest.mark.parametrize("make", [ScanCoverIndex, new_cover_index])
def test_keys_are_unique(make):
    index = make()
    index.add("z", parse_filter("a = 1"))
    assert len(index) == 1
    assert "z" in index
    assert "q" not in index
    with pytest.raises(LocalError, match="'z' is in the index already"):
        index.add("z", parse_filter("a = 2"))
    with pytest.raises(LocalError, match="'q' is not in the index"):
        index.remove("q")


@pytest.mark.long
def test_tables_do_not_grow_under_churn():
    """They grow neither by rows, nor by strings and attributes that went out of use, nor by
    questions."""
    index = new_cover_index()
    sizes = []
    for number in range(6000):
        text = f"s = 'a string that is rather long {number}' AND x{number} IN (1, {number})"
        index.add(number, parse_filter(text))
        index.covering(parse_filter(f"s = 'some other string {number}' AND y{number} = 1"))
        if number >= 100:
            index.remove(number - 100)
        sizes.append(index.memory_bytes())
    assert max(sizes[3000:]) <= 1.5 * max(sizes[:3000])


def test_importing_loads_no_compiler():
    code = "import sys, reefcast.matching.cover; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


NAMES_61 = [f"x{i}" for i in range(61)]


@pytest.mark.long
@pytest.mark.parametrize("drift", [False, True])
def test_several_full_blocks(drift):
    """They are compared with columns of bounds, because the twin would take too long. Three blocks
    are full; they share their cuts, or do not, because each block's filters lie elsewhere than
    those of the one before."""
    rng = np.random.default_rng(1)
    count = 3 * 4096 + 100
    starts = rng.random((count, 2)) + (np.arange(count)[:, None] / 500 if drift else 0)
    lows = np.column_stack([starts, rng.integers(0, 5, count)])
    highs = lows + np.array([0.2, 0.1, 0.0])
    index = new_cover_index()
    also = np.zeros(count, bool)  # those that demand something else besides
    # So many attributes that the next one shares a class with the first: with a, which is cut.
    index.add(-1, parse_filter(" AND ".join(f"{n} = -7" for n in ["a", "b", "c", *NAMES_61])))
    for key in range(count):
        also[key] = key > 9000 and key % 50 == 7
        index.add(key, box(lows[key], highs[key], " AND d > 0" if also[key] else ""))
    kept = np.ones(count, bool)
    for key in range(0, count, 3):
        index.remove(key)
        kept[key] = False
    for key in [*range(1, count, 399), *np.flatnonzero(also)[::9].tolist()]:
        for grown in (-0.15, -0.01, 0.0, 0.01, 0.4):
            low, high = lows[key] - [grown, grown / 2, 0], highs[key] + [grown, grown / 2, 0]
            if (low > high).any():
                continue
            asked = box(low, high)
            inside = ((lows >= low) & (highs <= high)).all(axis=1)
            outside = ((lows <= low) & (highs >= high)).all(axis=1)
            meeting = ((lows <= high) & (highs >= low)).all(axis=1)
            for question, answers in (
                ("covering", outside & ~also),
                ("covered", inside),
                ("intersecting", meeting),
                ("equal", inside & outside & ~also),
            ):
                found = sorted(set(getattr(index, question)(asked)) - {-1})
                assert found == np.flatnonzero(answers & kept).tolist(), question


@pytest.mark.long
def test_an_attribute_that_one_block_lacks():
    """The blocks share their cuts, which include this attribute."""
    index = new_cover_index()
    for key in range(3 * 4096):
        also = " AND e > 0" if key % 2 and not 4096 <= key < 8192 else ""
        low = f"a >= {key % 100} AND a > {-1 - key}"  # so that no two texts are the same
        index.add(key, parse_filter(f"{low} AND a <= {key % 100 + 1}{also}"))
    found = index.covering(parse_filter("a > 6 AND a < 7"))
    assert sorted(found) == list(range(6, 3 * 4096, 100))
    found = index.covering(parse_filter("a > 7 AND a < 8"))
    assert sorted(found) == [k for k in range(7, 3 * 4096, 100) if 4096 <= k < 8192]


def box(low, high, more: str = "") -> Filter:
    (a, b, c), (a_end, b_end, _) = low.tolist(), high.tolist()
    return parse_filter(
        f"a >= {a!r} AND a <= {a_end!r} AND b >= {b!r} AND b <= {b_end!r} AND c = {int(c)}{more}"
    )


def test_keys_of_any_kind():
    """Integers are kept apart from other keys; either may come late, and integers may exceed 64
    bits."""
    index = new_cover_index()
    keys = [0, -5, 2**63 - 1, 2**63, "text", ("a", 1), True, 1.5, None]
    for key in keys:
        index.add(key, parse_filter(f"a > {len(index)}"))
        assert all(type(k) is type(f) for k, f in zip(keys, index.covered(TRUE), strict=False))
    assert set(index.covered(TRUE)) == set(keys)


def test_whole_numbers_between_floats():
    numbers = [base + d for base in (2**53, 2**62, 2**63, -(2**62)) for d in (-1, 0, 1, 2)]
    numbers += [2**64 - 1, -(2**63), 2.0**53, 2.0**62, 2.0**63, 2.0**64, math.inf, -math.inf]
    stored = [
        Filter(f"a {sign} {number!r}", Comparison(sign, Attribute("a"), Literal(number)))
        for number in numbers
        for sign in (">", ">=", "<", "<=", "=")
    ]
    index, twin = both(stored)
    for asked in stored:
        same_answers(index, twin, asked)
