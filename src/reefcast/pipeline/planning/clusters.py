"""A plan of which subscriber joins which cluster of a SCOT: subgroups by interest and location.

A publication takes a hop to each cluster that holds somebody who wants it, and no cluster tells
another of its subscriptions. So subscribers who want the same publications should share a cluster;
but a client that is far from its broker pays for it with every delivery. The cost of a plan:

    clusters entered by a publication (mean over publications that anybody wants)
    + away * deliveries to clients that are not in their home cluster, for each such publication

with at most `capacity` clients in a cluster. Finding the least is hard (it is partitioning a
hypergraph). Here clients are taken by falling interest, each to the cluster where it costs least,
the emptiest of equals; then each may move again, one after the other, as long as that lowers the
cost.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast.pipeline.matching.joins import match
from reefcast.pipeline.matching.shared import parallelism
from reefcast.pipeline.planning.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

SCHEMA = "client STRING, cluster BIGINT, home BIGINT, publications BIGINT"
PASSES = 10
"""Over all clients, at most; most often nothing moves any more after three."""

Assignment = NDArray[np.int64]
"""The cluster of each client."""


class Wants(NamedTuple):
    """`wanted`: [client, publication]; `homes`: each client's cluster by its location, -1 where it
    has none."""

    clients: tuple[str, ...]
    wanted: NDArray[np.bool_]
    homes: Assignment


class Rules(NamedTuple):
    """`clusters` of at most `capacity` clients; `away`: the cost of a delivery to a client that is
    not at home, in hops between clusters."""

    clusters: int
    capacity: int
    away: float


# --- from tables ---------------------------------------------------------------------------------


def at_home(subscriptions: DataFrame, homes: Mapping[str, int]) -> DataFrame:
    """Add a column `cluster`: that of the client's broker.

    Raises `ConfigurationError` for a broker that is in no cluster.
    """
    brokers = sorted(row["broker"] for row in subscriptions.select("broker").distinct().collect())
    strangers = [broker for broker in brokers if broker not in homes]
    if strangers:
        raise ConfigurationError(
            f"{len(strangers)} brokers of subscribers, such as {strangers[0]!r}, are not among the "
            f"{len(homes)} of the network"
        )
    pairs = (F.lit(part) for pair in homes.items() for part in pair)
    return subscriptions.withColumn("cluster", F.create_map(*pairs)[F.col("broker")])


def interests(events: DataFrame, subscriptions: DataFrame, most_events: int) -> DataFrame:
    """Return client, home, events (their numbers): of at most `most_events` events, drawn by a
    hash."""
    number = F.col("event")
    drawn = events.orderBy(F.xxhash64(number), number).limit(most_events)
    sample = drawn.repartition(parallelism(events.sparkSession))  # a limit leaves one partition
    home = F.col("cluster") if "cluster" in subscriptions.columns else F.lit(None)
    who = F.struct("client", home.cast("bigint").alias("home")).alias("who")
    numbered = subscriptions.select(who, "filter")
    pairs = match(sample, numbered, subscription_id="who")
    wanted = pairs.groupBy(F.col("subscription.client").alias("client")).agg(
        F.collect_set("event").alias("events")
    )
    everybody = numbered.groupBy(F.col("who.client").alias("client")).agg(
        F.min("who.home").alias("home")
    )
    nothing = F.array().cast("array<bigint>")
    return (
        everybody.join(wanted, "client", "left")
        .select("client", "home", F.coalesce("events", nothing).alias("events"))
        .orderBy("client")
    )


def wants(interests: DataFrame) -> Wants:
    """Collect who wants which events. Raises `ConfigurationError` where nobody wants anything."""
    rows = interests.collect()
    numbers = sorted({event for row in rows for event in row["events"]})
    if not numbers:
        raise ConfigurationError(
            f"none of {len(rows)} subscribers wants any of the events: there is nothing to tell "
            "their interests from"
        )
    column = {event: i for i, event in enumerate(numbers)}
    wanted = np.zeros((len(rows), len(numbers)), np.bool_)
    for i, row in enumerate(rows):
        wanted[i, [column[event] for event in row["events"]]] = True
    homes = [-1 if row["home"] is None else row["home"] for row in rows]
    return Wants(tuple(row["client"] for row in rows), wanted, np.array(homes, np.int64))


# --- the plan ------------------------------------------------------------------------------------


def rules(made: Wants, clusters: int, capacity: int | None, away: float) -> Rules:
    """Return the rules of a plan. `capacity`: by default a tenth more than an even share. Raises
    `ConfigurationError`, with the numbers, for what no plan can fulfil."""
    clients = len(made.clients)
    if capacity is None:
        capacity = math.ceil(1.1 * clients / clusters)
    if clusters * capacity < clients:
        raise ConfigurationError(
            f"{clusters} clusters x {capacity} subscribers = {clusters * capacity}, but there are "
            f"{clients}: take a capacity of at least {math.ceil(clients / clusters)}"
        )
    strangers = made.homes[(made.homes >= clusters) | (made.homes < -1)]
    if strangers.size:
        raise ConfigurationError(
            f"{strangers.size} subscribers are at home in clusters such as {strangers[0]}, but "
            f"there are {clusters}, from 0 on"
        )
    return Rules(clusters, capacity, away)


def plan_clusters(made: Wants, given: Rules, seed: int) -> Plan:
    """Plan clusters, and compare the plan with others: everybody at home (where all have one), and
    at random."""
    placed = assign(made, given)
    figures = {
        "clusters entered by a publication, this plan": entered(made, placed),
        "at random": entered(made, at_random(made, given, seed)),
        "none is below": 1.0,
        "subscribers in the largest cluster": float(np.bincount(placed).max()),
        "deliveries away from home, share": away_share(made, placed),
    }
    if (made.homes >= 0).all():
        figures["everybody at home"] = entered(made, made.homes)
    rows = [
        {
            "client": client,
            "cluster": int(cluster),
            "home": None if home < 0 else int(home),
            "publications": int(many),
        }
        for client, cluster, home, many in zip(
            made.clients, placed, made.homes, made.wanted.sum(axis=1), strict=True
        )
    ]
    return Plan(SCHEMA, rows, figures)


def entered(made: Wants, placed: Assignment) -> float:
    """Return how many clusters hold somebody who wants a publication: mean over publications."""
    inside = [made.wanted[placed == cluster].any(axis=0) for cluster in np.unique(placed)]
    return float(np.sum(inside, axis=0).mean())


def away_share(made: Wants, placed: Assignment) -> float:
    """Return the share of the deliveries to clients that have a home which are made elsewhere."""
    has_home = made.homes >= 0
    deliveries = made.wanted.sum(axis=1)
    of_all = deliveries[has_home].sum()
    strayed = deliveries[has_home & (made.homes != placed)].sum()
    return float(strayed / of_all) if of_all else 0.0


def cost(made: Wants, placed: Assignment, away: float) -> float:
    """Return what a plan keeps low, as the module says."""
    deliveries = made.wanted.sum(axis=1)
    strayed = deliveries[(made.homes >= 0) & (made.homes != placed)].sum()
    return entered(made, placed) + away * float(strayed) / len(made.wanted[0])


def at_random(made: Wants, given: Rules, seed: int) -> Assignment:
    """Return a random assignment with even shares."""
    places = [i % given.clusters for i in range(len(made.clients))]
    random.Random(seed).shuffle(places)
    return np.array(places, np.int64)


def assign(made: Wants, given: Rules) -> Assignment:
    """Return the cluster of each client; O(passes * clients * clusters * publications)."""
    plan = _Growing(made, given)
    by_interest = np.argsort(-made.wanted.sum(axis=1), kind="stable").tolist()
    for client in by_interest:
        plan.put(client)
    for _ in range(PASSES):
        if sum(map(plan.move, by_interest)) == 0:
            break
    return plan.placed


class _Growing:
    """A plan on its way. `holders`: [cluster, publication], clients there who want it."""

    def __init__(self, made: Wants, given: Rules) -> None:
        self.made, self.given = made, given
        self.placed: Assignment = np.full(len(made.clients), -1, np.int64)
        self.members = np.zeros(given.clusters, np.int64)
        self.holders = np.zeros((given.clusters, made.wanted.shape[1]), np.int64)
        self.deliveries = made.wanted.sum(axis=1)

    def put(self, client: int) -> None:
        """Put a client where it costs least of the clusters that have room, the emptiest of
        equals."""
        costs = self._costs(client)
        room = np.flatnonzero(self.members < self.given.capacity)
        best = min(room.tolist(), key=lambda i: (costs[i], self.members[i], i))
        self._change(client, best, 1)

    def move(self, client: int) -> bool:
        """Move a client to where it costs less, and return whether there is such a place."""
        before = int(self.placed[client])
        self._change(client, before, -1)
        costs = self._costs(client)
        room = np.flatnonzero(self.members < self.given.capacity)
        best = min(room.tolist(), key=lambda i: (costs[i], i))
        best = best if costs[best] < costs[before] else before
        self._change(client, best, 1)
        return best != before

    def _costs(self, client: int) -> NDArray[np.float64]:
        """Return what this client would cost in each cluster: publications that enter it for this
        client alone, and those that it gets away from home."""
        alone = (self.holders[:, self.made.wanted[client]] == 0).sum(axis=1)
        home = self.made.homes[client]
        strays = (np.arange(self.given.clusters) != home) if home >= 0 else 0
        return np.asarray(alone + self.given.away * self.deliveries[client] * strays, np.float64)

    def _change(self, client: int, cluster: int, by: int) -> None:
        self.holders[cluster] += by * self.made.wanted[client]
        self.members[cluster] += by
        self.placed[client] = cluster if by > 0 else -1


# --- drawn ---------------------------------------------------------------------------------------


def draw(figure: Figure, plan: Plan) -> None:
    """Draw how many subscribers each cluster has, by where they are at home."""
    from reefcast.pipeline.drawing import CORAL, TEAL

    clusters = sorted({row["cluster"] for row in plan.rows})
    axes = figure.add_subplot()
    bottom: Mapping[int, int] = dict.fromkeys(clusters, 0)
    kinds: Sequence[tuple[str, str, bool]] = (
        ("at home", TEAL, True),
        ("from elsewhere", CORAL, False),
    )
    for label, colour, here in kinds:
        heights = {
            c: sum(row["cluster"] == c and (row["home"] in (None, c)) == here for row in plan.rows)
            for c in clusters
        }
        names = [str(cluster) for cluster in clusters]
        axes.bar(names, [*heights.values()], bottom=[*bottom.values()], color=colour, label=label)
        bottom = heights
    axes.set_xlabel("cluster")
    axes.set_ylabel("subscribers")
    axes.legend()
