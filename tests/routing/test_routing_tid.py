"""TID routing, step by step: the examples of Fig. 1, when a copy switches trees, and what others
see."""

from __future__ import annotations

import pytest
from routing_harness import Harness, rows_of
from routing_tid_scripts import (
    BUSY,
    copies,
    delivered,
    last_hops,
    network_of,
    overlay,
    run,
    total,
)

from reefcast.errors import ProtocolError
from reefcast.matching.scan import ScanIndex
from reefcast.model.messages import (
    Advertise,
    Effect,
    Header,
    LinkKind,
    LinkUp,
    Publish,
    Send,
    Settled,
    Subscribe,
)
from reefcast.model.publication import Publication
from reefcast.routing.broker import Broker
from reefcast.routing.clt import CivSet
from reefcast.routing.tid_tables import Bind, TidHeader, Unbind
from reefcast.simulation.shared_index import SharedMatching

# --- Fig. 1 ---------------------------------------------------------------------------------------

RING = overlay("ab", "bc", "ca")
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
    """Fig. 1 (a) and (b): subscriber and publisher are in one region, whatever path the copy
    took."""
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
    """Return Fig. 1 (c): the trees of P1 at 1 and P2 at 2 overlap at broker 2, with the last hops 5
    and 3 of the subscriptions at 6, whose filters are given by subscriber."""
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
    """The second subscription does not intersect what P2 advertises, so that it is bound to P1
    only."""
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


# --- what can be seen, and what others do wrong ---------------------------------------------------


def test_a_binding_counts_for_what_comes_next() -> None:
    """An index that caches results per row must see it: the rows themselves stay the same here."""
    broker = Broker("a", "tid-s", new_index=SharedMatching().new_index)
    for neighbour in ("b", "c"):
        broker.handle(LinkUp(LinkKind.BROKER), neighbour, 0.0)
    broker.handle(LinkUp(LinkKind.CLIENT), "s", 0.0)
    broker.handle(Subscribe(("s", 1), "TRUE"), "s", 0.0)
    one, other = ("p", 1), ("p", 2)
    tells: list[Effect] = []
    for tid in (one, other):
        tells += broker.handle(Advertise(tid, "TRUE", via=("b",)), "b", 0.0)

    def hops() -> list[list[str]]:
        found = []
        for seq in range(3):
            publish = Publish(Publication("p", seq + 1, 0, {}), TidHeader(1, one))
            broker.handle(publish, "b", 0.0)
            found.append([hop for hop, _ in broker.last_routed[0][1].hops])
        return found

    assert hops() == [["c"], ["c"], ["c"]], "c may want it, and has not answered"
    for tell in tells:
        if isinstance(tell, Send) and isinstance(tell.message, Advertise):
            broker.handle(Settled(tell.message.token), tell.link, 0.0)
    broker.handle(Bind(id=("t", 1), filter="TRUE", trees=(other,)), "c", 0.0)
    assert hops() == [[], [], []]
    broker.handle(Bind(id=("t", 1), filter="TRUE", trees=(one,)), "c", 0.0)
    assert hops() == [["c"], ["c"], ["c"]]
    broker.handle(Unbind(id=("t", 1), trees=(one,)), "c", 0.0)
    assert hops() == [[], [], []]


def test_an_operator_sees_the_trees() -> None:
    network = overlapping_trees("tid-s", s="x > 1", t="x = 2")
    assert rows_of(network.brokers["6"], "SRT") == [
        {
            "TID": "p1@1#1",
            "filter": "x > 0",
            "last hop": "5",
            "bound subscriptions": "clients 2",
        },
        {
            "TID": "p2@2#1",
            "filter": "x > 5",
            "last hop": "3",
            "bound subscriptions": "clients 1",
        },
    ]
    assert rows_of(network.brokers["5"], "SRT")[0]["bound subscriptions"] == "6 2"


def alone() -> Broker:
    broker = Broker("a", "tid-s", new_index=ScanIndex)
    broker.handle(LinkUp(LinkKind.BROKER), "b", 0.0)
    return broker


def test_messages_of_other_routings_are_refused() -> None:
    with pytest.raises(ProtocolError, match="sent Subscribe, but with routing 'tid-s'"):
        alone().handle(Subscribe(("s", 1), "TRUE", 1), "b", 0.0)
    with pytest.raises(ProtocolError, match="sent CivSet, which routing 'tid-s' does not know"):
        alone().handle(CivSet(advertisements=(("p", 1),), token=1), "b", 0.0)


def test_a_binding_to_trees_that_are_gone_leaves_nothing() -> None:
    broker = alone()
    answers = broker.handle(Bind(id=("s", 1), filter="TRUE", trees=(("p", 1),), token=1), "b", 0.0)
    assert [type(effect.message).__name__ for effect in answers] == ["Settled"]
    assert broker.tables() == {"SRT": 0, "PRT": 0}


def test_a_publication_without_a_tree_ends() -> None:
    network = network_of("tid-s", RING, p="a", s="c")
    network.subscribe("s", "TRUE")
    network.run()
    broker = network.brokers["c"]
    for header in (Header(1), TidHeader(1), TidHeader(1, ("p", 7))):
        assert broker.handle(Publish(Publication("p", 1, 0, {}), header), "a", 0.0) == []
