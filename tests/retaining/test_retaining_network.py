"""Brokers agree on the last values, whatever happens to links and brokers."""

from __future__ import annotations

import random

import pytest
from retaining_network import START_US, Network, Twin, body

from reefcast.overlay.topology import Graph, graph
from reefcast.retaining.exchange import MOST_ENTRIES, WINDOW
from reefcast.retaining.messages import Recall, Spread
from reefcast.retaining.values import Limits

DAY_S = 86_400.0


def random_graph(rng: random.Random) -> Graph:
    """Return a random connected graph, with cycles more often than not."""
    names = [f"b{n}" for n in range(rng.randint(2, 6))]
    edges = {(rng.choice(names[:at]), names[at]) for at in range(1, len(names))}
    for _ in range(rng.randint(0, 4)):
        a, b = rng.sample(names, 2)
        edges.add((min(a, b), max(a, b)))
    return graph(names, edges)


class Run:
    """One run: actions of clients and failures in any order, with the twin beside it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.graph = random_graph(rng)
        on_disk = [name for name in self.graph if rng.random() < 0.5]
        self.network = Network(self.graph, rng, on_disk=on_disk)
        self.twin = Twin()
        self.seq = 0
        self.names = list(self.graph)
        self.links = [(a, b) for a, others in self.graph.items() for b in others if a < b]

    def time_us(self) -> int:
        """Return the time by a publisher's clock: clocks differ, and are so coarse that two times
        are often the same."""
        return START_US + (round(self.network.now) + self.rng.randint(-3, 3)) * 1_000_000

    def publish(self) -> None:
        rng, network = self.rng, self.network
        self.seq += 1
        topic, home, client = f"t{rng.randint(0, 5)}", rng.choice(self.names), rng.choice("pq")
        time_us = self.time_us()
        if rng.random() < 0.25:
            token = network.clear(client, home, topic, time_us)
            self.twin.put(topic, (time_us, client, -token), 0.0, b"")
            return
        lasts_s = rng.choice((0, 0, 5, 50))
        expires = {"$expires_s": lasts_s} if lasts_s else {}
        encoded = body(client, self.seq, time_us, topic, **expires)
        network.retain(home, encoded)
        ends_s = time_us / 1e6 + lasts_s if lasts_s else float("inf")
        self.twin.put(topic, (time_us, client, self.seq), ends_s, encoded)

    def fail(self) -> None:
        rng, network = self.rng, self.network
        name = rng.choice(self.names)
        if rng.random() < 0.6:
            a, b = rng.choice(self.links)
            if frozenset((a, b)) in network.up:
                network.disconnect(a, b)
            else:
                network.connect(a, b)
        elif name in network.disks:
            network.restart(name, noticed=rng.random() < 0.5)
        elif network.neighbours(name):  # what only it has would be lost with it
            network.run()
            network.restart(name, noticed=rng.random() < 0.5)

    def heal(self) -> None:
        for a, b in self.links:
            if frozenset((a, b)) not in self.network.up:
                self.network.connect(a, b)
        self.network.run()

    def go(self, steps: int) -> None:
        for _ in range(steps):
            self.rng.choices((self.publish, self.network.step, self.fail, self.wait), (4, 8, 1, 1))[
                0
            ]()
        self.heal()

    def wait(self) -> None:
        self.network.pass_time(self.rng.choice((0.5, 3.0, 20.0)))

    def check(self) -> None:
        expected = self.twin.values(self.network.utc_s)
        for name in self.names:
            assert self.network.values(name) == expected, name
            service = self.network.services[name].values
            assert service.values == len(expected)
            assert service.size == sum(map(len, expected))
        for name in self.network.disks:
            self.network.restart(name, noticed=True)  # from the disk alone
            assert self.network.values(name) == expected, name


@pytest.mark.parametrize("seed", range(60))
def test_brokers_agree(seed: int) -> None:
    run = Run(seed)
    run.go(steps=run.rng.choice((30, 100, 250)))
    run.check()


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 3000, 200))
def test_brokers_agree_for_long(first: int) -> None:
    for seed in range(first, first + 200):
        run = Run(seed)
        run.go(steps=600)
        run.check()


@pytest.mark.parametrize("seed", range(10))
def test_a_link_carries_a_version_once(seed: int) -> None:
    rng = random.Random(seed)
    network = Network(random_graph(rng), rng)
    for seq in range(1, 40):
        network.retain(rng.choice(list(network.services)), body("p", seq, START_US + seq, "t"))
        for _ in range(rng.randint(0, 5)):
            network.step()
    network.run()
    assert network.spread, "nothing was spread"
    assert set(network.spread.values()) == {1}
    assert network.messages == sum(network.spread.values())  # and nothing else was said


def two(**limits: float) -> Network:
    made = Limits(**limits)  # type: ignore[arg-type]  # as in the file
    return Network(graph(["a", "b"], [("a", "b")]), random.Random(1), limits=made)


def test_what_was_cleared_does_not_come_back_from_a_broker_that_was_cut_off() -> None:
    network = two(tombstone_s=DAY_S)
    network.retain("a", body("p", 1, START_US, "t"))
    network.run()
    network.disconnect("a", "b")
    network.pass_time(10.0)
    network.clear("q", "a", "t", START_US + 1)
    network.pass_time(DAY_S - 20.0)
    network.connect("a", "b")
    network.run()
    assert network.values("a") == network.values("b") == set()


def test_a_broker_that_was_cut_off_for_longer_than_tombstones_live_brings_it_back() -> None:
    """This is the documented limit of `tombstone_s`."""
    network = two(tombstone_s=DAY_S)
    old = body("p", 1, START_US, "t")
    network.retain("a", old)
    network.run()
    network.disconnect("a", "b")
    network.clear("q", "a", "t", START_US + 1)
    assert len(network.services["a"].values) == 1  # the tombstone
    network.pass_time(DAY_S + 1.0)
    assert len(network.services["a"].values) == 0
    network.connect("a", "b")
    network.run()
    assert network.values("a") == network.values("b") == {old}


def test_an_expired_value_does_not_give_way_to_an_older_one() -> None:
    network = two()
    network.retain("a", body("p", 1, START_US, "t"))
    network.run()
    network.disconnect("a", "b")
    network.retain("a", body("p", 2, START_US + 1, "t", **{"$expires_s": 5}))
    network.pass_time(10.0)
    network.connect("a", "b")
    network.run()
    assert network.values("a") == network.values("b") == set()


def fill(network: Network, count: int, home: str = "a") -> None:
    for seq in range(1, count + 1):
        network.retain(home, body("p", seq, START_US + seq, f"t{seq}"))


def test_a_new_neighbour_gets_all_in_parts_and_not_at_once() -> None:
    network = two()
    network.disconnect("a", "b")
    fill(network, 7 * MOST_ENTRIES)
    network.connect("a", "b")
    most = 0
    while True:
        under_way = network._under_way["a", "b"]
        spread = [message for message in under_way if isinstance(message, Spread)]
        assert all(len(message.entries) <= MOST_ENTRIES for message in spread)
        most = max(most, len(spread))
        if not network.step():
            break
    assert 1 <= most <= WINDOW
    assert network.values("a") == network.values("b")
    assert len(network.values("b")) == 7 * MOST_ENTRIES


def test_brokers_that_agree_exchange_digests_only() -> None:
    network = two()
    fill(network, 500)
    network.run()
    network.disconnect("a", "b")
    before = network.messages
    network.connect("a", "b")
    network.run()
    assert network.messages - before == 2  # a Compare each way


def test_brokers_that_differ_in_one_key_exchange_its_part_only() -> None:
    network = two()
    fill(network, 2000)
    network.run()
    network.disconnect("a", "b")
    new = body("p", 9999, START_US + 9999, "one more")
    network.retain("a", new)
    sent = []
    handle = network.services["b"].handle

    def watching(message, *args, **named):  # type: ignore[no-untyped-def]  # a spy
        sent.extend(getattr(message, "entries", ()))
        return handle(message, *args, **named)

    network.services["b"].handle = watching  # type: ignore[method-assign]  # a spy
    network.connect("a", "b")
    network.run()
    assert new in network.values("b")
    assert len(sent) < 40  # of 2001, in 256 parts


def test_who_watches_far_away_is_told_of_what_came_late() -> None:
    """The late value comes by a link that is not one of the watching client's broker."""
    line = graph(["a", "b", "c"], [("a", "b"), ("b", "c")])
    network = Network(line, random.Random(1))
    network.disconnect("a", "b")
    network.say("q", "c", Recall(token=1, filter="TRUE", watch_s=2.0))
    network.pass_time(5.0)
    network.retain(
        "b", body("p", 1, START_US + 5_000_000, "t")
    )  # which comes to the client as an event
    network.retain("a", body("p", 2, START_US + 5_000_000, "u"))
    network.run()
    assert not network.answers["q"]
    network.connect("a", "b")
    network.run()
    [told] = network.answers["q"]
    assert [entry.version[2] for entry in told.entries] == [2]


def test_nothing_is_left_on_disk_of_what_is_forgotten() -> None:
    made = Limits(tombstone_s=DAY_S)
    network = Network({"a": []}, random.Random(1), on_disk=["a"], limits=made)
    network.retain("a", body("p", 1, START_US, "t"))
    network.retain("a", body("p", 2, START_US, "u", **{"$expires_s": 5}))
    network.clear("q", "a", "t", START_US + 1)
    assert len(network.stored("a")) == 2
    network.pass_time(DAY_S + 10.0)
    assert network.stored("a") == {}
