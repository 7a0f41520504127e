"""Parameters in the filters of roles: `${user}`, `${claims.desk}`. They stand for a user's values,
which take their place in the tree of the expression, never in its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from reefcast.errors import LocalError
from reefcast.model.expression import (
    And,
    Attribute,
    Expression,
    In,
    IsNull,
    Literal,
    Or,
    children,
)
from reefcast.model.publication import INT64_MAX, INT64_MIN, Value
from reefcast.model.values import kind_of

USER = "user"
CLAIMS = "claims."
"""What the names of parameters are, or begin with."""


class UnusableError(LocalError):
    """A parameter has no value, or one that cannot stand where it stands."""


@dataclass(frozen=True, slots=True)
class Parameter(Attribute):
    """A parameter; `name` without the signs around it."""

    @property
    def text(self) -> str:
        """How it is written."""
        return f"${{{self.name}}}"


@dataclass(frozen=True, slots=True)
class AmongGiven:
    """`operand IN (values)`, some of which are parameters. The value of a parameter may be a list
    here."""

    operand: Expression
    values: tuple[Literal | Parameter, ...]
    negated: bool = False


def fault_of(name: str) -> str:
    """Return why there is no such parameter; "" if there is."""
    if name == USER or (name.startswith(CLAIMS) and len(name) > len(CLAIMS)):
        return ""
    return f"there is no value ${{{name}}}: a role's filter knows ${{user}} and ${{claims.NAME}}"


def parameters_of(expression: Expression) -> frozenset[str]:
    """Return the names of the parameters in an expression."""
    names, left = set(), [expression]
    while left:
        each = left.pop()
        left += children(each)
        if isinstance(each, AmongGiven):
            names.update(value.name for value in each.values if isinstance(value, Parameter))
        elif isinstance(each, Parameter):
            names.add(each.name)
    return frozenset(names)


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return the claim with this name, else the part of a claim to which its dots lead; None if
    there is none."""
    found: Any = claims
    if name in claims:
        return claims[name]
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def substituted(expression: Expression, values: Mapping[str, Any]) -> Expression:
    """Return the expression with `values` (by the names of parameters) in the place of its
    parameters. Raises `UnusableError` for one without a usable value."""
    if isinstance(expression, Parameter):
        return Literal(_value(expression, values.get(expression.name)))
    if isinstance(expression, AmongGiven):
        return _among(expression, values)
    if isinstance(expression, And | Or):
        return replace(expression, terms=tuple(substituted(e, values) for e in expression.terms))
    if isinstance(expression, Literal | Attribute):
        return expression
    named = {each.name for each in fields(expression)} & {"left", "right", "operand"}
    inner: dict[str, Any] = {name: substituted(getattr(expression, name), values) for name in named}
    return replace(expression, **inner)


def _among(among: AmongGiven, values: Mapping[str, Any]) -> Expression:
    operand = substituted(among.operand, values)
    found: list[Literal] = []
    for each in among.values:
        if isinstance(each, Literal):
            found.append(each)
            continue
        given = values.get(each.name)
        listed = given if isinstance(given, list | tuple) else [given]
        found += (Literal(_value(each, value)) for value in listed)
    if not found:  # an empty list
        return IsNull(operand, negated=True) if among.negated else Literal(False)
    if len({kind_of(each.value) for each in found}) > 1:
        names = ", ".join(each.text for each in among.values if isinstance(each, Parameter))
        raise UnusableError(f"the values of a list with {names} are of different kinds")
    return In(operand, tuple(found), among.negated)


def _value(parameter: Parameter, value: Any) -> Value:
    if value is None:
        raise UnusableError(f"{parameter.text} has no value")
    usable = (
        isinstance(value, str | bool)
        or (isinstance(value, int) and INT64_MIN <= value <= INT64_MAX)
        or (isinstance(value, float) and abs(value) < float("inf"))
    )
    if not usable:
        what = "a list" if isinstance(value, list | tuple) else "no text, number or truth value"
        raise UnusableError(f"{parameter.text} is {what}, and cannot stand here")
    found: Value = value
    return found
