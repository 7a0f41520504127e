"""`reefcast network apply`: changes of the network file, while the brokers run."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import click

from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.options import json_option, network_argument
from reefcast.cli.secured import own_files, own_options
from reefcast.errors import ReefcastError, RefusedError
from reefcast.network.file import NetworkFile, load_network

UNREACHED = "not reached"
ORDER = ("applied", "needs a restart", "refused", UNREACHED)
Row = dict[str, Any]


@click.command(
    "apply",
    epilog="Exit codes: 0 everything is applied; 1 something needs a restart, or is refused, or a "
    "broker does not answer.",
)
@network_argument
@own_options
@click.option("--dry-run", is_flag=True, help="Only say what would be applied.")
@json_option("a list of changes: change, before, after, outcome, why, brokers")
def command(network: Path, dry_run: bool, as_json: bool) -> None:
    """Have all brokers read NETWORK again, and say what they took over.

        reefcast network apply net.toml

    Brokers take over users, certificates and roles, the files that these are in, their own
    certificates, [limits], [trace] and the levels of [log]. Each change is in one list: "applied",
    "needs a restart", or "refused", with the reason. On several machines, copy NETWORK to all of
    them first: a broker reads its own copy, and refuses if that says something else. SIGHUP has one
    broker do the same, and SIGHUP to `reefcast network up` all that it runs; they log the list.

    It needs the right "apply".
    """
    rows = asyncio.run(apply_to(load_network(network), dry=dry_run))
    if as_json:
        click.echo(json.dumps(rows))
    else:
        for row in rows:
            click.echo(_in_words(row))
        if not rows:
            click.echo("nothing has changed: the brokers do what NETWORK says")
    sys.exit(NO if any(row["outcome"] != ORDER[0] for row in rows) else DONE)


async def apply_to(network: NetworkFile, *, dry: bool) -> list[Row]:
    """Ask all brokers at once to read the file again; return what changed, each once, and at which
    brokers."""
    answers = await asyncio.gather(*(_ask(network, name, dry) for name in network.names))
    merged: dict[str, Row] = {}
    for name, rows in zip(network.names, answers, strict=True):
        for row in rows:
            key = json.dumps(row, sort_keys=True)
            merged.setdefault(key, {**row, "brokers": []})["brokers"].append(name)
    return sorted(merged.values(), key=lambda row: ORDER.index(row["outcome"]))


async def _ask(network: NetworkFile, name: str, dry: bool) -> list[Row]:
    from reefcast.network.changes import fingerprint
    from reefcast.server.admin import admin_connection, asking, operator_of

    tls, shown = asking(network, name, own_files()), operator_of(network)
    try:
        async with admin_connection(*network.address(name), tls, shown) as asked:
            return await asked.apply(fingerprint(network), dry=dry)
    except RefusedError as error:
        return [_of_file("refused", str(error))]
    except ReefcastError as error:
        return [_of_file(UNREACHED, str(error))]


def _of_file(outcome: str, why: str) -> Row:
    return {
        "change": "the file",
        "before": None,
        "after": None,
        "outcome": outcome,
        "why": why,
    }


def _in_words(row: Row) -> str:
    said = "" if row["before"] is None and row["after"] is None else f": {_value(row)}"
    why = f"; {row['why']}" if row["why"] else ""
    return f"{row['outcome']}: {row['change']}{said} ({', '.join(row['brokers'])}){why}"


def _value(row: Row) -> str:
    """Return what it was, and is now, in the words of the file."""
    if isinstance(row["before"], dict) or isinstance(row["after"], dict):
        return "it is new" if row["before"] is None else "it is gone"
    return f"{json.dumps(row['before'])} -> {json.dumps(row['after'])}"
