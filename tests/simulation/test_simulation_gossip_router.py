"""Random networks of gossip under load, judged from outside: connections that are opened, shared and
closed, brokers that crash, messages that are lost."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_gossip_scenarios import (
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
from test_simulation_kernel import Rows, to_the_microsecond

from reefcast.model.trace import KINDS
from reefcast.overlay.topology import random_tree
from reefcast.routing.gossip.options import GossipOptions
from reefcast.simulation.checkers import check
from reefcast.simulation.faults import Crash
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.plain import PlainKernel
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Result, Simulation
from reefcast.simulation.world import Setup, World

NUMBERS = st.integers(0, 2**32)


def check_run(number: int) -> None:
    simulation = gossip_run(number)
    check(simulation).require()
    assert demanded(simulation) - set(delivered(simulation)) == set()
    assert sum(router.counters["unsent"] for router in live_routers(simulation).values()) == 0
    assert simulation.result().discards.get("link_lost", 0) == 0


@settings(max_examples=15, deadline=None)
@given(NUMBERS)
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


@settings(max_examples=10, deadline=None)
@given(NUMBERS)
def test_after_crashes_all_live_subscribers_are_reached_again(number: int) -> None:
    check_crashes(number)


def check_repair(number: int) -> None:
    simulation = lossy_run(number)
    check(simulation).require()
    assert demanded(simulation) - set(delivered(simulation)) == set()


@settings(max_examples=10, deadline=None)
@given(NUMBERS)
def test_with_repair_all_is_delivered_though_one_message_in_five_is_lost(number: int) -> None:
    check_repair(number)


@pytest.mark.soak
def test_many_random_networks_of_gossip(trace_folder: Path) -> None:
    for number in range(500):
        check_run(number)
        check_crashes(number)
        check_repair(number)
        check_twins(number, trace_folder)
        assert settled_deliveries(number, "gossip") == settled_deliveries(number, "flooding")


# --- against flooding, and against the plain kernel -----------------------------------------------


def settled_deliveries(number: int, routing: str) -> list[tuple[str, int, str, int]]:
    """What is delivered of publications after all subscriptions have settled."""
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


@settings(max_examples=10, deadline=None)
@given(NUMBERS)
def test_with_all_neighbours_it_delivers_what_flooding_delivers(number: int) -> None:
    assert settled_deliveries(number, "gossip") == settled_deliveries(number, "flooding")


def outcome(kernel: type[World], number: int, folder: Path) -> tuple[Result, Rows]:
    """A random scenario; all that it wrote, sorted."""
    trace = TraceOptions(folder, snapshot_s=0.37)
    simulation = gossip_run(number, kernel=kernel, trace=trace, most=12)
    rows = {
        (broker, kind): sorted(zip(*recorder.columns(kind), strict=True), key=repr)
        for broker, recorder in simulation.world.record.recorders.items()
        for kind in KINDS
    }
    return simulation.result(), rows


def check_twins(number: int, folder: Path) -> None:
    fast, fast_rows = outcome(Kernel, number, folder)
    plain, plain_rows = outcome(PlainKernel, number, folder)
    for key, rows in plain_rows.items():
        assert fast_rows[key] == rows, key
    assert to_the_microsecond(fast) == to_the_microsecond(plain)


@pytest.fixture(scope="session")
def trace_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gossip")


@settings(max_examples=5, deadline=None)
@given(NUMBERS)
def test_both_kernels_write_the_same_trace_of_gossip(trace_folder: Path, number: int) -> None:
    check_twins(number, trace_folder)


# --- settlement -----------------------------------------------------------------------------------


def small(brokers: int, **options: object) -> Setup:
    """Brokers b01 and so on, of which the first two are contacts."""
    graph = {f"b{number:02}": [] for number in range(1, brokers + 1)}
    contacts = GossipOptions(contacts=("b01", "b02"), **options)  # type: ignore[arg-type]  # tests
    return Setup(graph=graph, routing="gossip", options=contacts)


def test_who_settles_gets_what_others_publish_from_then_on() -> None:
    """Each joins, and at that moment somebody publishes: not a step later."""
    simulation = Simulation(small(12, round_s=0.7))
    rng = random.Random(1)
    brokers = list(simulation.setup.graph)
    for number, broker in enumerate(brokers):
        simulation.subscribe(f"c{number}", broker, "topic = 't'", simulation.now_s)
        claim = simulation.world.clients[f"c{number}"].claims
        simulation.run(until_s=simulation.now_s + 1e-4)
        while math.isinf(claim[0].settled_s):
            simulation.run(until_s=simulation.now_s + 1e-4)
        assert number == 0 or gossip_of(simulation, broker).memberships["t"].overlay.view
        publisher = rng.choice(brokers[: number + 1])
        simulation.publish(f"p{publisher}", publisher, {}, simulation.now_s, topics=("t",))
        simulation.run(until_s=simulation.now_s + rng.choice((0.01, 0.3, 1.0)))
    simulation.run(until_s=simulation.now_s + 5.0)
    per_client = [sum(1 for row in delivered(simulation) if row[2] == f"c{n}") for n in range(12)]
    assert per_client == list(range(12, 0, -1))


def test_a_subscription_does_not_settle_before_its_broker_is_met() -> None:
    simulation = Simulation(replace(small(4), faults=[Crash("b01", 0.5), Crash("b02", 0.5, 30.0)]))
    simulation.subscribe("first", "b03", "topic = 't'", 0.0)
    simulation.subscribe("late", "b04", "topic = 't'", 1.0)
    simulation.run(until_s=20.0)
    assert gossip_of(simulation, "b04").memberships["t"].overlay.view == ()
    simulation.run(until_s=80.0)
    assert gossip_of(simulation, "b04").memberships["t"].overlay.view != ()
