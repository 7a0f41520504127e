"""`reefcast network roll`: all brokers of a network are started again, one at a time."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.network_apply import apply_to
from reefcast.cli.network_drain import drain, in_words
from reefcast.cli.options import json_option, network_argument, wait_option
from reefcast.cli.secured import own_files, own_options
from reefcast.errors import PeerError, ReefcastError
from reefcast.network.file import NetworkFile, load_network

POLL_S = 0.1
Statuses = dict[str, dict[str, Any] | None]


class Rolled(NamedTuple):
    """A broker that was started again, with the version that it has now; or `why` it was not."""

    broker: str
    pid: int = 0
    version: str = ""
    took_s: float = 0.0
    why: str = ""


@click.command(
    "roll",
    epilog="Exit codes: 0 all brokers were started again; 1 one was not, and those after it were "
    "left as they are.",
)
@network_argument
@own_options
@click.argument("brokers", nargs=-1)
@wait_option(120.0, "for each broker to be empty, and again for it to be ready")
@json_option("a list: broker, pid, version, took_s, why it was not started again")
def command(network: Path, brokers: tuple[str, ...], wait_s: float, as_json: bool) -> None:
    """Start all brokers of NETWORK again, one at a time, or these BROKERS.

        reefcast network roll net.toml

    So they get a new version of reefcast, or what in NETWORK needs a restart, while publications
    flow. Each broker is drained: its clients go to other brokers. Then its process ends with exit
    code 6, and whatever watches it starts it again: `reefcast network up`, or systemd with
    Restart=on-failure. The next one comes when it has relearned, and all links are up.

    It needs the rights "status", "apply" and "drain".
    """
    described = load_network(network)
    names = brokers or tuple(described.names)
    for name in names:
        described.entry(name)
    done = asyncio.run(roll(described, names, wait_s, lambda line: click.echo(line, err=True)))
    if as_json:
        click.echo(json.dumps([each._asdict() for each in done]))
    else:
        for each in done:
            click.echo(_line(each))
    sys.exit(NO if any(each.why for each in done) else DONE)


def _line(rolled: Rolled) -> str:
    if rolled.why:
        return f"{rolled.broker} was not started again: {rolled.why}"
    now = f"version {rolled.version}, process {rolled.pid}"
    return f"{rolled.broker} runs again ({now}), after {rolled.took_s:.1f} s"


async def roll(
    network: NetworkFile, names: Sequence[str], wait_s: float, report: Any
) -> list[Rolled]:
    """Start these brokers again, one at a time; return what became of each, up to the first that
    was not. `report` gets a line for each event."""
    done: list[Rolled] = []
    for name in names:
        began_s = time.monotonic()
        try:
            why = await _objection(network)
            if not why:
                report(f"{name}: its clients go to other brokers")
                why = await _emptied(network, name, wait_s)
            if not why:
                report(f"{name}: it ends, to be started again")
                status = await _started_again(network, name, wait_s)
        except ReefcastError as error:
            why = str(error)
        if why:
            return [*done, Rolled(name, why=why)]
        took_s = round(time.monotonic() - began_s, 3)
        done.append(Rolled(name, status["pid"], status["version"], took_s))
    return done


async def _objection(network: NetworkFile) -> str:
    """Return why no broker may be stopped now; "" if one may."""
    from reefcast.server.applying import TOGETHER
    from reefcast.server.supervisor import overlay_status

    lacks = missing(await overlay_status(network, own=own_files()))
    if lacks:
        return f"first these must be up: {', '.join(lacks)}"
    for row in await apply_to(network, dry=True):
        if row["why"] == TOGETHER:
            return f"{row['change']} has changed: {TOGETHER}"
        if row["change"] == "the file":
            return str(row["why"])
    return ""


async def _emptied(network: NetworkFile, name: str, wait_s: float) -> str:
    """Drain a broker; return why it is not empty, "" if it is. One that is not takes clients
    again."""
    if len(network.names) < 2:
        return ""  # nobody else could take its clients: they wait for it
    state = await drain(network, name, wait_s=wait_s)
    if state["state"] == "empty":
        return ""
    await drain(network, name, on=False, wait_s=0)
    return f"{in_words(name, state)}, after {wait_s:g} s; it takes clients again"


async def _started_again(network: NetworkFile, name: str, wait_s: float) -> dict[str, Any]:
    """End a broker, and wait until it is there again, and everybody has what it must know. Raises
    `PeerError` if that does not happen in time."""
    from reefcast.server.admin import admin_connection, asking, operator_of
    from reefcast.server.supervisor import overlay_status

    tls, shown = asking(network, name, own_files()), operator_of(network)
    async with admin_connection(*network.address(name), tls, shown) as asked:
        before = await asked.stop(again=True)
    lacks = [f"broker {name}"]
    try:
        async with asyncio.timeout(wait_s):
            while True:
                statuses = await overlay_status(network, own=own_files())
                now = statuses[name]
                if now is not None and now["session"] != before["session"]:
                    lacks = missing(statuses)
                    if not lacks:
                        return now
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise PeerError(
            f"after {wait_s:g} s these are not up: {', '.join(lacks)}; if nothing has started the "
            "broker again, do so, and go on with the next one"
        ) from None


def missing(statuses: Statuses) -> list[str]:
    """Return the brokers that do not answer, relearn or stop, and the links that are not up."""
    lacks: list[str] = []
    for name, status in statuses.items():
        if status is None:
            lacks.append(f"broker {name}")
            continue
        if status["relearning"] or status["stopping"]:
            lacks.append(f"broker {name} (it {'relearns' if status['relearning'] else 'stops'})")
        lacks += (
            f"link {name} - {link['link']}"
            for link in status["links"]
            if link["state"] != "up" and status["lst"][link["link"]]["kind"] != "soft"
        )
    return lacks
