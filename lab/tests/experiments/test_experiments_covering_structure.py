"""What is counted without simulated time, beside what a simulated network does."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.covering import parameters, structure
from reefcast_lab.experiments.covering.crowd import Crowd, workload
from reefcast_lab.experiments.covering.measuring import CoverKernel, simulation
from reefcast_lab.experiments.covering.settling import settle
from reefcast_lab.experiments.covering.steady import Passage, acyclic
from reefcast_lab.experiments.covering.structure import Structure
from reefcast_lab.experiments.covering.topology import core_topology, outward, way_up

ROOTS, DEGREE, SELECTIVITY, THETA = 5, 30, 0.15, 0.7


@cache
def crowd() -> Crowd:
    return workload(
        core_topology(),
        subscriptions=ROOTS * (DEGREE + 1),
        degree=DEGREE,
        selectivity=SELECTIVITY,
        seed=3,
    )


def network(strategy: str, *, roots_first: bool) -> tuple[CoverKernel, dict[str, int]]:
    """Let the roots go, with *incremental* after 15 000 publications: no share that somebody wants
    of their prices is so near to theta that chance decides (a test says so)."""
    run = Run("covering", "small", "unsubscribing", strategy, 6.0, "", 3)
    simulated, kernel = simulation(run, core_topology(), theta=THETA)
    at_s, handles = settle(simulated, crowd(), "small", 0.02, roots_first=roots_first)
    before = {name: node.core.tables()["PRT"] for name, node in kernel.nodes.items()}
    kernel.subscriptions_came = dict.fromkeys(kernel.nodes, 0)
    if strategy == "incremental":
        stream = crowd().stream(15_000, at_s, 0.05, 3)
        Passage(kernel, core_topology(), crowd()).take(stream, remember=crowd().roots)
        at_s = stream.until_s + 100.0
    for number, root in enumerate(crowd().roots):
        simulated.withdraw(handles[root.client], at_s + 100.0 * number)
    simulated.run()
    return kernel, before


@pytest.mark.parametrize("strategy", ["active", "packing", "lazy", "incremental"])
def test_the_network_has_the_rows_and_gets_the_subscriptions_that_are_counted(
    strategy: str,
) -> None:
    kernel, before = network(strategy, roots_first=strategy != "lazy")
    built = Structure(core_topology(), crowd())
    found = built.counts(crowd().roots, strategy, THETA)
    after = {name: node.core.tables()["PRT"] for name, node in kernel.nodes.items()}
    came = kernel.subscriptions_came
    for counted, there in ((found.before, before), (found.came, came), (found.after, after)):
        assert {**there, **counted} == there  # that is: each broker that is counted has as many
    assert any(found.came.values()) and len(found.came) == 47


def test_chance_does_not_decide_how_far_an_unsubscription_travels() -> None:
    built = Structure(core_topology(), crowd())
    for klass in built.classes:
        for broker in klass.way:
            assert abs(klass.share_met(broker) - THETA) > 0.05


def rows(kernel: CoverKernel) -> dict[str, Counter[tuple[str, str]]]:
    return {
        name: Counter((row.filter.text, row.last_hop) for row in acyclic(node).prt)
        for name, node in kernel.nodes.items()
    }


def test_tables_are_the_same_whether_roots_come_first_or_not() -> None:
    first, random = (network("active", roots_first=early) for early in (True, False))
    assert first[1] == random[1]
    assert rows(first[0]) == rows(random[0])


def test_a_broker_comes_after_those_that_send_to_it() -> None:
    topology = core_topology()
    order = outward(topology)
    assert [*order[:3]] == [*topology.publishers]
    for broker in topology.subscribers:
        way = way_up(topology, broker)
        assert way[0] == broker and way[-1] == topology.publishers[0]
        places = [order.index(one) for one in way[:-1]]
        assert places == sorted(places, reverse=True)


def test_the_paper_scale_counts_what_the_overlay_was_taken_for() -> None:
    """The expectation of NRS with *active*, 649 at A and 23 122 at E: a root lies below a neighbour
    of the broker with the share of the subscribers' brokers that lie there, and so do its narrow
    ones. The paper has about 700 and almost 20 000."""
    topology, entries = core_topology(), parameters.section("unsubscribing", "paper")
    below = Counter[str]()
    for broker in topology.subscribers:
        below.update(way_up(topology, broker))
    expected = {}
    for broker in ("A", "E"):
        children = {
            way[way.index(broker) - 1]
            for way in (way_up(topology, one) for one in topology.subscribers)
            if broker in way[1:]
        }
        shares = sum((below[child] / 29) ** 2 for child in children)
        expected[broker] = shares * entries.roots * entries.degree
    assert expected == {"A": pytest.approx(649, abs=1), "E": pytest.approx(23_122, abs=1)}


def test_runs_are_placements_of_every_degree() -> None:
    entries = parameters.section("unsubscribing", "paper")
    runs = structure.runs("paper")
    assert {run.x for run in runs} == {*map(float, entries.degrees)}
    assert {run.seed for run in runs} == {*range(entries.placements)}
    assert entries.placements >= 8
