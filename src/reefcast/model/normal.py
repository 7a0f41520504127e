"""Normal form: a filter as a disjunction of conjunctions.

A conjunction has at most one constraint per attribute, and *residuals*: conditions that no
constraint can say, above all those over several attributes (`dep_delay > arr_delay + 5`). It holds
where each constraint is satisfied and each residual evaluates to TRUE; the filter holds where one
of its conjunctions does. So much for TRUE: FALSE and UNKNOWN are not told apart any more.

How: NOT is pushed down to the predicates. In three-valued logic that is exact: NOT (a < 5) and
a >= 5 are both UNKNOWN for the same values. Then AND is distributed over OR, predicates over one
attribute become constraints and are intersected at once, contradictions disappear, and
`dest = 'SFO' OR dest = 'LAX'` becomes one set. A filter that never matches has no conjunctions.

AND is distributed over several ORs only if few conjunctions come of it, else over one of them, and
the others are residuals: eight ORs of two would make 256 conjunctions.

A filter whose normal form would be too large becomes one conjunction with itself as residual.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reefcast.model.constraint import (
    MISSING,
    PRESENT,
    Constraint,
    Pattern,
    among,
    compared,
    intersect,
    intervals_in_one,
    is_empty,
    matching,
    satisfies,
    unite,
)
from reefcast.model.expression import (
    And,
    Arithmetic,
    Attribute,
    Attributes,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Minus,
    Not,
    Or,
    children,
    evaluate,
    to_sql,
)

MAX_CONJUNCTIONS = 256
MULTIPLIED = 8
"""Conjunctions that an AND of several ORs may make; beyond that, one of the ORs makes some."""

MAX_STEPS = 2048
"""Bound on the work for one filter: conjunctions merged for its ANDs, and looked at for its ORs,
and what is in them."""
MAX_SIZE = 16_384
"""Constraints, and values and patterns in them, of a whole normal form."""
PER_STEP = 8
"""How many small things (constraints copied, members looked at) are the work of one merge."""


@dataclass(frozen=True, slots=True)
class Conjunction:
    """`constraints` by attribute, in the order of the names; `residuals` in that of their text."""

    constraints: Mapping[str, Constraint]
    residuals: tuple[Expression, ...] = ()

    def __hash__(self) -> int:
        # Many conjunctions may share many residuals: hashing all of them would take the product.
        ends = self.residuals[:1], self.residuals[-1:], len(self.residuals)
        return hash((tuple(self.constraints.items()), *ends))

    def holds(self, attributes: Attributes) -> bool:
        return all(
            satisfies(constraint, attributes.get(name))
            for name, constraint in self.constraints.items()
        ) and all(evaluate(residual, attributes) is True for residual in self.residuals)


Form = tuple[Conjunction, ...]
ALWAYS: Form = (Conjunction({}),)
NEVER: Form = ()


class _TooLargeError(Exception):
    """The normal form would exceed its bounds."""


class _Work:
    """Counts the steps for one filter."""

    def __init__(self) -> None:
        self.steps = 0

    def add(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise _TooLargeError


def normal_form(expression: Expression) -> Form:
    """Return the conjunctions, at most `MAX_CONJUNCTIONS`, in an order that follows the text."""
    try:
        return _form(expression, False, _Work())
    except _TooLargeError:
        return (Conjunction({}, (expression,)),)


def _form(expression: Expression, negated: bool, work: _Work) -> Form:
    match expression:
        case Not(operand):
            return _form(operand, not negated, work)
        case And(terms) | Or(terms):
            forms = [_form(term, negated, work) for term in terms]
            if isinstance(expression, And) is negated:
                return _either(forms, work)
            return _all_of(forms, [Not(term) if negated else term for term in terms], work)
        case _:
            return _predicate(expression, negated)


# --- OR and AND of forms -------------------------------------------------------------------------


def _either(forms: Iterable[Form], work: _Work) -> Form:
    together = tuple(dict.fromkeys(conjunction for form in forms for conjunction in form))
    return _bounded(_unite_members(together, work))


def _unite_members(form: Form, work: _Work) -> Form:
    """Join conjunctions that differ only in the members of one attribute."""
    with_members = Counter(
        name
        for conjunction in form
        for name, constraint in conjunction.constraints.items()
        if constraint.members is not None
    )
    for name in sorted(name for name, count in with_members.items() if count > 1):
        work.add(len(form))
        groups: dict[object, list[Conjunction]] = {}
        for conjunction in form:
            groups.setdefault(_all_but_members(conjunction, name), []).append(conjunction)
        form = tuple(_united(group, name) for group in groups.values())
    return form


def _all_but_members(conjunction: Conjunction, name: str) -> object:
    constraint = conjunction.constraints.get(name)
    if constraint is None or constraint.members is None:
        return conjunction
    rest = tuple(item for item in conjunction.constraints.items() if item[0] != name)
    return (constraint.kind, rest, conjunction.residuals)


def _united(group: list[Conjunction], name: str) -> Conjunction:
    first = group[0]
    if len(group) == 1:
        return first
    members = unite(conjunction.constraints[name] for conjunction in group)
    return replace(first, constraints={**first.constraints, name: members})


def _all_of(forms: list[Form], terms: list[Expression], work: _Work) -> Form:
    """Return the AND of the terms, which have these forms. Short forms come first, because they cut
    the others down."""
    single = _joined([form for form in forms if len(form) <= 1], work)
    longer = [each for each in zip(forms, terms, strict=True) if len(each[0]) > 1]
    longer.sort(key=lambda each: len(each[0]))
    result = single
    for form, _ in longer:
        result = _product(result, form, work)
        if len(result) > MULTIPLIED and len(longer) > 1:
            residuals = _ordered(term for _, term in longer[1:])
            return _product(_with(single, residuals, work), longer[0][0], work)
    return result


def _with(form: Form, residuals: tuple[Expression, ...], work: _Work) -> Form:
    added = Conjunction({}, residuals)
    return tuple(each for each in (_merged(one, added, work) for one in form) if each is not None)


def _ordered(residuals: Iterable[Expression]) -> tuple[Expression, ...]:
    kept = {*residuals}
    return tuple(sorted(kept, key=to_sql) if len(kept) > 1 else kept)


def _joined(forms: list[Form], work: _Work) -> Form:
    """Return the AND of forms of at most one conjunction each."""
    work.add(len(forms))
    if not all(forms):
        return NEVER
    if len(forms) <= 1:
        return forms[0] if forms else ALWAYS
    demands: dict[str, list[Constraint]] = {}
    residuals: list[Expression] = []
    for (conjunction,) in forms:
        residuals += conjunction.residuals
        for name, constraint in conjunction.constraints.items():
            demands.setdefault(name, []).append(constraint)
    constraints = {name: _intersected(demands[name], work) for name in sorted(demands)}
    if any(len(demands[name]) > 1 and is_empty(each) for name, each in constraints.items()):
        return NEVER
    return (Conjunction(constraints, _ordered(residuals)),)


def _intersected(constraints: list[Constraint], work: _Work) -> Constraint:
    if len(constraints) == 1:
        return constraints[0]
    result, *others = intervals_in_one(constraints)
    for each in others:
        work.add(_steps_to_intersect(result, each))
        result = intersect(result, each)
    return result


def _steps_to_intersect(a: Constraint, b: Constraint) -> int:
    """Return the work beyond one step: each member is compared with each pattern."""
    members = len(a.members or ()) + len(b.members or ())
    tests = 1 + len(a.patterns) + len(b.patterns)
    return members * tests // 2 + (len(a.excluded) + len(b.excluded)) // PER_STEP


def _product(a: Form, b: Form, work: _Work) -> Form:
    copied = len(b) * _constraints_in(a) + len(a) * _constraints_in(b)
    work.add(len(a) * len(b) + copied // PER_STEP)
    merged = (_merged(x, y, work) for x in a for y in b)
    return _bounded(tuple(dict.fromkeys(each for each in merged if each is not None)))


def _constraints_in(form: Form) -> int:
    return sum(len(conjunction.constraints) for conjunction in form)


def _bounded(form: Form) -> Form:
    if len(form) > MAX_CONJUNCTIONS or (len(form) > 1 and _size(form) > MAX_SIZE):
        raise _TooLargeError
    return form


def _size(form: Form) -> int:
    return sum(
        1 + len(each.members or ()) + len(each.excluded) + len(each.patterns)
        for conjunction in form
        for each in conjunction.constraints.values()
    )


def _merged(a: Conjunction, b: Conjunction, work: _Work) -> Conjunction | None:
    """Return the AND of two conjunctions; None if they contradict each other."""
    constraints = {**a.constraints}
    for name, constraint in b.constraints.items():
        known = constraints.get(name)
        if known is not None:
            work.add(_steps_to_intersect(known, constraint))
        both = constraint if known is None else intersect(known, constraint)
        if known is not None and is_empty(both):
            return None
        constraints[name] = both
    residuals = a.residuals
    if b.residuals:
        residuals = _ordered((*a.residuals, *b.residuals)) if residuals else b.residuals
    return Conjunction(dict(sorted(constraints.items())), residuals)


# --- predicates ----------------------------------------------------------------------------------

_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _predicate(expression: Expression, negated: bool) -> Form:
    if _is_constant(expression):
        return ALWAYS if evaluate(expression, {}) is (not negated) else NEVER
    match expression:
        case Attribute(name):
            return _constrained(name, compared("=", not negated))
        case Comparison(sign, left, right):
            return _comparison(_NEGATED[sign] if negated else sign, left, right)
        case In(Attribute(name), values, inverse):
            return _constrained(name, among((v.value for v in values), inverse is not negated))
        case Like(Attribute(name), text, escape, inverse):
            pattern = Pattern("LIKE", text, escape, inverse is not negated)
            return _constrained(name, matching(pattern))
        case Matches(Attribute(name), text):
            return _constrained(name, matching(Pattern("MATCHES", text, negated=negated)))
        case IsNull(Attribute(name), inverse):
            return _constrained(name, PRESENT if inverse is not negated else MISSING)
        case _:
            return _residual(_folded(expression), negated)


def _is_constant(expression: Expression) -> bool:
    return not isinstance(expression, Attribute) and all(map(_is_constant, children(expression)))


def _constrained(name: str, constraint: Constraint) -> Form:
    return NEVER if is_empty(constraint) else (Conjunction({name: constraint}),)


def _comparison(sign: str, left: Expression, right: Expression) -> Form:
    if _is_constant(left):
        sign, left, right = _FLIPPED[sign], right, left
    value = evaluate(right, {}) if _is_constant(right) else None
    if _is_constant(right) and value is None:
        return NEVER  # a comparison with UNKNOWN
    if isinstance(left, Attribute) and value is not None:
        return _constrained(left.name, compared(sign, value))
    return _residual(_oriented(Comparison(sign, _folded(left), _folded(right))), False)


def _oriented(comparison: Comparison) -> Comparison:
    """Return one of `a < b` and `b > a`, so that equal conditions look equal."""
    sign, left, right = comparison.operator, comparison.left, comparison.right
    if sign in (">", ">=") or (sign in ("=", "<>") and to_sql(right) < to_sql(left)):
        return Comparison(_FLIPPED[sign], right, left)
    return comparison


def _residual(expression: Expression, negated: bool) -> Form:
    if negated:
        match expression:
            case In() | Like() | IsNull():
                expression = replace(expression, negated=not expression.negated)
            case _:
                expression = Not(expression)
    return (Conjunction({}, (expression,)),)


def _folded(expression: Expression) -> Expression:
    """Return the expression with the constant parts of its arithmetic computed."""
    match expression:
        case Arithmetic(sign, left, right):
            expression = Arithmetic(sign, _folded(left), _folded(right))
        case Minus(operand):
            expression = Minus(_folded(operand))
        case In() | Like() | IsNull() | Matches():
            return replace(expression, operand=_folded(expression.operand))
        case _:
            return expression
    constant = all(isinstance(operand, Literal) for operand in children(expression))
    value = evaluate(expression, {}) if constant else None
    return expression if value is None else Literal(value)
