"""Random numbers that depend on names only: known values, and as even as random ones."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from reefcast.routing.gossip.streams import MASK, choice, joined, mixed, stream, weight

NAMES = st.text("abn01é", max_size=6)
NUMBERS = st.integers(0, MASK)


def surprise(counts: Counter[int], cells: int) -> float:
    """Return how far counts are from even ones, in standard deviations (chi-squared, many
    cells)."""
    expected = counts.total() / cells
    chi = sum((counts[cell] - expected) ** 2 for cell in range(cells)) / expected
    return abs(chi - (cells - 1)) / math.sqrt(2 * (cells - 1))


def test_splitmix64_gives_the_numbers_of_its_authors() -> None:
    """The values are those of the reference implementation for seed 1234567."""
    assert [mixed(1234567, number) for number in range(1, 6)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_weights_and_streams_are_what_they_always_were() -> None:
    """All brokers of a network must agree, whatever their release."""
    assert joined("n1", "n2") == b"\x02\x00n1n2"
    assert weight(0, "n1", "n2") == 3801923845519469799
    assert weight(1, "n1", "n2") == 13627421942913071004
    assert stream(0, "n1", "news") == 6838495098263027468


@given(NAMES, NAMES, NAMES, NAMES)
def test_no_two_pairs_are_joined_to_the_same_bytes(a: str, b: str, c: str, d: str) -> None:
    assert (joined(a, b) == joined(c, d)) == ((a, b) == (c, d))


@given(NUMBERS, st.integers(1, 5000))
def test_a_choice_is_an_index_and_grows_with_the_number(number: int, size: int) -> None:
    assert choice(number, size) == (number // 2**32 * size) // 2**32
    assert 0 <= choice(number, size) < size
    assert choice(0, size) == 0
    assert choice(MASK, size) == size - 1
    assert choice(number // 2, size) <= choice(number, size)


def test_choices_are_even() -> None:
    key = stream(7, "n1", "news")
    chosen = Counter(choice(mixed(key, number), 30) for number in range(30_000))
    assert surprise(chosen, 30) < 4


def test_choices_of_one_walk_are_even_over_its_steps() -> None:
    """Numbers are drawn as a node draws them: the nonce is in the key, the steps left are the
    number."""
    key = stream(7, "n1", "news")
    chosen = Counter(
        choice(mixed(key ^ mixed(99, walk), left), 12) for walk in range(2000) for left in range(6)
    )
    assert surprise(chosen, 12) < 4


def test_everybody_is_as_often_the_least_of_somebody() -> None:
    nodes = [f"n{number}" for number in range(40)]
    least = Counter(
        min(range(40), key=lambda other: weight(seed, node, nodes[other]))
        for seed in range(100)
        for node in nodes
    )
    assert surprise(least, 40) < 4


def test_streams_of_topics_and_nodes_have_nothing_to_do_with_each_other() -> None:
    keys = {stream(0, node, topic) for node in ("a", "ab", "b") for topic in ("", "b", "bc", "c")}
    assert len(keys) == 12
