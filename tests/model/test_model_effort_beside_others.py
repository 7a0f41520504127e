"""Filters that the limits admit, beside others of their kind: each step at a broker's door is
little work. Counted, not timed; with `--soak -s` their milliseconds are printed, too."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hostile_filters import RIVALS

from counted_calls import calls_of
from reefcast.errors import LimitError
from reefcast.matching import new_index
from reefcast.matching.cover import new_cover_index, new_roots
from reefcast.model.covering import intersects
from reefcast.model.effort import FilterLimits, admit_filter
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.grants import NOTHING, Grant
from reefcast.network.sections import LimitsSection

SECTION = LimitsSection()
LIMITS = FilterLimits(SECTION.filter_steps, SECTION.filter_depth, SECTION.name_chars)
SIZES = (30_000, 20_000, 14_000, 10_000, 7000, 5000, 3500, 2500, 1800, 1200)
GRANT = Grant("me", NOTHING, parse_filter("(a > 1 OR b = 2) AND owner = 'me'"), frozenset())
USUAL = [f"a > {i} AND a < {2 * i} AND b{i % 9} = {i}" for i in range(40)]
MOST_CALLS = 80_000
"""Calls of functions, nearly all of C, that a step may take: less than 10 ms on a quiet machine."""


def admitted(text: str) -> Filter | None:
    try:
        return admit_filter(text, LIMITS) or parse_filter(text)
    except LimitError:
        return None


def largest(kind: str) -> tuple[Filter, int]:
    for size in SIZES:
        filter = admitted(RIVALS[kind](size, 0))
        if filter is not None:
            return filter, size
    raise AssertionError(f"no filter of this kind is admitted: {kind}")


class Broker:
    """What a broker keeps of the filters that came before."""

    def __init__(self, others: list[Filter]) -> None:
        self.index, self.roots, self.cover = new_index(), new_roots(), new_cover_index()
        self.others = others
        for key, other in enumerate(others):
            for table in (self.index, self.roots, self.cover):
                table.add(key, other)

    def steps(self, filter: Filter) -> dict[str, Callable[[], object]]:
        def come_and_go(table) -> None:
            table.add("new", filter)
            table.remove("new")

        return {
            "narrow": lambda: GRANT.narrowed(filter),
            "index": lambda: come_and_go(self.index),
            "roots": lambda: come_and_go(self.roots),
            "lazy": lambda: come_and_go(self.cover),
            "covering": lambda: self.cover.covering(filter),
            "covered": lambda: self.cover.covered(filter),
            "advertised": lambda: [intersects(other, filter) for other in self.others],
        }


def steps_beside(kind: str, others: int) -> dict[str, Callable[[], object]]:
    filter, size = largest(kind)
    rivals = [admitted(RIVALS[kind](size, 3 * s)) for s in range(1, others + 1)]
    broker = Broker([each for each in rivals if each is not None])
    for usual in USUAL:
        broker.index.add(usual, parse_filter(usual))
        broker.roots.add(usual, parse_filter(usual))
        broker.cover.add(usual, parse_filter(usual))
    broker.others += map(parse_filter, USUAL)
    return broker.steps(filter)


@pytest.mark.parametrize(
    "others", [pytest.param(6, id="few"), pytest.param(60, id="many", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("kind", RIVALS)
def test_each_step_is_little_work(kind: str, others: int) -> None:
    for name, step in steps_beside(kind, others).items():
        before = time.process_time()
        step()
        spent = time.process_time() - before
        calls = calls_of(step)
        print(f"{kind}, {name}: {calls} calls, {spent * 1000:.1f} ms")
        assert calls < MOST_CALLS * (1 + others / 60), name
