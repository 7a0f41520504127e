"""`reefcast network`: check, run and ask a whole overlay."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import click

from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.network_move import command as move_command
from reefcast.cli.options import json_option, network_argument, rows_option, table_option
from reefcast.cli.terminal import plain_console
from reefcast.network.file import NetworkFile, load_network
from reefcast.network.sections import LinkEntry


@click.group()
def command() -> None:
    """Check, run and ask a whole network of brokers.

    NETWORK is the network file, which describes all of it.
    """


command.add_command(move_command)

# --- up -------------------------------------------------------------------------------------------


@command.command(epilog="Exit codes: 0 every broker ended well when told to stop; 1 one did not.")
@network_argument
@click.option("--no-restart", is_flag=True, help="Leave a broker that dies alone.")
@json_option("a line when it is up")
def up(network: Path, no_restart: bool, as_json: bool) -> None:
    """Run all brokers of NETWORK on this machine, a process for each.

        reefcast network up net.toml

    It prints a line when all of them run and all links are up, then watches
    them until SIGTERM or SIGINT. A broker that dies is started again, with the
    links that NETWORK has then. A trace directory holds one run: what a former
    one left there is removed.
    """
    sys.exit(asyncio.run(_up(network, restart=not no_restart, as_json=as_json)))


async def _up(file: Path, *, restart: bool, as_json: bool) -> int:
    from reefcast.server.supervisor import Overlay

    def report(line: str) -> None:
        click.echo(line, err=True)

    def links_now() -> list[LinkEntry]:
        return load_network(file).link

    network = load_network(file)
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    overlay = Overlay(network, restart=restart, links_now=links_now, report=report)
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
    return NO if any(codes.values()) else DONE


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
@network_argument
@json_option("the plan")
def plan(network: Path, as_json: bool) -> None:
    """Check NETWORK and print what would run, and with which commands.

        reefcast network plan net.toml

    Nothing is started, and no broker asked.
    """
    result = plan_of(load_network(network), network)
    if as_json:
        click.echo(json.dumps(result))
        return
    from rich.table import Table

    table = Table("broker", "listens on", "links", "dials")
    for row in result["brokers"]:
        table.add_row(
            row["broker"], row["listen"], ", ".join(row["links"]), ", ".join(row["dials"])
        )
    plain_console().print(table)
    click.echo(
        f"network {result['network']}, routing {result['routing']}: "
        f"{_several(len(result['brokers']), 'broker')}, {_several(result['links'], 'link')}, "
        f"diameter {result['diameter']}, largest degree {result['degree']}, "
        f"trace {result['trace']}"
    )
    click.echo("on several machines, each with its broker's command:")
    for row in result["brokers"]:
        click.echo(f"  {row['command']}")  # whole, not cut to a column: to be copied


def plan_of(network: NetworkFile, file: Path) -> dict[str, Any]:
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
                "command": shlex.join(("reefcast", "broker", str(file), name)),
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


@command.command(epilog="Exit codes: 0 every broker answered; 1 one did not.")
@network_argument
@table_option
@rows_option
@json_option("the answers by broker")
def status(network: Path, tables: tuple[str, ...], rows: int, as_json: bool) -> None:
    """Ask every broker of NETWORK how it is.

        reefcast network status net.toml --table PRT

    It shows the brokers; the links that carry something or are in trouble, with
    the LST; and what the routing shows of its tables in any case (CLT with the
    CIVs, SRT of a TID routing) and counts. `reefcast simulate --inspect` shows the
    same of simulated brokers.

    A broker tells 1000 rows of a table at most.
    """
    from reefcast.cli.inspection import check_tables, print_status
    from reefcast.model.wire import StatusRequest
    from reefcast.server.supervisor import overlay_status

    described = load_network(network)
    check_tables(described, tables)
    answers = asyncio.run(overlay_status(described, StatusRequest(tables, rows)))
    if as_json:
        click.echo(json.dumps(answers))
    else:
        print_status(answers)
    sys.exit(NO if None in answers.values() else DONE)


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
