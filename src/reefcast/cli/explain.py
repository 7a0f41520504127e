"""`reefcast explain`: why a filter matches an event, or does not; how an index would match it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from reefcast.cli.event_rows import (
    format_of,
    given_events,
    read_rows,
    source_options,
    topic_option,
)
from reefcast.cli.explain_text import place_lines, plan_lines, summary, tree_lines, verdict_lines
from reefcast.cli.filter_arguments import tell_doubts
from reefcast.cli.granted_filters import Whose, narrowed, user_options
from reefcast.cli.options import INPUT_FILE, json_option
from reefcast.errors import InvalidValueError, LocalError
from reefcast.model.explanation import Explanation, explain, record_of
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.flat import as_sent
from reefcast.model.publication import Value

Event = dict[str, Value]


@click.command(epilog="Exit codes: 0 whether the filters match or not.")
@click.argument("arguments", nargs=-1, metavar="[FILTER] [EVENT]...")
@click.option(
    "--filters",
    "filters_path",
    type=INPUT_FILE,
    help="Instead of FILTER: every filter of this file, one a line.",
)
@source_options("Explain for every row of this file.")
@topic_option
@user_options
@click.option(
    "--plan",
    is_flag=True,
    help="Instead of events: how an index of the filters is built, and where FILTER lies in it.",
)
@json_option("a line for each event and filter")
def command(
    *,
    arguments: tuple[str, ...],
    filters_path: Path | None,
    path: Path | None,
    format: str | None,
    topics: tuple[str, ...],
    network: Path | None,
    roles: tuple[str, ...],
    user: str,
    claims: tuple[str, ...],
    plan: bool,
    as_json: bool,
) -> None:
    """Explain why a filter matches an event, or not.

        reefcast explain "dest = 'SFO' AND seats > 5" dest=SFO seats=7

        reefcast explain "seats > 5" '{"seats": 7}' '{"seats": "7"}'

    An EVENT is a JSON object; NAME=VALUE pairs, as for `reefcast publish`, are one event together.
    Without an EVENT, events come from --file or standard input: JSON lines, CSV with a header, or
    Parquet (files only).

    It shows each condition of the filter with its verdict and the values that it saw. The
    conditions marked by > decided: for a match they suffice, whatever the others are; otherwise the
    event would match if just these were different. With --filters it prints a line for each filter.

        reefcast explain --network net.toml --role fx-desk "price > 5" desk=hr

    With --role it explains why a user's subscription gets an event, or not. It asks no broker, and
    shows nothing but what it is given.
    """
    filters = [] if filters_path is None else list(_filters(filters_path))
    if plan:
        _check_plan(arguments, path, topics, filters_path)
        _explain_plan(list(map(parse_filter, arguments)), filters, as_json)
        return
    if filters_path is None:
        if not arguments:
            raise click.UsageError("nothing to explain: give a FILTER, or --filters FILE")
        filters, arguments = [parse_filter(arguments[0])], arguments[1:]
    tell_doubts(filters)
    filters = narrowed(filters, Whose(network, roles, user, claims))
    if arguments and path is not None:
        raise click.UsageError("give either EVENTs or --file, not both")
    rows = given_events(arguments) if arguments else _rows(path, format)
    try:
        for number, row in enumerate(rows, start=1):
            event = _checked(row, number)
            found = [explain(filter, event, topics) for filter in filters]
            several = filters_path is not None
            lines = _json_lines(found, number) if as_json else _text_lines(found, number, several)
            for line in lines:
                click.echo(line)
    except BrokenPipeError:
        # Whoever read our output has enough; nothing may be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --- what is given -------------------------------------------------------------------------------


def _filters(path: Path) -> Iterator[Filter]:
    """Yield the filters of a file, without empty lines. Raises `LocalError` with the line that
    cannot be parsed."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise LocalError(f"{path} is not text in UTF-8: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield parse_filter(line.strip())
        except LocalError as error:
            raise LocalError(f"{path}, filter of line {number}: {error}") from error


def _rows(path: Path | None, format: str | None) -> Iterator[dict[str, Any]]:
    if path is None and sys.stdin.isatty():
        raise click.UsageError("no event: give EVENTs, --file, or pipe rows in")
    form = format or (format_of(path) if path else "jsonl")
    for rows in read_rows(path, form):
        yield from rows


def _checked(row: dict[str, Any], number: int) -> Event:
    try:
        return as_sent(row)
    except InvalidValueError as error:
        raise InvalidValueError(f"event {number}: {error}") from error


# --- what is printed -----------------------------------------------------------------------------


def _text_lines(found: list[Explanation], number: int, several: bool) -> Iterator[str]:
    if number > 1:
        yield ""
    if not several:
        yield f"event {number}: {summary(found[0])}"
        yield ""
        yield from tree_lines(found[0])
        return
    matching = sum(each.matches for each in found)
    yield f"event {number}: {matching} of {len(found)} filters match"
    for explanation in found:
        yield from verdict_lines(explanation)


def _json_lines(found: list[Explanation], number: int) -> Iterator[str]:
    for explanation in found:
        yield msgspec.json.encode({"event": number, **record_of(explanation)}).decode()


# --- the plan of an index ------------------------------------------------------------------------


def _check_plan(
    arguments: tuple[str, ...], path: Path | None, topics: tuple[str, ...], filters: Path | None
) -> None:
    if path is not None or topics or len(arguments) > 1:
        raise click.UsageError("--plan is about filters: give no event, file or topic with it")
    if not arguments and filters is None:
        raise click.UsageError("no filter to plan for: give a FILTER, or --filters FILE")


def _explain_plan(alone: list[Filter], filters: list[Filter], as_json: bool) -> None:
    """Print the plan of an index of all filters; `alone` holds the one whose place is asked for, if
    any."""
    from reefcast.matching.index import CompiledIndex

    index: CompiledIndex[int] = CompiledIndex()
    for key, filter in enumerate([*filters, *alone]):
        index.add(key, filter)
    plan = index.plan()
    places = index.plan_of(len(filters)) if alone else []
    if as_json:
        record = {**plan, "filter": {"text": alone[0].text, "rows": places}} if alone else plan
        click.echo(msgspec.json.encode(record))
        return
    for line in plan_lines(plan):
        click.echo(line)
    if alone:
        click.echo()
        for line in place_lines(alone[0], places):
            click.echo(line)
