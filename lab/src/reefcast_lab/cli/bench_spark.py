"""`reefcast-lab bench spark`: matching in Spark, and its connector."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from reefcast.cli.options import OUTPUT_FILE, Whole, json_option, master_option
from reefcast_lab.cli.bench_tables import SPARK, SPARK_BYTES, SPARK_EVENTS, printed
from reefcast_lab.cli.options import data_option, events_option, page_option


@click.command()
@click.option(
    "--n",
    "sizes",
    type=Whole(1),
    multiple=True,
    help="Filters; by default 100, 1 000 and 10 000; may be repeated.",
)
@events_option("all")
@data_option
@master_option
@click.option(
    "--plot",
    type=OUTPUT_FILE,
    help="Write a plot of the time over the number of subscriptions to this file, as SVG.",
)
@click.option(
    "--part",
    type=click.Choice(["matching", "connector"]),
    default="matching",
    show_default=True,
    help="Measure matching, or events on their way into Spark and out of it.",
)
@page_option("docs/explanation/spark-matching.md, or docs/reference/spark-connector.md")
@json_option("a list of rows")
def spark(
    sizes: tuple[int, ...],
    events: int,
    data: Path,
    master: str,
    as_json: bool,
    plot: Path | None,
    part: str,
    page: Path | None,
) -> None:
    """Measure matching in Spark, or its connector.

        reefcast-lab bench spark --events 50000

    The baselines are what one would write without Reefcast: a join on columns
    of lower and upper bounds, and filters as columns, in chunks; on the same
    events, and all must find the same pairs. The default takes some ten
    minutes, and what would take much longer is left out.

        reefcast-lab bench spark --part connector --events 1000000

    reads that many events out of sealed segments and out of a database, as a
    batch and as a stream, and publishes as many, beside the same rows in
    Parquet.
    """
    from reefcast_lab.bench import spark_page as figures
    from reefcast_lab.bench.page_tables import fill
    from reefcast_lab.bench.spark import bench

    tell = partial(click.echo, err=True)
    if part == "connector":
        _connector(events, master, tell, as_json, page)
        return
    rows = printed(bench(sizes or (100, 1000, 10_000), events, data, master, tell), SPARK, as_json)
    if plot is not None:
        plot.write_text(figures.plot(rows), encoding="utf-8")
    if page is not None:
        fill(page, figures.FIGURES, figures.figures(rows), "spark")


def _connector(
    events: int, master: str, tell: Callable[[str], None], as_json: bool, page: Path | None
) -> None:
    from reefcast_lab.bench import spark_events_page as figures
    from reefcast_lab.bench.page_tables import fill
    from reefcast_lab.bench.spark_events import bench

    rows = printed(bench(events, master, tell), SPARK_EVENTS, as_json)
    if page is not None:
        fill(page, figures.FIGURES, figures.figures(rows), "spark --part connector")


@click.command("spark-bytes")
@click.option(
    "--quotes", default=20_000, show_default=True, type=Whole(1), help="Quotes that are stored."
)
@master_option
@json_option("a list of rows")
def spark_bytes(quotes: int, master: str, as_json: bool) -> None:
    """Measure the bytes that Spark reads, with and without pushdown.

        reefcast-lab bench spark-bytes --quotes 5000

    One storage has the quotes; each row is another way to ask for some of
    them.
    """
    from reefcast_lab.bench.spark_bytes import bench_bytes

    printed(bench_bytes(quotes, master), SPARK_BYTES, as_json)
