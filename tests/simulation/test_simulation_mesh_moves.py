"""Primary links that move under load: nothing is lost or duplicated, and afterwards all brokers
know the tree as it is then."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plain_kernel import PlainKernel
from simulation_mesh_scenarios import failing_run, mesh_routers, moving_run

from reefcast.errors import ConfigurationError
from reefcast.matching.scan import ScanIndex
from reefcast.overlay.topology import (
    Edge,
    Graph,
    edges_of,
    graph,
    hops_from,
    is_tree,
    names,
    path,
)
from reefcast.routing.mesh.movable import MovableMesh
from reefcast.routing.mesh.options import MeshOptions
from reefcast.simulation.checkers import CHECKERS, Evidence, check
from reefcast.simulation.faults import Crash, Fault, Move, parse_fault
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.table_truth import next_hops
from reefcast.simulation.world import Setup

NUMBERS = st.integers(0, 2**32)


def primary_links(simulation: Simulation) -> Graph:
    return {name: sorted(router.brokers) for name, router in mesh_routers(simulation).items()}


def done(simulation: Simulation) -> tuple[int, int]:
    """Return the numbers of moves that were done, and that were given up."""
    counters = [node.core.counters for node in simulation.world.nodes.values()]
    return sum(c["moved"] for c in counters), sum(c["moves_given_up"] for c in counters)


def check_tree(simulation: Simulation) -> None:
    """Check that every broker's links, MOM and advertisements are those of one tree."""
    tree = primary_links(simulation)
    assert is_tree(tree)
    assert {n: sorted(node.neighbours) for n, node in simulation.world.nodes.items()} == tree
    publishers = {
        row.id: (name, row.last_hop)
        for name, router in mesh_routers(simulation).items()
        for row in router.srt
        if row.local
    }
    for name, router in mesh_routers(simulation).items():
        assert router.moving is None
        hops, mom = hops_from(tree, name), router.mesh.mom
        near = {x for x in tree if 0 < hops[x] <= mom_delta(router)}
        assert set(mom.brokers) == near
        assert all(mom.closer[x] == next_hops(tree, name)[x] for x in near)
        assert {row.id: row.last_hop for row in router.srt} == {
            id: client if home == name else next_hops(tree, home)[name]
            for id, (home, client) in publishers.items()
        }


def mom_delta(router: MovableMesh) -> int:
    return router.mesh.options.delta


def check_run(number: int) -> None:
    simulation = moving_run(number)
    report = check(simulation).require()
    assert report.delivered == report.expected
    asked = sum(isinstance(fault, Move) for fault in simulation.setup.faults)
    assert sum(done(simulation)) == asked
    check_tree(simulation)
    check_idle(simulation)


def check_idle(simulation: Simulation) -> None:
    """Check that nobody waits for a permission, and that the coordinator waits for nobody."""
    for router in mesh_routers(simulation).values():
        last = router.permissions.last
        assert last is None or last.step != "grant"
        assert router.permissions.grant() is None


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(NUMBERS)
def test_exactly_once_while_primary_links_move(number: int) -> None:
    check_run(number)


@pytest.mark.long
@settings(max_examples=5, deadline=None)
@given(NUMBERS)
def test_both_kernels_move_alike(number: int) -> None:
    fast, plain = moving_run(number, Kernel), moving_run(number, PlainKernel)
    one, other = fast.result(), plain.result()
    assert (one.messages, one.counters, one.unseed) == (
        other.messages,
        other.counters,
        other.unseed,
    )
    assert primary_links(fast) == primary_links(plain)
    assert check(plain).correct


@pytest.mark.soak
def test_many_moves() -> None:
    for number in range(3_000):
        check_run(number)


# --- brokers that fail ----------------------------------------------------------------------------


def check_after(simulation: Simulation, since_s: float) -> None:
    """Check everything; only what was published before `since_s` may be lost."""
    evidence = Evidence(simulation)
    problems = {name: checker(evidence) for name, checker in CHECKERS.items() if name != "lost"}
    assert not any(problems.values()), problems
    times = {p.publication.id: p.publication.time_us / 1e6 for p in simulation.result().published}
    missing = evidence.demanded - set(evidence.delivered)
    assert [pair for pair in missing if times[pair[0], pair[1]] >= since_s] == []


def check_failing(number: int) -> None:
    run = failing_run(number)
    check_after(run.simulation, run.since_s)
    tree = primary_links(run.simulation)
    assert run.move.new in tree[run.move.broker]
    assert run.move.new == run.move.old or run.move.old not in tree[run.move.broker]
    check_tree(run.simulation)
    check_idle(run.simulation)


@pytest.mark.long
@settings(max_examples=5, deadline=None)
@example(919093)  # a crash while the sign of a link that it opened waited at the other end
@given(NUMBERS)
def test_a_broker_that_fails_ends_a_move_and_the_next_one_is_granted(number: int) -> None:
    check_failing(number)


@pytest.mark.soak
def test_many_moves_with_brokers_that_fail() -> None:
    for number in range(2_000):
        check_failing(number)


# --- single moves ---------------------------------------------------------------------------------


def simulated(
    tree: Graph,
    *faults: Fault,
    slow: dict[Edge, float] | None = None,
    new_s: float = 1e-3,
    **options: Any,
) -> Simulation:
    """Return a simulation of a mesh. `slow`: latencies of links of the tree, in seconds; `new_s`:
    that of all soft links."""
    chosen = MeshOptions(**{"coordinator": min(tree), "round_s": 1.0, **options})
    links = {edge: LinkSpec((slow or {}).get(edge, 1e-3)) for edge in edges_of(tree)}
    return Simulation(
        Setup(
            graph=tree,
            routing="mesh",
            faults=faults,
            options=chosen,
            links=links,
            link=LinkSpec(new_s),
            index=ScanIndex,
        )
    )


def traffic(simulation: Simulation, publisher: str, subscriber: str, seconds: int = 4) -> None:
    simulation.subscribe("s", subscriber, "x >= 0", at_s=0.0)
    simulation.advertise("p", publisher, "x >= 0", at_s=0.1)
    for i in range(seconds * 200):
        simulation.publish("p", publisher, {"x": i}, at_s=0.5 + i / 200)


def test_a_leaf_moves_along_a_chain_in_mid_traffic() -> None:
    """b4 moves from b3 to b2: afterwards copies take one hop less."""
    simulation = simulated(
        path(names(4)), Move("b4", "b3", "b2", 2.5), strategy="S0", maxlinks=2, fanout=2
    )
    traffic(simulation, "b1", "b4")
    result = simulation.run()
    report = check(simulation).require()
    assert report.delivered == 800
    assert primary_links(simulation)["b4"] == ["b2"]
    assert done(simulation) == (1, 0)
    assert 2 * 800 < result.messages["publish"] < 3 * 800
    check_tree(simulation)


def test_far_brokers_hear_of_a_move_only_that_it_is_asked_for() -> None:
    """With Delta = 2 and a chain of ten, b9 and b10 are not affected by a move at the other end."""
    simulation = simulated(path(names(10)), Move("b01", "b02", "b03", 1.0), delta=2)
    simulation.subscribe("s", "b10", "x >= 0", at_s=0.0)
    simulation.advertise("p", "b01", "x >= 0", at_s=0.1)
    simulation.run(until_s=0.9)
    rows = {name: list(router.prt) for name, router in mesh_routers(simulation).items()}
    simulation.run(until_s=5.0)
    assert done(simulation) == (1, 0)
    later = mesh_routers(simulation)
    assert [name for name in rows if list(later[name].prt) == rows[name]] == [
        f"b{i:02}" for i in range(5, 11)
    ]


def test_moves_that_are_asked_for_at_once_are_granted_one_after_the_other() -> None:
    """Both are possible: each moves a leaf of the star to another leaf."""
    star = graph(names(5), [("b1", x) for x in names(5)[1:]])
    simulation = simulated(star, Move("b2", "b1", "b3", 1.0), Move("b4", "b1", "b5", 1.0))
    traffic(simulation, "b2", "b4")
    simulation.run()
    assert check(simulation).require().delivered == 800
    assert done(simulation) == (2, 0)
    assert primary_links(simulation)["b1"] == ["b3", "b5"]
    check_tree(simulation)


@pytest.mark.long
@pytest.mark.parametrize(
    "move",
    [
        Move("b1", "b3", "b4", 1.0),  # b3 is no neighbour
        Move("b1", "b2", "b4", 1.0),  # b4 is too far away
        Move("b3", "b2", "b4", 1.0),  # b4 is on the other side
        Move("b1", "b2", "b2", 1.0),
    ],
)
def test_what_cannot_be_is_given_up(move: Move) -> None:
    tree = path(names(4))
    simulation = simulated(tree, move, Move("b4", "b3", "b2", 2.0), delta=2)
    traffic(simulation, "b1", "b4")
    simulation.run()
    assert check(simulation).require().delivered == 800
    assert done(simulation) == (1, 1)
    assert primary_links(simulation)["b1"] == ["b2"]


def test_without_a_coordinator_nothing_moves() -> None:
    simulation = simulated(path(names(3)), Move("b1", "b2", "b3", 1.0), coordinator="")
    with pytest.raises(ConfigurationError, match="coordinator"):
        simulation.run()


def test_other_routings_do_not_move_links() -> None:
    simulation = Simulation(
        Setup(graph=path(names(3)), faults=[parse_fault("move:broker=b1,old=b2,new=b3,at_s=1")])
    )
    with pytest.raises(ConfigurationError, match="'acyclic' does not move links"):
        simulation.run()


def test_a_move_names_brokers_of_the_network() -> None:
    with pytest.raises(ConfigurationError, match="no broker named 'b9'"):
        Setup(graph=path(names(3)), faults=[Move("b1", "b2", "b9", 1.0)]).validate()


def test_who_moved_moves_back() -> None:
    simulation = simulated(
        path(names(4)),
        Move("b4", "b3", "b2", 1.0),
        Move("b4", "b2", "b3", 2.0),
        Move("b4", "b3", "b2", 3.0),
    )
    traffic(simulation, "b4", "b1")
    simulation.run()
    assert check(simulation).require().delivered == 800
    assert done(simulation) == (3, 0)
    assert primary_links(simulation)["b2"] == ["b1", "b3", "b4"]
    check_tree(simulation)


# --- settlement while links move ------------------------------------------------------------------


def test_an_advertisement_waits_for_those_who_heard_it_by_the_other_tables() -> None:
    """b2 gets the advertisement twice. By the new tables it comes first, and b2 tells b1, which is
    not affected. By the old ones, whose answer the publisher waits for, it comes before b1 has
    answered."""
    simulation = simulated(
        path(names(5)),
        Move("b5", "b4", "b3", 3.0),
        slow={("b4", "b5"): 0.1, ("b1", "b2"): 0.5},
        delta=2,
        coordinator="b5",
    )
    simulation.subscribe("s", "b1", "x >= 0", at_s=0.0)
    simulation.publish("p", "b5", {"x": 1}, at_s=3.15)
    simulation.run()
    assert check(simulation).require().delivered == 1
    assert done(simulation) == (1, 0)


@pytest.mark.long
def test_a_subscription_waits_for_what_stands_for_it_in_the_new_tables() -> None:
    """b5 leaves b4 for b3, over a link so slow that b3 tells it of `c1` long after all others know
    `c2`, which `c1` covers."""
    tree = graph(names(6), [("b1", "b4"), ("b2", "b4"), ("b3", "b4"), ("b4", "b5"), ("b5", "b6")])
    simulation = simulated(
        tree, Move("b5", "b4", "b3", 1.0), new_s=1.0, delta=2, coordinator="b5", covering="lazy"
    )
    simulation.advertise("p", "b6", "x >= 0", at_s=0.1)
    for number in range(110):
        at_s = 0.9 + number * 0.1
        simulation.subscribe(f"c1-{number}", "b1", f"x >= 0 AND y = {number}", at_s=at_s)
        simulation.subscribe(f"c2-{number}", "b2", f"x > 5 AND y = {number}", at_s=at_s + 0.02)
        simulation.publish("p", "b6", {"x": 7, "y": number}, at_s=at_s + 0.06)
    simulation.run()
    report = check(simulation).require()
    assert report.expected == report.delivered > 50
    assert done(simulation) == (1, 0)


# --- single failures ------------------------------------------------------------------------------


def long_move(*faults: Fault, move: Move, coordinator: str = "b9") -> Simulation:
    """Return a run on a chain of nine with links of a fifth of a second, soft ones too: a move
    requested at second 1 takes some seconds. Clients publish all the time, and there is one more
    move later."""
    tree = path(names(9))
    simulation = simulated(
        tree,
        move,
        *faults,
        slow=dict.fromkeys(edges_of(tree), 0.2),
        new_s=0.2,
        delta=2,
        coordinator=coordinator,
    )
    simulation.subscribe("s1", "b1", "x >= 0", at_s=0.0)
    simulation.subscribe("s2", "b9", "x >= 0", at_s=0.0)
    simulation.advertise("p1", "b1", "x >= 0", at_s=0.1)
    simulation.advertise("p2", "b5", "x >= 0", at_s=0.1)
    for i in range(400):
        simulation.publish(f"p{1 + i % 2}", "b1" if i % 2 == 0 else "b5", {"x": i}, 3.0 + i * 0.1)
    return simulation


def half_of(cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the cases; of each pair that differs only in its last parameter, one is for the soak.
    First and second are chosen equally often."""
    return [
        pytest.param(*case, marks=[pytest.mark.soak] if number.bit_count() % 2 else [])
        for number, case in enumerate(cases)
    ]


def moving(simulation: Simulation) -> set[str]:
    return {name for name, router in mesh_routers(simulation).items() if router.moving is not None}


@pytest.mark.long
@pytest.mark.parametrize(
    ("broker", "at_s", "patience_s"),
    half_of(product(["b3", "b4", "b5", "b6", "b7"], [6.5, 8.5, 10.5, 11.5], [0.1, 60.0])),
)
def test_a_move_is_abandoned_when_a_broker_fails_that_it_affects(
    broker: str, at_s: float, patience_s: float
) -> None:
    """The mover is b5, from b4 to b3. The brokers know of *begin*, or also of *build*, or also of
    *switch*."""
    move, crash = Move("b5", "b4", "b3", 4.0), Crash(broker, at_s, at_s + 0.5, patience_s)
    simulation = long_move(crash, move=move)
    simulation.run(until_s=at_s)
    assert broker in moving(simulation)
    simulation.run(until_s=20.0)
    assert not moving(simulation)
    assert done(simulation) == (0, 0 if broker == "b5" else 1)
    assert primary_links(simulation) == path(names(9))
    simulation.world.add_intervention(21.0, partial(simulation.world.move, move))
    simulation.run()
    check_after(simulation, 20.0)
    assert primary_links(simulation)["b5"] == ["b3", "b6"]
    check_tree(simulation)
    check_idle(simulation)


@pytest.mark.long
@pytest.mark.parametrize(
    ("broker", "at_s", "new_tree", "patience_s"),
    half_of(
        (*case, patience_s)
        for case in [
            ("b2", 12.75, True),  # all are dry, and b5 has come to the end
            ("b3", 12.75, True),
            ("b4", 12.75, True),
            ("b5", 12.75, False),  # and nobody else
            ("b6", 12.75, True),
            ("b7", 12.75, True),
            ("b5", 12.95, True),  # b3 has
            ("b4", 12.95, True),
            ("b5", 13.05, True),
            ("b5", 13.5, True),  # all have
            ("b6", 13.5, True),
        ]
        for patience_s in (0.1, 60.0)
    ),
)
def test_at_its_end_a_move_is_carried_out_unless_nobody_knows_of_the_end(
    broker: str, at_s: float, new_tree: bool, patience_s: float
) -> None:
    move = Move("b5", "b4", "b3", 4.0)
    crash = Crash(broker, at_s, at_s + 0.5, patience_s)
    simulation = long_move(crash, move=move)
    simulation.run(until_s=at_s)
    assert broker in moving(simulation)
    simulation.run()
    check_after(simulation, 20.0)
    assert primary_links(simulation)["b5"] == (["b3", "b6"] if new_tree else ["b4", "b6"])
    check_tree(simulation)
    check_idle(simulation)


@pytest.mark.long
@pytest.mark.parametrize("patience_s", [0.1, pytest.param(60.0, marks=pytest.mark.soak)])
def test_a_broker_beside_a_move_fails_and_is_told_what_either_tables_want_said(
    patience_s: float,
) -> None:
    """b8 is behind b7, which is affected; somebody publishes behind each of them all the time."""
    move = Move("b5", "b4", "b3", 4.0)
    for at_s in (4.5, 6.5, 8.5, 10.5, 12.5):
        simulation = long_move(Crash("b8", at_s, at_s + 0.6, patience_s), move=move)
        simulation.subscribe("s3", "b9", "x >= 1", at_s=at_s + 0.7)
        simulation.run()
        check(simulation).require()
        assert done(simulation) == (1, 0)
        check_tree(simulation)
