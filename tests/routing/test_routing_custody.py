"""Custody: a broker that is down stops nobody, whatever happens to its custodians; an advertisement
that has settled stays settled; what operators see and can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from test_routing_on_disk import test_durable_rows_are_there_before_the_first_link

from reefcast.cli.inspection import owed_in_words
from reefcast.errors import LocalError
from reefcast.model.keeping import PutRow
from reefcast.model.messages import GiveUp, is_deputy
from reefcast.overlay.scot import scot
from reefcast.overlay.topology import edges_of, graph
from reefcast.routing.broker import Broker
from reefcast.routing.confirming import Confirming
from reefcast.routing.custody import CUSTODY, SET_ASIDE, Custody
from reefcast.routing.holding import Holding
from reefcast.routing.on_disk import RowLog
from reefcast.routing.router import SUBSCRIPTIONS
from reefcast.routing.standing import STANDING
from reefcast.sessions.home import Home
from reefcast_lab.torture.disks import Disk
from reefcast_lab.torture.having import queue_of
from reefcast_lab.torture.judging import judge
from reefcast_lab.torture.network import Network
from reefcast_lab.torture.publishers import Publisher

LINE = [("a", "b"), ("b", "c"), ("c", "d")]


def line(seed: int = 1, **options: Any) -> Network:
    """Return four brokers in a row, with a session at the last one."""
    network = Network(LINE, seed, **options)
    network.want("s0", "d", "x >= 0")
    network.settle()
    return network


def newcomer(network: Network, broker: str, name: str = "p0") -> Publisher:
    return network.publisher(name, broker)


def publish(publisher: Publisher, *xs: int) -> None:
    for x in xs:
        publisher.publish({"x": x}, confirm=True)


def goes_on(network: Network, seconds: float = 10.0) -> None:
    """Run everything that can happen without an absent broker coming back."""
    for _ in range(5):
        network.run(10_000)
        network.pass_time(seconds / 5)
    network.run(10_000)


def kept_by(network: Network) -> dict[str, int]:
    counts = {
        name: sum(core.delivering.confirming.custody.of(link)[0] for link in "abcd")
        for name, core in network.cores.items()
    }
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize("down", ["b", "c", "d"])
def test_one_broker_that_is_down_stops_no_publisher(down: str) -> None:
    network = line()
    before = newcomer(network, "a", "before")
    publish(before, 1)
    network.settle()
    network.kill(down)
    publish(before, 2)
    new = newcomer(network, "a", "new")
    publish(new, 1, 2)
    goes_on(network)
    assert (before.kept, new.kept) == ({2}, {1, 2})
    assert kept_by(network) == {chr(ord(down) - 1): 3}
    assert not judge(network)


def test_one_broker_that_is_down_stops_nobody_at_a_start() -> None:
    network = line()
    for name in "abc":
        network.kill(name)
    for name in "ab":
        network.start(name)
    new = newcomer(network, "a")
    publish(new, 1, 2)
    goes_on(network, 15.0)
    assert new.kept == {1, 2}
    network.kill("b")  # it is on its disk, with the row that stands for c
    network.start("b")
    publish(new, 3)
    goes_on(network, 15.0)
    assert new.kept == {1, 2, 3}
    assert not judge(network)


@pytest.mark.parametrize("routing", ["spr", "idr"])
def test_one_broker_of_a_scot_that_is_down_stops_no_publisher(routing: str) -> None:
    product = scot(graph("ab", [("a", "b")]), 2)
    names = sorted(product.graph)
    for down in names[1:]:
        network = Network(list(edges_of(product.graph)), 1, routing, scot=product)
        network.want("s0", down, "x >= 0")
        network.settle()
        network.kill(down)
        new = newcomer(network, names[0])
        publish(new, 1, 2)
        goes_on(network)
        assert new.kept == {1, 2}
        assert not judge(network), down


@pytest.mark.long
def test_a_custodian_is_killed_at_every_step_and_so_is_who_comes_back() -> None:
    """The script: a neighbour stays away, a publisher comes, the neighbour comes back. A kill falls
    between any two of its steps."""

    def begun(steps: int) -> tuple[Network, bool]:
        network = Network([("a", "b"), ("b", "c")], 3)
        network.want("s0", "c", "x >= 0")
        network.settle()
        network.kill("c")
        network.pass_time(3.0)
        publish(newcomer(network, "a"), 1, 2)
        for _ in range(steps):
            enabled = list(network.steps())
            if not enabled and "c" not in network.cores:
                network.pass_time(3.0)
                network.start("c")
            elif not enabled:
                return network, True
            else:
                network.step(*network.rng.choice(enabled))
        return network, False

    for victim in "abc":
        steps, ended = 0, False
        while not ended:
            network, ended = begun(steps)
            if victim in network.cores:
                network.kill(victim)
            assert not judge(network), f"{victim} killed at step {steps}"
            publisher = network.publishers["p0"]
            assert publisher.confirmed | publisher.kept == {1, 2}
            steps += 3
        assert steps > 30


def comes_back(seed: int, how: str) -> list[str]:
    """Let a broker come back, while a publisher that nobody behind it knows publishes all the time;
    return the faults at the end. `how`: the broker `restarts`, or its link `resumes`, or it
    restarts after its `custodian` has."""
    network = line(seed)
    if how == "resumes":
        network.break_link(("b", "c"))
    else:
        network.kill("c")
    network.pass_time(3.0)
    new = newcomer(network, "a")
    publish(new, 1)
    goes_on(network)
    assert new.kept == {1}
    if how == "custodian":
        network.kill("b")
        network.start("b")
        goes_on(network)
    if how == "resumes":
        network.repair(("b", "c"))
    else:
        network.start("c")
    for x in range(2, 40):
        publish(new, x)
        network.run(2)
    return judge(network)


@pytest.mark.long
@pytest.mark.parametrize("how", ["restarts", "resumes", "custodian"])
def test_nothing_is_missed_while_a_broker_comes_back(how: str) -> None:
    for seed in range(8):
        assert not comes_back(seed, how), seed


def blocked_and_restarted() -> tuple[Network, Publisher]:
    """Block an event at its first broker, where a session has no room for it; the broker has it in
    custody for another one, too, and restarts."""
    network = Network([("a", "b")], 1)
    network.want("s0", "a", "x >= 0", {"max_events": 1, "policy": "block"})
    network.want("s1", "b", "x >= 0")
    publisher = newcomer(network, "a")
    network.settle()
    publish(publisher, 1)
    network.settle()
    network.kill("b")
    publish(publisher, 2)
    goes_on(network)
    assert 2 not in publisher.kept
    network.kill("a", power=False)
    network.start("a")
    goes_on(network)
    return network, publisher


def test_what_was_in_custody_is_new_to_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    network, publisher = blocked_and_restarted()
    assert 2 not in publisher.kept and not judge(network)
    came = Confirming.came

    def mutant(self: Confirming, *args: Any, **more: Any) -> Any:
        for work in self._works.values():
            work.restored = False
        return came(self, *args, **more)

    monkeypatch.setattr(Confirming, "came", mutant)
    assert 2 in blocked_and_restarted()[1].kept


def test_what_one_session_refuses_is_kept_until_another_has_room() -> None:
    """The custodian hears of it only then: what waits at the home dies with it."""
    network = Network([("a", "b")], 1)
    network.want("s0", "b", "x >= 0", {"max_events": 1, "policy": "refuse"})
    network.want("s1", "b", "x >= 0", {"max_events": 1, "policy": "block"})
    publisher = newcomer(network, "a")
    network.settle()
    publish(publisher, 1)
    network.settle()
    network.kill("b")
    publish(publisher, 2)
    goes_on(network)
    network.start("b")
    goes_on(network)
    assert len(network.disks["a"].synced.rows[CUSTODY]) == 1
    assert 2 in publisher.kept and not publisher.refused
    network.kill("b")
    assert not judge(network) and "'s0' is full" in publisher.refused[2]


def deputies(network: Network) -> dict[str, int]:
    """Return how many rows each disk holds on behalf of absent brokers."""
    decode = msgspec.msgpack.Decoder(tuple[tuple[str, int], str]).decode
    counts = {
        name: sum(is_deputy(decode(key)[0][0]) for key in disk.load().rows.get(SUBSCRIPTIONS, {}))
        for name, disk in network.disks.items()
    }
    return {name: count for name, count in counts.items() if count}


def test_what_is_entered_for_who_is_away_is_on_disk_as_long_as_it_is_away() -> None:
    network = line()
    network.kill("d")
    publish(newcomer(network, "a"), 1)
    goes_on(network)
    assert deputies(network) == {"a": 1, "b": 1, "c": 1}
    for name in "abc":
        network.kill(name)
        network.start(name)
    goes_on(network)
    assert network.cores["c"].status(network.now)["owed"]["d"]["deputies"] == 1
    network.settle()
    assert not deputies(network)


def resumed() -> list[str]:
    """Break a link for a while, in which a publisher appears that nobody behind it knows; return
    the faults when everything has settled."""
    network = line()
    network.break_link(("b", "c"))
    network.pass_time(3.0)
    new = newcomer(network, "a")
    publish(new, 1, 2)
    goes_on(network)
    assert new.kept == {1, 2}
    return judge(network)


def test_what_waits_goes_when_it_is_known_who_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not resumed()
    monkeypatch.setattr(Holding, "bar", lambda self, link, id: None)
    assert any(problem.startswith("P1") for problem in resumed())


def test_confirmations_wait_while_custody_is_full() -> None:
    network = line(custody_bytes=100)
    publisher = newcomer(network, "a")
    publish(publisher, 1)
    network.settle()
    network.kill("d")
    publish(publisher, 2, 3, 4, 5, 6)
    goes_on(network)
    assert publisher.kept
    assert publisher.open.keys() - publisher.kept
    assert max(publisher.kept) < min(publisher.open.keys() - publisher.kept)
    owed = network.cores["c"].status(network.now)["owed"]["d"]
    assert owed["full"] and owed["waiting"] == 5 and owed["custody_bytes"] <= 100
    assert not judge(network)
    assert publisher.confirmed == {1, 2, 3, 4, 5, 6}


def kept_of_three(sizes: tuple[int, int, int]) -> set[int]:
    """Publish three events of these sizes for a broker that is away; return which are kept."""
    network = line(custody_bytes=400)
    publisher = newcomer(network, "a")
    network.settle()
    network.kill("d")
    for size in sizes:
        publisher.publish({"x": 1, "text": "-" * size}, confirm=True)
    goes_on(network)
    kept = set(publisher.kept)
    assert not judge(network)
    return kept


def test_nothing_passes_by_what_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be handed over first if the custodian were killed."""
    assert kept_of_three((200, 10, 10)) == {1, 2, 3}
    assert kept_of_three((200, 200, 10)) == {1}
    take = Custody.take

    def mutant(self: Custody, link: str, *args: Any) -> bool:
        self._without_room.discard(link)
        return take(self, link, *args)

    monkeypatch.setattr(Custody, "take", mutant)
    assert kept_of_three((200, 200, 10)) == {1, 3}


def test_an_advertisement_that_has_settled_stays_settled() -> None:
    """The host broker of the advertisement is killed while the next broker is away, when nothing
    new could settle there."""
    network = line()
    publisher = network.publisher("p0", "a", "x >= 0")
    publish(publisher, 1)
    network.settle()
    network.kill("b")
    network.kill("a")
    network.start("a")
    (client,) = network.cores["a"].clients.values()
    assert not client.unsettled
    network.pass_time(15.0)
    publish(publisher, 2)
    goes_on(network)
    assert publisher.kept == {2}
    assert not judge(network)
    publisher.readvertise("x >= 1")
    network.settle()
    assert [row.filter.text for row in network.cores["b"].router.tables()["SRT"]] == ["x >= 1"]
    assert len(standing(network)) == 1
    publisher.move("b")
    network.settle()
    assert not standing(network)


def standing(network: Network) -> dict[bytes, bytes]:
    return network.disks["a"].load().rows.get(STANDING, {})


def test_what_its_client_does_not_take_up_again_is_withdrawn() -> None:
    network = line()
    publish(newcomer(network, "a"), 1)
    network.settle()
    del network.clients["p0"]
    network.kill("a")
    network.start("a")
    network.run(1000)
    assert len(network.cores["a"].router.tables()["SRT"]) == 1
    network.pass_time(30.0)
    network.settle()
    assert not any(len(core.router.tables()["SRT"]) for core in network.cores.values())
    assert not standing(network)


def test_rows_that_were_not_written_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant that no loss reveals as long as everybody who also has the rows is there."""
    monkeypatch.setattr(RowLog, "came", lambda self, row: None)
    with pytest.raises(AssertionError):
        test_durable_rows_are_there_before_the_first_link()


# --- operators ------------------------------------------------------------------------------------


def away_with_three() -> tuple[Network, Publisher]:
    network = line()
    publisher = newcomer(network, "a")
    publish(publisher, 1)
    network.settle()
    network.kill("d")
    publish(publisher, 2, 3, 4)
    goes_on(network)
    return network, publisher


def test_who_waits_says_what_for() -> None:
    network, _ = away_with_three()
    status = network.cores["c"].status(network.now)
    (words,) = owed_in_words({"c": status})
    size = status["owed"]["d"]["custody_bytes"]
    assert words == (
        f"c: 3 publications wait for broker d, down for 10 s; 3 ({size} bytes) in custody"
    )
    assert list(owed_in_words({"b": network.cores["b"].status(network.now)})) == [
        "b: 3 publications wait for broker c"
    ]


def test_an_operator_drops_what_is_kept() -> None:
    network, publisher = away_with_three()
    core = network.cores["c"]
    network.put("c", GiveUp("d", reroute=False), "")
    assert core.counters["custody_dropped"] == 3
    network.run(1000)
    assert publisher.refused.keys() == {2, 3, 4}
    assert "dropped what was kept for broker d" in publisher.refused[2]
    assert not network.disks["c"].load().rows.get(CUSTODY)
    network.settle()
    assert not network.cores["c"].delivering.confirming.owed_to("d")


def test_an_operator_routes_again_what_is_kept() -> None:
    """The session has moved to e, which replaces d."""
    network, _ = away_with_three()
    network.names = list("abce")
    network.edges = [("a", "b"), ("b", "c"), ("c", "e")]
    network.moves.filed = {name: network.linked(name) for name in network.names}
    network.disks["e"] = Disk()
    network.kill("c")
    network.start("c")
    network.start("e")
    network.want("s1", "e", "x >= 3")
    network.run(10_000)
    network.put("c", GiveUp("d", reroute=True), "")
    assert network.cores["c"].counters["custody_rerouted"] == 3
    network.kill("c")  # between its writing and its sync, or before anything was sent
    del network.clients["s0"]
    network.settle()
    network.put("c", GiveUp("d", reroute=True), "")
    network.settle()
    assert [seq for _, seq in queue_of(network, network.sessions["s1"])] == [3, 4]
    assert not network.disks["c"].load().rows.get(CUSTODY)


def test_nothing_is_given_up_for_who_is_here_or_unknown() -> None:
    network = line()
    with pytest.raises(LocalError, match="'d' is connected"):
        network.put("c", GiveUp("d", reroute=False), "")
    with pytest.raises(LocalError, match="keeps nothing for 'z'"):
        network.put("c", GiveUp("z", reroute=False), "")
    with pytest.raises(LocalError, match="no \\[sessions\\] directory"):
        Broker("c", "acyclic", neighbours=["d"]).handle(GiveUp("d", reroute=True), "", 1.0)


@pytest.mark.parametrize(
    "damage", [lambda row: b"", lambda row: row[:-3], lambda row: b"\0" * len(row)]
)
def test_custody_that_cannot_be_read_is_said_and_set_aside(
    damage: Callable[[bytes], bytes],
) -> None:
    network, _ = away_with_three()
    rows = network.disks["c"].load().rows
    key = min(rows[CUSTODY])
    rows[CUSTODY][key] = damage(rows[CUSTODY][key])
    core = Broker("c", "acyclic", neighbours=["b", "d"], home=Home(), rows=rows)
    assert len(core.delivering.set_aside) == 1
    assert core.status(1.0)["owed"]["d"]["in_custody"] == 2
    network.kill("c")
    network.disks["c"].commit([PutRow(CUSTODY, key, rows[CUSTODY][key])])
    network.start("c")
    network.settle()
    assert len(network.disks["c"].load().rows[SET_ASIDE]) == 1
    assert len(queue_of(network, network.sessions["s0"])) == 4  # b had not heard that it is there
