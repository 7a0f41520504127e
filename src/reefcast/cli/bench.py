"""`reefcast bench`: measure, always beside a baseline in the same run."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from reefcast.bench.sim import Row


@click.group()
def command() -> None:
    """Measure the live broker and the simulator."""


@command.command()
@click.option(
    "--publications",
    default=100_000,
    show_default=True,
    help="Publications of the run at fan-out 1; fewer at a higher fan-out.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of rows.")
def live(publications: int, as_json: bool) -> None:
    """Publications and deliveries per second through one broker process.

    The baseline is mosquitto, carrying the same events to the same
    connections: every connection gets everything and filters at its own end.
    """
    from reefcast.bench.live import measure, mosquitto

    rows = measure(publications, lambda what: click.echo(f"measuring {what}", err=True))
    if as_json:
        click.echo(json.dumps(rows))
        return
    _print_live(rows)
    if mosquitto() is None:
        click.echo("mosquitto is not installed, so there is no baseline: apt-get install mosquitto")


def _print_live(rows: list[dict[str, Any]]) -> None:
    columns = {
        "broker": "broker",
        "subscriptions": "subscriptions",
        "fanout": "fan-out",
        "publications_per_s": "publications/s",
        "deliveries_per_s": "deliveries/s",
        "p50_us": "p50 us",
        "p99_us": "p99 us",
        "ratio": "to baseline",
    }
    click.echo("  ".join(f"{title:>14}" for title in columns.values()))
    for row in rows:
        click.echo("  ".join(f"{row[name]:>14}" for name in columns))


@command.command()
@click.option(
    "--messages",
    default=200_000,
    show_default=True,
    help="Messages between brokers that each run carries, about.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of rows.")
def sim(messages: int, as_json: bool) -> None:
    """Messages between brokers that the simulator carries per second.

    Each is routed against 2 500 subscriptions of 2 % selectivity. Matching is
    "shared" (once for the whole network, the simulator's way) or "per hop" (an
    index at each broker, as live). The baseline is an empty event loop of SimPy.
    """
    from reefcast.bench.sim import bench

    with tempfile.TemporaryDirectory() as directory:
        rows = bench(messages, Path(directory), time.perf_counter)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows]))
    else:
        _print_sim(rows)


def _print_sim(rows: list[Row]) -> None:
    click.echo(
        f"{'':14} {'matching':>9} {'brokers':>7} {'trace':>6} {'messages/s':>12} {'to SimPy':>9}"
    )
    for row in rows:
        ratio = f"{row.ratio:.3f}" if row.ratio is not None else ""
        click.echo(
            f"{row.case:14} {row.matching:>9} {row.brokers or '':>7} {row.trace:>6} "
            f"{row.messages_per_s:>12,.0f} {ratio:>9}"
        )
    if all(row.case == "reefcast" for row in rows):
        click.echo("SimPy is not installed, so there is no baseline: pip install simpy")
