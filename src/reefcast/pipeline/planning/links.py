"""A plan of soft links of a mesh that would have paid off, from the trace of a run on the tree
alone.

A publication that went from A over X and Y to B would have gone from A to B at once, over a soft
link, if X and Y only passed it on: had a subscriber there wanted it, or had it gone on from there
to two brokers, they would have got it all the same (strategy S2: each anchor directly unless a
closer one lies on its path). So for each pair of brokers within Delta we count the publications for
which all brokers between were such relays: what the link would have carried. Each of them spares as
many messages as it bypasses brokers, and the gain is the paper's (`routing.mesh.gains`):

    gain = publications * (distance - 1) * loadScaling

The gains of two links that bypass the same brokers do not add up. What is chosen are the links of
the most gain that `fanout` leaves room for at both ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast.overlay.topology import Graph, edges_of, hops_from, is_tree
from reefcast.pipeline.analysis import read_kind
from reefcast.pipeline.planning.plan import Plan, Row
from reefcast.routing.mesh.gains import load_scaling

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "a STRING, b STRING, distance BIGINT, publications BIGINT, spared BIGINT, gain DOUBLE, "
    "chosen BOOLEAN"
)
PAIRS = "a STRING, b STRING, distance BIGINT, publications BIGINT"


class Rules(NamedTuple):
    """`delta`: the farthest that a soft link reaches, in hops; `fanout`: primary and soft links of
    a broker together; `capacity_per_s`: publications a second that a broker can send (None: nobody
    is overloaded), `threshold`: of it, what a broker must exceed to be worth bypassing."""

    delta: int
    fanout: int
    capacity_per_s: float | None
    threshold: float


# --- from a trace --------------------------------------------------------------------------------


def read(
    spark: SparkSession, directory: Path, brokers: Sequence[str], delta: int
) -> tuple[list[Row], dict[str, float]]:
    """Read the pairs (`PAIRS`), and the rates of brokers, from a trace."""
    messages = read_kind(spark, directory, "message")
    found = paths(messages, read_kind(spark, directory, "delivery"), brokers)
    pairs: list[Row] = [row.asDict() for row in carried(found, delta).collect()]
    rates = sent_per_s(messages, brokers).collect()
    return pairs, {row["broker"]: row["rate"] or 0.0 for row in rates}


def paths(messages: DataFrame, deliveries: DataFrame, brokers: Sequence[str]) -> DataFrame:
    """Return path, publications, hops (array of sender, receiver), served (array of brokers): a row
    for each different path that publications took, with how many took it."""
    id = ("publisher", "seq")
    between = (F.col("message") == "publish") & F.col("link").isin(list(brokers))
    hops = messages.where(between).select(
        *id, F.struct("broker", F.col("link").alias("to")).alias("hop"), F.lit(None).alias("at")
    )
    ends = deliveries.select(*id, F.lit(None).alias("hop"), F.col("broker").alias("at"))
    of_one = hops.unionByName(ends).groupBy(*id)
    taken = of_one.agg(
        F.sort_array(F.collect_set("hop")).alias("hops"),
        F.sort_array(F.collect_set("at")).alias("served"),
    ).where(F.size("hops") > 0)
    counted = taken.groupBy("hops", "served").agg(F.count("*").alias("publications"))
    path = F.xxhash64("hops", "served").alias("path")
    return counted.select(path, "publications", "hops", "served")


def carried(paths: DataFrame, delta: int) -> DataFrame:
    """Return a, b, distance, publications: what a link from a to b would have carried in place of
    those between (`PAIRS`), for each distance from 2 to `delta`."""
    steps = paths.select("path", "publications", "served", F.explode("hops").alias("hop")).select(
        "path", "publications", "served", F.col("hop.broker").alias("a"), F.col("hop.to").alias("b")
    )
    onward = steps.groupBy("path", F.col("a").alias("relay")).agg(
        F.count("*").alias("copies"),
        F.first("b").alias("next"),
        F.first(F.array_contains("served", F.col("a"))).alias("ends"),
    )
    relays = onward.where((F.col("copies") == 1) & ~F.col("ends")).select("path", "relay", "next")
    chains = steps.select("path", "publications", "a", "b")
    found = []
    for distance in range(2, delta + 1):
        chains = chains.join(
            relays, (chains["path"] == relays["path"]) & (chains["b"] == relays["relay"])
        ).select(chains["path"], "publications", "a", F.col("next").alias("b"))
        found.append(chains.withColumn("distance", F.lit(distance).cast("bigint")))
    every = found[0]
    for more in found[1:]:
        every = every.unionByName(more)
    return (
        every.groupBy("a", "b", "distance")
        .agg(F.sum("publications").alias("publications"))
        .orderBy("a", "b")
        .select("a", "b", "distance", "publications")
    )


def sent_per_s(messages: DataFrame, brokers: Sequence[str]) -> DataFrame:
    """Return broker, rate: publications a second that it sent to brokers, over the time of all."""
    between = (F.col("message") == "publish") & F.col("link").isin(list(brokers))
    sent = messages.where(between)
    lasted = sent.agg((F.max("time_us") - F.min("time_us")) / 1e6)
    counts = sent.groupBy("broker").agg(F.count("*").alias("sent"))
    return counts.select("broker", F.try_divide("sent", lasted.scalar()).alias("rate"))


# --- the plan ------------------------------------------------------------------------------------


def check(run: Mapping[str, Any], graph: Graph, given: Rules) -> None:
    """Raise `ConfigurationError`, with the numbers, for a trace that does not tell of every
    message, an overlay that is no tree, or rules that leave no room."""
    if run.get("level", "full") != "full":
        raise ConfigurationError(
            f"the trace is of level {run['level']}, which lacks messages that tell the path of "
            "a publication: take one of level full"
        )
    if not is_tree(graph):
        raise ConfigurationError(
            f"{len(graph)} brokers with {len(edges_of(graph))} links are not a tree: soft links "
            "are planned from the trace of a run whose overlay is one, without soft links"
        )
    most = max(len(around) for around in graph.values())
    if given.fanout <= min(len(around) for around in graph.values()):
        raise ConfigurationError(
            f"fanout = {given.fanout} leaves no broker room for a soft link: there are up to "
            f"{most} primary ones"
        )


def plan_links(
    graph: Graph, pairs: Sequence[Row], rates: Mapping[str, float], given: Rules
) -> Plan:
    """Plan links; `pairs` as `carried` returns them, both directions of a link together."""
    publications: dict[tuple[str, str], int] = {}
    for pair in pairs:
        ends = (min(pair["a"], pair["b"]), max(pair["a"], pair["b"]))
        publications[ends] = publications.get(ends, 0) + pair["publications"]
    loads = {
        broker: rate / given.capacity_per_s if given.capacity_per_s else 0.0
        for broker, rate in rates.items()
    }
    rows: list[dict[str, Any]] = []
    for (a, b), count in publications.items():
        bypassed = between(graph, a, b)
        spared = count * len(bypassed)
        scaling = load_scaling(bypassed, loads, given.threshold)
        rows.append(
            {
                "a": a,
                "b": b,
                "distance": len(bypassed) + 1,
                "publications": count,
                "spared": spared,
                "gain": spared * scaling,
            }
        )
    rows.sort(key=lambda row: (-row["gain"], row["a"], row["b"]))
    return Plan(SCHEMA, _chosen(graph, rows, given), _figures(graph, rows, rates))


def between(graph: Graph, a: str, b: str) -> list[str]:
    """Return the brokers between two others on the path in a tree."""
    hops = hops_from(graph, b)
    path, here = [], a
    while hops[here] > 1:
        here = next(near for near in graph[here] if hops[near] == hops[here] - 1)
        path.append(here)
    return path


def _chosen(graph: Graph, rows: Sequence[Row], given: Rules) -> list[Row]:
    """Choose links, best first, as far as both ends have room."""
    room = {broker: given.fanout - len(around) for broker, around in graph.items()}
    chosen: list[Row] = []
    for row in rows:
        ends = (row["a"], row["b"])
        takes = row["gain"] > 0 and all(room[end] > 0 for end in ends)
        for end in ends if takes else ():
            room[end] -= 1
        chosen.append({**row, "chosen": takes})
    return chosen


def _figures(graph: Graph, rows: Sequence[Row], rates: Mapping[str, float]) -> dict[str, float]:
    return {
        "brokers": len(graph),
        "links that would have paid": len(rows),
        "messages spared by the best one": max((row["spared"] for row in rows), default=0),
        "publications a second, the broker that sent most": max(rates.values(), default=0.0),
    }


# --- drawn ---------------------------------------------------------------------------------------


def draw(figure: Figure, plan: Plan, graph: Graph) -> None:
    """Draw the tree, and the chosen links across it: the wider, the more they would have saved."""
    from matplotlib.patches import FancyArrowPatch

    from reefcast.pipeline.drawing import CORAL, INK, TEAL
    from reefcast.pipeline.layout import positions

    place = positions(tuple(graph), edges_of(graph))
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    for a, b in edges_of(graph):
        axes.plot(*zip(place[a], place[b], strict=True), color=INK, alpha=0.35, linewidth=1)
    chosen = [row for row in plan.rows if row["chosen"]]
    most = max((row["gain"] for row in chosen), default=1.0)
    for row in chosen:
        link = FancyArrowPatch(
            place[row["a"]],
            place[row["b"]],
            connectionstyle="arc3,rad=0.25",
            arrowstyle="-",
            color=CORAL,
            linewidth=0.5 + 3.5 * row["gain"] / most,
            zorder=1,
        )
        axes.add_patch(link)
    for broker, (x, y) in place.items():
        axes.scatter([x], [y], s=60, color=TEAL, zorder=2)
        axes.annotate(
            broker, (x, y), (0, -6), textcoords="offset points", ha="center", va="top", fontsize=8
        )
