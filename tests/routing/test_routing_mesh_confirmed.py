"""Confirmed publications and rows on disk in a mesh: a line of brokers with a soft link over it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from reefcast.errors import ProtocolError
from reefcast.model.messages import (
    Confirmed,
    LinkKind,
    LinkUp,
    MoveLink,
    Publish,
    Send,
    Subscribe,
)
from reefcast.model.publication import Publication
from reefcast.routing.broker import Broker
from reefcast.routing.mesh.meshed import Meshed
from reefcast.routing.mesh.messages import Anchored
from reefcast.routing.mesh.moved_links import MOVED_LINKS
from reefcast.simulation.torture.judging import judge
from reefcast.simulation.torture.network import Network

LINE = [("a", "b"), ("b", "c")]


class Watched(Network):
    """A network that records which links publications and their answers cross."""

    def __init__(
        self, edges: Iterable[tuple[str, str]], strategy: str = "S2", coordinator: str = ""
    ) -> None:
        self.went: list[tuple[str, str, str]] = []
        super().__init__(list(edges), 1, "mesh", strategy=strategy, coordinator=coordinator)

    def carry(self, name: str, send: Send) -> None:
        if isinstance(send.message, Publish | Confirmed) and send.link in self.names:
            self.went.append((type(send.message).__name__, name, send.link))
        super().carry(name, send)


def with_session(strategy: str = "S2") -> Watched:
    """Return a network with a durable session at c that has settled, a publisher at a, and a soft
    link between them."""
    network = Watched(LINE, strategy)
    network.want("s0", "c", "x >= 0")
    network.publisher("p0", "a", "x >= 0")
    network.settle()
    network.soft.open("a", "c")
    network.settle()
    return network


@pytest.mark.parametrize("strategy", ["S1", "S2", "SH"])
def test_what_is_confirmed_goes_by_primary_links_and_the_rest_by_soft_ones(strategy: str) -> None:
    network = with_session(strategy)
    publisher = network.publishers["p0"]
    publisher.publish({"x": 1}, confirm=False)
    network.settle()
    assert network.went == [("Publish", "a", "c")]
    network.went.clear()
    publisher.publish({"x": 2}, confirm=True)
    network.settle()
    assert publisher.confirmed == {2}
    answers = [("Confirmed", "c", "b"), ("Confirmed", "b", "a")]
    assert network.went == [("Publish", "a", "b"), ("Publish", "b", "c"), *answers]
    assert not network.problems


def test_a_soft_link_that_breaks_delays_no_confirmation() -> None:
    network = with_session()
    publisher = network.publishers["p0"]
    publisher.publish({"x": 1}, confirm=True)
    network.soft.cut("a", "c")
    network.settle()
    assert publisher.confirmed == {1}
    assert not network.soft.pairs()


def test_rows_from_disk_lead_to_their_last_hops_and_have_nobody_else_as_anchor() -> None:
    network = with_session()
    for name in "cab":
        network.kill(name)
    network.start("b")
    router = network.cores["b"].router
    assert isinstance(router, Meshed)
    (row,) = router.prt
    assert (row.next_hop, router.restored) == ("c", {"c"})
    assert router.mesh.anchor_for(row, "a") == "b"
    network.start("a")
    frames = network.links["b", "a"].frames
    assert [frame.anchor for frame in frames if isinstance(frame, Anchored)] in ([], ["b"])
    network.settle()
    assert not router.restored
    assert [row.next_hop for row in network.cores["a"].router.prt] in (["b"], ["c"])


def test_a_client_that_returns_while_the_broker_relearns_loses_nothing() -> None:
    """What the client sends again follows a row from disk to a neighbour that is not up yet."""
    network = with_session()
    for name in "abc":
        network.kill(name)
    network.start("b")
    core, publish = network.cores["b"], Publish(Publication("p1", 1, 0, {"x": 1}))
    network.cores["b"].handle(LinkUp(LinkKind.CLIENT), "p1", network.now)
    decisions = core.router.route([publish], core.router.match([publish], "p1"), "p1")
    assert [[hop for hop, _ in each.hops] for each in decisions] == [["c"]]


def test_only_clients_subscribe_without_an_anchor() -> None:
    core = Broker("a", "mesh", neighbours=["b"])
    core.handle(LinkUp(LinkKind.BROKER), "b", 1.0)
    with pytest.raises(ProtocolError, match="sent a subscription without an anchor"):
        core.handle(Subscribe(("s", 1), "x > 1", 1), "b", 1.0)


# --- where links may be moved ---------------------------------------------------------------------


def movable(edges: Iterable[tuple[str, str]]) -> Watched:
    """A durable session at c that has settled, and publishers at a and d."""
    network = Watched(edges, coordinator="a")
    network.want("s0", "c", "x = 1")
    for name in "ad":
        network.publisher(f"p{name}", name, "x >= 0")
    network.settle()
    network.went.clear()
    return network


CHAIN = [("a", "b"), ("b", "c"), ("c", "d")]


def test_where_links_may_be_moved_what_is_confirmed_is_flooded_and_no_table_is_on_disk() -> None:
    network = movable(CHAIN)
    router = network.cores["a"].router
    assert isinstance(router, Meshed)
    assert not router.durable_tables()
    network.publishers["pa"].publish({"x": 5}, confirm=True)
    network.settle()
    went = {(one, other) for what, one, other in network.went if what == "Publish"}
    assert went == set(CHAIN)
    assert network.publishers["pa"].confirmed == {1}


def test_what_is_under_way_while_a_link_moves_is_confirmed() -> None:
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    while network.cores["d"].router.brokers == ["c"]:
        network.run(8)
        network.publishers["pd"].publish({"x": 1}, confirm=True)
    network.settle()
    publisher = network.publishers["pd"]
    assert publisher.confirmed == set(range(1, publisher.seq + 1))
    assert publisher.seq > 3
    assert not network.problems
    assert sorted(network.edges) == [("a", "b"), ("b", "c"), ("b", "d")]
    assert {name: sorted(core.router.brokers) for name, core in network.cores.items()} == {
        "a": ["b"],
        "b": ["a", "c", "d"],
        "c": ["b"],
        "d": ["b"],
    }


@pytest.mark.parametrize("killed", ["abcd", "bcd", "d", "bd", "cd", "c"])
def test_brokers_that_restart_have_the_links_that_were_moved(killed: str) -> None:
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    network.settle()
    for name in killed:
        network.kill(name, power=True)
    network.settle()
    assert sorted(network.edges) == [("a", "b"), ("b", "c"), ("b", "d")]
    network.publishers["pd"].publish({"x": 1}, confirm=True)
    network.settle()
    assert not [*judge(network)]


def test_a_mover_that_restarts_knows_alone_that_its_move_was_carried_out() -> None:
    """d is killed when its move is on its disk, and nobody else has heard."""
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    for _ in range(2000):
        network.run(1)
        if network.disks["d"].synced.rows.get(MOVED_LINKS):
            break
    assert [network.cores[name].router.brokers for name in "bcd"] == [["a", "c"], ["b", "d"], ["c"]]
    network.kill("d", power=True)
    network.publishers["pa"].publish({"x": 1}, confirm=True)
    network.settle()
    assert sorted(network.edges) == [("a", "b"), ("b", "c"), ("b", "d")]
    assert not [*judge(network)]
