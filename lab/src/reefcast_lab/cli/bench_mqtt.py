"""`reefcast-lab bench mqtt`: what MQTT clients cost a broker, ours beside mosquitto."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from reefcast.cli.options import json_option
from reefcast_lab.cli.bench_tables import MQTT, printed
from reefcast_lab.cli.options import page_option, whole_option


@click.command()
@click.option(
    "--points",
    multiple=True,
    metavar="POINT",
    help="Measure this point instead of the usual ones: fanout, publishers, qos, others, content "
    "(0: topics alone, 1: payloads read as JSON, 2: a condition) and idle, such as "
    "fanout=10,qos=1; may be repeated.",
)
@click.option("--full", is_flag=True, help="Measure all that the page shows: ten minutes.")
@whole_option("--repeat", 3, "So many runs, of which the medians are told.")
@page_option("docs/explanation/performance.md")
@json_option("a list of rows")
def mqtt(
    points: tuple[str, ...], full: bool, repeat: int, page: Path | None, as_json: bool
) -> None:
    """Measure what MQTT clients cost a broker.

        reefcast-lab bench mqtt --points fanout=10 --points idle=1000

    CPU is microseconds of the broker's processor time, which repeat on a busy
    machine where rates do not. The baseline is mosquitto with the same clients.
    A ratio above 1 says that ours needs less: processor time for a publication,
    memory for an idle connection. What looks at the content has our broker as
    its baseline, which does not.

    The usual points take less than two minutes.
    """
    from reefcast_lab.bench.live.brokers import OURS
    from reefcast_lab.bench.mqtt import brokers
    from reefcast_lab.bench.mqtt import page as figures
    from reefcast_lab.bench.mqtt import points as plans
    from reefcast_lab.bench.mqtt.measure import measure
    from reefcast_lab.bench.page_tables import fill

    if full and points:
        raise click.UsageError("--full measures all points, --points some: choose one")
    chosen = plans.full() if full else [plans.parse(text) for text in points]
    rows = printed(
        measure(chosen or plans.usual(), repeat, partial(click.echo, err=True)), MQTT, as_json
    )
    if page is not None:
        fill(page, figures.FIGURES, figures.figures(rows), "mqtt")
    if brokers.installed() == [OURS]:
        click.echo(
            "mosquitto is not installed, so there is no baseline: apt-get install mosquitto",
            err=True,
        )
