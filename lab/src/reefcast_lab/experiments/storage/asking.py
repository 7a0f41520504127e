"""A placement at work: simulated brokers, storages where it puts them, and clients that ask.

Clients ask by the rates: which one asks next, and about which topic, is drawn by them; the times
are those of a Poisson process. Each asks for what was published in the last seconds, so that an
answer is a few publications: how far it comes does not depend on how long it is. All placements get
the same questions.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

from reefcast.errors import InternalError
from reefcast.model.publication import Publication
from reefcast.model.topics import topic_filter
from reefcast.overlay.topology import edges_of
from reefcast.pipeline.planning.placement.inputs import Inputs, Placement, storages_of
from reefcast.simulation.clients import Asked
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.simulation import Result, Simulation
from reefcast.simulation.wire.faults import Wire
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.storage.parameters import section

START_S = 10.0
"""When all storages are known everywhere, and have asked each other what they lack; publications
start. Storages that come up together know of no others: each answers at once, asks again after 5 s,
and then has the answers stay open for 2 s (`storage_node`)."""
NO_WAY = LinkSpec(latency_s=1e-6)
"""Between a client and its broker: what is measured is the way between brokers."""


class Answered(NamedTuple):
    """What was measured: links from a client's broker to the storage's, and seconds to the end of
    the answer (means); the share of the answers that the busiest storage gave; messages between
    brokers for a question and its answer; copies sent between brokers of a publication."""

    mean_hops: float
    answer_s: float
    busiest_share: float
    messages: float
    copies_sent: float


def answered(made: Inputs, placement: Placement, scale: str, seed: int) -> Answered:
    """Return the answers of one run. Raises `InternalError` if a question was not answered with
    what was published, or not by the nearest storage."""
    simulation = Simulation(_setup(made, scale, seed), wire=Wire(client_link=NO_WAY))
    for storage in storages_of(placement):
        name = f"storage at {storage.broker}"
        simulation.store(name, storage.broker, storage.topics, 0.0, lifetime_s=_lifetime_s(scale))
    rng = random.Random(f"{seed}/storage/questions")
    end_s = _ask(simulation, made, scale, rng)
    _publish(simulation, made, end_s, scale, rng)
    before = simulation.run(until_s=START_S).messages
    result = simulation.run()
    _check(result, settle_s=1.0)
    for asked in result.asked:
        _check_way(asked, made, placement)
    return _measured(result, before)


def _lifetime_s(scale: str) -> float:
    lifetime_s: float = section("placement", scale).lifetime_s
    return lifetime_s


def _setup(made: Inputs, scale: str, seed: int) -> Setup:
    tree = len(edges_of(made.graph)) == len(made.graph) - 1
    return Setup(
        graph=made.graph,
        routing="acyclic" if tree else "flooding",
        seed=seed,
        link=LinkSpec(latency_s=section("placement", scale).link_s),
        keep_deliveries=False,
    )


def _ask(simulation: Simulation, made: Inputs, scale: str, rng: random.Random) -> float:
    """Ask all questions, once enough has been published; return the time of the last one."""
    entries = section("placement", scale)
    who = list(product(made.topics, made.brokers))
    rates = made.rates.ravel().tolist()
    at_s: float = START_S + entries.asked_s
    for topic, broker in rng.choices(who, rates, k=entries.questions):
        at_s += rng.expovariate(sum(rates))
        simulation.request(
            f"client at {broker}",
            broker,
            topic_filter([topic]),
            at_s,
            since_s=at_s - entries.asked_s,
        )
    return at_s


def _publish(
    simulation: Simulation, made: Inputs, end_s: float, scale: str, rng: random.Random
) -> None:
    """Publish from one client for each topic, at some broker, at even intervals."""
    interval_s = 1.0 / section("placement", scale).publications_per_s
    for number, topic in enumerate(made.topics):
        client, broker = f"publisher {number}", rng.choice(made.brokers)
        simulation.advertise(client, broker, topic_filter([topic]), 0.0)
        at_s = START_S + interval_s * rng.random()
        while at_s < end_s:
            simulation.publish(client, broker, {}, at_s, topics=(topic,))
            at_s += interval_s


def _check(result: Result, settle_s: float) -> None:
    """Check that each answer has everything published on the topic in the time asked about; events
    younger than `settle_s` may be under way."""
    by_topic: dict[str, list[Publication]] = {}
    for one in result.published:
        by_topic.setdefault(one.publication.topics[0], []).append(one.publication)
    for asked in result.asked:
        question = asked.question
        assert question.since_us is not None
        mine = [p for p in by_topic[question.topics[0]] if p.time_us >= question.since_us]
        must = {p.id for p in mine if p.time_us < (asked.asked_s - settle_s) * 1e6}
        found = set(asked.found)
        if asked.error or not must <= found <= {p.id for p in mine}:
            raise InternalError(f"{asked}: should have found {sorted(must)}")


def _check_way(asked: Asked, made: Inputs, placement: Placement) -> None:
    """Check that one of the nearest storages of the topic answered, over a shortest path."""
    (topic,) = asked.question.topics
    hops = made.hops[made.brokers.index(asked.broker)]
    nearest = min(int(hops[made.brokers.index(kept)]) for kept in placement[topic])
    if list(asked.hops.values()) != [nearest]:
        raise InternalError(f"{asked}: {nearest} hops to the nearest storage")


def _measured(result: Result, before: Mapping[str, int]) -> Answered:
    by_storage = Counter(name for asked in result.asked for name in asked.hops)
    questions = len(result.asked)
    kinds = ("request", "items", "end")
    about = sum(result.messages.get(kind, 0) - before.get(kind, 0) for kind in kinds)
    return Answered(
        mean_hops=sum(sum(asked.hops.values()) for asked in result.asked) / questions,
        answer_s=sum(asked.ended_s - asked.asked_s for asked in result.asked) / questions,
        busiest_share=max(by_storage.values()) / questions,
        messages=about / questions,
        copies_sent=result.messages["publish"] / len(result.published),
    )
