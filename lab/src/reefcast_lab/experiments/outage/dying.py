"""A broker dies while events flow, and comes back: for each routing, size and place.

Each run has a twin in which nobody dies. What is measured is the difference between the two, so
that what a routing does all the time (rounds of gossip, reviews of soft links) does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reefcast.routing.registry import ROUTINGS, routing_named
from reefcast.simulation.checkers import CheckFailedError
from reefcast.simulation.faults import Crash
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.table_truth import TRUTHS, Live, Scene, table_faults
from reefcast.simulation.world import Setup, World
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.outage import networks
from reefcast_lab.experiments.outage.flow import (
    Arrivals,
    Flow,
    arrivals,
    flow,
    published,
    share_lost,
)
from reefcast_lab.experiments.outage.networks import Network, client_of
from reefcast_lab.experiments.outage.parameters import NAME, section

BRIEF = "hub_brief"


def leaf_runs(scale: str) -> list[Run]:
    return _runs(networks.LEAF, scale)


def inner_runs(scale: str) -> list[Run]:
    return _runs(networks.INNER, scale)


def hub_runs(scale: str) -> list[Run]:
    return _runs(networks.HUB, scale)


def brief_runs(scale: str) -> list[Run]:
    return _runs(BRIEF, scale)


def _runs(campaign: str, scale: str) -> list[Run]:
    network = section("network", scale)
    xs = network.hub_x if campaign == networks.HUB else network.x
    return runs_of(NAME, campaign, scale, ROUTINGS, xs, section("death", scale).seeds)


@dataclass
class Watched:
    """A simulation, and the messages between brokers by the times at which these were counted:
    control messages, copies of events. `whole_s`: when tables were right again, 0 for never."""

    simulation: Simulation
    counted: dict[float, tuple[int, int]] = field(default_factory=dict)
    whole_s: float = 0.0

    def count(self, now: float) -> None:
        record = self.simulation.world.record
        self.counted[now] = (record.control.total(), record.forwarded)


@dataclass(frozen=True)
class Times:
    """The broker dies, is back, and the run ends."""

    death_s: float
    back_s: float
    end_s: float


def times(run: Run) -> Times:
    entries = section("death", run.scale)
    down_s = entries.brief_s if run.campaign == BRIEF else entries.down_s
    back_s = entries.at_s + down_s
    return Times(entries.at_s, back_s, back_s + entries.after_s)


def measure(run: Run) -> list[Measure]:
    place = networks.HUB if run.campaign == BRIEF else run.campaign
    network, when = networks.network(run, place), times(run)
    with_death = watched(run, network, place, when, dies=True)
    twin = watched(run, network, place, when, dies=False)
    figures = _of_flows(run, network, (with_death, twin), when) | _of_messages(
        with_death, twin, when
    )
    if _has_truth(run.routing):
        figures["whole"] = float(with_death.whole_s > 0.0)
        figures["whole_s"] = (with_death.whole_s or when.end_s) - when.back_s
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def watched(run: Run, network: Network, place: str, when: Times, *, dies: bool) -> Watched:
    """Run the network to its end, and look at its tables once the broker is back, until they are
    right."""
    death = section("death", run.scale)
    crash = Crash(network.dead, when.death_s, when.back_s, death.patience_s)
    setup = Setup(
        graph=network.graph,
        scot=network.scot,
        routing=run.routing,
        seed=run.seed,
        link=LinkSpec(latency_s=section("network", run.scale).latency_s),
        faults=[crash] if dies else [],
        options=networks.options(run, network, place),
    )
    seen = Watched(Simulation(setup))
    network.populate(seen.simulation)
    traffic = section("traffic", run.scale)
    network.publish(seen.simulation, when.end_s, traffic.period_s, traffic.begin_s)
    _look(seen, network, when, death.look_s)
    seen.simulation.advance(until_s=when.end_s)
    seen.count(when.end_s)
    return seen


def _look(seen: Watched, network: Network, when: Times, look_s: float) -> None:
    """Plan the looks at a run: the twin is counted at the same times."""
    world = seen.simulation.world
    assert isinstance(world, World)
    world.add_intervention(when.death_s, seen.count)
    world.add_intervention(when.back_s, seen.count)
    looks = int((when.end_s - when.back_s) / look_s)
    judged = _has_truth(seen.simulation.setup.routing) and bool(seen.simulation.setup.faults)

    def look(now: float) -> None:
        seen.count(now)
        if judged and not seen.whole_s and tables_right(seen.simulation):
            seen.whole_s = now

    for number in range(1, looks):
        world.add_intervention(when.back_s + number * look_s, look)


def _has_truth(routing: str) -> bool:
    """Return whether it is known what the tables of a routing should be."""
    return any(kind in TRUTHS for kind in routing_named(routing).__mro__)


def tables_right(simulation: Simulation) -> bool:
    """Return whether the tables of all brokers say what the clients want now."""
    world = simulation.world
    claims = [
        (
            claim.subscription,
            Live((claim.client, claim.number), client.broker, claim.client, claim.filter),
        )
        for client in world.clients.values()
        for claim in client.standing()
    ]
    scene = Scene(
        {name: list(node.neighbours) for name, node in world.nodes.items()},
        {name: node.core.router for name, node in world.nodes.items()},
        [live for subscription, live in claims if subscription],
        [live for subscription, live in claims if not subscription],
        simulation.setup.scot,
    )
    return not table_faults(routing_named(simulation.setup.routing), scene)


# --- what came of it ------------------------------------------------------------------------------


def _of_flows(
    run: Run, network: Network, both: tuple[Watched, Watched], when: Times
) -> dict[str, float]:
    """Measure gaps and losses: of pairs that are in one piece all the time, of pairs that the death
    cuts off from each other, and of the clients of the dead broker, from its return on. A gap is
    how much later events flow again than in the twin."""
    at_s, (came, usual) = published(both[0].simulation), (arrivals(w.simulation) for w in both)
    period_s = section("traffic", run.scale).period_s
    until_s = when.end_s - 2.0  # what was published later may still be on its way
    flows: dict[bool, list[tuple[Flow, float]]] = {True: [], False: []}
    for publisher, broker, in_one_piece in network.pairs():
        pair = publisher, client_of(broker)
        flows[in_one_piece].append(_gap(pair, at_s, came, usual, (when.death_s, until_s)))
    figures = _summed("", flows[True], period_s) | _summed("cut_", flows[False], period_s)
    own = [
        _gap((publisher, client_of(network.dead)), at_s, came, usual, (when.back_s, until_s))
        for publisher in network.publishers
        if int(publisher[1:]) in network.wanted[network.dead]
    ]
    return figures | {"own_gap_s": max(gap for _, gap in own)}


def _gap(
    pair: tuple[str, str],
    at_s: Mapping[str, Mapping[int, float]],
    came: Arrivals,
    usual: Arrivals,
    span: tuple[float, float],
) -> tuple[Flow, float]:
    """Return the flow of a pair, and how much later than usual it was there again."""
    found = flow(at_s[pair[0]], came.get(pair, {}), *span)
    without = flow(at_s[pair[0]], usual.get(pair, {}), *span)
    if without.lost:
        raise CheckFailedError(f"{pair}: {without.lost} events are lost though nobody died")
    return found, max(0.0, min(found.again_s, span[1]) - without.again_s)


def _summed(prefix: str, flows: list[tuple[Flow, float]], period_s: float) -> dict[str, float]:
    """Measure pairs; those are touched that lost an event, or got the next one later than usual by
    more than a period."""
    if not flows:
        return {}
    gaps = [gap for _, gap in flows]
    lost = [each for each, _ in flows]
    return {
        f"{prefix}gap_s": max(gaps),
        f"{prefix}mean_gap_s": sum(gaps) / len(gaps),
        f"{prefix}touched": sum(each.lost > 0 or gap > period_s for each, gap in flows)
        / len(flows),
        f"{prefix}lost": float(sum(each.lost for each in lost)),
        f"{prefix}lost_share": share_lost(lost),
    }


def _of_messages(run: Watched, twin: Watched, when: Times) -> dict[str, float]:
    """Measure the messages that are more than the twin's: until the broker is back, and from then
    on until tables are right (or to the end, where that is not known)."""
    whole_s = run.whole_s or when.end_s
    marks = (when.death_s, when.back_s, whole_s, when.end_s)
    control = [run.counted[at][0] - twin.counted[at][0] for at in marks]
    copies = [run.counted[at][1] - twin.counted[at][1] for at in marks]
    return {
        "control_down": float(control[1] - control[0]),
        "control_back": float(control[2] - control[1]),
        "control": float(control[2] - control[0]),
        "copies": float(copies[3] - copies[0]),
    }


CAMPAIGNS = (
    Campaign(networks.LEAF, "brokers", leaf_runs, measure),
    Campaign(networks.INNER, "brokers", inner_runs, measure),
    Campaign(networks.HUB, "brokers", hub_runs, measure),
    Campaign(BRIEF, "brokers", brief_runs, measure),
)
