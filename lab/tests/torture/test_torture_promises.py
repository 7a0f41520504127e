"""The delivery promises hold in random networks under random faults, and in small networks whatever
is killed when; one seed gives one run, to the byte."""

from __future__ import annotations

from collections import Counter

import pytest

from reefcast.model.messages import Publish, Send
from reefcast.routing.mesh.moving import Moving
from reefcast.routing.registry import routing_named
from reefcast.routing.router import Action, Shape
from reefcast_lab.torture.live import LiveTorture
from reefcast_lab.torture.network import Network
from reefcast_lab.torture.run import routings, torture
from reefcast_lab.torture.seeds import LIVE_EVERY, is_live, run_seed, run_seeds
from reefcast_lab.torture.small import LINE, TRIANGLE, kill_everywhere, settle_everywhere

SEEDS = 6
"""So many networks are tried of each routing; `make soak` tries thousands, some of live nodes."""
SHAPES = {Shape.TREE: (LINE,), Shape.ANY: (LINE, TRIANGLE)}
SMALL = [
    (name, edges) for name in routings() for edges in SHAPES.get(routing_named(name).overlay, ())
]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("routing", routings())
def test_what_is_promised_holds(routing: str, seed: int) -> None:
    network, problems = torture(seed, routing)
    assert not problems
    assert network.record.steps > 100


@pytest.mark.long
@pytest.mark.parametrize(
    ("routing", "seed"),
    [
        pytest.param("idr-mesh", 714, id="an event expires to the microsecond"),
        pytest.param("spr", 1157, id="a path to a session that has ended"),
        pytest.param("flooding", 20464, id="a cycle whose broker loses its memory"),
        pytest.param("mesh", 46159, id="a link that is wanted again while it closes"),
        pytest.param("acyclic", 501516, id="a consumer of a session that has ended"),
        pytest.param("flooding", 607483, id="refused before its publisher moved"),
        pytest.param("flooding", 800290, id="refused before its publisher heard of it"),
        pytest.param("spr-mesh", 800943, id="a dead letter too many was not acknowledged"),
        pytest.param("flooding", 607573, id="again, for a subscription made later"),
    ],
)
def test_what_the_checkers_took_for_a_mistake(routing: str, seed: int) -> None:
    assert not torture(seed, routing)[1]


@pytest.mark.long
@pytest.mark.parametrize("seed", [0])
@pytest.mark.parametrize(
    "routing",
    [
        pytest.param(each, marks=[pytest.mark.soak] * (each in ("idr", "spr-mesh")))
        for each in routings()
    ],
)
def test_what_is_promised_holds_of_live_nodes(routing: str, seed: int) -> None:
    live = LiveTorture(seed, routing)
    assert not live.run()
    assert live.confirmed


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 6000, 500))
@pytest.mark.parametrize("routing", routings())
def test_it_holds_in_thousands_of_networks(routing: str, first: int) -> None:
    assert not run_seeds(range(first, first + 500), routing).failed


@pytest.mark.long
def test_a_seed_is_a_run_to_the_byte() -> None:
    for seed in (3, LIVE_EVERY - 1):
        first, second, other = (
            run_seed(each, "acyclic") for each in (seed, seed, seed + LIVE_EVERY)
        )
        assert first == second
        assert first.digest != other.digest
        assert first.live == is_live(seed)


@pytest.mark.long
def test_the_runs_try_what_they_are_for() -> None:
    """The runs contain what the checkers look for: kills, second deliveries, refusals and the
    rest."""
    runs = [torture(seed, "acyclic")[0] for seed in range(20, 80)]
    lives = [wanted.life for run in runs for wanted in run.all_sessions if wanted.life]
    assert sum(run.kills for run in runs) > 100
    assert sum(run.confirmations for run in runs) > 500
    assert sum(tries > 1 for life in lives for tries in life.tries.values()) > 20
    assert sum(len(life.done) for life in lives) > 200
    assert any(publisher.refused for run in runs for publisher in run.publishers.values())
    assert any(life.again for life in lives)
    assert any(wanted.removed for run in runs for wanted in run.all_sessions)
    assert any(wanted.ended for run in runs for wanted in run.all_sessions)
    travellers = [each for run in runs for each in run.travellers.values()]
    assert sum(each.entry != each.wanted.home and each.is_attached for each in travellers) > 10
    assert not all(run.disturbed for run in runs)


@pytest.mark.long
def test_the_runs_of_meshes_use_soft_links_and_move_links(monkeypatch: pytest.MonkeyPatch) -> None:
    carried: Counter[type] = Counter()
    moves: Counter[str] = Counter()
    carry = Network.carry

    def counted(self: Network, name: str, send: Send) -> None:
        if (name, send.link) in self.soft.opened:
            carried[type(send.message)] += 1
            assert not isinstance(send.message, Publish) or not send.message.confirm
        carry(self, name, send)

    end, abandoned = Moving._end, Moving.abandoned

    def ends(self: Moving) -> list[Action]:
        moves["carried out"] += self.plan.mover == self._me
        return end(self)

    def abandons(self: Moving) -> list[Action]:
        moves["abandoned"] += self.plan.mover == self._me
        return abandoned(self)

    monkeypatch.setattr(Network, "carry", counted)
    monkeypatch.setattr(Moving, "_end", ends)
    monkeypatch.setattr(Moving, "abandoned", abandons)
    for seed in range(40, 55):
        assert not torture(seed, "mesh")[1]
    assert carried[Publish] > 3
    assert min(moves["carried out"], moves["abandoned"]) > 1


def test_what_comes_when_a_broker_waits_no_longer_for_an_advertisement_may_be_lost() -> None:
    network = Network(LINE, 1)
    network.settle()
    publisher = network.publisher("p0", "a", "x >= 0")
    publisher.publish({"x": 1}, confirm=False)
    assert not network.let_go
    network.pass_time(3.0)
    for confirm in (False, True):
        publisher.publish({"x": 2}, confirm=confirm)
    assert network.let_go == {("p0", 1), ("p0", 2)}
    network.settle()
    publisher.publish({"x": 3}, confirm=False)
    assert network.let_go == {("p0", 1), ("p0", 2)}


def test_a_session_is_alone_from_when_its_home_starts() -> None:
    """Its owner comes a moment later, when all the neighbours are there."""
    network = Network([("a", other) for other in "bcdefgh"], 1)
    network.want("s0", "a", "x >= 0", {"expiry_s": 200.0})
    network.settle()
    network.kill("a")
    network.start("a")
    network.pass_time(190.0)
    assert not network.sessions["s0"].ended
    network.pass_time(20.0)
    assert network.sessions["s0"].ended
    assert not network.problems


@pytest.mark.long
def test_two_brokers_are_killed_at_each_step_of_a_subscription() -> None:
    for where, problems in settle_everywhere():
        assert not problems, where


@pytest.mark.long
def test_a_broker_is_killed_at_each_step() -> None:
    runs = 0
    for where, problems in kill_everywhere(later=(3,)):
        assert not problems, where
        runs += 1
    assert runs > 100


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("routing", "edges"), SMALL)
def test_a_broker_is_killed_at_each_step_of_any_order(
    routing: str, edges: tuple[tuple[str, str], ...], seed: int
) -> None:
    for where, problems in kill_everywhere(edges, routing, seed, later=(0, 3, 10, -1)):
        assert not problems, where


def test_what_failed_is_told_and_repeated() -> None:
    """A disk that forgets what it has synced breaks P1, and the trace of the run says where."""
    network = Network(LINE, 1, text=True)
    network.want("s0", "c", "x >= 0")
    network.settle()
    publisher = network.publisher("p0", "a")
    publisher.publish({"x": 1}, confirm=True)
    network.disks["c"].write = lambda changes: None  # type: ignore[method-assign]  # the fault
    network.settle()
    assert publisher.confirmed == {1}
    assert [problem[:3] for problem in network.problems] == ["P1:"]
    assert any("BROKEN P1: p0#1" in line for line in network.record.lines or ())
