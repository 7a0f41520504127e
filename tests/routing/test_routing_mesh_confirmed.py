"""Confirmed publications and rows on disk in a mesh: a line of brokers with a soft link over it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import pytest

from reefcast.errors import ProtocolError
from reefcast.model.messages import (
    Advertise,
    Confirmed,
    Demote,
    LinkDown,
    LinkKind,
    LinkUp,
    MoveLink,
    Neighbours,
    Publish,
    Send,
    Settled,
    Subscribe,
    Synced,
    Unadvertise,
)
from reefcast.model.publication import Publication
from reefcast.routing.broker import Broker
from reefcast.routing.custody import CUSTODY, CustodyLimits
from reefcast.routing.mesh.meshed import Meshed
from reefcast.routing.mesh.messages import Anchored, MeshHeader, Stamp
from reefcast.routing.mesh.movable import MovableMesh
from reefcast.routing.mesh.move_messages import Beside, MoveOver, MoveWave, Permission, Step
from reefcast.routing.mesh.moved_links import MOVED_LINKS, MovedLinks
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.permissions import GRANTED_MOVES
from reefcast.routing.neighbour_links import RELEARN_S
from reefcast.routing.router import Decision
from reefcast.sessions.home import Home
from reefcast_lab.torture.judging import judge
from reefcast_lab.torture.network import Network

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


def run_until(network: Network, comes: Callable[[], object]) -> None:
    """Let steps happen until something has come true."""
    for _ in range(5000):
        if comes():
            return
        network.run(1)
    raise AssertionError("it does not come to that")


def router_of(network: Network, name: str) -> MovableMesh:
    """Return the router of a broker."""
    router = network.cores[name].router
    assert isinstance(router, MovableMesh)
    return router


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
    for _ in range(50):
        network.run(8)
        network.publishers["pd"].publish({"x": 1}, confirm=True)
        if network.cores["d"].router.brokers != ["c"]:
            break
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


def test_the_first_copy_of_each_attempt_is_flooded_and_no_other() -> None:
    router = router_of(movable(CHAIN), "b")
    for attempt in (7, 8):
        publish = Publish(Publication("p", 1, 0, {"x": 1}), confirm=attempt)
        for link, hops in (("a", ["c"]), ("c", [])):
            (decision,) = router.route([publish], router.match([publish], link), link)
            assert [hop for hop, _ in decision.hops] == hops
            assert decision.duplicate is not bool(hops)


def waits_for(network: Network, name: str) -> set[str]:
    """Return from whom a broker waits for answers to publications."""
    return network.cores[name].delivering.confirming.waits_for().keys()


def test_from_the_end_of_the_old_link_on_nobody_is_owed_anything_over_it() -> None:
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    for name, other in (("d", "c"), ("c", "d")):
        run_until(network, lambda name=name: router_of(network, name).moving)
        for _ in range(2000):
            if not waits_for(network, name) & {other}:
                network.publishers["p" + "da"[name == "c"]].publish({"x": 1}, confirm=True)
            network.run(1)
            if other not in router_of(network, name).brokers:
                break
        assert waits_for(network, name)
        assert other not in waits_for(network, name)
    assert not judge(network)


def test_before_the_end_of_a_move_publications_go_by_the_old_links_only() -> None:
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    router = router_of(network, "d")
    run_until(network, lambda: router.moving is not None and router.moving.next is not None)
    network.publishers["pd"].publish({"x": 1}, confirm=True)
    assert waits_for(network, "d") == {"c"}
    network.kill("c")
    network.start("c")
    run_until(network, lambda: router.moving is None)
    assert not judge(network)
    assert sorted(network.edges) == CHAIN


# --- epochs ---------------------------------------------------------------------------------------


def moved() -> tuple[Network, Publish]:
    """Return a network in which d has moved its link from c to b, and a copy of no epoch."""
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    network.settle()
    return network, Publish(Publication("p", 1, 0, {"x": 5}), confirm=7)


def decided(network: Network, name: str, publish: Publish, link: str) -> Decision:
    """Return what the router of a broker decides about a copy."""
    router = network.cores[name].router
    (decision,) = router.route([publish], router.match([publish], link), link)
    return decision


def test_a_copy_of_an_earlier_epoch_begins_anew_over_all_links() -> None:
    network, publish = moved()
    assert router_of(network, "b").moved_links.epoch == 1
    decision = decided(network, "b", publish, "a")
    stamped = MeshHeader(1, None, Stamp(1, True))
    assert decision.hops == [("a", stamped), ("c", stamped), ("d", stamped)]
    assert decision.anew
    network.put("b", msgspec.structs.replace(publish, confirm=8), "a")
    sent = [each for each in network.links["b", "a"].frames if isinstance(each, Publish)]
    assert [each.header for each in sent] == [stamped]
    assert sent[0].confirm not in (7, 8)
    network.run(10_000)
    answers = [each for each in network.went if each[:2] == ("Confirmed", "b")]
    assert answers == [("Confirmed", "b", "a")]


def test_a_copy_of_the_same_epoch_is_passed_on() -> None:
    network, publish = moved()
    current = msgspec.structs.replace(publish, header=MeshHeader(3, None, Stamp(1, True)))
    decision = decided(network, "b", current, "a")
    stamped = MeshHeader(4, None, Stamp(1, True))
    assert decision.hops == [("c", stamped), ("d", stamped)]
    assert not decision.anew


def ahead(move: int) -> Permission:
    """Return the word that x has moved a link from y to z."""
    said = Permission(step="done", mover="x", life=1, number=1, move=move)
    return said.carried_out(move, left=(("y", move),), come=(("z", move),))


def test_a_copy_of_a_later_epoch_waits_until_its_move_is_known() -> None:
    network, publish = moved()
    later = msgspec.structs.replace(publish, header=MeshHeader(3, None, Stamp(2, True)))
    network.put("b", later, "a")
    confirming = network.cores["b"].delivering.confirming
    assert not confirming.waits_for()
    network.put("b", ahead(2), "d")
    assert set(confirming.waits_for()) == {"c", "d"}
    copies = [each for each in network.links["b", "c"].frames if isinstance(each, Publish)]
    assert [each.header for each in copies] == [MeshHeader(4, None, Stamp(2, True))]


def test_what_waits_of_a_neighbour_without_memory_is_forgotten() -> None:
    network, publish = moved()
    later = msgspec.structs.replace(publish, header=MeshHeader(3, None, Stamp(2, True)))
    network.put("b", later, "a")
    network.put("b", LinkUp(LinkKind.BROKER), "a")
    network.put("b", ahead(2), "d")
    assert "d" not in network.cores["b"].delivering.confirming.waits_for()


def test_the_new_end_of_a_link_reaches_its_epoch_only_with_the_link() -> None:
    """Without it b would have all of its copies answered, and d would have got none of them."""
    network = movable(CHAIN)
    router = router_of(network, "b")
    done = ahead(1).carried_out(1, left=(("c", 1),), come=(("b", 1),))
    network.put("b", msgspec.structs.replace(done, mover="d"), "c")
    assert router.permissions.carried_out
    assert router.moved_links.epoch == 0
    network.put("b", LinkUp(LinkKind.BROKER), "d")
    assert router.moved_links.epoch == 1
    assert MovedLinks(network.watches["b"].contents.rows[MOVED_LINKS]).applied_to("ac") == [*"acd"]


@pytest.mark.parametrize("said", ["c", "b", "cb", "bc", "d"])
def test_each_end_of_a_moved_link_tells_of_the_move_in_every_life(said: str) -> None:
    """d, which has moved it, is down; a has lost its memory."""
    network, _ = moved()
    for name in "dabc":
        network.kill(name, power=True)
    other = Broker("x", "mesh", options=MeshOptions(coordinator="a"), home=Home())
    router = other.router
    assert isinstance(router, MovableMesh)
    for name in said:
        network.start(name)
        for each in router_of(network, name).permissions.open():
            router.permissions.handle(each)
    done = router.permissions.carried_out["d"]
    assert done.move == 1
    assert (done.left == (("c", 1),)) is ("c" in said or said == "d")
    assert (done.come == (("b", 1),)) is ("b" in said or said == "d")


def test_a_broker_that_restarts_floods_to_neighbours_that_are_not_up_yet() -> None:
    """What is in custody at b for c begins anew when c is up; a and d are not, and may not have had
    it by the links that there are now."""
    network, _ = moved()
    network.kill("c")
    network.publishers["pa"].publish({"x": 1}, confirm=True)
    network.run(10_000)
    network.pass_time(CustodyLimits().after_s)
    network.run(10_000)
    for name in "abd":
        network.kill(name)
    for name in "bc":
        network.start(name)
    assert waits_for(network, "b") == set("acd")
    assert not judge(network)


def test_what_is_flooded_is_owed_to_a_neighbour_that_stays_away_from_a_restart_on() -> None:
    network = movable(CHAIN)
    network.publisher("pb", "b", "x >= 0")
    network.settle()
    for name in "cb":
        network.kill(name)
    network.start("b")
    for _ in range(2):
        network.run(10_000)
        network.pass_time(RELEARN_S)
    assert router_of(network, "b").absent == ["c"]
    publisher = network.publishers["pb"]
    publisher.publish({"x": 1}, confirm=True)
    network.run(10_000)
    assert (publisher.kept, publisher.confirmed) == ({1}, set())
    assert not judge(network)


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
    run_until(network, lambda: network.disks["d"].synced.rows.get(MOVED_LINKS))
    assert [network.cores[name].router.brokers for name in "bcd"] == [["a", "c"], ["b", "d"], ["c"]]
    network.kill("d", power=True)
    network.publishers["pa"].publish({"x": 1}, confirm=True)
    network.settle()
    assert sorted(network.edges) == [("a", "b"), ("b", "c"), ("b", "d")]
    assert not [*judge(network)]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_in_custody_for_who_was_left_goes_over_to_all_others_in_one_write(
    restarts: bool,
) -> None:
    """d dies when its move is on its disk; c, which does not know of that, takes what d is owed."""
    network = movable(CHAIN)
    network.want("s1", "d", "x = 2")
    network.settle()
    network.put("d", MoveLink("c", "b"), "")
    run_until(network, lambda: network.disks["d"].synced.rows.get(MOVED_LINKS))
    network.kill("d", power=True)
    network.publishers["pa"].publish({"x": 2}, confirm=True)
    network.run(10_000)
    network.pass_time(CustodyLimits().after_s)
    network.run(10_000)
    assert in_custody(network, "c") == ["d"]
    assert network.publishers["pa"].kept == {1}
    if restarts:
        network.kill("c")
        network.start("c")
        network.run(10_000)
        network.pass_time(RELEARN_S)
        assert router_of(network, "c").absent == ["d"]
        assert in_custody(network, "c") == ["d"]
    network.start("d")
    run_until(network, lambda: router_of(network, "c").moved_links.has_left("d"))
    assert in_custody(network, "c") == ["b"]
    assert "d" not in network.cores["c"].delivering.status(network.now)
    network.publishers["pa"].publish({"x": 2}, confirm=True)
    assert not judge(network)


def in_custody(network: Network, name: str) -> list[str]:
    """Return for whom something is in the custody of a broker, if all is synced that it wrote."""
    keys = network.watches[name].contents.rows.get(CUSTODY, {})
    return [link for link, _ in map(msgspec.msgpack.decode, keys)]


def left_by_one_end() -> Watched:
    """d has left c for b; c, which missed that because b restarted, still has d as a neighbour."""
    network = movable(CHAIN)
    network.publisher("pc", "c", "x >= 0")
    network.put("d", MoveLink("c", "b"), "")
    run_until(network, lambda: "d" in network.cores["b"].router.brokers)
    network.kill("b")
    network.start("b")
    run_until(network, lambda: ("c", "d") not in network.edges)
    assert network.cores["c"].router.brokers == ["b", "d"]
    assert not network.cores["c"].soft_links
    return network


def waits_for_disk(network: Network, name: str, *kinds: type) -> set[str]:
    """Return to whom messages of these kinds go when the disk of a broker has what was written."""
    waiting = network.cores[name].delivering._disk._answers
    sends = [each for _, some in waiting for each in some if isinstance(each, Send)]
    return {send.link for send in sends if isinstance(send.message, kinds)}


def test_what_waits_for_the_disk_does_not_go_by_a_link_that_was_closed_meanwhile() -> None:
    network = left_by_one_end()
    network.disks["c"].fails = True
    network.publishers["pc"].publish({"x": 1}, confirm=True)
    network.put("c", MoveLink("b", "a"), "")
    run_until(network, lambda: ("c", "d") not in network.soft.opened)
    assert "d" in network.cores["c"].soft_links
    assert "d" in waits_for_disk(network, "c", Permission)
    network.disks["c"].fails = False
    while network.disks["c"].busy:
        network.step("disk", "c")
    assert not judge(network)


def test_what_waits_for_the_disk_is_not_for_the_next_link_of_that_name() -> None:
    """b has the move abandoned, and tells all but d, whose new link has broken."""
    network = movable(CHAIN)
    network.want("s1", "b", "x = 1")
    network.publisher("pb", "b", "x >= 0")
    network.settle()
    network.put("d", MoveLink("c", "b"), "")
    router = router_of(network, "b")
    run_until(network, lambda: router.moving is not None and router.moving.next is not None)
    network.disks["b"].fails = True
    network.publishers["pb"].publish({"x": 1}, confirm=True)
    run_until(network, lambda: "d" in waits_for_disk(network, "b", Settled))
    network.kill("d")
    assert "a" in waits_for_disk(network, "b", Permission)
    assert "d" not in waits_for_disk(network, "b", Permission, Settled)
    assert not judge(network)


def test_an_end_that_has_a_broken_link_as_one_of_the_overlay_waits_and_then_leaves_it() -> None:
    network = left_by_one_end()
    network.publishers["pc"].publish({"x": 1}, confirm=True)
    assert any(isinstance(each, Publish) for each in network.links["c", "d"].frames)
    network.soft.cut("c", "d")
    assert network.cores["c"].router.brokers == ["b", "d"]
    assert network.cores["c"].delivering.away is not None
    assert "d" in network.cores["c"].delivering.away.since
    network.run(10_000)
    assert network.cores["c"].router.brokers == ["b"]
    assert not {("c", "d"), ("d", "c")} & network.links.keys()
    assert not judge(network)


# --- the coordinator's disk -----------------------------------------------------------------------


def test_no_grant_leaves_before_its_number_is_on_disk() -> None:
    network = movable(CHAIN)
    network.disks["a"].fails = True
    network.put("d", MoveLink("c", "b"), "")
    network.run(10_000)
    assert [router_of(network, name).permissions.last is None for name in "abcd"] == [
        False,
        True,
        True,
        True,
    ]
    assert not judge(network)
    assert network.disks["a"].synced.rows[GRANTED_MOVES]
    assert network.cores["d"].router.brokers == ["b"]


def test_a_coordinator_that_nobody_can_tell_of_former_moves_gives_no_number_again() -> None:
    """c knows that the first move is over, and is away when the others have forgotten it: it would
    take the second one for that, if it had the same number."""
    network = Watched([("a", "b"), ("a", "c")], coordinator="a")
    network.put("b", MoveLink("c", "a"), "")  # c is no neighbour of b, so that b gives it up
    network.settle()
    first = router_of(network, "c").permissions.last
    assert first is not None
    assert first.step == "done"
    network.break_link(("a", "c"))
    for name in "ab":
        network.kill(name, power=True)
    for name in "ab":
        network.start(name)
    network.run(10_000)
    network.pass_time(RELEARN_S)
    network.put("b", MoveLink("a", "c"), "")
    network.run(10_000)
    second = router_of(network, "b").permissions.last
    assert second is not None
    assert second.move > first.move
    assert not judge(network)
    assert sorted(network.edges) == [("a", "c"), ("b", "c")]


def test_a_move_begins_nowhere_before_its_grant_is_there() -> None:
    """The disk of c, which moves its link and passes the grant on, is slow."""
    network = Watched(CHAIN, coordinator="d")
    network.want("s0", "c", "x = 1")
    network.publisher("pc", "c", "x >= 0")
    network.settle()
    network.put("c", MoveLink("b", "a"), "")
    run_until(network, lambda: network.links["d", "c"].frames)
    network.disks["c"].fails = True
    network.publishers["pc"].publish({"x": 1}, confirm=True)
    network.run(10_000)
    assert router_of(network, "c").moving is not None
    assert router_of(network, "b").permissions.last is None
    assert not judge(network)
    assert sorted(network.edges) == [("a", "b"), ("a", "c"), ("c", "d")]


def test_a_mover_with_a_slow_disk_that_asks_again_is_heard() -> None:
    """What d asks waits for its disk, by the link that it is about to leave."""
    network = movable(CHAIN)
    network.want("s1", "d", "x = 1")
    network.settle()
    network.put("d", MoveLink("c", "b"), "")
    run_until(network, lambda: router_of(network, "b").moving)
    network.disks["d"].fails = True
    network.publishers["pd"].publish({"x": 1}, confirm=True)
    network.put("d", MoveLink("b", "c"), "")
    assert "c" in waits_for_disk(network, "d", Permission)
    network.run(10_000)
    assert router_of(network, "d").brokers == ["c"]
    assert not judge(network)
    assert sorted(network.edges) == CHAIN


def test_a_decision_that_is_not_on_disk_yet_is_taken_back() -> None:
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    router = router_of(network, "d")
    run_until(network, lambda: router.moving is not None and router.moving.next is not None)
    network.disks["d"].fails = True
    network.run(10_000)
    assert network.disks["d"].busy is False
    network.kill("c")
    network.start("c")
    network.run(10_000)
    assert router.moving is None
    network.disks["d"].fails = False
    network.run(10_000)
    assert not network.disks["d"].synced.rows.get(MOVED_LINKS)
    for name in "bcd":
        network.kill(name, power=True)
    network.settle()
    assert sorted(network.edges) == CHAIN
    assert not judge(network)


def test_a_link_that_comes_again_is_there_although_its_other_end_knows_only_that_it_went() -> None:
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    network.settle()
    network.put("d", MoveLink("b", "c"), "")

    def decided() -> bool:
        rows = network.disks["d"].synced.rows.get(MOVED_LINKS)
        return MovedLinks(rows).applied_to(["c"]) == ["c"]

    run_until(network, decided)
    assert router_of(network, "c").brokers == ["b"]
    for name in "cd":
        network.kill(name, power=True)
    network.settle()
    assert sorted(network.edges) == CHAIN
    assert not judge(network)


@pytest.mark.parametrize("killed", ["d", "c", "cd", "dc"])
def test_brokers_without_memory_of_a_move_pass_on_that_it_is_at_its_end(killed: str) -> None:
    """c, or d, which e has left, restart when e has come to the end, and before b has: d would wait
    for e, and the others for what d answers."""
    network = Watched([*CHAIN, ("d", "e")], coordinator="a")
    for session, home in enumerate("ade"):
        network.want(f"s{session}", home, "x = 1")
        network.publisher(f"p{home}", home, "x >= 0")
    network.settle()
    network.put("e", MoveLink("d", "b"), "")
    run_until(network, lambda: router_of(network, "e").brokers == ["b"])
    network.break_link(("b", "e"))
    for name in killed:
        network.kill(name)
    for name in killed:
        network.start(name)
    network.run(10_000)
    assert router_of(network, "b").brokers == ["a", "c"]
    assert not judge(network)
    assert router_of(network, "d").moved_links.has_left("e")
    assert sorted(network.edges) == [("a", "b"), ("b", "c"), ("b", "e"), ("c", "d")]


# --- who hears of the end of a move, and who has not yet ------------------------------------------


def heard_by_b_only() -> Network:
    """d is killed when its move is on its disk, and back; b has heard of that, and others not."""
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    run_until(network, lambda: network.disks["d"].synced.rows.get(MOVED_LINKS))
    network.kill("d", power=True)
    network.start("d")
    run_until(network, lambda: router_of(network, "b").moving is None)
    assert all(router_of(network, name).moving for name in "ac")
    return network


def test_what_a_neighbour_says_of_its_old_tables_is_dropped_until_the_move_is_over_there() -> None:
    network = heard_by_b_only()
    router = router_of(network, "b")
    for number, over in ((1, False), (2, True)):
        id = ("q", number)
        if over:
            network.put("b", MoveOver(move=1), "c")
        network.put("b", Advertise(id, "x = 1"), "c")
        assert (id in router.srt.ids()) is over
    network.put("b", Unadvertise(("q", 2)), "c")
    assert not judge(network)


def test_what_a_neighbour_says_of_its_new_tables_is_heard_before_the_move_is_over_there() -> None:
    network = heard_by_b_only()
    assert "c" in router_of(network, "b")._stale
    network.put("b", Beside(move=1, message=Advertise(("q", 1), "x = 1")), "c")
    assert ("q", 1) in router_of(network, "b").srt.ids()


def test_who_hears_that_a_move_is_over_at_a_neighbour_comes_to_its_end() -> None:
    network = heard_by_b_only()
    said = [each for each in network.links["b", "c"].frames if isinstance(each, MoveOver)]
    assert said == [MoveOver(move=1, token=said[0].token)]
    network.put("c", said[0], "b")
    assert router_of(network, "c").brokers == ["b"]
    assert router_of(network, "c").moved_links.epoch == 1
    network.put("c", Advertise(("q", 1), "x = 1"), "b")
    assert ("q", 1) in router_of(network, "c").srt.ids()
    network.put("c", Unadvertise(("q", 1)), "b")
    assert not judge(network)


def test_a_neighbour_that_was_left_has_no_old_tables_when_its_link_comes_again() -> None:
    network = heard_by_b_only()
    run_until(network, lambda: router_of(network, "c").moving is None)
    assert "d" not in router_of(network, "c")._stale
    network.settle()
    network.put("d", MoveLink("b", "c"), "")
    assert not judge(network)
    assert sorted(network.edges) == CHAIN


def test_nobody_forgets_a_move_before_those_behind_it_have_come_to_its_end() -> None:
    """b, the new end, and d give each other up while the end waits for the disk of b: so d does not
    wait for the answers of those behind it."""
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    run_until(network, lambda: router_of(network, "d").brokers == ["b"])
    network.disks["b"].fails = True
    run_until(network, lambda: "d" in router_of(network, "b").brokers)
    network.break_link(("b", "d"))
    network.part(("b", "d"), "bd")
    network.repair(("b", "d"))
    network.run(10_000)
    assert waits_for_disk(network, "b", MoveWave) == {"a", "c"}
    for name in "abc":
        moving = router_of(network, name).moving
        assert moving is not None
        assert moving.ended is (name == "b")
    network.publishers["pa"].publish({"x": 1}, confirm=False)
    network.pass_by("a", "x = 2")
    assert not judge(network)
    for name, brokers in {"a": "b", "b": "acd", "c": "b", "d": "b"}.items():
        assert router_of(network, name).brokers == [*brokers]
        assert router_of(network, name).moving is None
        assert not router_of(network, name)._stale


def test_who_is_told_to_forget_a_move_before_its_end_comes_to_the_end() -> None:
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    run_until(network, lambda: router_of(network, "d").brokers == ["b"])
    network.break_link(("a", "b"))
    run_until(network, lambda: router_of(network, "c").brokers == ["b"])
    moving = router_of(network, "a").moving
    assert moving is not None
    assert not moving.ended
    network.put("a", MoveWave(phase="forget", move=1, mover="d", path=("c", "b")), "b")
    assert moving.ended
    assert router_of(network, "a").moving is moving
    network.put("a", Advertise(("q", 1), "x = 1"), "b")
    assert ("q", 1) in router_of(network, "a").srt.ids()
    network.put("a", Unadvertise(("q", 1)), "b")
    assert not judge(network)
    assert router_of(network, "a").moving is None


def test_a_mover_adds_its_links_to_what_an_end_says_of_its_move() -> None:
    """b, the new end, restarts before the move is over; it knows only that it has got the link."""
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    run_until(network, lambda: network.disks["b"].synced.rows.get(MOVED_LINKS))
    assert router_of(network, "c").moving is not None
    for name in "bc":
        network.kill(name, power=True)
    for name in "cb":
        network.start(name)
    assert not judge(network)
    for name in "abcd":
        done = router_of(network, name).permissions.carried_out["d"]
        assert (done.left, done.come) == ((("c", 1),), (("b", 1),))


def test_a_coordinator_that_restarts_waits_for_the_end_of_a_move_before_it_grants_another() -> None:
    """What neighbours know of the last move comes behind what waits for their disks."""
    network = movable(CHAIN)
    network.want("s1", "b", "x = 1")
    network.put("d", MoveLink("c", "b"), "")
    run_until(network, lambda: router_of(network, "d").moving)
    network.put("b", MoveLink("c", "d"), "")
    run_until(network, lambda: router_of(network, "a").permissions.open()[0].mover == "b")
    network.disks["b"].fails = True
    network.publishers["pa"].publish({"x": 1}, confirm=True)
    run_until(network, lambda: waits_for_disk(network, "b", Confirmed, Settled))
    network.kill("a")
    network.start("a")
    network.run(10_000)
    network.pass_time(RELEARN_S)
    last = router_of(network, "a").permissions.last
    assert last is not None
    assert (last.mover, last.move) == ("d", 1)
    assert not judge(network)


def test_a_new_end_whose_link_closes_before_it_is_used_is_no_neighbour() -> None:
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    router = router_of(network, "b")
    run_until(network, lambda: router.moving is not None and router.moving._joined)
    assert ("b", "d") in network.edges
    assert router.moving is not None
    assert router.moving.next is None
    effects = network.put("b", LinkDown(), "d")
    assert Demote("d") in effects
    assert ("b", "d") not in network.edges


def test_who_has_left_a_link_refuses_an_end_that_begins_it_anew() -> None:
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    run_until(network, lambda: router_of(network, "d").brokers == ["b"])
    assert router_of(network, "c").brokers == ["b", "d"]
    network.break_link(("c", "d"))
    assert not router_of(network, "d").may_have_link("c")
    network.part(("c", "d"), "cd")
    assert router_of(network, "d").brokers == ["b"]
    assert ("c", "d") not in network.edges
    assert ("c", "d") not in network.links
    assert not judge(network)
    assert sorted(network.edges) == [("a", "b"), ("b", "c"), ("b", "d")]


def test_who_was_taken_out_is_waited_for_by_no_end_of_its_link_that_restarts() -> None:
    network = movable(CHAIN)
    network.put("d", MoveLink("c", "b"), "")
    network.settle()
    assert router_of(network, "b").brokers == ["a", "c", "d"]
    network.kill("d", power=False)
    for name, links in {"a": "b", "b": "ac", "c": "b"}.items():
        network.put(name, Neighbours((*links,), gone=("d",)), "")
    network.run(1000)
    network.kill("b", power=False)
    network.start("b")
    publisher = network.publishers["pa"]
    publisher.publish({"x": 1}, confirm=True)
    network.run(10_000)
    assert publisher.confirmed == {1}
    assert {router_of(network, name).moved_links.epoch for name in "abc"} == {1}


def test_who_has_advertised_something_is_not_taken_out_where_no_table_is_on_disk() -> None:
    core = movable(CHAIN).cores["c"]
    assert "d still has 1 subscription or advertisement," in core.objection_to_leaving("d")


@pytest.mark.parametrize(
    ("step", "said", "moved"), [("end", "done", True), ("grant", "abandon", False)]
)
def test_a_mover_without_a_disk_tells_what_became_of_its_move_as_far_as_others_know(
    step: Step, said: Step, moved: bool
) -> None:
    """So that brokers that the move did not affect reach its epoch, too."""
    core = Broker("m", "mesh", neighbours=["x"], options=MeshOptions(coordinator="x"))
    core.handle(LinkUp(LinkKind.BROKER), "x", 1.0)
    grant = Permission(step="grant", mover="m", life=1, number=1, move=3)
    before = grant.then(step, 3, old="o")
    effects = [
        *core.handle(before, "x", 1.0),
        *core.handle(Synced(), "x", 1.0),
    ]
    words = [
        (each.message.step, each.message.moved)
        for each in effects
        if isinstance(each, Send) and isinstance(each.message, Permission)
    ]
    assert words == [(said, moved)]
