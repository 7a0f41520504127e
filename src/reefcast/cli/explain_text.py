"""What `reefcast explain` prints for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from reefcast.model.explanation import Explanation, Node
from reefcast.model.filters import Filter
from reefcast.model.wording import printable, readable_value

REASONS = 4
"""Decisive predicates that a summary names; the tree shows all."""

WIDEST = 60
"""Columns that the conditions take at most, before what they saw."""

_COLOURS = {True: "green", False: "red", None: "yellow"}


def summary(explanation: Explanation) -> str:
    """Return a sentence: whether the filter matches, and why."""
    text = "matches" if explanation.matches else "does not match"
    if explanation.topic is not None:
        text += _under(explanation)
    never = ". No event can match this filter" if explanation.never() else ""
    return f"{text}: {reasons(explanation)}{never}"


def _under(explanation: Explanation) -> str:
    topic = readable_value(explanation.topic or "")
    if explanation.matches or len(explanation.topics) == 1:
        return f" under topic {topic}"
    return f" under any of {len(explanation.topics)} topics; under the nearest, {topic}"


def reasons(explanation: Explanation) -> str:
    """Return the first decisive predicates, and how many more there are."""
    decisive = explanation.decisive()
    named = [_reason(node, explanation.matches) for node in decisive[:REASONS]]
    if len(decisive) > REASONS:
        named.append(f"and {len(decisive) - REASONS} more")
    return "; ".join(named)


def _reason(node: Node, matches: bool) -> str:
    text = printable(node.text)
    said = text if matches and node.wanted else f"{text} is {node.verdict_text}"
    saw = f" ({node.seen_text})" if node.seen_text not in ("", text) else ""
    negated = "" if node.wanted else ", below NOT"
    return said + saw + negated


def tree_lines(explanation: Explanation) -> Iterator[str]:
    """Yield a line for each connective and predicate, and one for each hint."""
    lines = list(_lines(explanation.tree, 0))
    width = min(WIDEST, max(len(text) for _, text, _ in lines))
    for node, text, note in lines:
        verdict = click.style(f"{node.verdict_text:<7}", fg=_COLOURS[node.verdict])
        mark = ">" if node.decisive else " "
        yield f"{mark} {verdict}  {text:<{width}}  {note}".rstrip()
        for hint in node.hints:
            indent = len(text) - len(text.lstrip())
            yield f"{'':<11}{'':<{indent}}  hint: {hint}"


def _lines(node: Node, depth: int) -> Iterator[tuple[Node, str, str]]:
    yield node, "  " * depth + printable(node.text), node.seen_text
    for term in node.terms:
        yield from _lines(term, depth + 1)


def verdict_lines(explanation: Explanation) -> Iterator[str]:
    """Yield lines for one of several filters: whether it matches, and if not, why."""
    text = printable(explanation.filter.text)
    if explanation.matches:
        yield f"{click.style('yes', fg='green')}  {text}"
        return
    yield f"{click.style('no', fg='red')}   {text}"
    yield f"       {reasons(explanation)}"


# --- the plan of an index ------------------------------------------------------------------------


def plan_lines(plan: dict[str, Any]) -> Iterator[str]:
    """Yield `CompiledIndex.plan()` as tables. A row is a conjunction: a filter without OR is
    one."""
    yield (
        f"filters: {plan['filters']:,}, rows: {plan['rows']:,} "
        f"(with residual conditions: {plan['with_residuals']:,}), memory: {plan['bytes']:,} bytes"
    )
    if plan["partitions"]:
        yield ""
        columns = ("attribute", "by", "values", "rows", "checked_one_by_one", "bitmaps")
        yield from _table(plan["partitions"], *columns, "largest", "largest_rows")
    default = plan["default"]
    yield ""
    blocks = f", blocks: {default['blocks']:,}" if default["blocks"] else ""
    yield f"rows in no partition: {default['rows']:,}, {_how(default['plan'])}{blocks}"
    if default["attributes"]:
        yield ""
        yield from _table(default["attributes"], "name", "number_buckets", "string_buckets")


def place_lines(filter: Filter, places: list[dict[str, Any]]) -> Iterator[str]:
    """Yield `CompiledIndex.plan_of()` in words."""
    yield printable(filter.text)
    if not places:
        yield "  no event can match it: it is in the index, and costs nothing"
    for place in places:
        where = "no partition" if place["partition"] is None else f"partition {place['partition']}"
        residual = ", and its residual conditions" if place["with_residuals"] else ""
        yield f"  in {printable(where)} ({place['rows']:,} rows), {_how(place['plan'])}{residual}"


def _how(plan: str) -> str:
    return "matched by bitmaps" if plan == "bitmaps" else "checked one by one"


def _table(rows: list[dict[str, Any]], *columns: str) -> Iterator[str]:
    """Return a table with numbers to the right and text to the left."""
    cells = [[column.replace("_", " ") for column in columns]]
    cells += [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    sides = [">" if isinstance(rows[0][column], int) else "<" for column in columns]
    for line in cells:
        padded = zip(line, sides, widths, strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, side, width in padded).rstrip()


def _cell(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else printable(value)
