"""Relations of filters: covering, intersection, equality.

All three are decided on the normal forms. They are exact for conjunctions of intervals and sets
over a dense order, and sound everywhere: a covering that is claimed is there, an intersection that
is denied is not. In doubt a subscription travels further than it must, and no event is lost.

In doubt is also what would be too much work, for whoever may subscribe may ask for it: comparing
many conjunctions with many, which takes the product of their sizes, and many patterns with many
values. The bounds concern one pair of filters only: whoever asks, about one pair the answer is
always the same.

Topics. A publication may have several, and a filter holds for it if it holds for one of them. Then
- covering is decided for one topic at a time, and that is enough: the topic for which `g` holds is
  one for which `f` holds;
- two filters may hold for *different* topics of one publication: `topic = 'a'` and `topic = 'b'`
  intersect, in a publication under both. So demands of the two on `topic` that strings can meet
  never exclude each other. Every other demand on `topic` (missing, a number, a boolean) can be met
  only by a publication without topics, where there is one value to agree on, as with any attribute.
"""

from __future__ import annotations

from collections.abc import Mapping

from reefcast.model.constraint import (
    Constraint,
    Kind,
    constraint_covers,
    exclusive,
    satisfies,
)
from reefcast.model.filters import TOPIC, Conjunction, Filter, hull
from reefcast.model.publication import Value

MOST_WORK = 16_384
"""The largest product of sizes for which the conjunctions of two filters are compared: eleven
alternatives of three conditions with eleven others. It takes 0.2 ms."""
FEW_PAIRS = 16
"""How many pairs of conjunctions are compared without a look at the hulls of the filters."""
MOST_CONSTRAINTS = 64
"""How many constraints of one conjunction are compared with those of another."""
MOST_TESTS = 512
"""How many tests of patterns one comparison of two filters may take: of a value one each, of
another pattern `PER_PATTERN`."""
PER_PATTERN = 8


_Left = list[int]
"""How many tests of patterns are left for one comparison: a list of one."""


def covers(f: Filter, g: Filter) -> bool:
    """Return whether `f` holds wherever `g` does: exact if both are conjunctions of intervals and
    sets; else True is certain, False is not."""
    if f is g or f.text == g.text:
        return True
    mine, theirs, left = f.conjunctions, g.conjunctions, [MOST_TESTS]
    if len(mine) == len(theirs) == 1:
        return _conjunction_covers(mine[0], theirs[0], left)
    if _too_much_work(f, g):
        return False
    return all(any(_conjunction_covers(one, other, left) for one in mine) for other in theirs)


def _too_much_work(f: Filter, g: Filter) -> bool:
    mine, theirs = len(f.conjunctions), len(g.conjunctions)
    if mine < 2 or theirs < 2:
        return False
    return mine * len(g.packed) + theirs * len(f.packed) > MOST_WORK


def intersects(f: Filter, g: Filter) -> bool:
    """Return whether some publication satisfies both: exact if both are conjunctions of intervals
    and sets; else False is certain, True is not."""
    mine, theirs, left = f.conjunctions, g.conjunctions, [MOST_TESTS]
    if len(mine) == len(theirs) == 1:
        return _conjunctions_intersect(mine[0], theirs[0], left)
    if g.text < f.text:  # the same in both orders, also where it is in doubt
        mine, theirs = theirs, mine
    in_doubt = _too_much_work(f, g)
    if in_doubt or len(mine) * len(theirs) > FEW_PAIRS:
        if not _conjunctions_intersect(hull(f), hull(g), left):
            return False
        if in_doubt:
            return True
    return any(_conjunctions_intersect(one, other, left) for one in mine for other in theirs)


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


def _conjunction_covers(a: Conjunction, b: Conjunction, left: _Left) -> bool:
    # What a demands of an attribute, b must demand too, and more: most pairs end here.
    if len(a.constraints) > len(b.constraints) or len(a.residuals) > len(b.residuals):
        return False
    theirs = b.constraints
    for name in a.constraints:
        if name not in theirs:
            return False
    if len(a.constraints) > MOST_CONSTRAINTS:
        return False
    for name, constraint in a.constraints.items():
        other = theirs[name]
        if constraint.patterns and _too_many_tests(constraint, other, left):
            return False
        if not constraint_covers(constraint, other):
            return False
    return all(residual in b.residuals for residual in a.residuals)


def _conjunctions_intersect(a: Conjunction, b: Conjunction, left: _Left) -> bool:
    """Return whether two conjunctions may intersect; residuals are assumed to be satisfiable."""
    if len(a.constraints) > len(b.constraints):
        a, b = b, a
    if len(a.constraints) > MOST_CONSTRAINTS:
        return True
    for name, constraint in a.constraints.items():
        other = b.constraints.get(name)
        if other is not None and _exclusive(name, constraint, other, left):
            return False
    return True


def _exclusive(name: str, a: Constraint, b: Constraint, left: _Left) -> bool:
    if name == TOPIC and a.kind is Kind.STRING and b.kind is Kind.STRING:
        return False
    if (a.patterns or b.patterns) and (_too_many_tests(a, b, left) or _too_many_tests(b, a, left)):
        return False
    return exclusive(a, b)


def _too_many_tests(a: Constraint, b: Constraint, left: _Left) -> bool:
    """Count the tests of the patterns of `a` with what `b` has; return whether they are too
    many."""
    values = len(b.members or ()) + len(b.excluded)
    left[0] -= len(a.patterns) * (values + PER_PATTERN * (1 + len(b.patterns)))
    return left[0] < 0
