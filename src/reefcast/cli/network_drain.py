"""`reefcast network drain`: a broker whose clients go to other brokers."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.options import json_option, network_argument, wait_option
from reefcast.cli.secured import own_files, own_options
from reefcast.network.file import NetworkFile, load_network
from reefcast.words import counted, noun

if TYPE_CHECKING:
    from reefcast.server.admin import AdminConnection

POLL_S = 0.1
MOST_SHOWN = 10
"""How many durable sessions are named."""


@click.command(
    "drain",
    epilog="Exit codes: 0 BROKER is empty, or takes clients again; 1 it is not empty in time.",
)
@network_argument
@own_options
@click.argument("broker")
@click.option("--undo", is_flag=True, help="Have BROKER take clients again.")
@wait_option(120.0, "until BROKER is empty")
@json_option("broker, state, clients, custody, homes")
def command(network: Path, broker: str, undo: bool, wait_s: float, as_json: bool) -> None:
    """Hand the clients of BROKER to other brokers.

        reefcast network drain net.toml b3

    BROKER takes no new clients. It gives each client what waits for it, and names other brokers, to
    which the client connects by itself; consumers of durable sessions go on from there. Links stay,
    and events pass BROKER as before; so do storages. It is empty when it has no clients, and
    nothing in custody for a neighbour. Clients that are away may take until session_s.

    The durable sessions whose home is BROKER stay on its disk: they are there again when it is
    started again. The command names them. A broker that is started again takes clients.

    It needs the right "drain".
    """
    described = load_network(network)
    described.entry(broker)
    state = asyncio.run(drain(described, broker, on=not undo, wait_s=wait_s))
    if as_json:
        click.echo(json.dumps({"broker": broker, **state}))
    else:
        click.echo(in_words(broker, state))
    sys.exit(DONE if state["state"] == ("no" if undo else "empty") else NO)


async def drain(
    network: NetworkFile, broker: str, *, on: bool = True, wait_s: float
) -> dict[str, Any]:
    """Drain a broker, or have it take clients again; return how far it is in the end."""
    from reefcast.server.admin import admin_connection, asking, operator_of

    tls, shown = asking(network, broker, own_files()), operator_of(network)
    async with admin_connection(*network.address(broker), tls, shown) as asked:
        state: dict[str, Any] = (await asked.drain(on=on))["drain"]
        try:
            async with asyncio.timeout(wait_s if on else 0):
                while state["state"] != "empty":
                    state = await _next(asked)
        except TimeoutError:
            pass
    return state


async def _next(asked: AdminConnection) -> dict[str, Any]:
    await asyncio.sleep(POLL_S)
    state: dict[str, Any] = (await asked.status())["drain"]
    return state


def in_words(broker: str, state: dict[str, Any]) -> str:
    """Return how far a broker is drained."""
    if state["state"] == "no":
        return f"{broker} takes clients"
    left = [
        counted(state[name], *words)
        for name, words in (
            ("clients", ("client",)),
            ("custody", ("publication in custody", "publications in custody")),
        )
        if state[name]
    ]
    said = f"{broker} is empty" if not left else f"{broker} still has {' and '.join(left)}"
    homes = state["homes"]
    if not homes:
        return said
    more = f" and {len(homes) - MOST_SHOWN} more" if len(homes) > MOST_SHOWN else ""
    there = f"{noun(len(homes), 'is', 'are')} {counted(len(homes), 'durable session')}"
    return f"{said}; on its disk {there}: {', '.join(homes[:MOST_SHOWN])}{more}"
