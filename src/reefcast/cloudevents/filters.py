"""The filter dialects of the CloudEvents Subscriptions API: what they mean for an event.

| dialect | holds |
|---|---|
| `exact`, `prefix`, `suffix` | if each attribute that it names is there and is, begins or ends so |
| `all`, `any`, `not` | as the filters in it say |
| `sql` | if the CESQL expression evaluates without an error to true |

Attributes are compared by their canonical texts: `{"exact": {"n": "5"}}` holds for the Integer 5.
`translating` makes filters of Reefcast of them.

Source: CloudEvents Subscriptions API, working draft, section 3.2.4."""

from __future__ import annotations

from typing import Literal, cast

import msgspec

from reefcast import cesql
from reefcast.cloudevents.context import Context, canonical, is_name, is_value
from reefcast.errors import CesqlError, LocalError

Operator = Literal["exact", "prefix", "suffix"]
OPERATORS: tuple[Operator, ...] = ("exact", "prefix", "suffix")
DIALECTS = (*OPERATORS, "all", "any", "not", "sql")
MOST_LEVELS, MOST_CONDITIONS = 20, 200
"""How deep the filters of one subscription may be nested, and how many conditions they may have."""


class SubscriptionError(LocalError):
    """A subscription is wrong. `where`: which member of it."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where


class Condition(msgspec.Struct, frozen=True):
    """A condition on one attribute."""

    name: str
    operator: Operator
    text: str

    def holds(self, context: Context) -> bool:
        """Return whether it holds for an event with these attributes."""
        value = context.get(self.name)
        if value is None:
            return False
        text = canonical(value)
        if self.operator == "exact":
            return text == self.text
        return text.startswith(self.text) if self.operator == "prefix" else text.endswith(self.text)


class AllOf(msgspec.Struct, frozen=True):
    """Holds if all of its filters do."""

    filters: tuple[FilterExpression, ...]

    def holds(self, context: Context) -> bool:
        """Return whether it holds for an event with these attributes."""
        return all(each.holds(context) for each in self.filters)


class AnyOf(msgspec.Struct, frozen=True):
    """Holds if one of its filters does."""

    filters: tuple[FilterExpression, ...]

    def holds(self, context: Context) -> bool:
        """Return whether it holds for an event with these attributes."""
        return any(each.holds(context) for each in self.filters)


class Not(msgspec.Struct, frozen=True):
    """Holds if its filter does not."""

    filter: FilterExpression

    def holds(self, context: Context) -> bool:
        """Return whether it holds for an event with these attributes."""
        return not self.filter.holds(context)


class Sql(msgspec.Struct, frozen=True):
    """A CESQL expression. `text` can be parsed."""

    text: str

    def holds(self, context: Context) -> bool:
        """Return whether it holds for an event with these attributes."""
        return cesql.parse(self.text).matches(context)


FilterExpression = Condition | AllOf | AnyOf | Not | Sql


def read_filters(filters: object, where: str = "filters") -> AllOf:
    """Return the filters of a subscription, a JSON array of which all must hold. Raises
    `SubscriptionError`."""
    reader = _Reader()
    return AllOf(reader.list(filters, where, 0))


class _Reader:
    def __init__(self) -> None:
        self._conditions = 0

    def list(self, filters: object, where: str, level: int) -> tuple[FilterExpression, ...]:
        if not isinstance(filters, list):
            raise SubscriptionError(where, "must be a list of filters")
        return tuple(self.one(each, f"{where}[{at}]", level + 1) for at, each in enumerate(filters))

    def one(self, filter: object, where: str, level: int) -> FilterExpression:
        if level > MOST_LEVELS:
            raise SubscriptionError(where, f"is nested more than {MOST_LEVELS} levels deep")
        if not isinstance(filter, dict) or len(filter) != 1:
            raise SubscriptionError(
                where, "must be an object with one member, the name of the dialect"
            )
        ((dialect, content),) = filter.items()
        where = f"{where}.{dialect}"[:200]
        if dialect in OPERATORS:
            return self._conditions_of(cast("Operator", dialect), content, where)
        if dialect == "not":
            return Not(self.one(content, where, level + 1))
        if dialect == "sql":
            return self._sql(content, where)
        if dialect not in ("all", "any"):
            raise SubscriptionError(
                where, f"there is no such dialect here; there are {', '.join(DIALECTS)}"
            )
        filters = self.list(content, where, level)
        if not filters:
            raise SubscriptionError(where, "must have at least one filter")
        return AllOf(filters) if dialect == "all" else AnyOf(filters)

    def _conditions_of(self, operator: Operator, content: object, where: str) -> FilterExpression:
        if not isinstance(content, dict) or not content:
            raise SubscriptionError(where, "must be an object with names of attributes and texts")
        for name, text in content.items():
            self._check(name, text, f"{where}.{name}"[:200])
        made = tuple(Condition(name, operator, text) for name, text in content.items())
        return made[0] if len(made) == 1 else AllOf(made)

    def _check(self, name: str, text: object, where: str) -> None:
        self._count(where)
        if not is_name(name):
            raise SubscriptionError(
                where, "no CloudEvent has such an attribute: use lower-case letters and digits"
            )
        if not isinstance(text, str) or not text:
            raise SubscriptionError(where, "must be a text that is not empty")
        if not is_value(text):
            raise SubscriptionError(where, "no attribute of a CloudEvent can be such a text")

    def _sql(self, content: object, where: str) -> Sql:
        self._count(where)
        if not isinstance(content, str):
            raise SubscriptionError(where, "must be a text, a CESQL expression")
        try:
            cesql.parse(content)
        except CesqlError as error:
            raise SubscriptionError(where, str(error)) from None
        return Sql(content)

    def _count(self, where: str) -> None:
        self._conditions += 1
        if self._conditions > MOST_CONDITIONS:
            raise SubscriptionError(
                where, f"the subscription has more than {MOST_CONDITIONS} conditions: split it"
            )
