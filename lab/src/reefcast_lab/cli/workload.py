"""`reefcast-lab workload`: events, subscriptions and advertisements of a given kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.command_line import Group
from reefcast.cli.options import (
    DIRECTORY,
    INPUT_FILE,
    Number,
    json_option,
    master_option,
    seed_option,
)
from reefcast_lab.cli.dataset import print_written
from reefcast_lab.cli.options import positive_option, whole_option

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reefcast_lab.workloads.jobs import Clients, Workload

EVENTS = click.argument("events", metavar="EVENTS", type=click.Path(exists=True, path_type=Path))
OUT = click.argument("out", type=DIRECTORY)
JSON = json_option("the table with its path, rows and columns, and what was asked and reached")
BROKERS = click.option(
    "--network",
    type=INPUT_FILE,
    help="Network file at whose brokers the clients are to sit, drawn evenly; by default the table "
    "has no column broker.",
)
ADVERTISED = click.option(
    "--advertisements", is_flag=True, help="Write advertisements instead of subscriptions."
)
FILTERS = whole_option("--subscriptions", 1000, "Filters to make, each of a client of its own.")
SELECTIVITY = click.option(
    "--selectivity",
    default=0.02,
    show_default=True,
    help="Share of the publications that satisfies one subscription.",
)


TOPICS = whole_option("--topics", 20, "Topics, in all.")
ZIPF = click.option(
    "--zipf",
    type=Number(0),
    default=0.0,
    show_default=True,
    help="Exponent of Zipf's law; 0 makes all alike.",
)


@click.group(cls=Group)
def command() -> None:
    """Make events, subscriptions and advertisements of a given kind, with Spark.

        reefcast-lab workload events out --publications 1000000 --zipf 1

    Every table is measured by matching events with it; what was asked and what was
    reached is printed, and written to measured.parquet beside the table.
    """


@command.command()
@OUT
@whole_option("--publications", 1_000_000, "Events to make.")
@whole_option("--classes", 1000, "Values of the class.")
@TOPICS
@ZIPF
@positive_option("--rate", 1000.0, "Publications per second, in all.")
@seed_option
@master_option
@JSON
def events(
    out: Path,
    publications: int,
    classes: int,
    topics: int,
    zipf: float,
    rate: float,
    seed: int,
    master: str,
    as_json: bool,
) -> None:
    """Make events with a topic, class, price, x1, x2 and x3.

        reefcast-lab workload events out --publications 1000000 --zipf 1

    Classes and topics are as popular as Zipf's law says; prices (0 to 999 999)
    and numbers (0 to 1) are drawn evenly. OUT gets events.parquet.
    """

    def make(spark: SparkSession) -> Workload:
        from reefcast_lab.workloads import jobs
        from reefcast_lab.workloads.synthetic import Stream

        stream = Stream(publications, classes, topics, zipf, rate, seed)
        return jobs.write_stream(spark, stream, out)

    _run(make, master, as_json)


@command.command()
@EVENTS
@OUT
@FILTERS
@SELECTIVITY
@ZIPF
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME",
    help="Attribute of numbers that the filters are about, by default all; may be repeated.",
)
@ADVERTISED
@BROKERS
@seed_option
@master_option
@JSON
def matching(
    events: Path,
    out: Path,
    subscriptions: int,
    selectivity: float,
    zipf: float,
    attributes: tuple[str, ...],
    advertisements: bool,
    network: Path | None,
    seed: int,
    master: str,
    as_json: bool,
) -> None:
    """Make filters that match a given share of EVENTS.

        reefcast-lab workload matching out/events.parquet out --zipf 1

    Each is a box around an event, grown until it holds the share that it shall
    match, however the attributes hang together. With --zipf, the share of each
    is as Zipf's law says, and --selectivity is the mean. OUT gets
    subscriptions.parquet.
    """

    clients = _clients(advertisements, network, seed)

    def make(spark: SparkSession) -> Workload:
        from reefcast_lab.workloads import jobs
        from reefcast_lab.workloads.boxes import Boxes

        wanted = Boxes(subscriptions, selectivity, zipf, attributes, seed)
        return jobs.write_boxes(jobs.read_events(spark, events), wanted, clients, out)

    _run(make, master, as_json)


@command.command()
@OUT
@FILTERS
@whole_option(
    "--degree",
    9,
    "Covering degree: filters that become roots when a root goes, mean over roots.",
    least=0,
)
@SELECTIVITY
@ADVERTISED
@BROKERS
@seed_option
@master_option
@JSON
def covering(
    out: Path,
    subscriptions: int,
    degree: int,
    selectivity: float,
    advertisements: bool,
    network: Path | None,
    seed: int,
    master: str,
    as_json: bool,
) -> None:
    """Make filters of a given covering degree.

        reefcast-lab workload covering out --subscriptions 10000 --degree 99

    A root wants a class of events at any price; others want it at prices of an
    interval each, none of which covers another. Of the events of their class
    these match the share --selectivity. For events of `reefcast-lab workload
    events` with as many classes as there are roots. OUT gets
    subscriptions.parquet.
    """

    clients = _clients(advertisements, network, seed)

    def make(spark: SparkSession) -> Workload:
        from reefcast_lab.workloads import jobs
        from reefcast_lab.workloads.covered import Covered

        wanted = Covered(subscriptions, degree, selectivity, seed)
        return jobs.write_covered(spark, wanted, clients, out)

    _run(make, master, as_json)


@command.command()
@OUT
@whole_option("--clients", 1000, "Clients.")
@TOPICS
@click.option(
    "--correlation",
    type=Number(0),
    help="Share of the pairs of clients whose interests are correlated at 95 %; by default as on "
    "StAN's grid.",
)
@BROKERS
@seed_option
@master_option
@JSON
def interests(
    out: Path,
    clients: int,
    topics: int,
    correlation: float | None,
    network: Path | None,
    seed: int,
    master: str,
    as_json: bool,
) -> None:
    """Make subscriptions to topics, with interests that clients have in common.

        reefcast-lab workload interests out --topics 100 --correlation 0.4

    Clients and topics lie on the grid of StAN's evaluation, by whose power laws
    some topics are wanted by many, and some clients want much. OUT gets
    subscriptions.parquet.
    """

    at = _clients(False, network, seed)

    def make(spark: SparkSession) -> Workload:
        from reefcast_lab.workloads import jobs

        return jobs.write_interests(spark, clients, topics, correlation, at, out)

    _run(make, master, as_json)


@command.command()
@EVENTS
@OUT
@click.option(
    "--by",
    metavar="NAME",
    required=True,
    help="Attribute of strings that names the publisher of an event, such as symbol.",
)
@BROKERS
@seed_option
@master_option
@JSON
def advertisements(
    events: Path,
    out: Path,
    by: str,
    network: Path | None,
    seed: int,
    master: str,
    as_json: bool,
) -> None:
    """Make the advertisements of those who published EVENTS.

        reefcast-lab workload advertisements out/events.parquet out --by class

    A publisher advertises its value of the attribute, and the range of each
    attribute of numbers that all of its events have. OUT gets
    advertisements.parquet.
    """

    at = _clients(True, network, seed)

    def make(spark: SparkSession) -> Workload:
        from reefcast_lab.workloads import jobs

        return jobs.write_advertisements(jobs.read_events(spark, events), by, at, out)

    _run(make, master, as_json)


def _clients(advertisements: bool, network: Path | None, seed: int) -> Clients:
    from reefcast.network.file import load_network
    from reefcast_lab.workloads.jobs import Clients

    brokers = tuple(load_network(network).names) if network else ()
    table = "advertisements" if advertisements else "subscriptions"
    return Clients(table, brokers, seed)


def _run(make: Callable[[SparkSession], Workload], master: str, as_json: bool) -> None:
    from reefcast.pipeline.session import spark_session

    with spark_session("reefcast-lab workload", master) as spark:
        made = make(spark)
    if as_json:
        click.echo(json.dumps(_described(made)))
        return
    print_written([made.table])
    _print_measured(made)


def _described(made: Workload) -> dict[str, Any]:
    measured = [row._asdict() for row in made.measured]
    return {**made.table._asdict(), "measured": measured}


def _print_measured(made: Workload) -> None:
    from rich.table import Table

    from reefcast.cli.terminal import plain_console

    table = Table("measure", "asked", "reached")
    for row in made.measured:
        table.add_row(row.measure, *map(_figure, (row.asked, row.reached)))
    plain_console().print(table)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}"
