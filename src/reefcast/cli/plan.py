"""`reefcast plan`: storages, clusters, soft links and covering, from what happened or will."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reefcast.cli.command_line import Group
from reefcast.cli.options import (
    DIRECTORY,
    INPUT_FILE,
    OUTPUT_FILE,
    Number,
    Whole,
    json_option,
    master_option,
    network_argument,
    seed_option,
)
from reefcast.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reefcast.pipeline.planning.placement.inputs import Inputs, Placement, RatesByBroker
    from reefcast.pipeline.planning.plan import Plan
C = TypeVar("C", bound=Callable[..., Any])

TIME_LIMIT_S = 20.0
"""Seconds for the optimum."""

NAMES = {
    "plan": "this plan",
    "grd_opt": "each topic where it is best, without limits",
    "rnd": "topics assigned at random",
    "optimum": "the best that there is",
    "bound": "none is better than",
}


@click.group(cls=Group)
def command() -> None:
    """Plan a network: its storages, clusters, soft links and covering.

        reefcast plan covering subscriptions.parquet

    Spark computes a plan from a log or a trace of the past, or from tables of what is expected. The
    plan is printed beside figures to compare it with, and written as a table and a picture.
    """


def _written(plan: str) -> Callable[[C], C]:
    """Add `--out` and `--draw`, which all plans have; `plan` says as what the plan is written."""
    options = (
        click.option("--out", type=OUTPUT_FILE, help=f"Write the plan to this file, as {plan}."),
        click.option("--draw", type=OUTPUT_FILE, help="Write a drawing to this file, as SVG."),
    )

    def decorate(function: C) -> C:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@command.command()
@network_argument
@click.option(
    "--rates",
    type=INPUT_FILE,
    help="Requests: CSV with the header broker,topic,rate_per_s (requests a second).",
)
@click.option(
    "--log",
    type=DIRECTORY,
    help="In place of --rates: a log of requests, Parquet with time_us, broker and topic, from "
    "which Spark computes the rates.",
)
@master_option
@click.option(
    "--copies",
    type=Whole(1),
    default=2,
    show_default=True,
    help="Storages that keep a topic.",
)
@click.option("--capacity", type=Whole(1), required=True, help="Topics that a storage can keep.")
@click.option(
    "--storages",
    type=Whole(1),
    help="How many storages there are; by default as few as can keep all copies.",
)
@seed_option
@click.option(
    "--out",
    type=OUTPUT_FILE,
    help="Write the plan to this file, for `reefcast network move-storages`.",
)
@click.option("--draw", type=OUTPUT_FILE, help="Write a drawing to this file, as SVG.")
@json_option("the storages, the weights of topics, and mean hops of the plan and of others")
def placement(
    network: Path,
    rates: Path | None,
    log: Path | None,
    master: str,
    copies: int,
    capacity: int,
    storages: int | None,
    seed: int,
    out: Path | None,
    draw: Path | None,
    as_json: bool,
) -> None:
    """Choose the brokers of storages, and the topics that each keeps.

        reefcast plan placement net.toml --rates rates.csv --capacity 5

    Storages are placed near to where requests are made. All topics that storages of NETWORK keep
    are placed, and requests for orders/7 count for orders/#, if that is kept. It prints the plan,
    and the mean distance from a request to the nearest storage of its topic: of the plan, and of
    others to compare it with; of the best plan only for small networks, and if scipy is installed
    (the extra `plan`).

    `reefcast network move-storages` applies the plan.
    """
    from reefcast.network.file import load_network
    from reefcast.pipeline.planning.placement.inputs import inputs
    from reefcast.pipeline.planning.placement.kept import rates_of_kept
    from reefcast.pipeline.planning.placement.steps import place

    file = load_network(network)
    kept = {topic for entry in file.storage for topic in entry.topics}
    asked = rates_of_kept(_rates(rates, log, master), kept)
    made = inputs(file.graph(), asked, copies, capacity, storages)
    steps = place(made)
    hops = compared(made, steps.placement, seed)
    if out:
        out.write_text(_plan_text(made, steps.placement, hops["plan"]), encoding="utf-8")
    if draw:
        from reefcast.pipeline.planning.placement.figure import placement_figure

        draw.write_text(placement_figure(made, steps.placement), encoding="utf-8")
    weights = dict(zip(made.topics, steps.weights.tolist(), strict=True))
    described = _described(made, steps.placement, weights, hops)
    if as_json:
        click.echo(json.dumps(described))
        return
    _print(described)
    for written in filter(None, (out, draw)):
        click.echo(f"wrote {written}")


def _rates(rates: Path | None, log: Path | None, master: str) -> RatesByBroker:
    if (rates is None) == (log is None):
        raise ConfigurationError("give either --rates or --log: where requests are made")
    if rates is not None:
        from reefcast.pipeline.planning.placement.rates_file import load_rates

        return load_rates(rates)
    assert log is not None
    from reefcast.pipeline.session import spark_session

    with spark_session("reefcast plan placement", master) as spark:
        from reefcast.pipeline.planning.placement.request_rates import rates_of_log

        return rates_of_log(spark, log)


def compared(made: Inputs, placement: Placement, seed: int) -> dict[str, float]:
    """Return the mean hops of each of `NAMES`; of the optimum where it was found, else its
    bound."""
    from reefcast.pipeline.planning.placement.baselines import at_random, greedy_without_limits
    from reefcast.pipeline.planning.placement.inputs import mean_hops
    from reefcast.pipeline.planning.placement.optimum import LARGEST, optimum

    hops = {
        "plan": mean_hops(made, placement),
        "grd_opt": mean_hops(made, greedy_without_limits(made)),
        "rnd": mean_hops(made, at_random(made, random.Random(seed))),
    }
    if made.rates.size <= LARGEST and find_spec("scipy"):
        best = optimum(made, TIME_LIMIT_S)
        if best:
            hops |= (
                {"optimum": mean_hops(made, best.placement)}
                if best.proved
                else {"bound": best.bound}
            )
    return hops


def _plan_text(made: Inputs, placement: Placement, hops: float) -> str:
    from reefcast.network.plan_file import dump_plan
    from reefcast.pipeline.planning.placement.inputs import storages_of

    remarks = (
        "Storages and the topics that they keep, made by `reefcast plan placement`:",
        f"{made.copies} copies of each of {len(made.topics)} topics, {made.capacity} topics for a "
        f"storage; {hops:.3f} hops from a request to its storage in the mean.",
    )
    return dump_plan(storages_of(placement), remarks)


def _described(
    made: Inputs, placement: Placement, weights: dict[str, float], hops: dict[str, float]
) -> dict[str, Any]:
    from reefcast.pipeline.planning.placement.inputs import shares_served, storages_of

    shares = shares_served(made, placement)
    return {
        "copies": made.copies,
        "capacity": made.capacity,
        "storages": [
            {"broker": each.broker, "share": shares[each.broker], "topics": list(each.topics)}
            for each in storages_of(placement)
        ],
        "weights": weights,
        "mean_hops": hops,
    }


def _print(described: dict[str, Any]) -> None:
    from rich.table import Table

    from reefcast.cli.terminal import plain_console

    plan = Table("storage at", "answers", "topics")
    for each in described["storages"]:
        plan.add_row(each["broker"], f"{100 * each['share']:.0f} %", ", ".join(each["topics"]))
    hops = Table("mean hops to the nearest storage", "hops", "against this plan")
    mine = described["mean_hops"]["plan"]
    for name, value in described["mean_hops"].items():
        against = f"{100 * (value / mine - 1):+.1f} %" if mine and name != "plan" else ""
        hops.add_row(NAMES[name], f"{value:.3f}", against)
    for table in (plan, hops):
        plain_console().print(table)


# --- plans that are tables -----------------------------------------------------------------------

SUBSCRIPTIONS = click.argument(
    "subscriptions", metavar="SUBSCRIPTIONS", type=click.Path(exists=True, path_type=Path)
)
JSON = json_option("the rows of the plan, and its figures")
SHOWN = 20
"""Rows that people are shown; the file has all."""


@command.command()
@click.argument("events", metavar="EVENTS", type=click.Path(exists=True, path_type=Path))
@SUBSCRIPTIONS
@click.option("--clusters", type=Whole(1), help="Clusters of the SCOT.")
@click.option(
    "--network",
    type=INPUT_FILE,
    help="In place of --clusters: network file of the SCOT at whose brokers the subscribers are "
    "now (column broker), and so at home.",
)
@click.option(
    "--capacity",
    type=Whole(1),
    help="Subscribers that a cluster takes; by default a tenth more than an even share.",
)
@click.option(
    "--away",
    type=Number(0),
    default=0.0,
    show_default=True,
    help="Cost of a delivery to a subscriber that is not in its home cluster, in hops between "
    "clusters.",
)
@click.option(
    "--sample",
    type=Whole(1),
    default=1000,
    show_default=True,
    help="Compute interests from at most this many events.",
)
@master_option
@seed_option
@_written("a Parquet table")
@JSON
def clusters(
    events: Path,
    subscriptions: Path,
    clusters: int | None,
    network: Path | None,
    capacity: int | None,
    away: float,
    sample: int,
    master: str,
    seed: int,
    out: Path | None,
    draw: Path | None,
    as_json: bool,
) -> None:
    """Choose the cluster of each subscriber: subgroups by interest and location.

        reefcast plan clusters events.parquet subscriptions.parquet --clusters 4

    EVENTS has the column event (a number) and one for each attribute; SUBSCRIPTIONS has client and
    filter, and may have cluster: the client's home. A publication takes a hop to each cluster with
    a subscriber for it, so subscribers with the same interests are put into the same cluster.
    """
    from reefcast.pipeline.planning import clusters as planning
    from reefcast.pipeline.planning.tables import read_table
    from reefcast.pipeline.session import spark_session

    count, homes = _clusters_of(clusters, network)
    needed = ["client", "filter", *(["broker"] if homes else [])]
    with spark_session("reefcast plan clusters", master) as spark:
        published = read_table(spark, events, ["event"])
        wanted = read_table(spark, subscriptions, needed)
        wanted = planning.at_home(wanted, homes) if homes else wanted
        made = planning.wants(planning.interests(published, wanted, sample))
    plan = planning.plan_clusters(made, planning.rules(made, count, capacity, away), seed)
    _conclude(plan, planning.draw, out, draw, as_json=as_json)


def _clusters_of(clusters: int | None, network: Path | None) -> tuple[int, dict[str, int]]:
    """Return how many clusters there are, and with a network that of each broker."""
    if clusters is not None and network is None:
        return clusters, {}
    if clusters is not None or network is None:
        raise ConfigurationError("give either --clusters or --network: which clusters there are")
    from reefcast.network.file import load_network

    scot = load_network(network).scot()
    if scot is None:
        raise ConfigurationError(f"{network} is not a SCOT: its brokers have no region and cluster")
    return scot.clusters, {broker: place.cluster for broker, place in scot.places.items()}


@command.command()
@click.argument("directory", metavar="TRACE", type=DIRECTORY)
@click.option(
    "--delta", type=Whole(2), default=4, show_default=True, help="Hops that a soft link spans."
)
@click.option(
    "--fanout",
    type=Whole(1),
    default=35,
    show_default=True,
    help="Primary and soft links of a broker, together.",
)
@click.option(
    "--broker-rate",
    type=Number(0, min_open=True),
    help="Publications per second that a broker can send; by default none is overloaded.",
)
@click.option(
    "--threshold",
    type=Number(0),
    default=0.8,
    show_default=True,
    help="Share of the broker rate above which a broker is worth bypassing.",
)
@master_option
@_written("a Parquet table")
@JSON
def links(
    directory: Path,
    delta: int,
    fanout: int,
    broker_rate: float | None,
    threshold: float,
    master: str,
    out: Path | None,
    draw: Path | None,
    as_json: bool,
) -> None:
    """Choose soft links that would have paid, from a trace.

        reefcast plan links out/trace --fanout 8

    TRACE is that of a run on a tree, at level full. A link counts the publications that it would
    have carried past brokers that only forwarded them. Its gain is that of the mesh: publications
    times bypassed brokers, more if these were overloaded.
    """
    from functools import partial

    from reefcast.overlay.topology import graph
    from reefcast.pipeline.planning import links as planning
    from reefcast.pipeline.session import spark_session
    from reefcast.traces.files import read_run

    run = read_run(directory)
    overlay = graph(run["brokers"], [(a, b) for a, b in run["links"]])
    given = planning.Rules(delta, fanout, broker_rate, threshold)
    planning.check(run, overlay, given)
    with spark_session("reefcast plan links", master) as spark:
        pairs, rates = planning.read(spark, directory, run["brokers"], delta)
    plan = planning.plan_links(overlay, pairs, rates, given)
    _conclude(plan, partial(planning.draw, graph=overlay), out, draw, as_json=as_json)


@command.command()
@SUBSCRIPTIONS
@master_option
@_written("a Parquet table")
@JSON
def covering(
    subscriptions: Path, master: str, out: Path | None, draw: Path | None, as_json: bool
) -> None:
    """Say what covering would save, and what an unsubscription would cause.

        reefcast plan covering subscriptions.parquet

    SUBSCRIPTIONS has subscription (a number) and filter. The plan has a row for each root, a
    subscription that no other covers, with the number of subscriptions to be sent if it is
    withdrawn; their mean is the covering degree of the set.
    """
    from reefcast.pipeline.planning import covering as planning
    from reefcast.pipeline.planning.tables import read_table
    from reefcast.pipeline.session import spark_session

    with spark_session("reefcast plan covering", master) as spark:
        plan = planning.plan_covering(read_table(spark, subscriptions, ["subscription", "filter"]))
    _conclude(plan, planning.draw, out, draw, as_json=as_json)


def _conclude(
    plan: Plan,
    drawn: Callable[[Figure, Plan], None],
    out: Path | None,
    draw: Path | None,
    *,
    as_json: bool,
) -> None:
    """Write what was asked for, and print the plan."""
    from reefcast.pipeline.planning.plan import write_table

    if out:
        write_table(plan, out)
    if draw:
        from reefcast.pipeline.drawing import svg_file

        draw.write_text(
            svg_file("plan", 8.0, 5.0, lambda figure: drawn(figure, plan)), encoding="utf-8"
        )
    if as_json:
        click.echo(json.dumps({"rows": plan.rows, "figures": plan.figures}))
        return
    _print_plan(plan)
    for written in filter(None, (out, draw)):
        click.echo(f"wrote {written}")


def _print_plan(plan: Plan) -> None:
    from rich.table import Table

    from reefcast.cli.terminal import plain_console

    rows = Table(*plan.columns)
    for row in plan.rows[:SHOWN]:
        rows.add_row(*("" if row[name] is None else str(row[name]) for name in plan.columns))
    figures = Table("figure", "value")
    for name, value in plan.figures.items():
        figures.add_row(name, f"{value:.6g}")
    for table in (rows, figures):
        plain_console().print(table)
    if len(plan.rows) > SHOWN:
        click.echo(f"the first {SHOWN} of {len(plan.rows)} rows")
