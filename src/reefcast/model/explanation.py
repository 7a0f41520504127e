"""Why a filter matched an event, or did not.

    explain(parse_filter("dest = 'SFO' AND seats > 5"), {"dest": "SFO", "seats": "7"})

The explanation is the filter's tree of AND, OR and NOT as its author wrote it (BETWEEN is the two
comparisons it stands for), with the verdict of each node, and at the leaves, the predicates, what
they saw. Some of them are *decisive*, as few as possible:

- if the filter holds: as long as these have the verdicts they have, it holds, whatever the others
  say. (Let the others be UNKNOWN, and it is still TRUE; leave out one of these, and it is not.)
- if it does not: had these had the verdict that is *wanted* of them (TRUE, or FALSE below an odd
  number of NOTs), it would hold. (None of them can be spared.) Of alternatives, the nearest.

As few as possible is exact, for every predicate of the text counts for itself: where all terms are
needed (AND that shall be TRUE, OR that shall be FALSE) their sets add up, where one suffices the
smallest is taken, the first of equals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from reefcast.model.expression import (
    And,
    Arithmetic,
    Attribute,
    Attributes,
    Expression,
    Literal,
    Minus,
    Not,
    Or,
    Result,
    attributes_of,
    children,
    evaluate,
    truth,
)
from reefcast.model.filters import TOPIC, Filter
from reefcast.model.hints import hints_for
from reefcast.model.wording import readable, readable_name, readable_value

CONSTANT_COST = 1 << 20
"""No event changes a constant: to be decisive for a filter that does not hold, it counts as much
as more predicates than fit into a filter."""

_CONNECTIVES: dict[type, str] = {And: "AND", Or: "OR", Not: "NOT"}
_VERDICTS = {True: "TRUE", False: "FALSE", None: "UNKNOWN"}


@dataclass(slots=True)
class Node:
    """A connective (`terms` are its operands) or a predicate (no terms).

    `verdict` is None for UNKNOWN; `wanted` is the verdict that the filter needs here. Predicates
    have `seen`, their attributes and arithmetic with their values (None: missing, or UNKNOWN), and,
    where the filter does not hold and they are not as wanted, `hints` (see `hints`).
    """

    expression: Expression
    verdict: bool | None
    wanted: bool
    terms: tuple[Node, ...] = ()
    seen: tuple[tuple[Expression, Result], ...] = ()
    hints: tuple[str, ...] = ()
    decisive: bool = False
    cost: float = field(default=0, repr=False)

    @property
    def text(self) -> str:
        """The text of a node: AND, OR, NOT, or a predicate as a filter spells it."""
        return _CONNECTIVES.get(type(self.expression)) or readable(self.expression)

    @property
    def verdict_text(self) -> str:
        return _VERDICTS[self.verdict]

    @property
    def seen_text(self) -> str:
        """The values that a predicate saw: `price = 120`, or `the event has no attribute price`; ""
        for a constant."""
        return ", ".join(_seen_in_words(*each) for each in self.seen)

    def predicates(self) -> Iterator[Node]:
        """Yield the leaves below, or the node itself if it has none, in the order of the text."""
        if not self.terms:
            yield self
        for term in self.terms:
            yield from term.predicates()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why `filter` matches an event (`matches`), or not.

    `topics` says of each topic whether the filter holds for it. `tree` is for `topic`: the first
    for which it holds, or else the one that comes nearest; None for an event without topics.
    """

    filter: Filter
    matches: bool
    tree: Node
    topic: str | None
    topics: dict[str, bool]

    def decisive(self) -> list[Node]:
        """Return the predicates that decided (see the module); no smaller set would do."""
        return [node for node in self.tree.predicates() if node.decisive]

    def never(self) -> bool:
        """Return whether no event can match, as far as the normal form shows."""
        return not self.filter.conjunctions


def explain(filter: Filter, attributes: Attributes, topics: Iterable[str] = ()) -> Explanation:
    """Explain why an event matches or not, as `filter.holds(attributes, topics)` decides."""
    rows: dict[str, Attributes] = {topic: {**attributes, TOPIC: topic} for topic in topics}
    trees = {topic: _tree(filter.expression, row) for topic, row in rows.items()}
    if not trees:
        tree = _tree(filter.expression, attributes)
        return Explanation(filter, tree.verdict is True, tree, None, {})
    held = {topic: tree.verdict is True for topic, tree in trees.items()}
    satisfied = [topic for topic in trees if held[topic]]
    best = satisfied[0] if satisfied else min(trees, key=lambda topic: trees[topic].cost)
    return Explanation(filter, held[best], trees[best], best, held)


def record_of(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain data, for JSON."""
    return {
        "filter": explanation.filter.text,
        "matches": explanation.matches,
        "topic": explanation.topic,
        "topics": explanation.topics,
        "never": explanation.never(),
        "decisive": [_record(node) for node in explanation.decisive()],
        "tree": _record(explanation.tree),
    }


def _record(node: Node) -> dict[str, Any]:
    """Return a node as plain data. A value is null if the attribute is missing, the computed value
    UNKNOWN, or NaN."""
    record: dict[str, Any] = {
        "text": node.text,
        "verdict": node.verdict_text,
        "wanted": node.wanted,
    }
    if node.terms:
        return {**record, "terms": [_record(term) for term in node.terms]}
    return {
        **record,
        "decisive": node.decisive,
        "values": {readable(part): value for part, value in node.seen},
        "hints": node.hints,
    }


# --- the tree ------------------------------------------------------------------------------------


def _tree(expression: Expression, row: Attributes) -> Node:
    holds = evaluate(expression, row) is True
    root = _node(expression, row, True, holds)
    _mark(root)
    return root


def _node(expression: Expression, row: Attributes, wanted: bool, holds: bool) -> Node:
    """Return the node of an expression; `holds`: whether the whole filter does."""
    verdict = truth(evaluate(expression, row))
    if not isinstance(expression, And | Or | Not):
        return _predicate(expression, row, Node(expression, verdict, wanted), holds)
    below = wanted is not isinstance(expression, Not)
    terms = tuple(_node(term, row, below, holds) for term in children(expression))
    costs = [term.cost for term in terms]
    cost = sum(costs) if _all_needed(expression, wanted) else min(costs)
    return Node(expression, verdict, wanted, terms, cost=cost)


def _all_needed(expression: Expression, wanted: bool) -> bool:
    """Return whether all terms must be what is wanted, and not just one."""
    return isinstance(expression, And) is wanted


def _predicate(expression: Expression, row: Attributes, node: Node, holds: bool) -> Node:
    as_wanted = node.verdict is node.wanted
    node.seen = tuple((part, evaluate(part, row)) for part in _parts(expression))
    if holds:
        node.cost = 1 if as_wanted else math.inf
    elif not as_wanted:
        node.cost = 1 if attributes_of(expression) else CONSTANT_COST
        node.hints = hints_for(expression, row)
    return node


def _mark(node: Node) -> None:
    """Mark the decisive predicates below; there are some only where there is a cost."""
    if not node.terms:
        node.decisive = node.cost > 0
    elif _all_needed(node.expression, node.wanted):
        for term in node.terms:
            _mark(term)
    else:
        _mark(min(node.terms, key=lambda term: term.cost))


def _parts(predicate: Expression) -> list[Expression]:
    """Return the attributes in the order of the text, then what is computed from them."""
    attributes: list[Expression] = []
    computed: list[Expression] = []
    for operand in (predicate,) if isinstance(predicate, Attribute) else children(predicate):
        attributes += _attributes(operand)
        if not isinstance(operand, Attribute | Literal) and attributes_of(operand):
            computed.append(operand)
    return list(dict.fromkeys([*attributes, *computed]))


def _attributes(expression: Expression) -> list[Expression]:
    if isinstance(expression, Attribute):
        return [expression]
    return [each for child in children(expression) for each in _attributes(child)]


def _seen_in_words(part: Expression, value: Result) -> str:
    if isinstance(part, Attribute) and value is None:
        return f"the event has no attribute {readable_name(part.name)}"
    text = readable(part)
    if not isinstance(part, Attribute | Arithmetic | Minus):
        text = f"({text})"  # a condition as an operand
    return f"{text} = {'UNKNOWN' if value is None else readable_value(value)}"
