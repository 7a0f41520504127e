"""The truth about tables sees each kind of wrong row, and nothing in a network that is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reefcast.overlay.scot import scot
from reefcast.overlay.topology import path
from reefcast.routing.router import Router
from reefcast.routing.scot import ScotRouter
from reefcast.routing.tables import Row
from reefcast.routing.tid import TidRouter
from reefcast.simulation.checkers import check
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

MADE = scot(path("abc"), 3)


def run(routing: str) -> Simulation:
    """p at a-0; alice at c-1 is interested, bob at a-2 is not."""
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


def forget_advertisement(router: Router) -> None:
    if isinstance(router, ScotRouter):
        router.clt.remove(("p", 1), "a-0")
    else:
        assert isinstance(router, TidRouter)
        router.srt.remove(("p", 1), router.srt.get(("p", 1)).last_hop)


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
        ("c-1", lambda router: router.prt.remove(("alice", 1), "alice"), "PRT of c-1"),
        ("c-1", lambda router: router.srt.get(("p", 1)).bound.clear(), "bindings of c-1"),
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
        router.srt.get(("p", 1)).last_hop = last_hop
    found = check(simulation).problems["tables"]
    assert {text.split(":")[0] for text in found} >= {"SRT of b-1", "SRT of c-1"}
