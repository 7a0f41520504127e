"""The truth about tables: it reports each kind of wrong row, and nothing in a correct network."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reefcast.overlay.scot import scot
from reefcast.overlay.topology import path
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.mesh.covering import PerAnchor
from reefcast.routing.mesh.meshed import Meshed
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.router import Router
from reefcast.routing.scot import ScotRouter
from reefcast.routing.tables import Row
from reefcast.routing.tid import TidRouter
from reefcast.simulation.checkers import check
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

MADE = scot(path("abc"), 3)


def run(routing: str) -> Simulation:
    """Return a network with p at a-0; alice at c-1 is interested, bob at a-2 is not."""
    simulation = Simulation(Setup(graph=MADE.graph, routing=routing, scot=MADE))
    simulation.subscribe("alice", "c-1", "x > 0", 0.0)
    simulation.subscribe("bob", "a-2", "x < 0", 0.0)
    simulation.advertise("p", "a-0", "x > 5", 0.1)
    simulation.run()
    return simulation


def problems(routing: str, broker: str, tamper: Callable[[Router], object]) -> list[str]:
    simulation = run(routing)
    tamper(simulation.world.nodes[broker].core.router)
    return check(simulation).problems["tables"]


@pytest.mark.parametrize("routing", ["flooding", "spr", "idr", "tid-s", "tid-d"])
def test_a_network_that_is_right(routing: str) -> None:
    assert check(run(routing)).problems["tables"] == []


def add(router: Router) -> None:
    router.prt.add(Row(("eve", 1), next(iter(router.prt)).filter, "b-1", False))


def flip(bit: int) -> Callable[[Router], None]:
    def tamper(router: Router) -> None:
        assert isinstance(router, ScotRouter)
        for row in router.clt:
            row.civ ^= 1 << bit

    return tamper


TREE = ("p@a-0", 1)
"""The tree of the advertisement of client p at a-0, with the routings of TID."""


def forget_advertisement(router: Router) -> None:
    if isinstance(router, ScotRouter):
        router.clt.remove(("p", 1), "a-0")
    else:
        assert isinstance(router, TidRouter)
        router.srt.remove(TREE, router.srt.get(TREE).last_hop)


@pytest.mark.parametrize("routing", ["spr", "idr"])
@pytest.mark.parametrize(
    ("broker", "tamper", "sentences"),
    [
        ("b-1", lambda router: router.prt.remove(("alice", 1), "c-1"), ["PRT of b-1"]),
        ("b-1", add, ["PRT of b-1"]),
        ("a-0", flip(2), ["CLT of a-0"]),
        ("a-0", flip(1), ["CLT of a-0"]),
        ("a-1", flip(1), ["CLT of a-1"]),
        ("a-1", forget_advertisement, ["CLT of a-1"]),
    ],
)
def test_each_wrong_row_of_a_scot_is_seen(
    routing: str, broker: str, tamper: Callable[[Router], object], sentences: list[str]
) -> None:
    found = problems(routing, broker, tamper)
    assert [text.split(":")[0] for text in found] == sentences


@pytest.mark.parametrize("routing", ["tid-s", "tid-d"])
@pytest.mark.parametrize(
    ("broker", "tamper", "word"),
    [
        ("c-1", lambda router: router.prt.remove(("alice@c-1", 1), "alice"), "PRT of c-1"),
        ("c-1", lambda router: router.srt.get(TREE).bound.clear(), "bindings of c-1"),
        ("c-2", forget_advertisement, "SRT of c-2"),
        ("a-2", add, "PRT of a-2"),
    ],
)
def test_each_wrong_row_of_a_tid_network_is_seen(
    routing: str, broker: str, tamper: Callable[[Router], object], word: str
) -> None:
    found = problems(routing, broker, tamper)
    assert any(text.startswith(word) for text in found)


def test_last_hops_that_lead_round_and_round_are_seen() -> None:
    simulation = run("tid-s")
    for name, last_hop in (("c-1", "b-1"), ("b-1", "c-1")):
        router = simulation.world.nodes[name].core.router
        assert isinstance(router, TidRouter)
        router.srt.get(TREE).last_hop = last_hop
    found = check(simulation).problems["tables"]
    assert {text.split(":")[0] for text in found} >= {"SRT of b-1", "SRT of c-1"}


def mesh_run(routing: str) -> Simulation:
    """Return a mesh with soft links up: p publishes for alice, three hops away, through several
    rounds."""
    if routing == "mesh":
        setup = Setup(graph=path("abcde"), routing=routing, options=MESH)
        there, here = "e", "a"
    else:
        made = scot(path("abcde"), 2)
        setup = Setup(graph=made.graph, routing=routing, scot=made, options=MESH)
        there, here = "e-1", "a-1"
    simulation = Simulation(setup)
    simulation.subscribe("alice", there, "x > 0", 0.0)
    simulation.subscribe("bob", there, "x > 5", 0.0)
    for i in range(200):
        simulation.publish("p", here, {"x": i}, 0.5 + i * 0.01)
    simulation.run()
    return simulation


MESH = MeshOptions(delta=3, round_s=0.5, covering="lazy")


def node_of(simulation: Simulation, name: str) -> Meshed:
    nodes = simulation.world.nodes
    router = nodes[name if name in nodes else f"{name}-1"].core.router
    assert isinstance(router, Meshed)
    return router


def move_anchor(router: Meshed) -> None:
    for row in router.prt:
        row.next_hop = row.last_hop


def forget_broker(router: Meshed) -> None:
    told = next(told for told in router.mesh._vicinity._told.values() if told)
    told.popitem()
    router.mesh._vicinity._changed()


def forget_soft_link(router: Meshed) -> None:
    router.soft_links.popitem()


def close_soft_link(router: Meshed) -> None:
    router.soft_links[next(iter(router.soft_links))] = SoftLink.CLOSING


@pytest.mark.parametrize("routing", ["mesh", "spr-mesh"])
@pytest.mark.parametrize(
    ("broker", "tamper", "table"),
    [
        ("a", None, None),
        ("a", move_anchor, "anchors of a"),
        ("c", move_anchor, "anchors of c"),
        ("a", forget_broker, "MOM of a"),
        ("a", forget_soft_link, "soft links of"),
        ("a", close_soft_link, "soft links of a"),
    ],
)
def test_what_is_wrong_in_a_mesh_is_seen(
    routing: str, broker: str, tamper: Callable[[Meshed], None] | None, table: str | None
) -> None:
    simulation = mesh_run(routing)
    router = node_of(simulation, broker)
    assert broker != "a" or router.soft_links
    if tamper is not None:
        tamper(router)
    found = check(simulation).problems["tables"]
    assert bool(found) == (table is not None)
    if table is not None:
        assert any(text.startswith(table) for text in found)


def test_a_row_that_only_one_with_another_anchor_covers_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The row that b sent to a is withdrawn, as if that of c, two hops nearer, covered it."""
    simulation = Simulation(Setup(graph=path("abcde"), routing="mesh", options=MESH))
    simulation.subscribe("alice", "e", "x > 0", 0.0)
    simulation.subscribe("carol", "c", "x > 5", 0.0)
    simulation.advertise("p", "a", "TRUE", 0.1)
    simulation.run()
    assert check(simulation).problems["tables"] == []
    out = node_of(simulation, "b").tree.outgoing["a"]
    assert isinstance(out, PerAnchor)
    assert len(out.sent()) == 2
    monkeypatch.setattr(out._groups[out._anchors["carol", 1]], "sent", list)
    node_of(simulation, "a").prt.remove(("carol", 1), "b")
    found = check(simulation).problems["tables"]
    assert found == ["b: nothing that was sent to a covers ('carol', 1)"]
