"""`reefcast network`: check, run and inspect a whole overlay."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast import logs
from reefcast.cli.command_line import Group
from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.network_apply import command as apply_command
from reefcast.cli.network_custody import command as custody_command
from reefcast.cli.network_drain import command as drain_command
from reefcast.cli.network_move_link import command as move_command
from reefcast.cli.network_move_storages import command as place_command
from reefcast.cli.network_render import command as render_command
from reefcast.cli.network_roll import command as roll_command
from reefcast.cli.options import (
    Number,
    json_option,
    log_options,
    network_argument,
    rows_option,
    table_option,
)
from reefcast.cli.secured import own_files, own_options
from reefcast.cli.terminal import plain_console
from reefcast.matching import telling_of_compiling
from reefcast.network.file import NetworkFile, load_network
from reefcast.words import counted

if TYPE_CHECKING:
    from rich.table import Table

    from reefcast.server.supervisor import Overlay


@click.group(cls=Group)
def command() -> None:
    """Check, run and inspect a whole network of brokers.

        reefcast network up net.toml

    NETWORK is the network file, which describes all of it.
    """


command.add_command(apply_command)
command.add_command(custody_command)
command.add_command(drain_command)
command.add_command(move_command)
command.add_command(place_command)
command.add_command(render_command)
command.add_command(roll_command)

# --- up -------------------------------------------------------------------------------------------


@command.command(epilog="Exit codes: 0 all ended well when told to stop; 1 one did not.")
@network_argument
@click.option("--no-restart", is_flag=True, help="Do not restart a broker or storage that dies.")
@log_options
@json_option("a line when it is up")
def up(
    network: Path,
    no_restart: bool,
    log_format: str | None,
    log_levels: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run all brokers and storages of NETWORK on this machine, a process for each.

        reefcast network up net.toml

    It prints a line when all of them run, all links are up and all storages answer, then watches
    them until SIGTERM or SIGINT. A process that dies is restarted, a broker with the links that
    NETWORK has then. Storages follow changes of NETWORK (`reefcast network move-storages`), and
    brokers read it again after SIGHUP, or `reefcast network apply`. A trace directory holds one
    run: the files of a former run are removed.
    """
    described = load_network(network)
    logs.set_up(described.log.settings.changed(log_format, log_levels))
    words = logs.words_of(log_format, log_levels)
    up = _up(described, network, words, restart=not no_restart, as_json=as_json)
    sys.exit(asyncio.run(up))


async def _up(
    network: NetworkFile, file: Path, words: list[str], *, restart: bool, as_json: bool
) -> int:
    def report(line: str) -> None:
        if not logs.tell(line):
            click.echo(line, err=True)

    with telling_of_compiling(report):  # which is done when the module is imported
        from reefcast.server.supervisor import Overlay

    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    overlay = Overlay(network, restart=restart, file=file, report=report, log=words)
    loop.add_signal_handler(signal.SIGHUP, overlay.hang_up)
    starting = asyncio.ensure_future(overlay.__aenter__())
    stopping = asyncio.ensure_future(told_to_stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        starting.result()
        _say_up(overlay, as_json)
        await stopping
        report("told to stop: the brokers drain their queues, then storages end")
        codes = await overlay.stop()
    else:
        starting.cancel()
        await asyncio.wait((starting,))
        codes = {}
    return NO if any(codes.values()) else DONE


def _say_up(overlay: Overlay, as_json: bool) -> None:
    network = overlay.network
    if as_json:
        brokers = [
            {"broker": entry.name, "listen": entry.listen, "pid": overlay.pid(entry.name)}
            for entry in network.broker
        ]
        storages = [
            {"storage": entry.name, "at": entry.broker, "pid": overlay.storage(entry.name).pid}
            for entry in network.storage
        ]
        told = {"network": network.network.name, "brokers": brokers, "storages": storages}
        click.echo(json.dumps(told))
    else:
        click.echo(f"network {network.network.name} is up: {_size(network)} (Ctrl-C ends it)")


def _size(network: NetworkFile) -> str:
    parts = [counted(len(network.broker), "broker"), counted(len(network.link), "link")]
    if network.storage:
        parts.append(counted(len(network.storage), "storage"))
    return ", ".join(parts)


# --- plan -----------------------------------------------------------------------------------------


@command.command()
@network_argument
@json_option("the plan")
def check(network: Path, as_json: bool) -> None:
    """Check NETWORK and print what would run, and with which commands.

        reefcast network check net.toml

    It starts nothing, and connects to no broker.
    """
    described = load_network(network)
    result = plan_of(described, network)
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
    if result["storages"]:
        plain_console().print(_storage_table(result["storages"]))
    click.echo(
        f"network {result['network']}, routing {result['routing']}: "
        f"{_size(described)}, "
        f"diameter {result['diameter']}, largest degree {result['degree']}, "
        f"trace {result['trace']}"
    )
    click.echo("on several machines, each with its broker's command:")
    for row in (*result["brokers"], *result["storages"]):
        click.echo(f"  {row['command']}")  # whole, not cut to a column: to be copied


def _storage_table(storages: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("storage", "at", "topics", "directory")
    for row in storages:
        table.add_row(row["storage"], row["at"], ", ".join(row["topics"]), row["directory"])
    return table


def plan_of(network: NetworkFile, file: Path) -> dict[str, Any]:
    """Return what would run, as plain data. Raises `ConfigurationError` for a missing address."""
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
    storages = [
        {
            "storage": entry.name,
            "at": entry.broker,
            "topics": entry.topics,
            "directory": entry.directory,
            "command": shlex.join(("reefcast", "storage", str(file), entry.name)),
        }
        for entry in network.storage
    ]
    return {
        "network": network.network.name,
        "routing": network.network.routing,
        "brokers": brokers,
        "storages": storages,
        "links": len(network.link),
        "diameter": diameter(graph),
        "degree": max(len(around) for around in graph.values()),
        "trace": network.trace.level,
    }


# --- status ---------------------------------------------------------------------------------------


@command.command(epilog="Exit codes: 0 every broker and every storage answers; 1 one does not.")
@network_argument
@own_options
@table_option
@rows_option
@click.option(
    "--watch",
    "watch_s",
    type=Number(0.1),
    is_flag=False,
    flag_value=2.0,
    help="Show it again every this many seconds (2 if none are given), until Ctrl-C.",
)
@json_option("the answers by broker; with --watch a line each time")
def status(
    network: Path, tables: tuple[str, ...], rows: int, watch_s: float | None, as_json: bool
) -> None:
    """Show the status of every broker of NETWORK.

        reefcast network status net.toml --table PRT

    It shows the brokers; the links that carry something or have problems, with the LST; what waits
    for brokers that are away, and what is in custody for them; the storages and their topics; and
    the counters of the routing, with the tables that it always shows (CLT with the CIVs, SRT of a
    TID routing). `reefcast simulate --inspect` shows the same for simulated brokers.

    A broker returns 1000 rows of a table at most.
    """
    from reefcast.cli.inspection import check_tables

    described = load_network(network)
    check_tables(described, tables)
    whole = _show_status(described, tables, rows, as_json=as_json)
    try:
        while watch_s is not None:
            time.sleep(watch_s)
            if not as_json and plain_console().is_terminal:
                click.clear()
            whole = _show_status(described, tables, rows, as_json=as_json)
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # which ends watching
    sys.exit(DONE if whole else NO)


def _show_status(
    described: NetworkFile, tables: tuple[str, ...], rows: int, *, as_json: bool
) -> bool:
    """Show the status once; return whether every broker and every storage answers."""
    from reefcast.cli.inspection import print_status, print_storages
    from reefcast.model.wire import StatusRequest
    from reefcast.server.supervisor import overlay_status

    answers = asyncio.run(overlay_status(described, StatusRequest(tables, rows), own_files()))
    storages = _storages(described)
    if as_json:
        for name, answer in answers.items():
            if answer is not None:
                answer["storages"] = [row for row in storages if row["at"] == name]
        click.echo(json.dumps(answers))
    else:
        print_status(answers)
        print_storages(storages)
    return not any(row["silent"] for row in storages) and None not in answers.values()


def _storages(network: NetworkFile) -> list[dict[str, Any]]:
    """Return for each storage what it answers for, what it still takes over, and what else it
    should answer for, as its broker reports."""
    from reefcast.server.storages import answered, storages_known

    if not network.storage:
        return []
    known = asyncio.run(storages_known(network, own_files()))
    rows = []
    for entry in network.storage:
        answers = answered(entry, known[entry.broker] or frozenset())
        unknown = [topic for topic in entry.topics if topic not in answers]
        rows.append(
            {
                "storage": entry.name,
                "at": entry.broker,
                "answers": sorted(answers),
                "joins": [topic for topic in unknown if topic in entry.joining],
                "silent": [topic for topic in unknown if topic not in entry.joining],
            }
        )
    return rows
