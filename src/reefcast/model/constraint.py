"""A constraint: what one conjunction of a filter's normal form demands of one attribute.

A constraint is either `IS NULL` (`missing=True`, everything else at its default) or the demand that
the attribute is there *and* its value lies in a set, given by the fields below; all of them must
hold. Kinds never mix: a number compared with a string is UNKNOWN, which satisfies nothing.

- `kind`: NUMBER, STRING or BOOLEAN; None means any kind (plain `IS NOT NULL`), and then the other
  fields are at their defaults.
- `low`, `high`: bounds of an interval, None for no bound; `low_open`, `high_open` say whether the
  bound itself is outside. Without `high` the interval holds +inf and NaN (NaN equals itself and
  exceeds every number). Booleans have no interval, only members.
- `members`: the value must be one of these (`=`, `IN`); sorted, without equals; None for no such
  demand. Where there are members, the interval, `excluded` and `patterns` have been applied to them
  already and are at their defaults. Empty members: nothing satisfies the constraint.
- `excluded`: values cut out (`<>`, `NOT IN`); sorted, inside the interval.
- `patterns`: demands on strings that no interval can say (LIKE, NOT LIKE, topic MATCHES).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from reefcast.model.publication import Value


class Kind(IntEnum):
    NUMBER = 0
    STRING = 1
    BOOLEAN = 2


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern that a string must (or, negated, must not) match.

    `operator` is "LIKE" or "MATCHES" (MQTT wildcards); `escape` is LIKE's escape character or "".
    """

    operator: str
    text: str
    escape: str = ""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """See the module's docstring for the fields and how they go together."""

    missing: bool = False
    kind: Kind | None = None
    low: Value | None = None
    low_open: bool = False
    high: Value | None = None
    high_open: bool = False
    members: tuple[Value, ...] | None = None
    excluded: tuple[Value, ...] = ()
    patterns: tuple[Pattern, ...] = ()
