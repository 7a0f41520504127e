"""`reefcast network custody`: what a broker keeps for a neighbour that never comes back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from reefcast.cli.options import json_option, network_argument
from reefcast.cli.secured import own_files, own_options
from reefcast.network.file import NetworkFile, load_network


@click.command(
    "custody",
    epilog="Exit codes: 0 it is done, or shown; 1 BROKER does not answer, or NEIGHBOUR is here.",
)
@network_argument
@own_options
@click.argument("broker")
@click.argument("neighbour")
@click.option(
    "--drop",
    "wish",
    flag_value="drop",
    help="Drop these publications; publishers that wait for them are told.",
)
@click.option("--reroute", "wish", flag_value="reroute", help="Route them again by the tables.")
@json_option("broker, neighbour, and how much waits, is in custody, was rerouted or dropped")
def command(network: Path, broker: str, neighbour: str, wish: str | None, as_json: bool) -> None:
    """Show what BROKER keeps for a NEIGHBOUR that is away, or give it up.

        reefcast network custody net.toml b1 b2 --reroute

    While NEIGHBOUR is away, BROKER keeps the confirmed publications for it on its own disk, and
    hands them over when it is back. For a NEIGHBOUR that never comes back, they can be routed again
    by the rows that BROKER has now (after a change of NETWORK, for example), or be dropped.
    """
    result = asyncio.run(_ask(load_network(network), broker, neighbour, wish))
    if as_json:
        click.echo(json.dumps({"broker": broker, "neighbour": neighbour, **result}))
    else:
        click.echo(_in_words(broker, neighbour, result))


async def _ask(
    network: NetworkFile, broker: str, neighbour: str, wish: str | None
) -> dict[str, Any]:
    from reefcast.server.admin import admin_connection, asking, operator_of

    network.entry(broker)
    tls, shown = asking(network, broker, own_files()), operator_of(network)
    async with admin_connection(*network.address(broker), tls, shown) as asked:
        before = after = await asked.status()
        if wish is not None:
            after = await asked.give_up(neighbour, reroute=wish == "reroute")
    owed = after["owed"].get(neighbour, {})
    counts = {
        name: after["counters"].get(f"custody_{name}", 0)
        - before["counters"].get(f"custody_{name}", 0)
        for name in ("rerouted", "dropped")
    }
    return {
        "away_s": owed.get("away_s"),
        "waiting": owed.get("waiting", 0),
        "in_custody": owed.get("in_custody", 0),
        "custody_bytes": owed.get("custody_bytes", 0),
        **counts,
    }


def _in_words(broker: str, neighbour: str, result: dict[str, Any]) -> str:
    done = [f"{result[name]} {name}" for name in ("rerouted", "dropped") if result[name]]
    here = (
        f"{result['waiting']} confirmed publications wait for it, {result['in_custody']} of them "
        f"({result['custody_bytes']} bytes) in custody"
    )
    return f"{broker}, for {neighbour}: {', '.join([*done, here])}"
