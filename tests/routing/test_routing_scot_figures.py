"""The worked examples of OctopiA: Figs 4 to 8, with the links, headers and counts of the text."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from routing_harness import Harness, rows_of

from reefcast.overlay.scot import scot
from reefcast.overlay.topology import graph, path
from reefcast.routing.clt import civ_of
from reefcast.routing.scot import ScotRouter

FIG_2 = graph("abcdef", [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("e", "f")])
"""Fig. 2 as the text describes it: a is an edge node, e an inner one, d - e and a - b are links."""
FIG_7 = scot(path("abc"), 4)
OVERLOADED = 20
"""How many publications wait on an overloaded link without traffic; tau is 10."""

Hop = tuple[str, str]


def fig_3(routing: str = "spr") -> Harness:
    network = Harness(scot(FIG_2, 3), routing)
    network.run()
    network.sent.clear()
    return network


def civ(network: Harness, broker: str, advertisement: tuple[str, int]) -> str:
    router = network.brokers[broker].router
    assert isinstance(router, ScotRouter)
    row = router.clt.get(advertisement)
    assert row is not None
    return format(row.civ, f"0{len(network.scot.region('a'))}b")


def rows(network: Harness, table: str) -> set[str]:
    return {name for name, broker in network.brokers.items() if broker.tables()[table]}


# --- sections 6 to 8 ------------------------------------------------------------------------------


def test_fig_4_advertisements_stay_in_their_host_regions() -> None:
    network = fig_3()
    for number, home in enumerate(("a-0", "e-1", "a-2")):
        network.connect(f"P{number}", home)
        network.advertise(f"P{number}", f"x = {number}")
    network.run()
    assert rows(network, "CLT") == {"a-0", "a-1", "a-2", "e-0", "e-1", "e-2"}
    assert network.brokers["a-1"].tables() == {"CLT": 2, "PRT": 0}
    assert network.brokers["e-0"].tables() == {"CLT": 1, "PRT": 0}
    assert network.sent["Advertise"] == 3 * 2  # m - 1 each, and no duplicate
    assert rows(network, "PRT") == set()


def test_fig_5_subscriptions_stay_in_their_host_clusters() -> None:
    network = fig_3()
    homes = {"S": "f-0", "S0": "c-0", "S1": "d-1", "S2": "c-2"}
    for name, home in homes.items():
        network.connect(name, home)
        network.subscribe(name, "TRUE")
    network.run()
    for name, broker in network.brokers.items():
        assert broker.tables() == {"CLT": 0, "PRT": 2 if name.endswith("-0") else 1}
    assert network.sent["Subscribe"] == 4 * 5  # |T| - 1 each
    assert network.sent["CivSet"] == 0


def test_fig_6_the_three_contexts_of_a_civ() -> None:
    """Four clusters; the publisher is in C1; C0 and C2 hold interested subscribers, C3 none.

    The caption's (c) is a publication that has still to reach both: 0101.
    """
    network = Harness(FIG_7, "idr")
    for name, home in {"P": "b-1", "S0": "a-0", "S2": "c-2", "S1": "b-1"}.items():
        network.connect(name, home)
    network.subscribe("S0", "TRUE")
    network.subscribe("S2", "TRUE")
    network.subscribe("S1", "TRUE")
    network.subscribe("S1", "x = 99")
    network.advertise("P", "TRUE")
    network.run()
    assert civ(network, "b-1", ("P", 1)) == "0111"
    assert civ(network, "b-2", ("P", 1)) == "0110"
    assert civ(network, "b-3", ("P", 1)) == "0010"
    assert "'0110'" in str(rows_of(network.brokers["b-2"], "CLT"))
    network.lengths = congest(network, [("b-1", "b-0"), ("b-1", "b-2")])
    network.lengths["b-1", "b-2"] += 1
    network.publish("P", x=1)
    network.run()
    [copy] = [copy for copy in network.copies if copy.source == "b-1"]
    assert (copy.target, format(civ_of(copy.header), "04b")) == ("b-0", "0100")


def test_section_8_bits_of_fig_8() -> None:
    """P1 has no target secondary cluster, P2 has C0, and S2 makes C2 one of P0's."""
    network = fig_3()
    for name, home in {"P0": "a-0", "P1": "e-1", "P2": "a-2", "S2": "c-2", "S": "f-0"}.items():
        network.connect(name, home)
    network.advertise("P1", "x = 1")
    network.run()
    assert network.sent["Advertise"] == network.sent["CivUnset"] == 2
    assert [civ(network, f"e-{y}", ("P1", 1)) for y in (0, 1, 2)] == ["010"] * 3
    network.subscribe("S", "x = 2")
    network.advertise("P2", "x = 2")
    network.advertise("P0", "x = 0")
    network.run()
    assert civ(network, "a-2", ("P2", 1)) == "101"
    assert civ(network, "a-0", ("P2", 1)) == "101"
    assert civ(network, "a-0", ("P0", 1)) == "001"
    network.sent.clear()
    network.subscribe("S2", "x = 0")
    network.run()
    assert network.sent["CivSet"] == 1
    assert civ(network, "a-2", ("P0", 1)) == "101"
    assert civ(network, "a-0", ("P0", 1)) == "101"
    network.subscribe("S2", "x = 0")
    network.run()
    assert network.sent["CivSet"] == 1  # the bit is set: nothing more to say


def test_one_civ_set_for_all_advertisements_of_an_i_link() -> None:
    network = fig_3()
    network.connect("P0", "a-0")
    network.connect("S2", "c-2")
    for _ in range(3):
        network.advertise("P0", "x = 0")
    network.run()
    network.sent.clear()
    number = network.subscribe("S2", "x = 0")
    network.run()
    assert network.sent["CivSet"] == 1
    network.unsubscribe("S2", number)
    network.run()
    assert network.sent["CivUnset"] == 1
    assert network.sent["Unsubscribe"] == 5
    assert [civ(network, "a-0", ("P0", n)) for n in (1, 2, 3)] == ["001"] * 3


# --- section 9.1 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("routing", ["spr", "idr"])
def test_fig_8_static_routing(routing: str) -> None:
    """The text gives P0 the CIV 110; by its own section 8 the host's bit is always 1, so it is 111
    here. That bit sends nothing: the host cluster is served by the PRT alone."""
    network = fig_3(routing)
    homes = {"P0": "a-0", "P1": "e-1", "P2": "a-2", "S": "f-0", "S0": "c-0", "S1": "c-1"}
    for name, home in {**homes, "S2": "d-2"}.items():
        network.connect(name, home)
    network.subscribe("S", "x = 1")
    network.subscribe("S0", "x = 1")
    network.subscribe("S1", "x IN (0, 1)")
    network.subscribe("S2", "TRUE")
    for number in range(3):
        network.advertise(f"P{number}", f"x = {number}")
    network.run()
    bits = {f"P{n}": civ(network, homes[f"P{n}"], (f"P{n}", 1)) for n in range(3)}
    assert bits == {"P0": "111", "P1": "111", "P2": "100"}
    assert routed(network, "P0", x=0) == {
        *[("a-0", "a-1"), ("a-1", "b-1"), ("b-1", "c-1")],
        *[("a-0", "a-2"), ("a-2", "b-2"), ("b-2", "d-2")],
    }
    assert routed(network, "P1", x=1) == {
        *[("e-1", "d-1"), ("d-1", "b-1"), ("b-1", "c-1")],
        *[("e-1", "e-0"), ("e-0", "f-0"), ("e-0", "d-0"), ("d-0", "b-0"), ("b-0", "c-0")],
        *[("e-1", "e-2"), ("e-2", "d-2")],
    }
    assert routed(network, "P2", x=2) == {("a-2", "b-2"), ("b-2", "d-2")}
    got = sorted((publisher, client) for client, (publisher, _), _ in network.delivered)
    assert got == [
        *[("P0", "S1"), ("P0", "S2")],
        *[("P1", "S"), ("P1", "S0"), ("P1", "S1"), ("P1", "S2"), ("P2", "S2")],
    ]


# --- section 9.2 ----------------------------------------------------------------------------------


def congest(network: Harness, links: Iterable[Hop]) -> dict[Hop, int]:
    network.lengths.update(dict.fromkeys(links, OVERLOADED))
    return network.lengths


def routed(network: Harness, publisher: str, **attributes: int) -> set[Hop]:
    """Return the links that one publication crosses, none of them twice."""
    network.copies.clear()
    network.publish(publisher, **attributes)
    network.run()
    hops = [(copy.source, copy.target) for copy in network.copies]
    assert len(hops) == len(set(hops))
    return set(hops)


def fig_7(routing: str, subscribers: dict[str, str]) -> Harness:
    """Return Fig. 7: P at b-3; everybody is interested."""
    network = Harness(FIG_7, routing)
    network.connect("P", "b-3")
    for name, home in subscribers.items():
        network.connect(name, home)
        network.subscribe(name, "TRUE")
    network.advertise("P", "TRUE")
    network.run()
    return network


def headers(network: Harness) -> dict[Hop, str]:
    """Return the headers of the copies that carry a CIV in the publication context (CIV_p-D)."""
    return {
        (copy.source, copy.target): format(civ_of(copy.header), "04b")
        for copy in network.copies
        if civ_of(copy.header)
    }


def everybody_once(network: Harness, subscribers: dict[str, str]) -> bool:
    return sorted(client for client, _, _ in network.delivered) == sorted(subscribers)


CASE_1 = {"S1": "c-0", "S2": "c-1", "S3": "c-2", "S4": "a-3", "S5": "c-3"}
"""The caption says that S1 to S4 are interested. That makes 7 messages at most (3 iLinks, and one
aLink for each of 4 subscribers), but the text counts 8 with SPR: so S5 is interested too, and each
of the five sits one aLink away from region b. S1 sits at c-0: its path gets one broker longer."""


def test_fig_7b_case_1_overloaded_i_links() -> None:
    network = fig_7("idr", CASE_1)
    network.lengths["b-3", "b-2"] = 1  # so that b-1 has the shorter queue
    congest(network, [("b-3", "b-0"), ("b-1", "b-0")])
    assert routed(network, "P", x=1) == {
        *[("b-3", "a-3"), ("b-3", "c-3"), ("b-3", "b-2"), ("b-3", "b-1")],
        *[("b-1", "c-1"), ("c-1", "c-0"), ("b-2", "c-2")],
    }
    assert headers(network) == {("b-3", "b-1"): "0001", ("b-1", "c-1"): "0001"}
    assert everybody_once(network, CASE_1)
    assert network.brokers["b-3"].counters["idr_case_1"] == 1
    assert network.brokers["b-1"].counters["idr_case_2"] == 1


def test_fig_7b_spr_takes_8_messages() -> None:
    network = fig_7("spr", CASE_1)
    congest(network, [("b-3", "b-0"), ("b-1", "b-0")])
    assert routed(network, "P", x=1) == {
        *[("b-3", "a-3"), ("b-3", "c-3"), ("b-3", "b-2"), ("b-3", "b-1"), ("b-3", "b-0")],
        *[("b-0", "c-0"), ("b-1", "c-1"), ("b-2", "c-2")],
    }
    assert everybody_once(network, CASE_1)


CASE_2 = {"S1": "c-0", "S2": "c-2", "S5": "a-2", "S3": "a-3", "S4": "c-3"}
"""C1 is no target cluster, so that S2, which is in C1 in case I, must be elsewhere in this picture:
the text counts S1, S2 and S5 as those behind the congested links, and 7 messages with SPR."""


def test_fig_7c_case_2_all_i_links_overloaded() -> None:
    network = fig_7("idr", CASE_2)
    network.lengths["b-3", "a-3"] = 1  # so that c-3 has the shorter queue
    congest(network, [("b-3", "b-0"), ("b-3", "b-2")])
    assert routed(network, "P", x=1) == {
        *[("b-3", "a-3"), ("b-3", "c-3"), ("c-3", "c-0"), ("c-3", "c-2")],
        *[("c-2", "b-2"), ("b-2", "a-2")],
    }
    assert headers(network) == {("b-3", "c-3"): "0101"}
    assert everybody_once(network, CASE_2)
    assert network.brokers["b-3"].counters["idr_case_2"] == 1
    assert not any(key.startswith("idr") for key in network.brokers["c-3"].counters)


def test_fig_7c_spr_takes_7_messages() -> None:
    network = fig_7("spr", CASE_2)
    congest(network, [("b-3", "b-0"), ("b-3", "b-2")])
    assert len(routed(network, "P", x=1)) == 7
    assert everybody_once(network, CASE_2)


CASE_3 = {"S1": "a-0", "S2": "c-1", "S3": "c-2", "S4": "c-3"}
"""One target aLink at b-3; S1 is reached over b-0 - a-0. With 8 messages S2 must be two aLinks away
from a-1, where the copy enters C1."""


def test_fig_7d_case_3_all_links_overloaded() -> None:
    """The text has "3 additional brokers" for S1 and S2; with the links and the 8 messages that it
    gives, S1's path gets 1 broker longer and S2's 4 (with S2 at a-1, which makes 3 together, there
    would be 6 messages)."""
    network = fig_7("idr", CASE_3)
    congest(network, [("b-3", other) for other in ("b-0", "b-1", "c-3")])
    network.lengths["b-3", "b-2"] = OVERLOADED - 1
    congest(network, [("b-2", "b-1"), ("b-0", "b-1"), ("a-0", "a-1")])
    assert routed(network, "P", x=1) == {
        *[("b-3", "c-3"), ("b-3", "b-2"), ("b-2", "c-2"), ("b-2", "b-0"), ("b-0", "a-0")],
        *[("a-0", "a-1"), ("a-1", "b-1"), ("b-1", "c-1")],
    }
    assert headers(network) == {
        ("b-3", "b-2"): "0011",
        ("b-2", "b-0"): "0010",
        ("b-0", "a-0"): "0010",
    }
    assert everybody_once(network, CASE_3)
    hops = {copy.target: copy.header.hops for copy in network.copies}
    assert (hops["a-0"], hops["c-1"]) == (2 + 1, 2 + 4)
    cases = [("b-3", 3), ("b-2", 1), ("b-0", 2), ("a-0", 3)]
    for broker, case in cases:
        assert network.brokers[broker].counters[f"idr_case_{case}"] == 1


def test_fig_7d_the_overloaded_a_link_gets_its_copy_but_not_the_bits() -> None:
    """That holds even if its queue is the shortest: "the congested target aLink, even if has the
    least value of Q, is not selected"."""
    network = fig_7("idr", CASE_3)
    congest(network, [("b-3", other) for other in ("b-0", "b-1", "b-2")])
    network.lengths["b-3", "c-3"] = OVERLOADED - 5
    routed(network, "P", x=1)
    at_host = {copy.target: civ_of(copy.header) for copy in network.copies if copy.source == "b-3"}
    assert at_host == {"c-3": 0, "b-0": 0b0110}


def test_fig_7d_spr_takes_7_messages() -> None:
    network = fig_7("spr", CASE_3)
    assert len(routed(network, "P", x=1)) == 7
    assert everybody_once(network, CASE_3)


def test_a_copy_without_civ_stays_in_its_cluster() -> None:
    """Only the host broker looks at its CLT; b-2 hosts a publisher with the same content."""
    network = fig_7("idr", CASE_1)
    network.connect("Q", "b-2")
    network.advertise("Q", "TRUE")
    network.run()
    hops = routed(network, "P", x=1)
    assert {(source, target) for source, target in hops if source[0] == target[0]} == {
        *[("b-3", "b-0"), ("b-3", "b-1"), ("b-3", "b-2")]
    }
