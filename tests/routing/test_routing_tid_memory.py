"""TID routing, step by step: what was served before, and advertisements that are withdrawn."""

from __future__ import annotations

import pytest
from routing_harness import Harness
from routing_tid_scripts import (
    BUSY,
    carry,
    copies,
    delivered,
    drain,
    last_hops,
    move,
    network_of,
    overlay,
    run,
    total,
)

from reefcast.routing.tid_tables import TidHeader

# --- what is remembered ---------------------------------------------------------------------------

MEETING = overlay("ac", "cb", "cd", "by", "dy", "dr", "rz", "yz")
"""The tree of p at a: over b to y and over d and r to z; that of q at c: over d and y to z."""


def meeting() -> Harness:
    network = network_of("tid-d", MEETING, p="a", q="c", s="y", t="z")
    network.subscribe("s", "TRUE")
    network.subscribe("t", "TRUE")
    network.advertise("p", "TRUE")
    run(network, "dy", "yz")
    assert last_hops(network, ("p", 1)).items() >= {"y": "b", "z": "r", "r": "d"}.items()
    network.advertise("q", "TRUE")
    network.lengths["c", "b"] = BUSY
    return network


def settle(network: Harness) -> Harness:
    run(network, "cb", "by", "dr", "rz")
    assert last_hops(network, ("q", 1)).items() >= {"y": "d", "z": "y"}.items()
    return network


def test_clients_get_a_publication_once_though_two_trees_bring_it() -> None:
    network = settle(meeting())
    network.publish("p")
    carry(network, "pa", "ac", "cd", "dy", "yz")
    assert delivered(network) == [("s", 1), ("t", 1)]
    network.run()
    assert copies(network) == ["ac p", "cd q*", "cd p", "dy q*", "yz q*", "dr p", "rz p"]
    assert delivered(network) == [("s", 1), ("t", 1)]
    assert total(network, "tid_suppressed_deliveries") == 1
    assert network.discarded == {"duplicate": 1}


@pytest.mark.parametrize("neighbour_has_a_part", [False, True])
def test_clients_without_a_part_in_the_tree_that_came_first_are_served(
    neighbour_has_a_part: bool,
) -> None:
    """At d the publication arrives first on q's tree, to which u is not bound. u gets it then, if d
    matches it for the sake of v, and otherwise when it arrives on p's tree."""
    network = network_of("tid-d", MEETING, p="a", q="c", s="y", u="d", v="d")
    network.advertise("p", "TRUE")
    run(network, "dy", "yz")
    network.advertise("q", "x > 5")
    run(network, "cb", "by", "dr", "rz")
    network.subscribe("s", "TRUE")
    network.subscribe("u", "x <= 5")
    if neighbour_has_a_part:
        network.subscribe("v", "TRUE")
    network.run()
    network.lengths["c", "b"] = BUSY
    network.publish("p", x=2)
    network.run()
    assert copies(network) == ["ac p", "cd q*", "cd p", "dy q*"]
    expected = ["s", "u", "v"] if neighbour_has_a_part else ["s", "u"]
    assert delivered(network) == [(client, 1) for client in expected]


def test_a_copy_does_not_switch_back_to_where_it_came_from() -> None:
    network = network_of("tid-d", overlay("ac", "cd", "de", "cf", "fe"), p="a", q="d", s="e")
    network.subscribe("s", "TRUE")
    network.advertise("p", "TRUE")
    run(network, "fe")
    network.advertise("q", "TRUE")
    run(network, "de")
    assert last_hops(network, ("p", 1)).items() >= {"e": "d", "d": "c"}.items()
    assert last_hops(network, ("q", 1)).items() >= {"e": "f", "f": "c", "c": "d"}.items()
    network.lengths["d", "e"] = BUSY
    network.publish("p")
    network.run()
    assert copies(network) == ["ac p", "cd p", "de p"]


def test_a_link_carries_a_publication_once_for_each_tree() -> None:
    network = settle(meeting())
    network.lengths["d", "r"] = BUSY
    network.publish("p")
    network.run()
    assert copies(network) == ["ac p", "cd q*", "cd p", "dy q*", "yz q*"]
    assert delivered(network) == [("s", 1), ("t", 1)]
    assert total(network, "tid_suppressed") == 1
    assert network.discarded == {"duplicate": 1}


def test_no_copy_switches_to_a_tree_to_which_something_is_still_being_bound() -> None:
    """t has settled long ago and is owed the publication; only its binding to q's new tree is under
    way. A copy on this tree would pass y before the binding does."""
    network = meeting()
    move(network, "qc", "cd", "dy", "yz", "yd", "dc")
    assert network.queues["z", "y"]
    network.publish("p")
    carry(network, "pa", "ac")
    drain(network, "zy", "yd")
    network.run()
    assert not [copy for copy in copies(network) if copy.endswith("q*")]
    assert delivered(network) == [("s", 1), ("t", 1)]


# --- advertisements that go -----------------------------------------------------------------------

RING = overlay("ab", "bc", "ca")


def test_a_late_copy_of_a_withdrawn_advertisement_is_dropped() -> None:
    network = network_of("tid-s", RING, p="a", s="c")
    number = network.advertise("p", "TRUE")
    network.unadvertise("p", number)
    move(network, "pa", "pa", "ab", "ab", "bc", "bc")
    assert network.brokers["c"].tables()["SRT"] == 0
    sent = network.sent["Advertise"]
    move(network, "ac")
    assert network.brokers["c"].tables()["SRT"] == 0
    assert network.sent["Advertise"] == sent
    network.run()
    assert all(broker.tables()["SRT"] == 0 for broker in network.brokers.values())


def test_a_withdrawal_does_not_overtake_publications() -> None:
    network = network_of("tid-s", RING, p="a", s="c")
    number = network.advertise("p", "TRUE")
    run(network, "bc", "cb")
    network.subscribe("s", "TRUE")
    network.run()
    network.publish("p")
    network.unadvertise("p", number)
    move(network, "pa", "pa", "ab", "bc")
    network.run()
    assert delivered(network) == [("s", 1)]
    assert network.brokers["c"].tables() == {"SRT": 0, "PRT": 1}


def test_a_publication_takes_the_first_advertisement_that_it_matches() -> None:
    network = network_of("tid-s", RING, p="a", s="c")
    for filter in ("x > 5", "x > 0", "TRUE"):
        network.advertise("p", filter)
    network.subscribe("s", "TRUE")
    network.run()
    for x in (0, 3, 9):
        network.publish("p", x=x)
    network.run()
    headers = {copy.id[1]: copy.header for copy in network.copies}
    tids = {n: header.tid for n, header in headers.items() if isinstance(header, TidHeader)}
    assert {seq: tid[1] for seq, tid in tids.items()} == {1: 3, 2: 2, 3: 1}


def test_trees_that_came_by_one_link_are_bound_by_one_message() -> None:
    network = network_of("tid-s", overlay("ab", "bc"), p="a", q="a", r="b", s="c")
    for publisher in "pqr":
        network.advertise(publisher, "TRUE")
    network.run()
    number = network.subscribe("s", "TRUE")
    network.run()
    assert network.sent["Bind"] == 2
    assert network.brokers["b"].tables() == {"SRT": 3, "PRT": 1}
    network.unsubscribe("s", number)
    network.run()
    assert network.sent["Unbind"] == 2
    assert all(broker.tables()["PRT"] == 0 for broker in network.brokers.values())


def test_a_lost_link_takes_its_trees_with_it_and_others_grow_in_their_place() -> None:
    network = network_of("tid-s", RING, p="a", s="c")
    number = network.advertise("p", "TRUE")
    run(network, "ab", "bc")
    network.subscribe("s", "TRUE")
    network.run()
    network.give_up("a", "c")
    network.run()
    assert last_hops(network, ("p", number)) == {}
    assert last_hops(network, ("p", 2), f"#{number}") == {"a": "p", "b": "a", "c": "b"}
    network.publish("p")
    network.run()
    assert copies(network) == ["ab p", "bc p"]
    assert delivered(network) == [("s", 1)]
    network.unadvertise("p", number)
    network.run()
    assert all(broker.tables()["SRT"] == 0 for broker in network.brokers.values())
