"""`reefcast network`: check, run and ask a whole overlay."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from reefcast.overlay.network_file import NetworkFile, load_network

if TYPE_CHECKING:
    from rich.table import Table

FILE = click.argument("file", type=click.Path(dir_okay=False))
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """Check, run and ask a whole overlay, from one network FILE."""


def _load(file: str) -> NetworkFile:
    """The network file, checked against the routings that there are."""
    from reefcast.routing.registry import routing_named

    network = load_network(file)
    routing_named(network.network.routing)
    return network


# --- up -------------------------------------------------------------------------------------------


@command.command()
@FILE
@click.option("--no-restart", is_flag=True, help="Leave a broker that dies alone.")
@JSON
def up(file: str, no_restart: bool, as_json: bool) -> None:
    """Run all brokers of FILE on this machine, a process for each.

    It prints a line when all of them run and all links are up, then watches
    them until SIGTERM or SIGINT. A trace directory holds one run: what a former
    one left there is removed.
    """
    network = _load(file)
    sys.exit(asyncio.run(_up(network, restart=not no_restart, as_json=as_json)))


async def _up(network: NetworkFile, *, restart: bool, as_json: bool) -> int:
    from reefcast.server.supervisor import Overlay

    def report(line: str) -> None:
        click.echo(line, err=True)

    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    overlay = Overlay(network, restart=restart, report=report)
    starting = asyncio.ensure_future(overlay.__aenter__())
    stopping = asyncio.ensure_future(told_to_stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        starting.result()
        _say_up(overlay.network, {name: overlay.pid(name) for name in network.names}, as_json)
        await stopping
        report("told to stop: the brokers drain their queues")
        codes = await overlay.stop()
    else:
        starting.cancel()
        await asyncio.wait((starting,))
        codes = {}
    return 0 if not any(codes.values()) else 1


def _say_up(network: NetworkFile, pids: dict[str, int], as_json: bool) -> None:
    if as_json:
        brokers = [
            {"broker": entry.name, "listen": entry.listen, "pid": pids[entry.name]}
            for entry in network.broker
        ]
        click.echo(json.dumps({"network": network.network.name, "brokers": brokers}))
    else:
        what = f"{_several(len(pids), 'broker')}, {_several(len(network.link), 'link')}"
        click.echo(f"network {network.network.name} is up: {what} (Ctrl-C ends it)")


# --- plan -----------------------------------------------------------------------------------------


@command.command()
@FILE
@JSON
def plan(file: str, as_json: bool) -> None:
    """Check FILE and print what would run, and with which commands."""
    result = plan_of(_load(file), file)
    if as_json:
        click.echo(json.dumps(result))
        return
    table = _table("broker", "listens on", "links", "dials")
    for row in result["brokers"]:
        table.add_row(
            row["broker"], row["listen"], ", ".join(row["links"]), ", ".join(row["dials"])
        )
    _print(table)
    click.echo(
        f"network {result['network']}, routing {result['routing']}: "
        f"{_several(len(result['brokers']), 'broker')}, {_several(result['links'], 'link')}, "
        f"diameter {result['diameter']}, largest degree {result['degree']}, "
        f"trace {result['trace']}"
    )
    click.echo("on several machines, each with its broker's command:")
    for row in result["brokers"]:
        click.echo(f"  {row['command']}")  # whole, not cut to a column: to be copied


def plan_of(network: NetworkFile, file: str) -> dict[str, Any]:
    """What would run, as plain data; raises `ConfigurationError` for a missing address."""
    from reefcast.overlay.topology import diameter

    graph = network.graph()
    brokers = []
    for name in network.names:
        host, port = network.address(name)
        brokers.append(
            {
                "broker": name,
                "listen": f"{host}:{port}",
                "links": graph[name],
                "dials": [other for other in graph[name] if name < other],
                "command": shlex.join(("reefcast", "broker", file, name)),
            }
        )
    return {
        "network": network.network.name,
        "routing": network.network.routing,
        "brokers": brokers,
        "links": len(network.link),
        "diameter": diameter(graph),
        "degree": max(len(around) for around in graph.values()),
        "trace": network.trace.level,
    }


# --- status ---------------------------------------------------------------------------------------


@command.command()
@FILE
@JSON
def status(file: str, as_json: bool) -> None:
    """Ask every broker of FILE how it is; exit code 1 if one does not answer.

    On a SCOT it also shows the advertisements that each broker knows with their
    CIVs, and what dynamic routing did. Long lists are cut; --json has more: a
    broker sends 1000 rows of its CLT at most, and `left_out` counts the others.
    """
    from reefcast.cli.network_status import print_status
    from reefcast.server.supervisor import overlay_status

    network = load_network(file)
    answers = asyncio.run(overlay_status(network))
    if as_json:
        click.echo(json.dumps(answers))
    else:
        print_status(answers)
    sys.exit(1 if None in answers.values() else 0)


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _table(*columns: str) -> Table:
    from rich.table import Table

    return Table(*columns)


def _print(table: Table) -> None:
    from reefcast.cli.terminal import plain_console

    plain_console().print(table)
