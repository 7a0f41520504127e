"""Interests that move from one side of the overlay to the other during the run; x is the seconds in
which all of them move.

A client that moves subscribes at its new broker and, a moment later, withdraws at the old one, as
live clients do whose broker is drained: for that moment events may reach it twice, and none should
be lost.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from reefcast.model.messages import Deliver
from reefcast.model.publication import PublicationId
from reefcast.overlay.scot import Scot
from reefcast.overlay.topology import hops_from
from reefcast.simulation.recording import BrokerTrace
from reefcast.simulation.simulation import Simulation
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.columns import Columns
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.octopia.grid import ALL
from reefcast_lab.experiments.octopia.measuring import evaluation_overlay, simulation
from reefcast_lab.experiments.skew.crowd import (
    Interest,
    crowd,
    delay_figures,
    load_figures,
)
from reefcast_lab.experiments.skew.parameters import NAME as PAPER
from reefcast_lab.experiments.skew.parameters import section

NAME = "moving"


class Heard(Columns):
    """Also remembers which client got which event."""

    def __init__(self, brokers: Sequence[str]) -> None:
        super().__init__(brokers)
        self.pairs: set[tuple[str, PublicationId]] = set()

    def handed_out(self, trace: BrokerTrace | None, deliver: Deliver, at: float) -> None:
        super().handed_out(trace, deliver, at)
        id = deliver.publish.publication.id
        self.pairs.update((client, id) for client in deliver.to)


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, ALL, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    entries, overlay = section(NAME, run.scale), evaluation_overlay()
    near, far = sides(overlay)
    homes = crowd(list(overlay.graph), run.scale, run.seed).homes
    start = replace(crowd(near, run.scale, run.seed), homes=homes)
    simulated, kernel = simulation(run, overlay)
    heard = kernel.record = Heard(list(overlay.graph))
    handles, at_s = start.settle(simulated)
    before = simulated.result().messages
    kernel.watched_from_s = moves_s = at_s + entries.before_s
    rate_per_s = section("crowd", run.scale).rate_per_s
    events = start.publish(simulated, at_s, entries.lasts_s, rate_per_s, run.seed)
    _move(simulated, start.interests, handles, far, (moves_s, run.x, entries.overlap_s), run.seed)
    result = simulated.run()
    topics = {
        each.publication.id: each.publication.attributes["about"] for each in result.published
    }
    figures = {
        **delay_figures(kernel, moves_s),
        **load_figures(kernel),
        "messages": (result.messages["publish"] - before["publish"]) / events.total(),
        "control": _control(result.messages, before) / len(start.interests),
        "lost_share": _lost_share(start.interests, topics, heard.pairs),
    }
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def sides(overlay: Scot) -> tuple[list[str], list[str]]:
    """Return the brokers of the two sides of the tree: the half of the labels that is nearest to
    the first one, in all clusters, and the others."""
    labels = list(overlay.tree)
    hops = hops_from(overlay.tree, labels[0])
    near = set(sorted(labels, key=lambda label: (hops[label], label))[: len(labels) // 2])
    here = [name for name in overlay.graph if overlay.places[name].region in near]
    return here, [name for name in overlay.graph if name not in here]


def _move(
    simulated: Simulation,
    interests: Sequence[Interest],
    handles: Sequence[int],
    far: Sequence[str],
    span: tuple[float, float, float],
    seed: int,
) -> None:
    from_s, lasts_s, overlap_s = span
    rng = random.Random(f"{seed}/skew/moves")
    for number, (interest, handle) in enumerate(zip(interests, handles, strict=True)):
        at_s = from_s + rng.uniform(0.0, lasts_s)
        simulated.subscribe(f"m{number}", rng.choice(far), interest.filter, at_s)
        simulated.withdraw(handle, at_s + overlap_s)


def _control(messages: Mapping[str, int], before: Mapping[str, int]) -> int:
    """Return how many control messages were sent between brokers since `before`."""
    return sum(count - before.get(kind, 0) for kind, count in messages.items() if kind != "publish")


def _lost_share(
    interests: Sequence[Interest],
    topics: Mapping[PublicationId, object],
    pairs: set[tuple[str, PublicationId]],
) -> float:
    """Return the share of the events that a client is owed and got at neither of its brokers."""
    owed = list(_owed(interests, topics))
    lost = sum((f"s{n}", id) not in pairs and (f"m{n}", id) not in pairs for n, id in owed)
    return lost / max(1, len(owed))


def _owed(
    interests: Sequence[Interest], topics: Mapping[PublicationId, object]
) -> Iterator[tuple[int, PublicationId]]:
    about: dict[object, list[PublicationId]] = {}
    for id, topic in topics.items():
        about.setdefault(topic, []).append(id)
    for number, interest in enumerate(interests):
        for topic in interest.topics:
            for id in about.get(topic, ()):
                yield number, id


CAMPAIGN = Campaign(NAME, "s in which all interests move", runs, measure)
