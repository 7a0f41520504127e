"""Relations of filters: covering, intersection, equality.

All three are decided on the normal forms. They are exact for conjunctions of intervals and sets
over a dense order, and sound everywhere: a covering that is claimed is there, an intersection that
is denied is not. In doubt a subscription travels further than it must, and no event is lost.

Topics. A publication may have several, and a filter holds for it if it holds for one of them. Then
- covering is decided for one topic at a time, and that is enough: the topic for which `g` holds is
  one for which `f` holds;
- two filters may hold for *different* topics of one publication: `topic = 'a'` and `topic = 'b'`
  intersect, in a publication under both. So demands of the two on `topic` that strings can meet
  never exclude each other. Every other demand on `topic` (missing, a number, a boolean) can be met
  only by a publication without topics, where there is one value to agree on, as with any attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from reefcast.model.constraint import (
    Constraint,
    Kind,
    constraint_covers,
    exclusive,
    hull,
    satisfies,
)
from reefcast.model.filters import TOPIC, Conjunction, Filter
from reefcast.model.publication import Value

FEW_PAIRS = 4
"""How many pairs of conjunctions of two filters are compared in any case."""
MOST_PAIRS = 8192
"""How many are compared beyond that, for one filter with a whole table: some milliseconds."""


def covers(f: Filter, g: Filter) -> bool:
    """Return whether `f` holds wherever `g` does: exact if both are conjunctions of intervals and
    sets; else True is certain, False is not."""
    if f is g or f.text == g.text:
        return True
    return all(
        any(_conjunction_covers(mine, theirs) for mine in f.conjunctions)
        for theirs in g.conjunctions
    )


def intersects(f: Filter, g: Filter) -> bool:
    """Return whether some publication satisfies both: exact if both are conjunctions of intervals
    and sets; else False is certain, True is not."""
    return any(
        _conjunctions_intersect(mine, theirs)
        for mine in f.conjunctions
        for theirs in g.conjunctions
    )


def may_intersect(filter: Filter, others: Iterable[Filter]) -> Iterator[bool]:
    """Yield for each of the others what `intersects` returns, or True in doubt: where many
    conjunctions would have to be compared with many, only *hulls* are, one conjunction around all
    of a filter's. So the time does not grow with the conjunctions of a filter."""
    left = MOST_PAIRS
    for other in others:
        pairs = len(filter.conjunctions) * len(other.conjunctions)
        if pairs > FEW_PAIRS:
            if not _conjunctions_intersect(_hull(filter), _hull(other)):
                yield False
                continue
            left -= pairs
            if left < 0:
                yield True
                continue
        yield intersects(filter, other)


def equals(f: Filter, g: Filter) -> bool:
    """Return whether `f` and `g` hold for the same publications; as exact as `covers`."""
    return covers(f, g) and covers(g, f)


def may_hold(f: Filter, known: Mapping[str, Value]) -> bool:
    """Return whether some publication that has these values satisfies `f`, and one topic at most,
    if that is among them; its other attributes are free. Exact as `intersects` is."""
    return any(
        all(
            satisfies(conjunction.constraints[name], value)
            for name, value in known.items()
            if name in conjunction.constraints
        )
        for conjunction in f.conjunctions
    )


def _conjunction_covers(a: Conjunction, b: Conjunction) -> bool:
    # What a demands of an attribute, b must demand too, and more: most pairs end here.
    if len(a.constraints) > len(b.constraints) or len(a.residuals) > len(b.residuals):
        return False
    theirs = b.constraints
    for name in a.constraints:
        if name not in theirs:
            return False
    for name, constraint in a.constraints.items():
        if not constraint_covers(constraint, theirs[name]):
            return False
    return all(residual in b.residuals for residual in a.residuals)


def _conjunctions_intersect(a: Conjunction, b: Conjunction) -> bool:
    """Return whether two conjunctions may intersect; residuals are assumed to be satisfiable."""
    if len(a.constraints) > len(b.constraints):
        a, b = b, a
    for name, constraint in a.constraints.items():
        other = b.constraints.get(name)
        if other is not None and _exclusive(name, constraint, other):
            return False
    return True


def _exclusive(name: str, a: Constraint, b: Constraint) -> bool:
    if name == TOPIC and a.kind is Kind.STRING and b.kind is Kind.STRING:
        return False
    return exclusive(a, b)


def _hull(filter: Filter) -> Conjunction:
    """Return one conjunction that holds wherever the filter does."""
    conjunctions = filter.conjunctions
    return conjunctions[0] if len(conjunctions) == 1 else _hull_of_many(filter)


@lru_cache(maxsize=256)
def _hull_of_many(filter: Filter) -> Conjunction:
    first, *others = (conjunction.constraints for conjunction in filter.conjunctions)
    common = [name for name in first if all(name in each for each in others)]
    hulls = {name: hull([first[name], *(each[name] for each in others)]) for name in common}
    return Conjunction({name: each for name, each in hulls.items() if each is not None})
