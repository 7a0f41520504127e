"""Credits and congestion, without sockets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reefcast.model.wire import Congestion
from reefcast.overlay.scot import scot
from reefcast.overlay.topology import Graph, graph, path
from reefcast.protocol.credit import EXPIRE_S, RENEW_S, Account, CongestionControl


class Broker:
    """A broker's `CongestionControl` with a record of what it said."""

    def __init__(self, name: str = "b", number: int = 0, ways: Sequence[str] = ()) -> None:
        self.granted: list[tuple[str, int]] = []
        self.flooded: list[tuple[Congestion, str | None]] = []
        self.control = CongestionControl(
            name,
            number,
            lambda client, n: self.granted.append((client, n)),
            lambda notice, link: self.flooded.append((notice, link)),
            lambda link: ways or (link,),
        )

    def client(self, name: str, window: int = 8) -> Account:
        account = self.control.accounts[name] = Account(window)
        return account

    def publish(self, client: str, count: int, *targets: str) -> None:
        account = self.control.accounts[client]
        account.spend(count)
        self.control.fed(client, set(targets), 0.0)
        self.control.settle(client, account)


def test_credit_comes_back_as_publications_are_processed():
    broker = Broker()
    broker.client("p")
    broker.publish("p", 3, "s")
    assert broker.granted == [("p", 3)]


def test_small_amounts_of_credit_are_saved_up():
    broker = Broker()
    broker.client("p", window=64)
    for _ in range(7):
        broker.publish("p", 1, "s")
    assert broker.granted == []
    broker.publish("p", 1, "s")
    assert broker.granted == [("p", 8)]


def test_a_client_may_overdraw_its_window_twice_and_no_more():
    account = Account(10)
    assert account.spend(30)
    assert not account.spend(1)


def test_credit_is_withheld_while_a_fed_target_is_full():
    broker = Broker()
    broker.client("p")
    broker.client("q")
    broker.control.full("s")
    broker.publish("p", 4, "s", "t")
    broker.publish("q", 4, "t")
    assert broker.granted == [("q", 4)]
    broker.publish("p", 2, "t")
    assert broker.granted == [("q", 4)]
    broker.control.relieved("s")
    assert broker.granted == [("q", 4), ("p", 6)]


def test_a_target_with_two_reasons_is_relieved_when_both_are_gone():
    broker = Broker()
    broker.client("p")
    broker.control.full("n")
    broker.control.notice(Congestion("far", 1, True), "n", 0.0)
    broker.publish("p", 4, "n")
    broker.control.relieved("n")
    assert broker.granted == []
    broker.control.notice(Congestion("far", 2, False), "n", 1.0)
    assert broker.granted == [("p", 4)]


def test_a_local_publisher_makes_no_notice():
    broker = Broker()
    broker.client("p")
    broker.control.full("s")
    broker.publish("p", 4, "s")
    assert broker.flooded == []


def test_publications_of_a_neighbour_make_a_notice_that_is_withdrawn():
    broker = Broker(number=100)
    broker.control.full("s")
    broker.control.fed("n", {"s"}, 0.0)
    broker.control.fed("n", {"s"}, 0.1)
    broker.control.relieved("s")
    assert broker.flooded == [
        (Congestion("b", 101, True), None),
        (Congestion("b", 102, False), None),
    ]


def test_a_notice_is_renewed_while_it_holds():
    broker = Broker()
    broker.control.full("s")
    broker.control.fed("n", {"s"}, 0.0)
    broker.control.tick(RENEW_S / 2)
    assert len(broker.flooded) == 1
    broker.control.tick(RENEW_S)
    assert broker.flooded[1] == (Congestion("b", 2, True), None)


def test_a_notice_of_another_makes_no_notice_of_our_own():
    broker = Broker()
    broker.control.notice(Congestion("far", 1, True), "n", 0.0)
    broker.control.fed("m", {"n"}, 0.0)
    assert broker.flooded == [(Congestion("far", 1, True), "n")]


def test_an_old_notice_is_neither_believed_nor_passed_on():
    broker = Broker()
    broker.control.notice(Congestion("far", 5, True), "n", 0.0)
    broker.control.notice(Congestion("far", 5, True), "m", 0.0)
    broker.control.notice(Congestion("far", 4, False), "n", 0.0)
    broker.control.notice(Congestion("b", 9, True), "n", 0.0)
    assert broker.flooded == [(Congestion("far", 5, True), "n")]
    assert broker.control.targets == {"n": {"far"}}


def test_a_notice_that_is_not_renewed_expires():
    broker = Broker()
    broker.client("p")
    broker.control.notice(Congestion("far", 1, True), "n", 0.0)
    broker.publish("p", 4, "n")
    broker.control.tick(EXPIRE_S)
    assert broker.granted == [("p", 4)]
    assert broker.control.targets == {}


def test_a_renewed_notice_does_not_expire():
    broker = Broker()
    broker.control.notice(Congestion("far", 1, True), "n", 0.0)
    broker.control.notice(Congestion("far", 2, True), "n", EXPIRE_S - 1)
    broker.control.tick(EXPIRE_S)
    assert broker.control.targets == {"n": {"far"}}


def test_a_client_that_returns_gets_what_it_is_not_refused():
    account = Account(10)
    account.spend(4)
    assert account.reopen() == 10
    account.spend(7)
    account.blockers.add("s")
    assert account.reopen() == 3


RING = graph("abc", [("a", "b"), ("b", "c"), ("a", "c")])


@pytest.mark.parametrize("overlay", [RING, scot(path(["x", "y", "z"]), 4).graph])
def test_notices_die_out_on_cycles(overlay: Graph):
    """Each notice crosses each broker once, whatever the cycles."""
    brokers = {name: Broker(name, ways=around) for name, around in overlay.items()}
    full = next(iter(overlay))
    brokers[full].control.full("s")
    brokers[full].control.fed(overlay[full][0], {"s"}, 0.0)
    for congested in (True, False):
        passed = pass_notices(overlay, brokers)
        assert passed == sum(map(len, overlay.values())) - len(overlay) + 1
        for name, broker in brokers.items():
            beyond = {link: {full} for link in overlay[name]} if congested else {}
            assert broker.control.targets == beyond or name == full
        brokers[full].control.relieved("s")
    assert not pass_notices(overlay, brokers)


def pass_notices(overlay: Graph, brokers: dict[str, Broker]) -> int:
    """Pass notices on until nobody has one left; return how often one crossed a link."""
    passed = 0
    while any(broker.flooded for broker in brokers.values()):
        for name, broker in brokers.items():
            flooded, broker.flooded = broker.flooded, []
            for notice, source in flooded:
                for other in overlay[name]:
                    if other != source:
                        brokers[other].control.notice(notice, name, 0.0)
                        passed += 1
    return passed


def test_where_there_are_cycles_a_notice_stands_for_every_way():
    """Publications may take another path than the notice."""
    broker = Broker(ways=("m", "n"))
    for client in "pq":
        broker.client(client)
    broker.control.notice(Congestion("far", 1, True), "n", 0.0)
    broker.publish("p", 4, "m")
    broker.publish("q", 4, "s")
    assert broker.granted == [("q", 4)]
    broker.control.notice(Congestion("far", 2, True), "m", 1.0)
    assert broker.granted == [("q", 4)]
    broker.control.notice(Congestion("far", 3, False), "m", 2.0)
    assert broker.granted == [("q", 4), ("p", 4)]
    assert broker.control.targets == {}
