"""Patterns on long strings, for which the index notes which character sequences a string lacks."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.matching.grams import FEWEST_BITS, GRAM_BYTES, LONG, MANY
from reefcast.matching.index import CompiledIndex
from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication

LETTERS = ("abcd", "aé", "abcdefghijklmnopqrstuvwxyz ")
# Below and at the size from which on it does, and where more bits are needed than before.
SIZES = (LONG - 1, LONG, LONG + 1, 1 << (FEWEST_BITS - 3), 5000)
texts = st.builds(
    lambda letters, size, seed: "".join(seed.choices(letters, k=size)),
    st.sampled_from(LETTERS),
    st.sampled_from(SIZES),
    st.randoms(use_true_random=False),
)
needles = st.one_of(
    st.text("abcdé", min_size=1, max_size=2 * GRAM_BYTES),
    st.tuples(st.integers(0, 1), st.integers(0, 5000), st.integers(1, 12)),  # of an event's string
)
conditions = st.tuples(
    st.sampled_from("sst"), st.booleans(), st.lists(needles, min_size=1, max_size=2)
)


def filter_of(condition: Any, events: list[dict[str, str]]) -> str:
    name, negated, parts = condition
    found = [
        part if isinstance(part, str) else _piece(events[part[0] % len(events)][name], *part[1:])
        for part in parts
    ]
    return f"{name} {'NOT ' if negated else ''}LIKE '%{'%'.join(found)}%'"


def _piece(text: str, start: int, size: int) -> str:
    start %= len(text)
    return text[start : start + size]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.fixed_dictionaries({"s": texts, "t": texts}), min_size=1, max_size=3),
    st.lists(conditions, min_size=MANY, max_size=4 * MANY),
)
def test_what_long_strings_contain(events: list[dict[str, str]], asked: list[Any]) -> None:
    index, scan = CompiledIndex[int](), ScanIndex[int]()
    for key, condition in enumerate(asked):
        for each in (index, scan):
            each.add(key, parse_filter(filter_of(condition, events)))
    publications = [Publication("p", n, 0, dict(event)) for n, event in enumerate(events)]
    wanted = [sorted(scan.match(publication)) for publication in publications]
    assert [sorted(index.match(publication)) for publication in publications] == wanted
    assert [sorted(keys) for keys in index.match_many(publications)] == wanted


def test_the_bits_are_counted_and_few() -> None:
    """They take a byte for each byte of the string, for the life of the index, in a few slots. What
    is noted of one event's string does not count for the next one's in the same place."""
    index = CompiledIndex[int]()
    for key in range(2 * MANY):
        index.add(key, parse_filter(f"s NOT LIKE '%needle{key}%'"))
    before, size = index.memory_bytes(), 1 << 17
    for number in range(10):
        text = "hay" * (size // 3) + ("needle7" if number == 9 else "hayhayh")
        found = index.match(Publication("p", number, 0, {"s": text}))
        assert len(found) == 2 * MANY - (number == 9)
    assert 0 < index.memory_bytes() - before < 8 * size
