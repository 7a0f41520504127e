"""Filters to ask covering questions about.

`nested`: as in the covering paper, each of 7 predicates. A symbol for each root, and below the root
some 2 100 filters of equal width (at 80 000 filters; so none of them covers another), each an
interval on six numbers within those of its root. Half of the questions are about such filters, half
about ones as wide as roots.
`stock`: three to seven of seven numbers, an interval on each; selectivities of 0.1, 2 and 20 %.
`chain`: a worst case. Seven intervals around the same middle, each filter's a bit wider than the
last one's: of any two, one covers the other, so a question has half of the filters for an answer.
`clustered`: another. Half of all interval ends are the same few values, and the others lie within
a millionth.
`language`: what boxes cannot say. IN, NOT IN, LIKE, OR, a comparison between attributes.

For the relation graphs there is one more, `degree`: as `nested`, but each root is there from the
start, and as many filters are below the one as below the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from reefcast.model.expression import And, Attribute, Comparison, Expression, Literal
from reefcast.model.filters import Filter, parse_filter

NUMBERS = ("open", "high", "low", "close", "volume", "change", "turnover")
ROOTS = 38
"""As 80 000 filters at a covering degree of 2 100 make."""

Intervals = Mapping[str, tuple[float, float]]


def box_filter(intervals: Intervals, symbol: str = "") -> Filter:
    """Return `symbol = ... AND a BETWEEN ... AND ...` without the parser, which would take
    longest."""
    terms: list[Expression] = []
    texts: list[str] = []
    if symbol:
        terms.append(Comparison("=", Attribute("symbol"), Literal(symbol)))
        texts.append(f"symbol = '{symbol}'")
    for name, (low, high) in intervals.items():
        terms.append(Comparison(">=", Attribute(name), Literal(low)))
        terms.append(Comparison("<=", Attribute(name), Literal(high)))
        texts.append(f"{name} BETWEEN {low!r} AND {high!r}")
    return Filter(" AND ".join(texts), And(tuple(terms)))


def _interval(rng: random.Random, width: float, within: tuple[float, float]) -> tuple[float, float]:
    low, high = within
    start = rng.uniform(low, high - width)
    return start, start + width


def _wide(rng: random.Random, number: int) -> dict[str, tuple[float, float]]:
    """Return a root's intervals; they depend on its number only."""
    fixed = random.Random(number)
    return {name: _interval(fixed, 0.5, (0.0, 1.0)) for name in NUMBERS[:6]}


def nested_filter(rng: random.Random, *, asked: bool) -> Filter:
    number = rng.randrange(ROOTS)
    root = _wide(rng, number)
    symbol = f"S{number:03d}"
    if asked and rng.random() < 0.5:
        return box_filter({name: (a - 1e-3, b) for name, (a, b) in root.items()}, symbol)
    if not asked and rng.random() < 1 / 2100:
        low = rng.random() * 1e-6
        return box_filter({name: (a - low, b + low) for name, (a, b) in root.items()}, symbol)
    return box_filter({name: _interval(rng, 0.1, root[name]) for name in root}, symbol)


def degree_filters(count: int) -> list[Filter]:
    """Return the roots, then the filters below them in turn."""
    rng = random.Random(f"{SEED}/degree")
    filters = []
    for key in range(count):
        root = _wide(rng, key % ROOTS)
        inner = root if key < ROOTS else {name: _interval(rng, 0.1, root[name]) for name in root}
        filters.append(box_filter(inner, f"S{key % ROOTS:03d}"))
    return filters


def stock_filter(rng: random.Random, *, asked: bool) -> Filter:
    del asked
    names = rng.sample(NUMBERS, rng.randint(3, 7))
    width = rng.choice([0.001, 0.02, 0.2]) ** (1 / len(names))
    return box_filter({name: _interval(rng, width, (0.0, 1.0)) for name in sorted(names)})


def chain_filter(rng: random.Random, *, asked: bool) -> Filter:
    del asked
    half = rng.random() / 2
    return box_filter(dict.fromkeys(NUMBERS, (0.5 - half, 0.5 + half)))


def clustered_filter(rng: random.Random, *, asked: bool) -> Filter:
    del asked

    def end(middle: float) -> float:
        return middle if rng.random() < 0.5 else middle + rng.uniform(-1e-6, 1e-6)

    intervals = {}
    for name in NUMBERS:
        middle = rng.choice([0.2, 0.3, 0.4])
        intervals[name] = (end(middle), end(middle + 0.5))
    return box_filter(intervals)


def language_filter(rng: random.Random, *, asked: bool) -> Filter:
    del asked
    symbol, low = rng.randrange(500), rng.uniform(0, 0.5)
    terms = [
        f"price BETWEEN {low!r} AND {low + rng.choice([0.01, 0.2, 0.5])!r}",
        rng.choice(
            [
                f"symbol = 'S{symbol:03d}'",
                f"symbol IN ('S{symbol:03d}', 'S{(symbol + 7) % 500:03d}')",
                f"symbol LIKE 'S{symbol // 100}%'",
                f"symbol LIKE 'S%{symbol % 10}'",
            ]
        ),
        rng.choice(["volume > 0.5", f"volume <> {low!r}", "change > volume", "change < 0.5"]),
    ]
    text = " AND ".join(terms)
    return parse_filter(f"{text} OR turnover > {low!r}" if rng.random() < 0.1 else text)


Maker = Callable[..., Filter]
WORKLOADS: Mapping[str, Maker] = {
    "nested": nested_filter,
    "stock": stock_filter,
    "chain": chain_filter,
    "clustered": clustered_filter,
    "language": language_filter,
}
SEED = 1
BOXES = ("nested", "stock", "chain", "clustered")
"""The workloads that columns of bounds can answer."""


def make(workload: str, count: int, questions: int) -> tuple[list[Filter], ...]:
    """Return filters to store, and filters to ask about; the same for the same arguments, except
    for the `count` filters of one text that could come twice."""
    rng = random.Random(f"{SEED}/{workload}")
    maker = WORKLOADS[workload]
    stored = [maker(rng, asked=False) for _ in range(count)]
    return stored, [maker(rng, asked=True) for _ in range(questions)]
