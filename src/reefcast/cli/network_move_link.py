"""`reefcast network move-link`: a primary link of a running mesh, moved to another broker."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.options import json_option, network_argument, wait_option
from reefcast.cli.secured import own_files, own_options
from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile, load_network

if TYPE_CHECKING:
    from reefcast.server.admin import AdminConnection

POLL_S = 0.1
OVER = ("moved", "given up")


class Outcome(NamedTuple):
    """`state`: one of the broker's words for it, or "was moved before"; `why`: it did not move."""

    state: str
    why: str = ""

    @property
    def moved(self) -> bool:
        return self.state in ("moved", "was moved before")


@click.command(
    "move-link",
    epilog="Exit codes: 0 the link has moved, and NETWORK says so; 1 it has not, or not in time, "
    "or NETWORK could not be changed.",
)
@network_argument
@own_options
@click.argument("broker")
@click.option(
    "--from", "old", metavar="OLD", required=True, help="The broker that has the link now."
)
@click.option("--to", "new", metavar="NEW", required=True, help="The broker that gets the link.")
@wait_option(60.0, "for the end of the move")
@json_option("the result; problem: why NETWORK could not be changed")
def command(network: Path, broker: str, old: str, new: str, wait_s: float, as_json: bool) -> None:
    """Move a primary link of a running mesh.

        reefcast network move-link net.toml b7 --from b3 --to b5

    BROKER gets a link to NEW in place of the one to OLD, while publications flow; none is lost or
    arrives twice. NEW must be behind OLD, within delta hops of BROKER, and [routing] must name a
    coordinator, which grants one move at a time.

    When the link has moved, the command changes its [[link]] in NETWORK. If the command ends before
    (after --wait, or by Ctrl-C), the link may still move. Run it again then: it sees that the link
    has moved, and changes NETWORK.
    """
    described = load_network(network)
    coordinator = described.routing.get("coordinator") or broker  # without one, the broker says so
    for name in (broker, old, new, coordinator):
        described.entry(name)
    outcome = asyncio.run(_move(described, broker, old, new, wait_s))
    problem = _changed(network, broker, old, new) if outcome.moved else ""
    if as_json:
        result = {"broker": broker, "from": old, "to": new, **outcome._asdict()}
        click.echo(json.dumps({**result, "problem": problem}))
    else:
        click.echo(_in_words(outcome, broker, old, new))
        if outcome.moved:
            click.echo(problem or f"{network} says so, too")
    sys.exit(DONE if outcome.moved and not problem else NO)


# --- the move -------------------------------------------------------------------------------------


async def _move(network: NetworkFile, broker: str, old: str, new: str, wait_s: float) -> Outcome:
    from reefcast.server.admin import admin_connection, asking, operator_of

    tls, shown = asking(network, broker, own_files()), operator_of(network)
    async with admin_connection(*network.address(broker), tls, shown) as asked:
        links = _primary_links(await asked.status())
        if new in links and old not in links:
            return Outcome("was moved before")
        number = _moves(await asked.move(old, new))[-1]["move"]
        latest = Outcome("asked")
        try:
            async with asyncio.timeout(wait_s):
                while latest.state not in OVER:
                    latest = await _next(asked, number, latest)
        except TimeoutError:
            return latest._replace(why=_not_over(network, latest.state, wait_s))
        return latest


async def _next(asked: AdminConnection, number: int, before: Outcome) -> Outcome:
    """Return the present outcome of the move."""
    (found,) = [move for move in _moves(await asked.status()) if move["move"] == number]
    latest = Outcome(found["state"], found["why"])
    if latest != before and latest.state not in OVER:
        click.echo("granted: the link moves", err=True)
    if latest.state not in OVER:
        await asyncio.sleep(POLL_S)
    return latest


def _not_over(network: NetworkFile, state: str, wait_s: float) -> str:
    if state == "asked":
        coordinator = network.routing.get("coordinator", "the coordinator")
        missing = f"{coordinator} has not granted it; is it there, and is another move under way?"
    else:
        missing = "the move is under way, but not over; are all brokers near it there?"
    return (
        f"after {wait_s:g} s {missing} It may still move: look at the table moves of "
        "`reefcast network status`, and run this command again then, to change the network file"
    )


def _moves(status: dict[str, Any]) -> list[dict[str, Any]]:
    table = status["rows"]["moves"]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def _primary_links(status: dict[str, Any]) -> list[str]:
    names = [link["link"] for link in status["links"]]
    return [name for name in names if status["lst"][name]["kind"] != "soft"]


# --- what is said of it ---------------------------------------------------------------------------


def _in_words(outcome: Outcome, broker: str, old: str, new: str) -> str:
    if outcome.state == "moved":
        return f"{broker} has a primary link to {new}, in place of the one to {old}"
    if outcome.moved:
        return f"{broker} has a primary link to {new} already, and none to {old}"
    if outcome.state == "given up":
        return f"given up: {outcome.why}"
    return outcome.why


def _changed(file: Path, broker: str, old: str, new: str) -> str:
    """Change the network file, unless it has the link already; return why that is impossible, and
    what to do by hand."""
    from reefcast.network.moved_link import write_moved_link

    try:
        around = load_network(file).neighbours(broker)
        if old in around or new not in around:
            write_moved_link(file, broker, old, new)
    except (ConfigurationError, OSError) as error:
        return (
            f"{file} cannot be changed: {error}. Give it a [[link]] between {broker} and {new} in "
            f"place of the one between {broker} and {old} before a broker is started again"
        )
    return ""
