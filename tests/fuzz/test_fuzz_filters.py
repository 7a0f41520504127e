"""Filters that a client may send."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from fuzzing import OFTEN_AND_SOAKED, changed_text, knock
from reefcast.errors import FilterSyntaxError, LimitError
from reefcast.matching import new_index
from reefcast.matching.cover.index import CompiledCoverIndex
from reefcast.model.effort import FilterLimits, admit_filter
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.publication import Publication
from reefcast.network.sections import LimitsSection

SECTION = LimitsSection()
LIMITS = FilterLimits(SECTION.filter_steps, SECTION.filter_depth, SECTION.name_chars)
SEEDS = (
    "a = 1 AND b <> 'x''y' OR NOT c",
    "a BETWEEN 1 AND 2.5e3 AND b NOT IN ('p', 'q', 'r') OR c IS NOT NULL",
    "a + b * 2 - -c / 4 > 3 AND (s LIKE 'a%_!%' ESCAPE '!' OR t NOT LIKE '%z')",
    "topic MATCHES 'a/+/#' AND \"a name\" = TRUE OR größe <= -9223372036854775808",
    "((a = 1 OR b = 2) AND (c = 3 OR d = 4)) OR NOT (e < 5 AND f >= 6)",
    "a IN (1, 2, 3) AND a <> 2 AND a NOT BETWEEN 5 AND 6 AND s LIKE 'ab%'",
)
WORDS = (
    *("AND", "OR", "NOT", "IN", "LIKE", "MATCHES", "ESCAPE", "BETWEEN", "IS", "NULL", "TRUE"),
    *("(", ")", "((((((", "'", '"', ",", "=", "<>", "<=", ">", "+", "-", "--", "*", "/", "%", "_"),
    *("a", "b", "c.d", '"q"', "é", "1", "1.5", ".5", "1e400", "'s'", "'a%b'", "'+/#'", "topic"),
    *(" OR a = 1" * 30, " AND b + 1 > 2" * 30, "NOT " * 120, "a," * 100),
)
EVENTS = [
    Publication("p", 1, 0, {}, ()),
    Publication("p", 2, 0, {"a": 1, "b": 2.5, "s": "ab", "c": True}, ("a/b/c", "x")),
    Publication("p", 3, 0, {"a": -5, "b": "x", "d": 4, "e": 7, "f": 6, "größe": 0}, ("a",)),
]


FOUND = ("a I" + "\t" * 4000, "a = 1" + " " * 4000 + ")")
"""What once took too long."""


def made(rng: random.Random) -> str:
    return changed_text(rng.choice(SEEDS), rng, WORDS)


class Door:
    """The indexes of a broker. What is accepted matches what its expression says."""

    def __init__(self) -> None:
        self._index, self._covers = new_index(), CompiledCoverIndex()
        for number, seed in enumerate(SEEDS):
            self._index.add(number, Filter(seed))
            self._covers.add(number, Filter(seed))
        self.accepted = 0

    def __call__(self, text: str) -> None:
        try:
            read = admit_filter(text, LIMITS)
            filter = parse_filter(text)
        except (LimitError, FilterSyntaxError):
            return
        self.accepted += 1
        self._index.add("new", filter)
        self._covers.add("new", filter)
        for event in EVENTS:
            assert ("new" in self._index.match(event)) is filter.matches(event)
        self._index.remove("new")
        self._covers.remove("new")
        del read


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    yield Door()


@OFTEN_AND_SOAKED
def test_filters(door: Door, count: int) -> None:
    knock(door, made, count)
    assert door.accepted


@pytest.mark.parametrize("text", FOUND, ids=lambda text: text[:3])
def test_what_was_found(door: Door, text: str) -> None:
    knock(door, lambda rng: text, 1)
