"""`reefcast-lab bench`: measure, always beside a baseline in the same run."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.command_line import Group
from reefcast.cli.options import (
    DIRECTORY,
    OUTPUT_FILE,
    C,
    Whole,
    json_option,
)
from reefcast_lab.cli.bench_delivery import delivery
from reefcast_lab.cli.bench_http import http
from reefcast_lab.cli.bench_keeping import keeping
from reefcast_lab.cli.bench_mqtt import mqtt
from reefcast_lab.cli.bench_spark import spark
from reefcast_lab.cli.bench_tables import (
    CLIENT,
    CLIFFS,
    COVER,
    GOSSIP,
    GRAPHS,
    HISTORY,
    LIVE,
    MATCH,
    MESH,
    START,
    STATISTICS,
    WORST,
    printed,
)
from reefcast_lab.cli.options import (
    page_option,
    scale_option,
    whole_option,
)

if TYPE_CHECKING:
    from reefcast_lab.bench.profiling import Cost
    from reefcast_lab.bench.sim import SimulatorSpeed


def _workloads_option(known: str) -> Callable[[C], C]:
    """Return the option `--workload`. `known`: the choices, in words."""
    text = f"{known}; by default all; may be repeated."
    return click.option("--workload", "workloads", multiple=True, metavar="NAME", help=text)


def _sizes_option(default: str) -> Callable[[C], C]:
    text = f"Filters; by default {default}; may be repeated."
    return click.option("--n", "sizes", type=Whole(1), multiple=True, help=text)


_profile_option = click.option(
    "--profile", is_flag=True, help="Instead, the functions that take most of the processor's time."
)


@click.group(cls=Group)
def command() -> None:
    """Measure the live broker, the simulator, and the indexes.

        reefcast-lab bench match --n 1000

    Each prints a table, with ratios to what it is compared with in the same run.
    """


command.add_command(delivery)
command.add_command(keeping)
command.add_command(http)
command.add_command(mqtt)
command.add_command(spark)


@command.command()
@whole_option(
    "--publications",
    1_000_000,
    "At most this many publications a run; fewer if that takes longer than a moment.",
)
@click.option(
    "--points",
    multiple=True,
    metavar="POINT",
    help="Measure this point instead of the usual ones: fanout, payload, attributes, others, "
    "selectivity, brokers, way (direct, tunnel, tls), grants and scraped, such as "
    "fanout=10,payload=1024; may be repeated.",
)
@click.option("--full", is_flag=True, help="Measure all combinations: hours.")
@whole_option("--repeat", 3, "So many runs at full speed, of which the medians are told.")
@_profile_option
@click.option(
    "--plot", type=OUTPUT_FILE, help="Write a plot of the CPU times to this file, as SVG."
)
@page_option("docs/explanation/performance.md")
@json_option("a list of rows")
def live(
    publications: int,
    points: tuple[str, ...],
    full: bool,
    repeat: int,
    profile: bool,
    plot: Path | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Measure what publications and deliveries cost one broker process.

        reefcast-lab bench live --points fanout=10 --points others=10000

    CPU is microseconds of the broker's processor time, which repeat on a busy
    machine where rates do not. p50 and p99 are delays at half of the rate. The
    baselines are mosquitto and nats-server, carrying the same events to the same
    connections: every connection gets everything and filters at its own end.

    The usual points go away from 1 to 1, seven attributes and no payload in one
    dimension at a time, and take some six minutes. Of brokers in a chain, which
    the baselines are not measured in, CPU is that of the one that used most.
    A broker with TLS (way=tls) gets its load through a tunnel; compare it with one
    that gets it through the same tunnel without TLS (way=tunnel).
    With grants=1 all clients have a role whose filters allow just this load; with
    scraped=1 the broker has an admin listener that is scraped every second.
    """
    from reefcast_lab.bench.live import brokers, measure
    from reefcast_lab.bench.live import page as figures
    from reefcast_lab.bench.live import points as plans
    from reefcast_lab.bench.page_tables import fill

    if full and points:
        raise click.UsageError("--full measures all points, --points some: choose one")
    chosen = plans.full() if full else [plans.parse(text) for text in points]

    def tell(what: str) -> None:
        click.echo(f"measuring {what}", err=True)

    if profile:
        _print_costs(measure.profile(chosen or plans.PROFILED, publications, tell), as_json)
        return
    rows = printed(
        measure.measure(chosen or plans.usual(), publications, repeat, tell), LIVE, as_json
    )
    if plot is not None:
        plot.write_text(figures.plot(rows), encoding="utf-8")
    if page is not None:
        fill(page, figures.FIGURES, figures.figures(rows), "live")
    for name in brokers.missing():
        click.echo(
            f"{brokers.PROGRAMS[name]} is not installed, so its rows are missing: "
            f"apt-get install {brokers.PROGRAMS[name]}",
            err=True,
        )


def _print_costs(costs: list[Cost], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([asdict(cost) for cost in costs]))
        return
    for i, cost in enumerate(costs):
        if not i or cost.case != costs[i - 1].case:
            click.echo(f"{cost.case}\n{'share':>7} {'us/message':>11}  function")
        click.echo(f"{cost.share:>7.1%} {cost.us:>11.2f}  {cost.function}")


@command.command()
@whole_option("--publications", 100_000, "Publications of each run, all of which are received.")
@json_option("a list of rows")
def client(publications: int, as_json: bool) -> None:
    """Measure what publishing and receiving cost a Python program.

        reefcast-lab bench client

    Microseconds of the client's CPU for each event: one by one, which is the
    baseline, and in batches; of the asyncio client and of the synchronous one.
    """
    from reefcast_lab.bench.client import bench

    printed(bench(publications, partial(click.echo, err=True)), CLIENT, as_json)


@command.command()
@whole_option("--messages", 200_000, "Messages between brokers that each run carries, about.")
@_profile_option
@json_option("a list of rows")
def sim(messages: int, profile: bool, as_json: bool) -> None:
    """Measure how many messages between brokers the simulator carries per second.

        reefcast-lab bench sim

    Each is routed against 2 500 subscriptions of 2 % selectivity. Matching is
    "shared" (once for the whole network, the simulator's way) or "per hop" (an
    index at each broker, as live). The baseline is an empty event loop of SimPy.
    """
    from reefcast_lab.bench import sim

    if profile:
        _print_costs(sim.profile(messages), as_json)
        return
    with tempfile.TemporaryDirectory() as directory:
        rows = sim.bench(messages, Path(directory), time.perf_counter)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows]))
    else:
        _print_sim(rows)


def _print_sim(rows: list[SimulatorSpeed]) -> None:
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


@command.command()
@whole_option("--subscriptions", 100_000, "Subscriptions of one client, no two alike.")
@whole_option("--connections", 1_000, "Connections of clients that are idle.")
@json_option("a list of one row")
def start(subscriptions: int, connections: int, as_json: bool) -> None:
    """Measure what a broker costs before anything is published.

        reefcast-lab bench start

    The processor time until it listens and until its first delivery, beside
    that of a bare Python program with numpy and uvloop; its memory; what
    subscriptions and idle connections take.
    """
    from reefcast_lab.bench.start import bench

    printed(bench(subscriptions, connections, partial(click.echo, err=True)), START, as_json)


@command.command()
@_workloads_option("stock, stock mixed, stock symbol, flights or zipf")
@_sizes_option("1 000, 10 000 and 100 000, with --worst 100 000, with --cliffs 2 000")
@click.option("--worst", is_flag=True, help="Instead, inputs made to hurt, and the longest pauses.")
@click.option(
    "--cliffs",
    is_flag=True,
    help="Instead, filters that no predicate on a single attribute decides, beside a plain scan.",
)
@click.option(
    "--plot",
    type=OUTPUT_FILE,
    help="Write a plot of the time over the number of filters to this file, as SVG.",
)
@page_option("docs/explanation/matching.md")
@json_option("a list of rows")
def match(
    workloads: tuple[str, ...],
    sizes: tuple[int, ...],
    worst: bool,
    cliffs: bool,
    as_json: bool,
    plot: Path | None,
    page: Path | None,
) -> None:
    """Measure how long matching an event takes, and what an index costs.

        reefcast-lab bench match --workload stock --n 10000

    The baselines are numpy columns partitioned by the most selective equality,
    and the counting algorithm and REIN, compiled; all in the same run, on one
    thread, from the decoded event on, and all must find the same.
    """
    if (worst or cliffs) and plot is not None:
        raise click.UsageError("--plot goes with the workloads, not with --worst or --cliffs")
    tell = partial(click.echo, err=True)
    from reefcast_lab.bench.matching import page as figures

    if cliffs:
        from reefcast_lab.bench.matching.cliffs import cliffs as measure_cliffs

        rows: list[Any] = printed(
            measure_cliffs(workloads, sizes or (2000,), tell), CLIFFS, as_json
        )
        mark, tables = figures.CLIFFS, figures.cliffs(rows)
    elif worst:
        from reefcast_lab.bench.matching.worst import worst_cases

        rows = printed(worst_cases(workloads, sizes or (100_000,), tell), WORST, as_json)
        mark, tables = figures.WORST, figures.worst_cases(rows)
    else:
        from reefcast_lab.bench.matching.measure import bench

        rows = printed(bench(workloads, sizes or (1000, 10_000, 100_000), tell), MATCH, as_json)
        mark, tables = figures.FIGURES, figures.figures(rows)
    if plot is not None:
        plot.write_text(figures.plot(rows), encoding="utf-8")
    if page is not None:
        from reefcast_lab.bench.page_tables import fill

        fill(page, mark, tables)


@command.command()
@_workloads_option("nested, stock, chain, clustered or language, with --graphs degree or stock")
@_sizes_option("1 000, 10 000 and 80 000")
@click.option(
    "--graphs",
    is_flag=True,
    help="Instead, the covering paper's relation graphs, index on and off, beside the roots.",
)
@page_option("docs/explanation/covering-index.md")
@json_option("a list of rows")
def cover(
    workloads: tuple[str, ...],
    sizes: tuple[int, ...],
    graphs: bool,
    as_json: bool,
    page: Path | None,
) -> None:
    """Measure how long finding covering and covered filters takes.

        reefcast-lab bench cover --workload nested --n 10000

    Also intersecting and equal ones, and adding and removing, with and without
    the roots. The baselines are numpy columns of bounds, and a scan that
    compares the filters one by one (a few queries only).
    """
    from reefcast_lab.bench.cover import graphs as relation_graphs
    from reefcast_lab.bench.cover import measure
    from reefcast_lab.bench.cover import page as figures
    from reefcast_lab.bench.page_tables import fill

    tell = partial(click.echo, err=True)
    if graphs:
        compared = printed(relation_graphs.bench(workloads, sizes, tell), GRAPHS, as_json)
        filled = (figures.GRAPHS, figures.graphs(compared), "cover --graphs")
    else:
        rows = printed(measure.bench(workloads, sizes, tell), COVER, as_json)
        filled = (figures.FIGURES, figures.figures(rows), "cover")
    if page is not None:
        fill(page, *filled)


@command.command()
@whole_option("--deliveries", 200_000, "Deliveries recorded in each run, but for the baseline.")
@click.option(
    "--pairs",
    type=Whole(1),
    multiple=True,
    help="Pairs of a subscription and an advertisement; by default 100, 1 000 and 50 000; may be "
    "repeated.",
)
@json_option("a list of rows")
def statistics(deliveries: int, pairs: tuple[int, ...], as_json: bool) -> None:
    """Measure what recording a delivery costs a broker that prunes.

        reefcast-lab bench statistics

    The baseline writes each row into SQLite by itself; the simulator's
    statistics, in memory, are shown as well.
    """
    from reefcast_lab.bench.statistics import bench

    printed(bench(deliveries, pairs, partial(click.echo, err=True)), STATISTICS, as_json)


@command.command()
@scale_option(
    "Of configuration C1 and dataset DT1: 40 brokers and 2 167 subscriptions, or the paper's "
    "120 and 6 500."
)
@json_option("a list of rows")
def mesh(scale: str, as_json: bool) -> None:
    """Measure what soft links cost a broker of a mesh.

        reefcast-lab bench mesh

    A change of links (the WOM alone, then the whole input with all that follows
    from the tables), the choice of paths for a publication by each strategy,
    and a publication as a whole; beside the paper's figures, and beside plain
    twins in the same run.
    """
    from reefcast_lab.bench.mesh import bench
    from reefcast_lab.experiments.mesh.feeds import dataset, workload
    from reefcast_lab.experiments.mesh.topology import network

    overlay = network("C1", scale)
    made = workload(list(overlay), dataset("DT1", scale), seed=1)
    events = [event.attributes for event in made.events(3600.0, 0.0, 10.0)]
    rows = bench(overlay, made.subscriptions, events, partial(click.echo, err=True))
    printed(rows, MESH, as_json)


@command.command()
@scale_option("200 nodes x 40 topics and 2 000 on arrays alone, or 3 000 x 300 and 100 000.")
@json_option("a list of rows")
def gossip(scale: str, as_json: bool) -> None:
    """Measure what rounds of gossip's overlays cost.

        reefcast-lab bench gossip

    The overlays of the paper's grid of interests, until they have converged, by
    the state machine that runs live and by its twin on arrays, which must find
    the same; then rounds of many more nodes, on arrays alone. The scale of the
    paper takes some minutes.
    """
    from reefcast_lab.bench.gossip import bench
    from reefcast_lab.experiments.gossip.scenario import grid_interests

    nodes, many, topics = (200, 2000, 40) if scale == "small" else (3000, 100_000, 300)
    interests, more = (grid_interests(size, topics, seed=0) for size in (nodes, many))
    rows = bench(interests, more, partial(click.echo, err=True))
    printed(rows, GOSSIP, as_json)


@command.command()
@whole_option("--stored", 100_000, "Messages in the history.", least=1000)
@click.option(
    "--directory",
    type=DIRECTORY,
    help="Keep the history there; one that is there already, of as many messages, is used.",
)
@json_option("a list of rows")
def history(stored: int, directory: Path | None, as_json: bool) -> None:
    """Measure storing messages, replaying them, and finding a few of them.

        reefcast-lab bench history --stored 10000000 --directory /tmp/history

    The baselines are plain SQLite with the same tables, and DuckDB over the
    sealed segments. Where a history is kept already, what it lacks is added.
    Ten million messages take 5 GB and some ten minutes.
    """
    from reefcast_lab.bench.history import bench, duckdb_is_missing

    printed(bench(stored, directory, partial(click.echo, err=True)), HISTORY, as_json)
    if not as_json and duckdb_is_missing():
        click.echo("DuckDB is not installed, so one baseline is missing: pip install duckdb")
