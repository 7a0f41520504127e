"""Settlement on a SCOT: what a client may rely on once it is settled, publications that wait,
links."""

from __future__ import annotations

import pytest
from routing_harness import Harness, rows_of

from reefcast.overlay.scot import scot
from reefcast.overlay.topology import path
from reefcast.routing.clt import civ_of
from reefcast.routing.scot import ScotRouter

BOTH = pytest.mark.parametrize("routing", ["spr", "idr"])


@BOTH
def test_a_subscription_settles_when_the_hosts_of_advertisements_have_set_its_bit(
    routing: str,
) -> None:
    network = Harness(scot(path("xyv"), 2), routing)
    network.connect("s", "x-0")
    network.connect("p", "v-1")
    network.advertise("p", "TRUE")
    network.run()
    network.slow = {("v-0", "v-1")}
    number = network.subscribe("s", "TRUE")
    network.run()
    assert ("s", number) not in network.settled
    assert network.brokers["v-0"].tables()["PRT"] == 1
    network.slow = set()
    network.run()
    assert ("s", number) in network.settled


@BOTH
def test_a_subscription_settles_no_sooner_than_the_bit_that_another_one_set(routing: str) -> None:
    """The CIV_SET for the first subscription is under way when the second one finds the bit already
    set."""
    network = Harness(scot(path("v"), 2), routing)
    network.connect("s", "v-0")
    network.connect("p", "v-1")
    network.advertise("p", "x > 0")
    network.run()
    network.slow = {("v-0", "v-1")}
    first = network.subscribe("s", "x = 1")
    second = network.subscribe("s", "x = 2")
    network.unsubscribe("s", first)
    third = network.subscribe("s", "x = 3")
    elsewhere = network.subscribe("s", "x < 0")
    network.run()
    assert network.sent["CivSet"] == 1
    assert network.settled == {("p", 1), ("s", elsewhere)}
    network.slow = set()
    network.run()
    assert {("s", number) for number in (first, second, third)} <= network.settled
    assert network.sent["CivSet"] == 1


@BOTH
@pytest.mark.parametrize("slow", [("v-0", "v-1"), ("v-0", "w-0")])
def test_what_comes_again_after_a_restart_is_settled_when_the_first_time_is(
    routing: str, slow: tuple[str, str]
) -> None:
    """y restarts while v has told the next broker, which has not handled it yet; x and then y say
    the same again."""
    network = Harness(scot(path("xyvw"), 2), routing)
    network.connect("s", "x-0")
    network.connect("p", "v-1")
    network.connect("q", "w-1")
    network.advertise("p", "TRUE")
    network.advertise("q", "TRUE")
    network.run()
    network.slow = {slow}
    number = network.subscribe("s", "TRUE")
    network.run()
    network.kill("y-0")
    network.start("y-0")
    network.run()
    assert ("s", number) not in network.settled
    network.slow = set()
    network.run()
    assert ("s", number) in network.settled


@BOTH
def test_what_came_through_a_broker_that_relearns_is_not_swept_before_it_has_heard_all(
    routing: str,
) -> None:
    network = Harness(scot(path("xvy"), 2), routing)
    network.connect("s", "y-0")
    network.subscribe("s", "TRUE")
    network.run()
    network.slow = {("y-0", "v-0")}
    network.kill("v-0")
    network.start("v-0")
    network.run()
    assert network.brokers["x-0"].tables()["PRT"] == 1
    network.disconnect("s")
    network.slow = set()
    network.run()
    assert all(broker.tables()["PRT"] == 0 for broker in network.brokers.values())


# --- publications that wait, publishers that leave or have several advertisements -----------------


def three_clusters(routing: str) -> Harness:
    """Return a - b times 3, with p at a-0; s1 at b-1 wants x = 1, s2 at b-2 wants x IN (1, 2); all
    have settled."""
    network = Harness(scot(path("ab"), 3), routing)
    for client, home in {"p": "a-0", "s1": "b-1", "s2": "b-2"}.items():
        network.connect(client, home)
    network.subscribe("s1", "x = 1")
    network.subscribe("s2", "x IN (1, 2)")
    network.run()
    return network


def got(network: Harness) -> list[tuple[str, int]]:
    return sorted((client, id[1]) for client, id, _ in network.delivered)


@BOTH
def test_what_a_publisher_said_before_it_left_is_sent_on_its_rows(routing: str) -> None:
    network = three_clusters(routing)
    network.slow = {("a-0", "a-1")}
    network.advertise("p", "TRUE")
    network.publish("p", x=1)
    network.publish("p", x=2)
    network.disconnect("p")
    network.run()
    assert network.delivered == []
    network.slow = set()
    network.run()
    assert got(network) == [("s1", 1), ("s2", 1), ("s2", 2)]
    assert network.brokers["a-0"].clients == {}
    assert all(broker.tables()["CLT"] == 0 for broker in network.brokers.values())


@BOTH
def test_a_publication_that_waits_keeps_the_bits_of_an_advertisement_withdrawn(
    routing: str,
) -> None:
    network = three_clusters(routing)
    first = network.advertise("p", "x = 1")
    network.run()
    network.slow = {("a-0", "a-1")}
    network.advertise("p", "x = 2")
    network.publish("p", x=1)
    network.unadvertise("p", first)
    network.publish("p", x=1)
    network.publish("p", x=2)
    network.run()
    network.slow = set()
    network.run()
    assert got(network) == [("s1", 1), ("s2", 1), ("s2", 3)]
    assert network.discarded == {"outside_advertisement": 1}
    assert network.brokers["a-1"].tables()["CLT"] == 1


@BOTH
def test_a_publication_takes_the_bits_of_all_advertisements_that_it_matches(routing: str) -> None:
    """The spec takes the union; any one of them might lack bits of clusters that want the
    publication."""
    network = three_clusters(routing)
    for filter in ("x = 1 AND y IS NULL", "x = 2", "x <= 2", "x > 2"):
        network.advertise("p", filter)
    network.run()
    civs = [row["CIV"] for row in rows_of(network.brokers["a-0"], "CLT")]
    assert civs == ["111", "101", "111", "001"]
    for x in (1, 2, 3):
        network.publish("p", x=x)
    network.run()
    assert got(network) == [("s1", 1), ("s2", 1), ("s2", 2)]
    entered = sorted((c.id[1], c.target) for c in network.copies if c.source == "a-0")
    assert entered == [(1, "a-1"), (1, "a-2"), (2, "a-1"), (2, "a-2")]


@BOTH
def test_the_advertisements_of_other_clients_do_not_count(routing: str) -> None:
    network = three_clusters(routing)
    network.connect("q", "a-0")
    network.advertise("q", "TRUE")
    network.connect("s3", "b-0")
    network.subscribe("s3", "TRUE")
    network.advertise("p", "x = 3")
    network.run()
    network.publish("p", x=3)
    network.run()
    assert [(copy.source, copy.target) for copy in network.copies] == [("a-0", "b-0")]


@BOTH
def test_a_publisher_that_never_advertised_reaches_all_clusters(routing: str) -> None:
    network = three_clusters(routing)
    network.publish("p", x=1)
    network.run()
    assert got(network) == [("s1", 1), ("s2", 1)]
    row = rows_of(network.brokers["a-2"], "CLT")[0]
    assert row == {
        "advertisement": "p@a-0#-1",
        "filter": "TRUE",
        "context": "subscription",
        "CIV": "101",
        "last hop": "a-0",
    }


# --- links that are down --------------------------------------------------------------------------


def test_idr_takes_an_a_link_where_the_i_link_is_down() -> None:
    """a-0's iLink to a-1 is down; b-0, which gets a copy anyway, takes it into cluster 1."""
    network = three_clusters("idr")
    network.connect("s0", "b-0")
    network.subscribe("s0", "TRUE")
    network.advertise("p", "TRUE")
    network.run()
    network.give_up("a-0", "a-1")
    network.run()
    network.unsubscribe("s2", 1)
    network.run()
    network.publish("p", x=1)
    network.run()
    assert got(network) == [("s0", 1), ("s1", 1)]
    assert [(c.source, c.target, civ_of(c.header)) for c in network.copies] == [
        ("a-0", "b-0", 0b010),
        ("b-0", "b-1", 0),
    ]


def test_what_waited_for_a_link_that_is_given_up_is_not_sent_there() -> None:
    """The publication waits for the answer of a-1. Its bits then take another route, although the
    queue to a-1 would be the shortest."""
    network = three_clusters("idr")
    for link in ("a-1", "a-2"):
        network.lengths["a-0", link] = 20
    network.slow = {("a-0", "a-1")}
    network.advertise("p", "TRUE")
    network.publish("p", x=1)
    network.run()
    network.lengths["a-0", "a-1"] = 0
    network.give_up("a-0", "a-1")
    network.slow = set()
    network.run()
    assert got(network) == [("s1", 1), ("s2", 1)]
    assert network.copies[0].target == "a-2"


def test_spr_sends_nothing_where_the_i_link_is_down() -> None:
    network = three_clusters("spr")
    network.advertise("p", "TRUE")
    network.run()
    network.give_up("a-0", "a-1")
    network.run()
    network.publish("p", x=1)
    network.run()
    assert got(network) == [("s2", 1)]
    assert network.brokers["a-1"].tables() == {"CLT": 0, "PRT": 1}


@BOTH
def test_what_came_by_a_link_that_is_given_up_is_taken_back(routing: str) -> None:
    """These are a client's subscriptions, those beyond an aLink, and the bits that stood for
    them."""
    network = three_clusters(routing)
    network.advertise("p", "x = 1")
    network.run()
    assert rows_of(network.brokers["a-0"], "CLT")[0]["CIV"] == "111"
    network.disconnect("s1")
    network.give_up("a-2", "b-2")
    network.run()
    assert rows_of(network.brokers["a-0"], "CLT")[0]["CIV"] == "001"
    router = network.brokers["a-2"].router
    assert isinstance(router, ScotRouter)
    assert router.tree.outgoing == {}
    prt = {name: broker.tables()["PRT"] for name, broker in network.brokers.items()}
    assert prt == {**dict.fromkeys(prt, 0), "b-2": 1}


@BOTH
def test_a_bit_says_1_again_when_a_link_is_back(routing: str) -> None:
    """While the link was down, cluster 1 could not announce its new subscription."""
    network = three_clusters(routing)
    network.advertise("p", "x = 3")
    network.run()
    assert rows_of(network.brokers["a-0"], "CLT")[0]["CIV"] == "001"
    network.give_up("a-0", "a-1")
    number = network.subscribe("s1", "x = 3")
    network.run()
    assert ("s1", number) in network.settled
    network.link_up("a-0", "a-1")
    network.run()
    network.publish("p", x=3)
    network.run()
    assert got(network) == [("s1", 1)]
