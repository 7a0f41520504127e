"""Random networks under load and faults, judged by the checkers; and tests of the checkers."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_scenarios import harmful_faults, harmless_faults, random_scripts, random_setup

from reefcast.overlay.topology import names, path
from reefcast.simulation.checkers import check
from reefcast.simulation.costs import CostModel
from reefcast.simulation.faults import Crash, Drop
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

NUMBERS = st.integers(0, 2**32)


def run_without_loss(number: int, routing: str) -> Simulation:
    rng = random.Random(number)
    setup = random_setup(rng, routing)
    simulation = Simulation(replace(setup, faults=harmless_faults(setup, rng)))
    random_scripts(simulation, rng)
    simulation.run(limit=100_000)
    random_scripts(simulation, rng, start_s=simulation.now_s + 0.1)
    simulation.run(limit=100_000)
    check(simulation).require()
    return simulation


EVERY = ("acyclic", "flooding", "spr", "idr", "tid-s", "tid-d")


@settings(max_examples=30, deadline=None)
@given(NUMBERS, st.sampled_from(EVERY))
def test_exactly_once_in_order_with_true_tables(number: int, routing: str) -> None:
    run_without_loss(number, routing)


def run_crashes(number: int, routing: str) -> None:
    rng = random.Random(number)
    setup = random_setup(rng, routing)
    simulation = Simulation(replace(setup, faults=harmful_faults(setup, rng)))
    random_scripts(simulation, rng)
    simulation.run(limit=100_000)
    random_scripts(simulation, rng, start_s=simulation.now_s + 0.1)
    simulation.run(limit=100_000)
    report = check(simulation).require()
    assert report.delivered == report.expected


@settings(max_examples=30, deadline=None)
@given(NUMBERS, st.sampled_from(EVERY))
def test_after_crashes_the_network_heals(number: int, routing: str) -> None:
    run_crashes(number, routing)


def settled_deliveries(number: int, routing: str, like: str) -> list[tuple[str, int, str, int]]:
    """Subscribe and advertise, wait until the network is quiet, and publish; return what was
    delivered, on an overlay for the routing `like`."""
    rng = random.Random(number)
    setup = random_setup(rng, like)
    simulation = Simulation(replace(setup, routing=routing))
    random_scripts(simulation, rng)
    simulation.run()
    start = simulation.now_s
    brokers = list(setup.graph)
    for at in range(20):
        client = f"p{rng.randrange(3)}"
        broker = brokers[int(client[1:]) % len(brokers)]
        simulation.publish(client, broker, {"a": rng.randint(0, 5), "s": "x"}, start + at * 1e-3)
    simulation.run()
    rows = simulation.deliveries()
    late = rows.published_us >= start * 1e6 - 1
    every = zip(rows.publisher, rows.seq.tolist(), rows.client, rows.number.tolist(), strict=True)
    return sorted(row for row, is_late in zip(every, late.tolist(), strict=True) if is_late)


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(NUMBERS, st.sampled_from(("acyclic", "spr", "idr", "tid-s", "tid-d")))
def test_each_routing_delivers_what_flooding_delivers(number: int, routing: str) -> None:
    found = settled_deliveries(number, routing, routing)
    assert found == settled_deliveries(number, "flooding", routing)


@pytest.mark.soak
def test_many_random_networks() -> None:
    for number in range(3_000):
        for routing in EVERY:
            run_without_loss(number, routing)
            run_crashes(number, routing)


# --- the checkers see what is wrong ---------------------------------------------------------------


def small_run(faults: tuple[Drop, ...] = ()) -> Simulation:
    simulation = Simulation(Setup(graph=path(names(3)), faults=faults))
    simulation.subscribe("alice", "b3", "price < 100", 0.0)
    for i in range(5):
        simulation.publish("bob", "b1", {"price": 90}, 1.0 + i)
    simulation.run()
    return simulation


def test_a_correct_run_has_no_problems() -> None:
    report = check(small_run())
    assert report.correct
    assert (report.expected, report.delivered) == (5, 5)


def test_values_are_those_that_clients_send() -> None:
    simulation = Simulation(Setup(graph=path(names(3))))
    simulation.subscribe("alice", "b3", "order.price < 10 AND order.day > '2026-01-01'", 0.0)
    for day in (1, 2):
        order = {"price": Decimal("9.95"), "day": date(2026, 1, day)}
        simulation.publish("bob", "b1", {"order": order}, 1.0)
    simulation.run()
    report = check(simulation)
    assert (report.correct, report.delivered) == (True, 1)


def test_what_a_fault_took_is_not_demanded_but_counted() -> None:
    simulation = small_run((Drop(1.0, from_s=2.5),))
    report = check(simulation)
    assert report.correct
    assert (report.expected, report.delivered) == (2, 2)
    assert simulation.result().discards == {"fault": 3}


def test_a_trace_says_on_the_way_where_a_publication_was_lost(tmp_path: Path) -> None:
    """One publication is dropped on a link. When b3 crashes, it has delivered one and is serving
    the next, and one is about to leave b2; another follows while b3 is away."""
    setup = Setup(
        graph=path(names(3)),
        costs=replace(CostModel(), publication_s=0.1),
        faults=(Drop(1.0, to_s=1.5), Crash("b3", 2.35)),
        link=LinkSpec(latency_s=0.01),
        trace=TraceOptions(tmp_path),
    )
    simulation = Simulation(setup)
    simulation.subscribe("alice", "b3", "price < 100", 0.0)
    for at_s in (1.0, 2.0, 2.1, 2.14, 3.0):
        simulation.publish("bob", "b1", {"price": 90}, at_s)
    simulation.run()
    rows = pq.read_table(tmp_path / "discard").to_pylist()
    lost = sorted((row["seq"], row["broker"], row["link"], row["reason"]) for row in rows)
    assert lost == [
        (1, "b1", "b2", "fault"),
        (3, "b3", None, "link_lost"),
        (4, "b2", "b3", "link_lost"),
        (5, "b2", "b3", "link_lost"),
    ]


@pytest.mark.parametrize(
    ("checker", "tamper"),
    [
        ("lost", lambda record: (record.delivered.pop(), record.delivered_at.pop())),
        (
            "duplicated",
            lambda record: (
                record.delivered.append(record.delivered[-1]),
                record.delivered_at.append(record.delivered_at[-1]),
            ),
        ),
        ("reordered", lambda record: record.delivered.reverse()),
        ("unexpected", lambda record: record.delivered_at.__setitem__(0, -1.0)),
    ],
)
def test_each_checker_sees_what_is_wrong(checker: str, tamper) -> None:
    simulation = small_run()
    tamper(simulation.world.record)
    assert check(simulation).problems[checker]


def test_a_wrong_table_is_seen() -> None:
    simulation = small_run()
    prt = simulation.world.nodes["b2"].core.router.prt
    prt.remove(("alice", 1), "b3")
    assert len(check(simulation).problems["tables"]) == 1


def test_a_run_that_is_cut_short_is_not_quiet() -> None:
    simulation = Simulation(Setup(graph=path(names(3))))
    simulation.publish("bob", "b1", {"price": 90}, 1.0)
    simulation.run(until_s=0.5)
    assert check(simulation).problems["not_quiet"]
