"""Events and filters that are judged here: each filter comes with a function that says whether it
holds.

A filter is true, false or unknown (None), as in SQL; it holds where it is true. None of this code
is the package's, so that the parser, the normal form and the index under test cannot excuse each
other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

Value = int | float | bool | str
Attributes = Mapping[str, Value]
Truth = bool | None
Says = Callable[[Attributes], Truth]

TOPICS = tuple(f"t{number}" for number in range(8))
KINDS = "abcde"
PRICES = 1000


class Wanted(NamedTuple):
    """A filter, and what it says of an event."""

    text: str
    says: Says

    def holds(self, event: Attributes) -> bool:
        return self.says(event) is True


def draw_event(rng: random.Random) -> dict[str, Value]:
    """Draw an event; some attributes are missing. The key "topic" is no attribute for
    publishers."""
    event: dict[str, Value] = {
        "topic": rng.choice(TOPICS),
        "price": rng.randrange(PRICES),
        "kind": rng.choice(KINDS),
        "name": f"n{rng.randrange(100)}",
    }
    if rng.random() < 0.8:
        event["weight"] = rng.randrange(400) / 4
    if rng.random() < 0.7:
        event["urgent"] = rng.random() < 0.5
    return event


# --- conditions -----------------------------------------------------------------------------------


def compares(name: str, sign: str, limit: float) -> Wanted:
    def says(event: Attributes) -> Truth:
        value = event.get(name)
        if value is None:
            return None
        assert isinstance(value, int | float)
        return value < limit if sign == "<" else value >= limit

    return Wanted(f"{name} {sign} {limit}", says)


def between(name: str, low: int, high: int) -> Wanted:
    def says(event: Attributes) -> Truth:
        value = event.get(name)
        if value is None:
            return None
        assert isinstance(value, int | float)
        return low <= value <= high

    return Wanted(f"{name} BETWEEN {low} AND {high}", says)


def one_of(name: str, values: tuple[str, ...]) -> Wanted:
    def says(event: Attributes) -> Truth:
        return None if name not in event else event[name] in values

    if len(values) == 1:
        return Wanted(f"{name} = '{values[0]}'", says)
    listed = ", ".join(f"'{value}'" for value in values)
    return Wanted(f"{name} IN ({listed})", says)


def starts(name: str, beginning: str) -> Wanted:
    def says(event: Attributes) -> Truth:
        value = event.get(name)
        return None if value is None else str(value).startswith(beginning)

    return Wanted(f"{name} LIKE '{beginning}%'", says)


def is_true(name: str) -> Wanted:
    def says(event: Attributes) -> Truth:
        value = event.get(name)
        return None if value is None else value is True

    return Wanted(name, says)


def is_missing(name: str) -> Wanted:
    return Wanted(f"{name} IS NULL", lambda event: name not in event)


def negated(inner: Wanted) -> Wanted:
    def says(event: Attributes) -> Truth:
        truth = inner.says(event)
        return None if truth is None else not truth

    return Wanted(f"NOT ({inner.text})", says)


def both(left: Wanted, right: Wanted) -> Wanted:
    def says(event: Attributes) -> Truth:
        truths = (left.says(event), right.says(event))
        if False in truths:
            return False
        return None if None in truths else True

    return Wanted(f"({left.text}) AND ({right.text})", says)


def either(left: Wanted, right: Wanted) -> Wanted:
    def says(event: Attributes) -> Truth:
        truths = (left.says(event), right.says(event))
        if True in truths:
            return True
        return None if None in truths else False

    return Wanted(f"({left.text}) OR ({right.text})", says)


# --- filters --------------------------------------------------------------------------------------


def draw_topics(rng: random.Random) -> Wanted:
    return one_of("topic", tuple(sorted(rng.sample(TOPICS, rng.randint(1, 3)))))


def draw_condition(rng: random.Random) -> Wanted:
    """Draw a condition. Ranges are wide and have round limits, so that some filters cover
    others."""
    low = rng.randrange(0, PRICES // 2, 100)
    draws: list[Callable[[], Wanted]] = [
        lambda: between("price", low, low + rng.choice((200, 400, 500))),
        lambda: compares("price", "<", rng.randrange(200, PRICES, 100)),
        lambda: compares("price", ">=", rng.randrange(0, 800, 100)),
        lambda: compares("weight", "<", rng.randrange(20, 100, 20)),
        lambda: one_of("kind", tuple(sorted(rng.sample(KINDS, rng.randint(1, 3))))),
        lambda: starts("name", f"n{rng.randrange(1, 10)}"),
        lambda: is_true("urgent"),
        lambda: is_missing("weight"),
        lambda: draw_topics(rng),
    ]
    return rng.choice(draws)()


def draw_filter(rng: random.Random, *, names_topics: bool = False) -> Wanted:
    """Draw a filter. `names_topics`: it says which topics it is about, as routing gossip
    demands."""
    drawn = draw_condition(rng)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        other = draw_condition(rng)
        if rng.random() < 0.2:
            other = negated(other)
        drawn = rng.choice((both, both, either))(drawn, other)
    return both(draw_topics(rng), drawn) if names_topics else drawn
