"""`reefcast top`: a whole network, live in a terminal."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reefcast.cli import top_figures as figures
from reefcast.cli.options import Number, Whole, json_option, network_argument
from reefcast.cli.secured import own_files, own_options
from reefcast.cli.terminal import plain_console
from reefcast.cli.top_figures import Sample
from reefcast.model.wording import printable
from reefcast.network.file import NetworkFile, load_network

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

MOST_LINKS, MOST_CLIENTS = 10, 10
BAD = "bold red"


@click.command()
@network_argument
@own_options
@click.option(
    "--every",
    "every_s",
    type=Number(0.1),
    default=1.0,
    show_default=True,
    help="Ask the brokers again after this many seconds.",
)
@click.option("--times", type=Whole(1), help="End after this many updates; by default with Ctrl-C.")
@json_option("a line each time: brokers, links, slow_clients")
def command(network: Path, every_s: float, times: int | None, as_json: bool) -> None:
    """Show a running network live: brokers, links, and clients that do not keep up.

        reefcast top net.toml

    Of each broker it shows its state, clients, events published by them and delivered to them per
    second, events that wait in its queues and in custody for neighbours, and events lost since it
    started; of links, what is sent and how much waits, those with problems and the busiest first.
    Ctrl-C ends it. It needs the right "status".
    """
    described = load_network(network)
    rounds = itertools.count() if times is None else range(times)
    with suppress(KeyboardInterrupt, BrokenPipeError):
        _show(described, every_s, rounds, as_json=as_json)


def _show(network: NetworkFile, every_s: float, times: Iterable[int], *, as_json: bool) -> None:
    from rich.live import Live

    before: Sample | None = None
    console = plain_console()
    if as_json or not console.is_terminal:
        for now in _samples(network, every_s, times):
            if as_json:
                click.echo(json.dumps(figures.as_json(before, now)))
            else:
                console.print(rendered(network, before, now, console))
            before = now
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for now in _samples(network, every_s, times):
            live.update(rendered(network, before, now, console), refresh=True)
            before = now


def _samples(network: NetworkFile, every_s: float, times: Iterable[int]) -> Iterator[Sample]:
    """Yield what all brokers answer, each time."""
    from reefcast.model.wire import StatusRequest
    from reefcast.server.supervisor import overlay_status

    for number in times:
        if number:
            time.sleep(every_s)
        asked = overlay_status(network, StatusRequest(rows=0), own_files())
        yield Sample(time.monotonic(), asyncio.run(asked))


# --- what is shown --------------------------------------------------------------------------------


def rendered(network: NetworkFile, before: Sample | None, now: Sample, console: Console) -> Group:
    """Return what is shown of a sample, as far as it fits into the console's height."""
    from rich.console import Group
    from rich.text import Text

    found = shown = figures.brokers(before, now)
    left = console.height - 8 if console.is_terminal else 1_000_000
    if len(found) > max(left, 4):
        shown = sorted(found, key=lambda each: each.state == "up")[: max(left, 4)]
    left -= len(shown)
    parts: list[Text | Table] = [Text(_summary(network, found), style="bold"), _brokers(shown)]
    if len(shown) < len(found):
        parts.append(Text(f"and {len(found) - len(shown)} more brokers", style="dim italic"))
    for table in (_links(now), _clients(now)):
        left -= table.row_count + 4
        if table.row_count and left > 0:
            parts.append(table)
    return Group(*parts)


def _summary(network: NetworkFile, found: Sequence[figures.BrokerFigures]) -> str:
    up = sum(each.state == "up" for each in found)
    clients, lost = sum(each.clients for each in found), sum(each.lost for each in found)
    published = sum(each.published_per_s for each in found)
    delivered = sum(each.delivered_per_s for each in found)
    return (
        f"{network.network.name}, {network.network.routing}: {up} of {len(found)} brokers up, "
        f"{clients} clients, {published:.0f} published/s, {delivered:.0f} delivered/s, {lost} lost"
    )


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number > 1 else "left", no_wrap=True)
    return table


def _brokers(found: Iterable[figures.BrokerFigures]) -> Table:
    columns = ("clients", "published/s", "delivered/s", "queue", "custody", "lost", "memory")
    table = _table("Brokers", "broker", "state", *columns)
    for each in found:
        rates = f"{each.published_per_s:.0f}", f"{each.delivered_per_s:.0f}"
        counts = str(each.queue), str(each.custody), str(each.lost), f"{each.memory_mb:.0f} MB"
        style = "" if each.state == "up" else BAD
        table.add_row(each.broker, each.state, str(each.clients), *rates, *counts, style=style)
    return table


def _links(now: Sample) -> Table:
    found = figures.links(now)
    more = len(found) - MOST_LINKS
    title = "Links" if more <= 0 else f"Links (and {more} more)"
    table = _table(title, "from", "to", "state", "sent/s", "queue", "load")
    for each in found[:MOST_LINKS]:
        counts = f"{each.per_s:.0f}", str(each.queue), f"{each.load:.1f}"
        style = "" if each.state == "up" else BAD
        table.add_row(each.broker, each.link, each.state, *counts, style=style)
    return table


def _clients(now: Sample) -> Table:
    found = figures.slow_clients(now)
    table = _table("Clients for which events wait", "broker", "client", "now", "queue", "dropped")
    for each in found[:MOST_CLIENTS]:
        counts = "slow" if each.slow else "", str(each.queue), str(each.dropped)
        table.add_row(each.broker, printable(each.client), *counts, style=BAD if each.slow else "")
    return table
