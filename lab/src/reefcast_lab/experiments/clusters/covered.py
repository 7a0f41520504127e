"""Subscriptions that cover each other inside clusters, and roots that go; x is the covering degree.

Campaigns: subscriptions of a class in one cluster, or spread over all; and for comparison the same
subscriptions on one tree of the same brokers, where all of them meet.

The place of a routing is taken by a covering mode: of SPR, or of `acyclic` on the tree. SPR refuses
"incremental", which prunes by statistics of advertisements: those do not travel inside clusters.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from reefcast.overlay.scot import Scot
from reefcast.overlay.topology import spanning_tree
from reefcast.routing.registry import routing_named
from reefcast.simulation.checkers import CheckFailedError
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.clusters.parameters import NAME as PAPER
from reefcast_lab.experiments.clusters.parameters import section
from reefcast_lab.experiments.clusters.population import Event, Wish, owed, wishes
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.octopia.measuring import evaluation_overlay
from reefcast_lab.experiments.octopia.parameters import costs, wires
from reefcast_lab.experiments.parameters import Section

TOGETHER, SPREAD, TREE = "together", "spread", "tree"
MODES = ("none", "lazy", "active", "packing")
ANSWERS = ("publish", "settled", "synced", "relearned")
"""Messages that are not about subscriptions."""
START_S, SETTLE_S = 1.0, 5.0


def together_runs(scale: str) -> list[Run]:
    return _runs(TOGETHER, scale, MODES)


def spread_runs(scale: str) -> list[Run]:
    return _runs(SPREAD, scale, MODES)


def tree_runs(scale: str) -> list[Run]:
    return _runs(TREE, scale, (*MODES, "incremental"))


def _runs(campaign: str, scale: str, modes: Sequence[str]) -> list[Run]:
    entries = section("covering", scale)
    return runs_of(PAPER, campaign, scale, modes, entries.x, entries.seeds)


def simulation(mode: str, overlay: Scot, seed: int, *, tree: bool) -> Simulation:
    """Return OctopiA's network with nobody in it yet, with this mode of covering; or a spanning
    tree of it."""
    wired, routing = wires(""), "acyclic" if tree else "spr"
    return Simulation(
        Setup(
            graph=spanning_tree(overlay.graph) if tree else overlay.graph,
            routing=routing,
            scot=None if tree else overlay,
            seed=seed,
            costs=costs(""),
            link=wired.link,
            sender=wired.sender,
            options=routing_named(routing).options(covering=mode),
            keep_deliveries=False,
        )
    )


def measure(run: Run) -> list[Measure]:
    """Measure the tables with all subscriptions, what each root's going causes, and the tables and
    publications afterwards. Raises `CheckFailedError` unless all that is owed is delivered."""
    entries, overlay = section("covering", run.scale), evaluation_overlay()
    clusters = [list(overlay.graph)]
    if run.campaign == TOGETHER:
        clusters = [overlay.cluster(index) for index in range(overlay.clusters)]
    wanted = wishes(clusters, entries, int(run.x), run.seed)
    simulated = simulation(run.routing, overlay, run.seed, tree=run.campaign == TREE)
    handles = _settle(simulated, wanted, entries, run.seed)
    subscribed = about_subscriptions(simulated.result().messages)
    figures = {
        "rows": rows(simulated),
        "subscribe_messages": subscribed / len(wanted),
        "messages_before": _publish(simulated, wanted, entries, f"{run.seed}/before"),
    }
    left, bursts = _leave(simulated, wanted, handles, entries)
    figures |= {
        "burst": sum(bursts) / len(bursts),
        "largest_burst": float(max(bursts)),
        "rows_after": rows(simulated),
        "messages_after": _publish(simulated, left, entries, f"{run.seed}/after"),
    }
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def _settle(
    simulated: Simulation, wanted: Sequence[Wish], entries: Section, seed: int
) -> dict[str, int]:
    """Have all advertise and subscribe, without congestion; return the handles by client."""
    brokers = list(simulated.setup.graph)
    rng = random.Random(f"{seed}/clusters/publishers")
    for number in range(entries.publishers):
        filter = f"class IS NOT NULL AND price BETWEEN 0 AND {entries.prices - 1}"
        simulated.advertise(f"p{number}", rng.choice(brokers), filter, START_S + number)
    at_s = START_S + entries.publishers + SETTLE_S
    handles = {}
    for one in wanted:
        handles[one.client] = simulated.subscribe(one.client, one.broker, one.filter, at_s)
        at_s += entries.gap_s
    simulated.advance()
    return handles


def _publish(simulated: Simulation, wanted: Sequence[Wish], entries: Section, seed: str) -> float:
    """Publish events of classes and prices drawn evenly; return the messages for each."""
    rng = random.Random(f"{seed}/clusters/events")
    kinds = 1 + max(one.kind for one in wanted)
    events = [
        Event(rng.randrange(kinds), rng.randrange(entries.prices)) for _ in range(entries.events)
    ]
    before = simulated.result()
    at_s = simulated.now_s + 1.0
    for event in events:
        publisher = f"p{rng.randrange(entries.publishers)}"
        broker = simulated.world.clients[publisher].broker
        attributes = {"class": event.kind, "price": event.price}
        simulated.publish(publisher, broker, attributes, at_s)
        at_s += rng.expovariate(entries.rate_per_s)
    after = simulated.run()
    came = after.delivered_subscriptions - before.delivered_subscriptions
    if came != owed(wanted, events):
        raise CheckFailedError(f"{came} deliveries of {owed(wanted, events)} owed")
    return (after.messages["publish"] - before.messages["publish"]) / len(events)


def _leave(
    simulated: Simulation, wanted: Sequence[Wish], handles: Mapping[str, int], entries: Section
) -> tuple[list[Wish], list[int]]:
    """Have roots go one after the other; return who is left, and how many messages about
    subscriptions each of them caused."""
    roots = [one for one in wanted if one.root][: entries.leavers]
    bursts = []
    for one in roots:
        before = about_subscriptions(simulated.result().messages)
        simulated.withdraw(handles[one.client], simulated.now_s + entries.leave_gap_s)
        bursts.append(about_subscriptions(simulated.run().messages) - before)
    gone = {one.client for one in roots}
    return [one for one in wanted if one.client not in gone], bursts


def about_subscriptions(messages: Mapping[str, int]) -> int:
    """Return how many of these messages are about subscriptions: not publications, nor answers."""
    counted = Counter(messages)
    return counted.total() - sum(counted[kind] for kind in (*ANSWERS, "advertise"))


def rows(simulated: Simulation) -> float:
    """Return the rows of a PRT, mean over the brokers."""
    tables = [node.core.tables() for node in simulated.world.nodes.values()]
    return sum(each["PRT"] for each in tables) / len(tables)


X = "subscriptions that a root covers"
CAMPAIGNS = (
    Campaign(TOGETHER, X, together_runs, measure),
    Campaign(SPREAD, X, spread_runs, measure),
    Campaign(TREE, X, tree_runs, measure),
)
