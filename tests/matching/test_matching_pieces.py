"""Patterns: rows are found by a piece of their pattern, and only where the whole pattern holds."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_harness import Both, event

from reefcast.matching.index import CompiledIndex
from reefcast.model.filters import parse_filter

LETTERS = "ab/é🐠%_!"
texts = st.text(LETTERS, max_size=24)
wild = st.lists(
    st.one_of(st.sampled_from(("%", "_", "%%", "!%", "!_", "!!")), st.text("ab/é🐠", max_size=9)),
    max_size=6,
).map("".join)
likes = st.tuples(st.sampled_from("st"), st.sampled_from(("", "NOT ")), wild).map(
    lambda p: f"{p[0]} {p[1]}LIKE '{p[2]}' ESCAPE '!'"
)
levels = st.lists(
    st.sampled_from(("a", "b", "aab", "abababababab", "+", "")), min_size=1, max_size=4
)
topics = st.tuples(levels, st.booleans(), st.sampled_from(("", "NOT "))).map(
    lambda p: f"{p[2]}s MATCHES '{'/'.join(p[0]) + ('/#' if p[1] else '')}'"
)
predicates = st.one_of(likes, topics, st.sampled_from(("n > 1", "s = 'a'", "t IS NULL")))
filters = st.lists(
    predicates.filter(lambda text: "''" not in text), min_size=1, max_size=3
).flatmap(lambda parts: st.sampled_from((" AND ", " OR ")).map(lambda joint: joint.join(parts)))
events = st.fixed_dictionaries(
    {}, optional={"s": texts | st.text("ab/", max_size=40), "t": texts, "n": st.integers(0, 3)}
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(filters, min_size=1, max_size=12),
    st.lists(events, min_size=1, max_size=5),
    st.sampled_from((1, 30)),
    st.randoms(use_true_random=False),
)
def test_like_asking_each_filter(chosen, drawn, copies: int, rng: Random) -> None:
    """A piece has few rows, or blocks of them; filters come and go."""
    both, numbers = Both(), count()
    for text in chosen:
        for _ in range(copies):
            both.add(next(numbers), parse_filter(text))
    while both.filters:
        both.check([event(values) for values in drawn])
        keys = sorted(both.filters)
        for key in rng.sample(keys, (len(keys) + 1) // 2):
            both.remove(key)
    assert both.index.plan()["partitions"] == []


def found(index: CompiledIndex[int], text: str) -> list[int]:
    return sorted(index.match(event({"s": text})))


def test_a_row_goes_to_the_piece_with_the_fewest_rows() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    for key in range(200):
        index.add(key, parse_filter(f"s LIKE '%common{key:03d}%'"))
    (partitions,) = index.plan()["partitions"]
    assert (partitions["by"], partitions["rows"]) == ("piece", 200)
    assert partitions["largest_rows"] <= 10  # `mmon012` is 9 of them, `common01` 10
    assert index.plan_of(0)[0]["partition"] == "s LIKE '%common00%'"
    assert found(index, "a common017 is a common170") == [17, 170]


def test_a_piece_that_occurs_often_is_searched_once() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    index.add(0, parse_filter("s LIKE '%aa%'"))
    index.add(1, parse_filter("s LIKE '%a%'"))
    assert found(index, "a" * 5000) == [0, 1]


@pytest.mark.long
def test_many_pieces_with_one_hash() -> None:
    """The table says no only if there is no partition, however many come and go."""
    index: CompiledIndex[int] = CompiledIndex()
    words = [f"{number:06x}" for number in Random(1).sample(range(1 << 24), 6000)]
    for key, word in enumerate(words):
        index.add(key, parse_filter(f"s LIKE '%{word}%'"))
    for key in range(0, 6000, 2):
        index.remove(key)
    for key in range(1, 6000, 97 * 2):
        assert key in found(index, f"-{words[key]}-")
    assert [found(index, f"-{words[key]}-") for key in range(0, 60, 2)] == [[]] * 30
    columns = {"s": [f"--{word}--" for word in words[:300]]}
    offsets, keys = index.match_batch(columns)
    assert keys.tolist() == list(range(1, 300, 2))
    assert len(offsets) == 301


def test_strings_at_the_end_of_their_memory() -> None:
    """Pieces are read 8 bytes at a time, but never past the end of the string."""
    index: CompiledIndex[int] = CompiledIndex()
    for key, width in enumerate((1, 2, 3, 4, 7, 8, 9)):
        index.add(key, parse_filter(f"s LIKE '%{'x' * width}%'"))
    for size in range(12):
        wanted = [key for key, width in enumerate((1, 2, 3, 4, 7, 8, 9)) if width <= size]
        assert found(index, "x" * size) == wanted
        assert found(index, "y" * 3 + "x" * size) == wanted
