"""TID routing, step by step: the examples of Fig. 1, and what each rule is there for."""

from __future__ import annotations

import pytest
from routing_harness import Harness

from reefcast.errors import ProtocolError
from reefcast.matching.scan import ScanIndex
from reefcast.model.messages import Bind, CivSet, Header, LinkKind, LinkUp, Publish, Subscribe
from reefcast.model.publication import Publication
from reefcast.overlay.topology import Graph, graph
from reefcast.routing.broker import Broker

Link = tuple[str, str]
BUSY = 40


class Slow:
    """An order of messages: these links wait as long as others have something."""

    def __init__(self, *links: Link) -> None:
        self.links = links

    def choice(self, ready: list[Link]) -> Link:
        return min(ready, key=lambda ends: ends in self.links)


def overlay(*links: str) -> Graph:
    """From `"ab"` for a link between a and b, and so on."""
    edges = [(link[0], link[1]) for link in links]
    return graph(sorted({name for edge in edges for name in edge}), edges)


def network_of(routing: str, graph: Graph, **clients: str) -> Harness:
    network = Harness(graph, routing)
    for client, broker in clients.items():
        network.connect(client, broker)
    network.run()
    return network


def run(network: Harness, *slow: str) -> None:
    """Until quiet; the links in `slow`, such as "ab" for that from a to b, are the last to move."""
    network.rng = Slow(*[(link[0], link[1]) for link in slow])  # type: ignore[assignment]
    network.run()


def move(network: Harness, *links: str) -> None:
    """One message on each of these links, and nothing else."""
    for link in links:
        network.rng = Slow(*[ends for ends in network.queues if ends != (link[0], link[1])])  # type: ignore[assignment]
        assert network.queues[link[0], link[1]]
        network.step()


def drain(network: Harness, *links: str) -> None:
    """All that waits on each of these links."""
    for link in links:
        move(network, *[link] * len(network.queues[link[0], link[1]]))


def carry(network: Harness, *links: str) -> None:
    """The next publication on each of these links, with what waits before it."""
    for link in links:
        waiting = [type(item) for item in network.queues[link[0], link[1]]]
        move(network, *[link] * (waiting.index(Publish) + 1))


def last_hops(network: Harness, tid: tuple[str, int]) -> dict[str, str]:
    """Broker -> last hop of this tree."""
    found = {}
    for name, broker in network.brokers.items():
        tree = broker.router.srt.get(tid)  # type: ignore[attr-defined]
        if tree is not None:
            found[name] = tree.last_hop
    return found


def copies(network: Harness) -> list[str]:
    """Where publications went between brokers, with the publisher of the tree that they were on."""
    found = []
    for copy in network.copies:
        assert copy.header.tid is not None
        switched = "*" if copy.header.switched else ""
        found.append(f"{copy.source}{copy.target} {copy.header.tid[0]}{switched}")
    return found


def delivered(network: Harness) -> list[tuple[str, int]]:
    return sorted((client, seq) for client, (_, seq), _ in network.delivered)


def total(network: Harness, counter: str) -> int:
    return sum(broker.counters[counter] for broker in network.brokers.values())


# --- Fig. 1 ---------------------------------------------------------------------------------------

FIG_1 = overlay("12", "23", "14", "25", "36", "45", "56")


@pytest.mark.parametrize("routing", ["tid-s", "tid-d"])
@pytest.mark.parametrize(
    ("slow", "tree", "way"),
    [
        pytest.param(
            ("25", "36"),
            {"1": "p", "2": "1", "3": "2", "4": "1", "5": "4", "6": "5"},
            ["14 p"],
            id="a",
        ),
        pytest.param(
            ("14", "25"),
            {"1": "p", "2": "1", "3": "2", "4": "5", "5": "6", "6": "3"},
            ["12 p", "23 p", "36 p", "65 p", "54 p"],
            id="b",
        ),
    ],
)
def test_the_first_copy_of_an_advertisement_makes_the_tree(
    routing: str, slow: tuple[str, ...], tree: dict[str, str], way: list[str]
) -> None:
    """Fig. 1 (a) and (b): subscriber and publisher are in one region, whatever the way."""
    network = network_of(routing, FIG_1, p="1", s="4")
    number = network.advertise("p", "TRUE")
    run(network, *slow)
    assert last_hops(network, ("p", number)) == tree
    tree_links, other_links = len(FIG_1) - 1, 7 - (len(FIG_1) - 1)
    assert network.sent["Advertise"] == tree_links + 2 * other_links
    network.subscribe("s", "x > 5")
    network.run()
    assert network.sent["Bind"] == len(way)
    network.publish("p", x=6)
    network.run()
    assert copies(network) == way
    assert delivered(network) == [("s", 1)]
    network.publish("p", x=4)  # nobody on the way looks
    network.run()
    assert copies(network) == way + way
    assert total(network, "false_positive") == 1


def overlapping_trees(routing: str, **filters: str) -> Harness:
    """Fig. 1 (c): the trees of P1 at 1 and P2 at 2 overlap at broker 2, with the last hops 5 and 3
    of the subscriptions at 6, whose filters are given by subscriber."""
    network = network_of(routing, FIG_1, p1="1", p2="2", **dict.fromkeys(filters, "6"))
    network.advertise("p1", "x > 0")
    run(network, "23", "45", "36")
    network.advertise("p2", "x > 5")
    run(network, "25", "21", "45")
    assert last_hops(network, ("p1", 1))["6"] == "5"
    assert last_hops(network, ("p2", 1))["6"] == "3"
    for subscriber, filter in filters.items():
        network.subscribe(subscriber, filter)
    network.run()
    return network


def test_a_copy_switches_to_a_tree_without_congestion_and_stays_there() -> None:
    network = overlapping_trees("tid-d", s="x > 1")
    network.publish("p1", x=2)
    network.run()
    assert copies(network) == ["12 p1", "25 p1", "56 p1"]
    network.copies.clear()
    network.lengths["2", "5"] = network.lengths["3", "6"] = BUSY
    network.publish("p1", x=2)
    network.run()
    assert copies(network) == ["12 p1", "23 p2*", "36 p2*"]
    assert delivered(network) == [("s", 1), ("s", 2)]
    assert total(network, "tid_switched") == 1
    assert total(network, "tid_not_switched") == 0


def test_tid_s_does_not_mind_congestion() -> None:
    network = overlapping_trees("tid-s", s="x > 1")
    network.lengths["2", "5"] = BUSY
    network.publish("p1", x=2)
    network.run()
    assert copies(network) == ["12 p1", "25 p1", "56 p1"]
    assert delivered(network) == [("s", 1)]


def test_there_is_no_switching_to_an_overloaded_link() -> None:
    network = overlapping_trees("tid-d", s="x > 1")
    network.lengths["2", "5"] = network.lengths["2", "3"] = BUSY
    network.publish("p1", x=2)
    network.run()
    assert copies(network) == ["12 p1", "25 p1", "56 p1"]
    assert total(network, "tid_not_switched") == 1


@pytest.mark.parametrize("other", ["x = 2", "x <= 5"])
def test_a_copy_switches_only_with_all_that_it_serves(other: str) -> None:
    """The second subscription does not intersect what P2 advertises, hence is bound to P1 only."""
    network = overlapping_trees("tid-d", s="x > 1", t=other)
    network.lengths["2", "5"] = BUSY
    network.publish("p1", x=2)
    network.run()
    assert copies(network) == ["12 p1", "25 p1", "56 p1"]
    assert delivered(network) == [("s", 1), ("t", 1)]
    network.copies.clear()
    network.publish("p1", x=7)  # the second does not match
    network.run()
    assert copies(network) == ["12 p1", "23 p2*", "36 p2*"]


def test_a_copy_does_not_switch_where_the_other_tree_parts_what_it_serves() -> None:
    network = network_of("tid-d", FIG_1, p1="1", p2="2", s="6", t="6", u="5")
    network.advertise("p1", "x > 0")
    run(network, "23", "45", "36")
    network.advertise("p2", "x > 0")
    run(network, "21", "45", "56")
    assert last_hops(network, ("p1", 1)).items() >= {"6": "5", "5": "2"}.items()
    assert last_hops(network, ("p2", 1)).items() >= {"6": "3", "3": "2", "5": "2"}.items()
    for subscriber, filter in (("s", "x = 2"), ("t", "TRUE"), ("u", "x = 2")):
        network.subscribe(subscriber, filter)
    network.run()
    network.lengths["2", "5"] = BUSY
    network.publish("p1", x=2)
    network.run()
    assert copies(network) == ["12 p1", "25 p1", "56 p1"]
    network.copies.clear()
    network.publish("p1", x=3)
    network.run()
    assert copies(network) == ["12 p1", "23 p2*", "36 p2*"]


def test_a_forward_only_broker_does_not_match() -> None:
    network = overlapping_trees("tid-s", s="x > 1", t="x > 8")
    matched = {}
    network.publish("p1", x=2)
    while network.step():
        for name, broker in network.brokers.items():
            for _, decision in broker.last_routed:
                matched[name] = decision.matched
    assert matched == {"1": None, "2": None, "5": None, "6": 1}


def test_what_the_choice_of_another_way_took_is_counted() -> None:
    network = overlapping_trees("tid-d", s="x > 1", t="x > 2", u="x > 8")
    network.lengths["2", "5"] = BUSY
    network.publish("p1", x=7)
    taken = []
    while network.step():
        for _, decision in network.brokers["2"].last_routed:
            taken.append((decision.matched, decision.checked, decision.searched))
        network.brokers["2"].last_routed.clear()
    assert taken == [(2, 2, 2)]


def test_the_least_loaded_link_is_taken() -> None:
    star = overlay("ab", "ac", "ad", "be", "ce", "de")
    network = network_of("tid-d", star, p="a", q="a", r="a", s="e")
    for publisher, way in (("p", "b"), ("q", "c"), ("r", "d")):
        network.advertise(publisher, "TRUE")
        run(network, *[f"a{other}" for other in "bcd" if other != way])
    network.subscribe("s", "TRUE")
    network.run()
    network.lengths.update({("a", "b"): BUSY, ("a", "c"): 2, ("a", "d"): 1})
    network.publish("p")
    network.run()
    assert copies(network) == ["ad r*", "de r*"]


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


def test_a_link_carries_a_publication_once_for_each_tree() -> None:
    network = settle(meeting())
    network.lengths["d", "r"] = BUSY
    network.publish("p")
    network.run()
    assert copies(network) == ["ac p", "cd q*", "cd p", "dy q*", "yz q*"]
    assert delivered(network) == [("s", 1), ("t", 1)]
    assert total(network, "tid_suppressed") == 1
    assert network.discarded == {"duplicate": 1}


def test_a_copy_that_went_before_a_binding_came_does_not_keep_back_another() -> None:
    """t has settled long ago and is owed the publication; only its binding to q's new tree is under
    way, and the first copy on this tree passes y before it."""
    network = meeting()
    move(network, "qc", "cd", "dy", "yz", "yd", "dc")
    assert network.queues["z", "y"]
    network.publish("p")
    carry(network, "pa", "ac", "cd", "dy")
    assert delivered(network) == [("s", 1)]
    drain(network, "zy", "yd")
    network.lengths["d", "r"] = BUSY
    network.run()
    assert copies(network) == ["ac p", "cd q*", "cd p", "dy q*", "dy q*", "yz q*"]
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
    tids = {copy.id[1]: copy.header.tid for copy in network.copies}
    assert tids == {1: ("p", 3), 2: ("p", 2), 3: ("p", 1)}


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


def test_a_lost_link_takes_its_trees_with_it_and_new_advertisements_make_new_ones() -> None:
    network = network_of("tid-s", RING, p="a", s="c")
    number = network.advertise("p", "TRUE")
    run(network, "ab", "bc")
    network.subscribe("s", "TRUE")
    network.run()
    network.give_up("a", "c")
    network.run()
    assert network.brokers["a"].tables() == {"SRT": 1, "PRT": 0}
    assert network.brokers["c"].tables() == {"SRT": 0, "PRT": 1}
    network.unadvertise("p", number)
    network.advertise("p", "TRUE")
    network.run()
    network.publish("p")
    network.run()
    assert copies(network) == ["ab p", "bc p"]
    assert delivered(network) == [("s", 1)]


# --- what can be seen, and what others do wrong ---------------------------------------------------


def test_an_operator_sees_the_trees() -> None:
    network = overlapping_trees("tid-s", s="x > 1", t="x = 2")
    assert network.brokers["6"].status()["tid"] == [
        {"advertisement": "p1#1", "filter": "x > 0", "last_hop": "5", "clients": 2, "hops": {}},
        {"advertisement": "p2#1", "filter": "x > 5", "last_hop": "3", "clients": 1, "hops": {}},
    ]
    assert network.brokers["5"].status()["tid"][0]["hops"] == {"6": 2}


def alone() -> Broker:
    broker = Broker("a", "tid-s", new_index=ScanIndex)
    broker.handle(LinkUp(LinkKind.BROKER), "b", 0.0)
    return broker


def test_messages_of_other_routings_are_refused() -> None:
    with pytest.raises(ProtocolError, match="sent Subscribe, but with routing 'tid-s'"):
        alone().handle(Subscribe(("s", 1), "TRUE", 1), "b", 0.0)
    with pytest.raises(ProtocolError, match="sent CivSet, which routing 'tid-s' does not know"):
        alone().handle(CivSet((("p", 1),), 1), "b", 0.0)


def test_a_binding_to_trees_that_are_gone_leaves_nothing() -> None:
    broker = alone()
    answers = broker.handle(Bind(("s", 1), "TRUE", (("p", 1),), 1), "b", 0.0)
    assert [type(effect.message).__name__ for effect in answers] == ["Settled"]  # type: ignore[union-attr]
    assert broker.tables() == {"SRT": 0, "PRT": 0}


def test_a_publication_without_a_tree_ends() -> None:
    network = network_of("tid-s", RING, p="a", s="c")
    network.subscribe("s", "TRUE")
    network.run()
    broker = network.brokers["c"]
    for header in (Header(1), Header(1, 0, ("p", 7))):
        assert broker.handle(Publish(Publication("p", 1, 0, {}), header), "a", 0.0) == []
