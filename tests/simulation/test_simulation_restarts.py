"""What neighbours hold for a broker that dies and comes back is delivered (`delivery.md`, P5)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulation_scenarios import FILTERS, random_setup

from reefcast.overlay.scot import scot
from reefcast.overlay.topology import Edge, edges_of, path
from reefcast.routing.gate import HOLD_S
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.neighbour_links import RELEARN_S
from reefcast.simulation.checkers import Evidence, Pair, check
from reefcast.simulation.faults import Crash, Partition
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

NUMBERS = st.integers(0, 2**32)
ROUTINGS = ("flooding", "acyclic", "spr", "idr", "tid-s", "tid-d", "mesh", "spr-mesh", "idr-mesh")
SHAPE = {"mesh": "acyclic", "spr-mesh": "spr", "idr-mesh": "idr"}
Broken = Crash | Partition
Dying = Callable[[Setup, random.Random], list[Broken]]
START_S, LASTS_S = 30.0, 3.0
"""When publishers start, everything having settled, and for how long they publish."""


def small_setup(rng: random.Random, routing: str) -> Setup:
    setup = random_setup(rng, SHAPE.get(routing, routing))
    setup = replace(setup, routing=routing, costs=replace(setup.costs, publication_s=1e-5))
    if routing not in SHAPE:
        return setup
    strategy = rng.choice(("S0", "S1", "S2", "SH"))
    mesh = MeshOptions(strategy=strategy, round_s=0.5) if routing == "mesh" else None
    return replace(setup, options=mesh, broker_options={})


def deaths(setup: Setup, rng: random.Random) -> list[Broken]:
    """Return deaths of one or two brokers, maybe neighbours, which are back within a second or
    two."""
    dead = rng.sample(list(setup.graph), min(rng.randint(1, 2), len(setup.graph)))
    at_s = START_S + rng.uniform(0.3, 1.0)
    return [
        Crash(broker, at_s + rng.choice((0.0, 0.2, 0.7)), at_s + rng.uniform(0.8, 1.8))
        for broker in dead
    ]


def neighbours_die(setup: Setup, rng: random.Random) -> list[Broken]:
    """Return deaths of two neighbours at the same instant."""
    one = rng.choice(list(setup.graph))
    other = rng.choice(list(setup.graph[one]))
    at_s = START_S + rng.uniform(0.3, 1.0)
    return [
        Crash(broker, at_s + rng.choice((0.0, 0.0, 0.01)), at_s + 0.5 + rng.uniform(0.0, 0.1))
        for broker in (one, other)
    ]


def one_stays_away(setup: Setup, rng: random.Random) -> list[Broken]:
    """Return the death of a broker while another one, most often a neighbour, dies too or cannot be
    reached, and returns only after the first broker's patience with it is over."""
    one = rng.choice(list(setup.graph))
    others = list(setup.graph) if rng.random() < 0.3 else setup.graph[one]
    other = rng.choice([name for name in others if name != one])
    at_s = START_S + rng.uniform(0.3, 1.0)
    back_s = at_s + RELEARN_S + rng.uniform(0.8, 3.0)
    crash = Crash(one, at_s, at_s + 0.5)
    if rng.random() < 0.5:
        return [crash, Crash(other, at_s, back_s)]
    return [crash, Partition(links_of(other, setup), at_s, back_s)]


def links_of(broker: str, setup: Setup) -> tuple[Edge, ...]:
    return tuple(edge for edge in edges_of(setup.graph) if broker in edge)


def two_stay_away(setup: Setup, rng: random.Random) -> list[Broken]:
    """Return the death of a broker with many neighbours, two of which are away, each for a time of
    its own."""
    graph = setup.graph
    one = max(graph, key=lambda name: (len(graph[name]), rng.random()))
    others = rng.sample(list(graph[one]), min(2, len(graph[one])))
    at_s = START_S + rng.uniform(0.3, 1)
    faults: list[Broken] = [Crash(one, at_s, at_s + 0.5)]
    for other in others:
        back_s = at_s + 0.5 + RELEARN_S + rng.uniform(0.3, 3)
        away = rng.random() < 0.5
        cut_off = Partition(links_of(other, setup), at_s, back_s)
        faults.append(Crash(other, at_s, back_s) if away else cut_off)
    return faults


def one_comes_and_goes(setup: Setup, rng: random.Random) -> list[Broken]:
    """Return the death of a broker, of which one neighbour can be reached for moments only."""
    one = rng.choice(list(setup.graph))
    other = rng.choice(list(setup.graph[one]))
    from_s = START_S + rng.uniform(0.3, 1)
    faults: list[Broken] = [Crash(one, from_s, from_s + 0.5)]
    for _ in range(3):
        to_s = from_s + rng.uniform(2, 7)
        faults.append(Partition(links_of(other, setup), from_s, to_s))
        from_s = to_s + rng.uniform(0.02, 0.8)
    return faults


def steady_clients(simulation: Simulation, rng: random.Random, lasts_s: float = LASTS_S) -> None:
    """Start subscribers that stay; publishers that stay, and others that come, publish and go."""
    brokers = list(simulation.setup.graph)
    for number in range(6):
        at = rng.choice(brokers)
        simulation.subscribe(f"s{number}", at, rng.choice(FILTERS), rng.uniform(0.0, 1.0))
    for number in range(4):
        publisher, at = f"p{number}", rng.choice(brokers)
        simulation.advertise(publisher, at, "TRUE", rng.uniform(0.0, 1.0))
        for _ in range(60):
            some = {"a": rng.randint(0, 5), "s": rng.choice(("x", "y", "z"))}
            simulation.publish(publisher, at, some, START_S + rng.uniform(0.0, lasts_s))
    for number in range(4):
        guest, at = f"g{number}", rng.choice(brokers)
        come_s = START_S + rng.uniform(0.0, lasts_s - 1.0)
        handle = simulation.advertise(guest, at, "a >= 0", come_s)
        for i in range(5):
            simulation.publish(guest, at, {"a": i, "s": "x"}, come_s + 0.01 * i + 0.01)
        simulation.withdraw(handle, come_s + rng.uniform(0.1, 0.6))


def run_deaths(number: int, routing: str, dying: Dying = deaths) -> Simulation:
    rng = random.Random(number)
    setup = small_setup(rng, routing)
    faults = dying(setup, rng)
    simulation = Simulation(replace(setup, faults=faults))
    over_s = max(f.to_s if isinstance(f, Partition) else f.restart_s for f in faults)
    steady_clients(simulation, rng, max(LASTS_S, over_s + 1.0 - START_S))
    simulation.run(until_s=START_S + 120.0)
    return simulation


def check_deaths(number: int, routing: str, dying: Dying = deaths, least: int = 20) -> Simulation:
    simulation = run_deaths(number, routing, dying)
    report = check(simulation)
    problems = {kind: found for kind, found in report.problems.items() if found}
    problems.pop("not_quiet", None)  # rounds of a mesh go on
    assert not problems
    assert report.delivered == report.expected > least
    for published in simulation.result().published:
        if published.publication.id in simulation.result().damaged:
            at_s = published.publication.time_us / 1e6
            assert any(
                f.at_s - HOLD_S <= at_s <= f.at_s  # so long it may wait in the memory
                for f in simulation.setup.faults
                if isinstance(f, Crash)
            ), f"{published.publication.id}, published at {at_s}, is lost"
    return simulation


def owed(simulation: Simulation) -> set[Pair]:
    """Return what lasting publishers published for lasting subscribers, whatever had settled of the
    advertisements that are made again after a restart; without what a memory lost."""
    evidence, result = Evidence(simulation), simulation.result()
    return {
        pair
        for published in result.published
        if published.publication.publisher.startswith("p")
        and published.publication.id not in result.damaged
        for pair in evidence.settled_pairs(published)
    }


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(NUMBERS, st.sampled_from(ROUTINGS))
@example(2, "tid-s")
@example(46, "tid-s")
@example(8, "tid-d")
def test_only_what_was_in_the_dead_brokers_memory_is_lost(number: int, routing: str) -> None:
    check_deaths(number, routing)


def test_what_waited_for_a_broker_that_has_the_tree_from_elsewhere_now_is_not_lost() -> None:
    """With this number the broker comes back first, and nobody who is left knows from where it had
    the tree."""
    check_deaths(336, "tid-s", neighbours_die)


AWAY = (one_stays_away, two_stay_away, one_comes_and_goes)


@pytest.mark.long
@settings(max_examples=16, deadline=None)
@given(NUMBERS, st.sampled_from(ROUTINGS), st.sampled_from(AWAY))
@example(284, "acyclic", one_stays_away)
@example(20, "mesh", one_stays_away)
@example(1029, "mesh", two_stay_away)
@example(1018, "tid-s", two_stay_away)
@example(331385, "tid-s", two_stay_away)  # torn while its publisher's broker is cut off
@example(115, "tid-d", two_stay_away)
@example(100, "tid-d", one_comes_and_goes)
def test_what_is_for_neighbours_that_stay_away_waits_for_them(
    number: int, routing: str, dying: Dying
) -> None:
    check_who_stays_away(number, routing, dying)


def check_who_stays_away(number: int, routing: str, dying: Dying = one_stays_away) -> None:
    simulation = check_deaths(number, routing, dying, least=-1)
    missing = owed(simulation) - set(Evidence(simulation).delivered)
    assert not missing


@pytest.mark.parametrize("routing", ["spr", "idr"])
@pytest.mark.parametrize("publisher", ["a-0", "a-1"])
def test_those_behind_a_broker_that_misses_a_neighbour_sweep_nothing(
    routing: str, publisher: str
) -> None:
    """The only subscriber is at the neighbour that is away, the publisher two links before it."""
    made = scot(path("abc"), 2)
    links = tuple(edge for edge in edges_of(made.graph) if "c-0" in edge)
    faults = [Crash("b-0", 30.0, 30.5), Partition(links, 30.0, 40.0)]
    simulation = Simulation(
        Setup(graph=made.graph, scot=made, routing=routing, seed=1, faults=faults)
    )
    simulation.subscribe("s", "c-0", "TRUE", 0.0)
    simulation.advertise("p", publisher, "TRUE", 0.0)
    for number in range(40):
        simulation.publish("p", publisher, {"a": number}, 25.0 + 0.5 * number)
    simulation.run(until_s=150.0)
    assert {seq for _, seq, client, _ in Evidence(simulation).delivered} == set(range(1, 41))


@pytest.mark.soak
def test_many_deaths() -> None:
    for number in range(2_000):
        for routing in ROUTINGS:
            check_deaths(number, routing)
            check_who_stays_away(number, routing, AWAY[number % len(AWAY)])
