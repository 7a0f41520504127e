"""A client that published without advertising, and advertises later. What it published before
arrives; from then on what lies outside is refused, and nothing of the implicit TRUE stays."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from routing_harness import Harness, rows_of
from routing_scenarios import FILTERS, deliveries_of, random_scot, wrong_tables

from draws import RANDOMS
from reefcast.model.filters import parse_filter
from reefcast.overlay.topology import names, path, random_tree
from reefcast.routing.gate import HOLD_TIMER

ROUTINGS = ("flooding", "acyclic", "mesh", "spr", "idr", "tid-s", "tid-d")
ON_SCOTS = ("spr", "idr", "tid-s", "tid-d")


def quiet_network(routing: str, rng: random.Random) -> Harness:
    overlay = (
        random_scot(rng) if routing in ON_SCOTS else random_tree(names(rng.randint(1, 6)), rng)
    )
    network = Harness(overlay, routing, rng)
    for client in ("p", "s0", "s1", "s2"):
        network.connect(client, rng.choice(sorted(network.overlay)))
    network.run()
    return network


@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=30)
@given(rng=RANDOMS)
def test_nothing_accepted_before_is_lost(routing: str, rng: random.Random) -> None:
    network = quiet_network(routing, rng)
    live: dict[str, dict[int, str]] = {"p": {}}
    for client in ("s0", "s1", "s2"):
        filter = rng.choice(FILTERS)
        live[client] = {network.subscribe(client, filter): filter}
    network.run()
    expected, outside = [], []
    for _ in range(rng.randint(1, 12)):
        if rng.random() < 0.25:
            filter = rng.choice(("x > 3", "y = 'a'", "x <= 1"))
            live["p"][network.advertise("p", filter)] = filter
        for _ in range(rng.randrange(4)):
            attributes = {"x": rng.randrange(6), "y": rng.choice("ab")}
            id = ("p", network.publish("p", **attributes))
            claims = live["p"].values()
            if not claims or any(parse_filter(f).holds(attributes) for f in claims):
                expected += deliveries_of(live, id, attributes)
            else:
                outside.append(id)
        for _ in range(rng.randrange(8)):
            network.step()
    network.run()
    assert sorted(network.delivered) == sorted(expected)
    assert [refusal.publication for _, refusal in network.refused] == outside
    assert wrong_tables(network, live) == []


def test_it_is_withdrawn_when_the_new_one_has_settled_and_not_when_patience_ends() -> None:
    network = Harness(path(["a", "b"]), "acyclic")
    network.connect("p", "a")
    network.connect("s", "b")
    network.run()
    network.subscribe("s", "TRUE")
    network.run()
    network.publish("p", x=1)
    network.run()
    assert [row["filter"] for row in rows_of(network.brokers["b"], "SRT")] == ["TRUE"]
    network.advertise("p", "x = 1")
    network.slow = {("b", "a")}  # no answer comes
    network.run()
    assert ("a", f"{HOLD_TIMER}p") in network.timers
    network.fire_timers()
    network.run()
    assert len(rows_of(network.brokers["b"], "SRT")) == 2
    network.publish("p", x=2)
    network.slow = set()
    network.run()
    assert [row["filter"] for row in rows_of(network.brokers["b"], "SRT")] == ["x = 1"]
    assert [refusal.publication for _, refusal in network.refused] == [("p", 2)]


def test_a_publisher_that_leaves_before_it_has_settled_leaves_nothing() -> None:
    network = Harness(path(["a", "b"]), "acyclic")
    network.connect("p", "a")
    network.run()
    network.publish("p", x=1)
    network.advertise("p", "x = 1")
    network.disconnect("p")
    network.run()
    network.fire_timers()
    network.run()
    assert all(broker.tables()["SRT"] == 0 for broker in network.brokers.values())
