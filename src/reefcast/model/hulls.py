"""Hulls: one conjunction around all conjunctions of a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reefcast.model.constraint import MISSING, PRESENT, Constraint, Kind
from reefcast.model.normal import Conjunction, Form
from reefcast.model.publication import Value
from reefcast.model.values import is_nan


def hull_of(form: Form) -> Conjunction:
    """Return one conjunction that holds wherever one of these does: at least one."""
    first, *others = (conjunction.constraints for conjunction in form)
    common = [name for name in first if all(name in each for each in others)]
    hulls = {name: _hull([first[name], *(each[name] for each in others)]) for name in common}
    return Conjunction({name: each for name, each in hulls.items() if each is not None})


def _hull(constraints: Sequence[Constraint]) -> Constraint | None:
    """Return a constraint that holds wherever one of these does, an interval of one kind if they
    are all of that kind; None if there is no condition to state."""
    if any(each.missing for each in constraints):
        return MISSING if all(each.missing for each in constraints) else None
    kind = constraints[0].kind
    if kind in (None, Kind.BOOLEAN) or any(each.kind is not kind for each in constraints):
        return PRESENT
    lows = [each.members[0] if each.members else each.low for each in constraints]
    highs = [each.members[-1] if each.members else each.high for each in constraints]
    return Constraint(kind=kind, low=_outermost(min, lows), high=_outermost(max, highs))


def _outermost(of: Callable[..., Value], ends: list[Value | None]) -> Value | None:
    """Return the lowest or the highest of ends of one kind; None where one is open."""
    known = [end for end in ends if end is not None and not is_nan(end)]
    return of(known) if len(known) == len(ends) else None
