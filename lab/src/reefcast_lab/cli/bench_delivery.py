"""`reefcast-lab bench delivery`: what confirmed delivery costs, ours beside others."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from reefcast.cli.options import json_option
from reefcast_lab.cli.bench_tables import DELIVERY, printed
from reefcast_lab.cli.options import page_option, positive_option, whole_option


@click.command()
@click.option(
    "--broker",
    "names",
    multiple=True,
    metavar="NAME",
    help="Measure this broker: nats, 'nats, sync always', rabbitmq, mosquitto or reefcast; by "
    "default all that are installed; may be repeated.",
)
@positive_option("--seconds", 3.0, "Publish for this many seconds for each row.")
@whole_option("--backlog", 100_000, "Events to drain; 0: no such row.", least=0)
@whole_option("--idle", 10_000, "Sessions to which nothing is published; 0: no such row.", least=0)
@page_option("docs/explanation/performance.md")
@json_option("a list of rows")
def delivery(
    names: tuple[str, ...],
    seconds: float,
    backlog: int,
    idle: int,
    page: Path | None,
    as_json: bool,
) -> None:
    """Measure confirmed publications and durable sessions.

        reefcast-lab bench delivery --broker rabbitmq --broker reefcast

    The baselines are JetStream (with and without syncing each publication),
    RabbitMQ with durable queues and publisher confirms, and mosquitto with QoS
    1 and persistence, each started for itself on loopback, with a directory
    that is removed after. What is on disk when they confirm differs: syncs, in
    JSON. CPU is the broker's for each publication, or for each delivery of a
    drain. All of it takes four minutes, a backlog of a million longer.
    """
    from reefcast_lab.bench.delivery import brokers
    from reefcast_lab.bench.delivery import page as figures
    from reefcast_lab.bench.delivery.measure import Sizes, bench
    from reefcast_lab.bench.page_tables import fill

    if unknown := [name for name in names if name not in brokers.BROKERS]:
        raise click.UsageError(f"there is no broker {unknown[0]!r}: {', '.join(brokers.BROKERS)}")
    lacking = {name: why for name in names or brokers.BROKERS if (why := brokers.missing(name))}
    chosen = [name for name in names or brokers.BROKERS if name not in lacking]
    rows = bench(chosen, Sizes(seconds, backlog, idle), partial(click.echo, err=True))
    measured = printed(rows, DELIVERY, as_json)
    if page is not None:
        fill(page, figures.FIGURES, figures.figures(measured), "delivery")
    for name, why in lacking.items():
        click.echo(f"{name} is left out: {why}", err=True)
