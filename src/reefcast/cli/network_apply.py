"""`reefcast network apply`: changes of the network file, while the brokers run."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.options import json_option, network_argument
from reefcast.cli.secured import own_files, own_options
from reefcast.errors import ReefcastError, RefusedError
from reefcast.network.file import NetworkFile, load_network
from reefcast.network.sections import BrokerEntry

if TYPE_CHECKING:
    from reefcast.server.admin import AdminConnection

APPLIED, RESTART, REFUSED, UNREACHED = ORDER = (
    *("applied", "needs a restart", "refused", "not reached"),
)
NOTHING = "nothing is applied, for a broker that is to go cannot"
HOMES = (
    "{name} is the home of durable sessions, which would be lost: {homes}. Have their consumers "
    "take what they are owed, then end them (reefcast session close): they begin anew elsewhere"
)
MOST_SHOWN = 10
POLL_S, START_S = 0.05, 15.0
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
    """Have all brokers read NETWORK again, and say what they applied.

        reefcast network apply net.toml

    Brokers take over users, certificates and roles, the files that these are in, their own
    certificates, [limits], [trace] and the levels of [log]. On a tree, and a mesh, they make links
    to brokers that are new in NETWORK (start these, too). They remove brokers that NETWORK no
    longer has, and stop them; each must be a drained leaf without durable sessions.

    Each change is in one list: "applied", "needs a restart", or "refused", with the reason. On
    several machines, copy NETWORK to all of them first: a broker reads its own copy, and refuses if
    that says something else. SIGHUP has one broker do the same, but for taking out brokers, and
    SIGHUP to `reefcast network up` all that it runs; they log the list.

    It needs the right "apply", and to take out brokers also "status" and "drain".
    """
    rows = asyncio.run(apply_to(load_network(network), dry=dry_run))
    if as_json:
        click.echo(json.dumps(rows))
    else:
        for row in rows:
            click.echo(_in_words(row))
        if not rows:
            click.echo("nothing has changed: the brokers do what NETWORK says")
    sys.exit(NO if any(row["outcome"] != APPLIED for row in rows) else DONE)


async def apply_to(network: NetworkFile, *, dry: bool) -> list[Row]:
    """Ask all brokers at once to read the file again; return what changed, each once, and at which
    brokers. Brokers that it takes out end; if they are not drained, nothing is applied."""
    rows = await _ask_all(network, dry=True)
    leaving = {row["before"]["name"]: BrokerEntry(**row["before"]) for row in rows if _goes(row)}
    if leaving:
        rows = await _checked(network, rows, leaving)
    if dry or any(row["outcome"] == REFUSED for row in rows if _goes(row)):
        return rows
    new = [row["after"]["name"] for row in rows if _comes(row)]
    await asyncio.gather(*(_until_there(network, network.entry(name)) for name in new))
    for entry in leaving.values():  # they hand over what they have, and then their links go
        await _stop(network, entry)
    return await _ask_all(network, dry=False)


async def _stop(network: NetworkFile, entry: BrokerEntry) -> None:
    """Have a broker end for good; wait until it is gone."""
    async with _asking(network, entry) as asked:
        await asked.stop(again=False)
    with suppress(ReefcastError):
        while True:
            async with _asking(network, entry):
                await asyncio.sleep(POLL_S)


def _goes(row: Row) -> bool:
    return row["change"].startswith("[[broker]]") and row["after"] is None and bool(row["before"])


def _comes(row: Row) -> bool:
    return row["change"].startswith("[[broker]]") and row["before"] is None and bool(row["after"])


async def _until_there(network: NetworkFile, entry: BrokerEntry) -> None:
    """Wait until a new broker answers, `START_S` at most: `reefcast network up` starts it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(START_S):
            while True:
                with suppress(ReefcastError):
                    async with _asking(network, entry):
                        return
                await asyncio.sleep(POLL_S)


async def _checked(
    network: NetworkFile, rows: list[Row], leaving: dict[str, BrokerEntry]
) -> list[Row]:
    """Refuse everything if a broker that is to go is not drained, or is the home of sessions."""
    why = {name: await _objection_to(network, entry) for name, entry in leaving.items()}
    checked = [
        {**row, "outcome": REFUSED, "why": row["why"] or why[row["before"]["name"]]}
        if _goes(row) and (row["why"] or why[row["before"]["name"]])
        else row
        for row in rows
    ]
    if all(row["outcome"] != REFUSED for row in checked if _goes(row)):
        return checked
    return [
        {**row, "outcome": REFUSED, "why": NOTHING} if row["outcome"] == APPLIED else row
        for row in checked
    ]


async def _objection_to(network: NetworkFile, entry: BrokerEntry) -> str:
    """Return why a broker must not go now; "" if it may."""
    try:
        async with _asking(network, entry) as asked:
            drained = (await asked.status())["drain"]
    except ReefcastError as error:
        return f"nobody knows whether it is drained: {error}"
    name = entry.name
    if drained["state"] != "empty":
        return f"it is not drained: put it back into the file, and reefcast network drain {name}"
    if drained["homes"]:
        return HOMES.format(name=name, homes=", ".join(drained["homes"][:MOST_SHOWN]))
    return ""


def _asking(
    network: NetworkFile, entry: BrokerEntry
) -> AbstractAsyncContextManager[AdminConnection]:
    from reefcast.server.admin import admin_connection, asking, operator_of

    tls = asking(network, entry.name, own_files())
    return admin_connection(*entry.address, tls, operator_of(network))


async def _ask_all(network: NetworkFile, *, dry: bool) -> list[Row]:
    answers = await asyncio.gather(*(_ask(network, name, dry) for name in network.names))
    merged: dict[str, Row] = {}
    for name, rows in zip(network.names, answers, strict=True):
        for row in rows:
            key = json.dumps(row, sort_keys=True)
            merged.setdefault(key, {**row, "brokers": []})["brokers"].append(name)
    return sorted(merged.values(), key=lambda row: ORDER.index(row["outcome"]))


async def _ask(network: NetworkFile, name: str, dry: bool) -> list[Row]:
    from reefcast.network.changes import fingerprint

    try:
        async with _asking(network, network.entry(name)) as asked:
            return await asked.apply(fingerprint(network), dry=dry)
    except RefusedError as error:
        return [_of_file(REFUSED, str(error))]
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
