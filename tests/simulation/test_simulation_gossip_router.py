"""Random networks of gossip under load, judged from outside: connections that are opened, shared
and closed, brokers that crash, messages that are lost."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import networkx as nx
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from plain_kernel import PlainKernel
from simulation_gossip_scenarios import (
    Pair,
    crashing_run,
    delivered,
    demanded,
    gossip_of,
    gossip_run,
    gossip_setup,
    live_routers,
    lossy_run,
    publish_some,
    some_filter,
    topic_graphs,
)
from simulation_twins import check_twins, to_the_microsecond

from reefcast.model.filters import parse_filter
from reefcast.model.topics import topics_of
from reefcast.overlay.topology import random_tree
from reefcast.routing.gossip.messages import TopicMessage
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.router import Gossip
from reefcast.simulation.checkers import check
from reefcast.simulation.costs import preset
from reefcast.simulation.faults import Crash
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import Link, LinkSpec
from reefcast.simulation.node import Node
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.signs import SoftUp
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

NUMBERS = st.integers(0, 2**32)


def just_left(simulation: Simulation, pair: Pair) -> bool:
    """Return whether somebody had just left a topic of the publication. Some of those who stay may
    then be cut off, until the next waves reveal it (as in number 111942)."""
    result = simulation.result()
    publication = next(p.publication for p in result.published if p.publication.id == pair[:2])
    at_s = publication.time_us / 1e6
    options = simulation.setup.options
    assert isinstance(options, GossipOptions)
    waves_s = 3 * options.wave_rounds * options.round_s + 1.0
    return any(
        claim.ended_s < at_s < claim.ended_s + waves_s
        and set(publication.topics) & set(topics_of(parse_filter(claim.filter)) or ())
        for claim in result.claims
    )


def check_run(number: int) -> None:
    simulation = gossip_run(number)
    check(simulation).require()
    missed = demanded(simulation) - set(delivered(simulation))
    assert {pair for pair in missed if not just_left(simulation, pair)} == set()
    assert sum(router.counters["unsent"] for router in live_routers(simulation).values()) == 0
    assert simulation.result().discards.get("link_lost", 0) == 0


@pytest.mark.long
@settings(max_examples=5, deadline=None)
@given(NUMBERS)
@example(111942)
def test_exactly_once_while_brokers_enter_and_leave_topics(number: int) -> None:
    check_run(number)


def check_crashes(number: int) -> None:
    simulation, again_s = crashing_run(number)
    check(simulation).require()
    assert demanded(simulation, again_s) - set(delivered(simulation)) == set()
    live = live_routers(simulation)
    for topic, graph in topic_graphs(simulation).items():
        assert all(other in live and topic in live[other].memberships for other in graph)
        assert nx.is_strongly_connected(graph)


@pytest.mark.long
@settings(max_examples=3, deadline=None)
@given(NUMBERS)
def test_after_crashes_all_live_subscribers_are_reached_again(number: int) -> None:
    check_crashes(number)


def check_repair(number: int) -> None:
    simulation = lossy_run(number)
    check(simulation).require()
    options = simulation.setup.options
    assert isinstance(options, GossipOptions)
    # What is lost on all paths comes when neighbours compare, which takes rounds.
    owed = demanded(simulation, on_the_way_s=options.kept_rounds * options.round_s)
    assert owed
    assert owed - set(delivered(simulation)) == set()


@pytest.mark.long
@settings(max_examples=3, deadline=None)
@given(NUMBERS)
@example(28690)  # its last delivery comes after four rounds
def test_with_repair_all_is_delivered_though_one_message_in_five_is_lost(number: int) -> None:
    check_repair(number)


@pytest.mark.soak
def test_many_random_networks_of_gossip(trace_folder: Path) -> None:
    for number in range(500):
        check_run(number)
        check_crashes(number)
        check_repair(number)
        check_kernels(number, trace_folder)
        check_agreement(number)
        assert settled_deliveries(number, "gossip") == settled_deliveries(number, "flooding")


# --- against flooding, and against the plain kernel -----------------------------------------------


def settled_deliveries(number: int, routing: str) -> list[tuple[str, int, str, int]]:
    """Return what is delivered of publications after all subscriptions have settled."""
    rng = random.Random(f"settled {number}")
    setup, topics = gossip_setup(rng, 20), rng.randint(1, 8)
    if routing == "flooding":
        tree = random_tree(list(setup.graph), random.Random(number))
        setup = replace(setup, routing=routing, graph=tree, options=None)
    simulation = Simulation(setup)
    brokers = list(setup.graph)
    for client in range(rng.randint(5, 40)):
        home, wanted = rng.choice(brokers), some_filter(rng, topics)
        simulation.subscribe(f"c{client}", home, wanted, rng.uniform(0.0, 2.0))
    homes = {f"q{client}": rng.choice(brokers) for client in range(3)}
    for _ in range(40):
        publish_some(simulation, rng, homes, topics, rng.uniform(6.0, 9.0))
    simulation.run(until_s=15.0)
    return sorted(delivered(simulation))


@pytest.mark.long
@settings(max_examples=4, deadline=None)
@given(NUMBERS)
def test_with_all_neighbours_it_delivers_what_flooding_delivers(number: int) -> None:
    assert settled_deliveries(number, "gossip") == settled_deliveries(number, "flooding")


def check_kernels(number: int, folder: Path) -> None:
    """Compare the kernels on a random scenario."""
    trace = TraceOptions(folder, snapshot_s=0.37)
    check_twins(lambda kernel: gossip_run(number, kernel=kernel, trace=trace, most=12))


@pytest.fixture(scope="session")
def trace_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gossip")


@pytest.mark.long
@settings(max_examples=3, deadline=None)
@given(NUMBERS)
def test_both_kernels_write_the_same_trace_of_gossip(trace_folder: Path, number: int) -> None:
    check_kernels(number, trace_folder)


@pytest.mark.long
@settings(max_examples=2, deadline=None)
@given(NUMBERS)
def test_both_kernels_agree_on_gossip_that_crashes_and_loses(number: int) -> None:
    check_agreement(number)


def check_agreement(number: int) -> None:
    crashed = [crashing_run(number, kernel=k, most=7)[0].result() for k in (Kernel, PlainKernel)]
    lossy = [lossy_run(number, kernel=k, most=6).result() for k in (Kernel, PlainKernel)]
    for fast, plain in (crashed, lossy):
        assert to_the_microsecond(fast) == to_the_microsecond(plain)


# --- settlement -----------------------------------------------------------------------------------


def small(brokers: int, **options: object) -> Setup:
    """Return a network of brokers b01, b02, ..., of which the first two are contacts."""
    graph = {f"b{number:02}": [] for number in range(1, brokers + 1)}
    contacts = GossipOptions(contacts=("b01", "b02"), **options)  # type: ignore[arg-type]  # tests
    return Setup(graph=graph, routing="gossip", options=contacts)


@pytest.mark.long
def test_who_settles_gets_what_others_publish_from_then_on() -> None:
    """Brokers join one by one, and somebody publishes as soon as the new one has settled."""
    simulation = Simulation(small(9, round_s=0.7))
    rng = random.Random(1)
    brokers = list(simulation.setup.graph)
    for number, broker in enumerate(brokers):
        simulation.subscribe(f"c{number}", broker, "topic = 't'", simulation.now_s)
        simulation.run(until_s=simulation.now_s + 5e-3)
        while math.isinf(simulation.world.clients[f"c{number}"].claims[0].settled_s):
            simulation.run(until_s=simulation.now_s + 5e-3)
        publisher = rng.choice(brokers[: number + 1])
        simulation.publish(f"p{publisher}", publisher, {}, simulation.now_s, topics=("t",))
        simulation.run(until_s=simulation.now_s + rng.choice((0.01, 0.3, 1.0)))
    simulation.run(until_s=simulation.now_s + 5.0)
    got = Counter(client for _, _, client, _ in delivered(simulation))
    assert [got[f"c{number}"] for number in range(9)] == [*range(9, 0, -1)]


def test_who_finds_no_contact_joins_when_one_is_back() -> None:
    simulation = Simulation(replace(small(4), faults=[Crash("b01", 0.5), Crash("b02", 0.5, 30.0)]))
    simulation.subscribe("first", "b03", "topic = 't'", 0.0)
    simulation.subscribe("late", "b04", "topic = 't'", 1.0)
    simulation.run(until_s=20.0)
    assert gossip_of(simulation, "b04").memberships["t"].overlay.view == ()
    simulation.publish("p", "b03", {}, 60.0, topics=("t",))
    simulation.run(until_s=61.0)
    assert sorted(client for _, _, client, _ in delivered(simulation)) == ["first", "late"]


# --- privacy --------------------------------------------------------------------------------------


class Listening(Kernel):
    """A simulation that records messages. `said`: what both ends of each connection sent, in order.
    A connection is open at once: otherwise one that another topic has opened already would be
    quicker, and what comes later might find other neighbours."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.said: dict[tuple[str, str], list[Any]] = defaultdict(list)

    def send(self, node: Node, out: Link, message: Any, size: int, at: float, session: int) -> None:
        self.said[node.name, out.target].append(message)
        usual = out.spec
        if isinstance(message, SoftUp):
            out.spec = replace(usual, latency_s=0.0)
        super().send(node, out, message, size, at, session)
        out.spec = usual


AT_ONCE = 1e18
"""Bytes per second: messages sent at one instant do not delay each other."""


def with_other_topics(number: int, others: bool) -> Listening:
    """Return a run in which all are in topic `a`. If `others` is set, some join up to five more
    topics, a hundred milliseconds after `a`: until then, connections that are not open yet take
    longer."""
    rng = random.Random(number)
    options = {"repair": rng.random() < 0.5, "seed": rng.getrandbits(32), "wave_rounds": 3}
    setup = replace(small(rng.randint(4, 14), **options), costs=preset("free"), seed=number)
    setup = replace(setup, link=LinkSpec(1e-3, AT_ONCE))
    simulation = Simulation(setup, Listening)
    for client, broker in enumerate(setup.graph):
        at_s = rng.uniform(0.0, 3.0)
        leaves_s = rng.choice((math.inf, at_s + rng.uniform(2.0, 5.0)))
        handle = simulation.subscribe(f"c{client}", broker, "topic = 'a'", at_s)
        if leaves_s < math.inf:
            simulation.withdraw(handle, leaves_s)
        further = [(topic, 3.2 + rng.random()) for topic in "bcdef" if rng.random() < 0.5]
        for topic, at_s in further if others else ():
            simulation.subscribe(f"d{client}", broker, f"topic = '{topic}'", at_s)
    simulation.run(until_s=9.0)
    assert isinstance(simulation.world, Listening)
    return simulation.world


def about(said: list[Any], topic: str) -> list[TopicMessage]:
    """Return the messages about that topic, without their tokens."""
    return [
        msgspec.structs.replace(message, token=0)
        for message in said
        if isinstance(message, TopicMessage) and message.topic == topic
    ]


@pytest.mark.long
@settings(max_examples=3, deadline=None)
@given(NUMBERS)
@example(338)
def test_what_is_said_about_a_topic_does_not_depend_on_other_topics(number: int) -> None:
    """All messages about topic `a` between any two brokers are the same, in content and order."""
    alone, among = with_other_topics(number, False), with_other_topics(number, True)
    pairs = {pair for world in (alone, among) for pair in world.said}
    assume(any(about(among.said[pair], topic) for pair in pairs for topic in "bcdef"))
    for pair in pairs:
        assert about(alone.said[pair], "a") == about(among.said[pair], "a"), pair


@pytest.mark.long
@settings(max_examples=3, deadline=None)
@given(NUMBERS)
def test_tokens_say_nothing_about_what_is_said_to_others(number: int) -> None:
    for said in with_other_topics(number, True).said.values():
        tokens = [m.token for m in said if isinstance(m, TopicMessage) and m.token]
        assert tokens == [*range(1, len(tokens) + 1)]


def test_topics_go_to_those_only_who_are_in_them_and_to_their_contacts() -> None:
    world = with_other_topics(3, True)
    for (sender, receiver), said in world.said.items():
        for message in said:
            if isinstance(message, TopicMessage):
                for name in (sender, receiver):
                    router = world.nodes[name].core.router
                    assert isinstance(router, Gossip)
                    there = message.topic in router.memberships
                    assert (
                        there or message.topic == "a" or name in router.contacts_of(message.topic)
                    )
