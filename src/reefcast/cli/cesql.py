"""`reefcast cesql`: what an expression of CESQL evaluates to, and the filter that it translates
to."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from reefcast import cesql
from reefcast.cli.event_rows import given_events
from reefcast.cli.options import json_option
from reefcast.errors import CesqlError
from reefcast.model.wording import readable


@click.command(epilog="Exit codes: 0 whatever the value is; 2 if the expression cannot be parsed.")
@click.argument("expression")
@click.argument("arguments", nargs=-1, metavar="[EVENT]...")
@json_option("one object")
def command(*, expression: str, arguments: tuple[str, ...], as_json: bool) -> None:
    """Evaluate an expression of CESQL, the language of CloudEvents, for events.

        reefcast cesql "type LIKE 'org.%' AND seats > 5" type=org.x seats=7

        reefcast cesql "seats > 5" '{"seats": "7"}' '{"seats": "many"}'

    An EVENT is a JSON object; NAME=VALUE pairs, as for `reefcast publish`, are one event together.

    It prints the value for each event, the error if there is one, and whether the event passes the
    expression as a filter. It also prints the filter of Reefcast that serves a subscription with
    the expression: it matches the same events, or if it is `wider`, these and others, for which the
    expression is then evaluated.
    """
    parsed = cesql.parse(expression)
    found = [_record(parsed, each) for each in (given_events(arguments) if arguments else [])]
    translated = cesql.translate(parsed)
    filter = readable(translated.filter.expression)
    if as_json:
        record = {"filter": filter, "exact": translated.exact, "events": found}
        click.echo(msgspec.json.encode(record).decode())
        return
    for number, event in enumerate(found, start=1):
        click.echo(_line(number, event))
    click.echo(f"{'filter' if translated.exact else 'wider filter'}: {filter}")


def _record(expression: cesql.Expression, event: dict[str, Any]) -> dict[str, Any]:
    value, error = expression.evaluate(event)
    passes = expression.matches(event)
    return {"value": value, "error": None if error is None else _error(error), "passes": passes}


def _error(error: CesqlError) -> dict[str, Any]:
    return {
        "kind": error.kind,
        "message": str(error),
        "line": error.line,
        "column": error.column,
    }


def _line(number: int, event: dict[str, Any]) -> str:
    passes = "passes" if event["passes"] else "does not pass"
    line = f"event {number} {passes}: {msgspec.json.encode(event['value']).decode()}"
    error = event["error"]
    if error is None:
        return line
    message = error["message"].replace("\n", "\n  ")
    return f"{line}\n  {error['kind']}: {message}"
