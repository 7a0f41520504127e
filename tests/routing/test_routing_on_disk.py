"""What a broker writes to its disk, and what waits until it is synced."""

from __future__ import annotations

from reefcast.model.keeping import DropRow, PutRow
from reefcast.model.messages import Confirmed, Keep, LinkKind, LinkUp, Send, Settled, Subscribe
from reefcast.routing.acyclic import Acyclic
from reefcast.routing.broker import Broker
from reefcast.routing.on_disk import OnDisk
from reefcast.sessions.home import Home
from reefcast_lab.torture.network import Network


def test_durable_rows_are_there_before_the_first_link() -> None:
    network = Network([("a", "b"), ("b", "c")], 1)
    network.want("s0", "c", "x >= 0")
    network.publisher("p0", "a", advertises="x >= 0")
    network.pass_by("c", "x >= 5")
    network.settle()
    for name in "ac":
        network.kill(name)
    network.kill("b")
    network.start("b")
    router = network.cores["b"].router
    assert isinstance(router, Acyclic)
    assert not router.brokers
    assert [(row.filter.text, row.last_hop) for row in router.prt] == [("x >= 0", "c")]
    assert [row.id for row in router.srt] == [("p0", 1)]


def test_rows_of_who_is_no_neighbour_any_more_go() -> None:
    network = Network([("a", "b"), ("b", "c")], 1)
    network.want("s0", "c", "x >= 0")
    network.publisher("p0", "a").publish({"x": 1}, confirm=True)
    network.settle()
    rows = network.disks["b"].load().rows
    core = Broker("b", "acyclic", neighbours=["a"], home=Home(), rows=rows)
    assert not list(core.router.prt)
    effects = core.handle(LinkUp(LinkKind.CLIENT), "client", 1.0)
    (keep,) = [effect for effect in effects if isinstance(effect, Keep)]
    assert [type(change) for change in keep.changes] == [DropRow]


def test_nobody_hears_that_something_settled_before_it_is_synced() -> None:
    core = Broker("b", "acyclic", neighbours=["a"], home=Home())
    core.handle(LinkUp(LinkKind.BROKER), "a", 1.0)
    effects = core.handle(Subscribe(("$s", 1), "x > 1", 7), "a", 1.0)
    (keep,) = [effect for effect in effects if isinstance(effect, Keep)]
    assert [type(change) for change in keep.changes] == [PutRow]
    disk = OnDisk()
    disk.write(DropRow("PRT", b""))
    answers = [Send("a", Settled(1)), Send("b", Confirmed("p", 1, 1))]
    (first,) = disk.behind(answers, ())
    assert isinstance(first, Keep)
    (second,) = disk.behind([], (DropRow("PRT", b"2"),))
    assert isinstance(second, Keep)
    assert not disk.kept(0)
    disk.forget("a")
    assert disk.kept(first.token) == answers[1:]
    assert disk.kept(second.token) == []
