"""Cases of covering that once went wrong, and bad input."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_harness import Harness

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.messages import (
    MOST_HOPS,
    Advertise,
    EntityId,
    LinkDown,
    LinkKind,
    LinkUp,
    Publish,
    Send,
    Subscribe,
    Unsubscribe,
)
from reefcast.model.publication import Publication
from reefcast.overlay.scot import scot
from reefcast.overlay.topology import path
from reefcast.routing.acyclic import Acyclic, AcyclicOptions, CoverHeader
from reefcast.routing.broker import Broker
from reefcast.routing.covering.strategies import Strategy
from reefcast.routing.scot import ScotOptions
from reefcast.routing.tree import MOST_PACKED_CHARS, Replace


def broker_with(covering: Strategy, *clients: str) -> Broker:
    """Return a broker with one neighbour, "u", where somebody advertises TRUE."""
    broker = Broker("b", "acyclic", options=AcyclicOptions(covering=covering))
    broker.handle(LinkUp(LinkKind.BROKER), "u", 0.0)
    broker.handle(Advertise(("p", 1), "TRUE", 1), "u", 0.0)
    for client in clients:
        broker.handle(LinkUp(LinkKind.CLIENT), client, 0.0)
    return broker


def sent(broker: Broker) -> list[EntityId]:
    router = broker.router
    assert isinstance(router, Acyclic)
    return router.tree.outgoing["u"].sent()


def test_of_equal_subscriptions_that_go_together_none_is_preserved_for_the_other() -> None:
    """The first withdrawal must go some hops, the second none; but the second subscription was
    never sent."""
    broker = broker_with("incremental", "s", "t")
    broker.handle(Subscribe(("s", 1), "TRUE", 1), "s", 0.0)
    for seq in range(5):
        header = CoverHeader(1, 0, 1, ("p", 1))
        broker.handle(Publish(Publication("p", seq, 0, {"x": 5}), header), "u", 0.0)
    broker.handle(Subscribe(("s", 2), "TRUE", 2), "s", 0.0)
    broker.handle(Subscribe(("t", 1), "x > 2", 1), "t", 0.0)
    effects = broker.handle(LinkDown(), "s", 0.0)
    told = [e.message for e in effects if isinstance(e, Send) and e.link == "u"]
    assert isinstance(told[-1], Replace) and told[-1].id == ("s", 1)
    assert sent(broker) == [("t", 1)]
    assert "s" not in broker.clients


OPTIONS: tuple[Strategy, ...] = ("active", "packing", "incremental")


@pytest.mark.parametrize("covering", OPTIONS)
def test_what_a_replacement_brings_settles_no_sooner_than_what_stands_for_it(
    covering: Strategy,
) -> None:
    network = Harness(
        path(["a", "b", "c"]), "acyclic", options=lambda _: AcyclicOptions(covering=covering)
    )
    for client, home in (("p", "c"), ("s", "a"), ("t", "b")):
        network.connect(client, home)
    network.advertise("p", "TRUE")
    network.run()
    network.slow.add(("b", "c"))
    broad = network.subscribe("t", "x > 0")
    network.run()
    behind = network.subscribe("s", "x > 1")
    network.run()
    network.subscribe("s", "x > 2")
    network.run()
    network.unsubscribe("s", behind)
    network.run()
    last = network.subscribe("s", "x > 3")
    network.run()
    assert not {("t", broad), ("s", last)} & network.settled
    network.slow.clear()
    network.run()
    assert {("t", broad), ("s", last)} <= network.settled


@pytest.mark.parametrize("covering", ["none", "active", "packing"])
def test_so_it_is_with_the_bits_of_a_cluster(covering: Strategy) -> None:
    overlay = scot(path(["u", "v"]), 2)
    network = Harness(overlay, "spr", options=lambda _: ScotOptions(covering=covering))
    at = {(place.region, place.cluster): name for name, place in overlay.places.items()}
    network.connect("p", at["v", 1])
    network.connect("s", at["u", 0])
    network.advertise("p", "TRUE")
    network.run()
    network.slow.add((at["v", 0], at["v", 1]))
    broad = network.subscribe("s", "x > 1")
    network.run()
    network.subscribe("s", "x > 2")
    network.run()
    network.unsubscribe("s", broad)
    network.run()
    last = network.subscribe("s", "x > 3")
    network.run()
    assert ("s", last) not in network.settled
    network.slow.clear()
    network.run()
    assert ("s", last) in network.settled


@pytest.mark.parametrize(
    "subscriptions", [((("s", 2), "x > 1"), (("s", 2), "x > 2")), ((("s", 1), "x > 1"),)]
)
def test_a_replacement_that_names_a_subscription_twice_changes_nothing(
    subscriptions: tuple[tuple[EntityId, str], ...],
) -> None:
    broker = broker_with("packing")
    broker.handle(LinkUp(LinkKind.BROKER), "v", 0.0)
    broker.handle(Subscribe(("s", 1), "x > 0", 1), "v", 0.0)
    with pytest.raises(ProtocolError, match="twice"):
        broker.handle(Replace(id=("s", 1), subscriptions=subscriptions, token=2), "v", 0.0)
    assert sent(broker) == [("s", 1)] and broker.tables()["PRT"] == 1


@given(st.integers(-1, 0), st.sampled_from(["count", "distance"]))
def test_counts_of_a_neighbour_are_bounded(sign: int, field: str) -> None:
    codec = wire.Codec(Acyclic.messages, Acyclic.header)
    publication = Publication("p", 1, 0, {})
    body = wire.encode_publication(publication)
    wrong: Any = CoverHeader(1, **{field: -1 if sign else 2**63})
    frame = wire.encode_publish(Publish(publication, wrong, body))
    with pytest.raises(ProtocolError, match="malformed publication header"):
        codec.decode_publish(frame[wire.HEAD_BYTES :])


def test_counts_stay_in_their_bounds() -> None:
    broker = broker_with("incremental", "s", "t")
    broker.handle(LinkUp(LinkKind.BROKER), "v", 0.0)
    broker.handle(Subscribe(("w", 1), "TRUE", 1), "v", 0.0)
    most = CoverHeader(1, MOST_HOPS, MOST_HOPS, ("p", 1))
    broker.handle(Publish(Publication("p", 1, 0, {"x": 1}), most), "u", 0.0)
    broker.handle(Subscribe(("s", 1), "TRUE", 1), "s", 0.0)
    broker.handle(Publish(Publication("p", 2, 0, {"x": 1}), most), "u", 0.0)
    headers = [copy for _, decision in broker.last_routed for _, copy in decision.hops]
    assert headers == [CoverHeader(2, MOST_HOPS, 0, ("p", 1))]


def test_a_replacement_has_room_for_so_much_and_the_rest_goes_before_it() -> None:
    broker = broker_with("packing", "s")
    pad = "z" * 10_000
    broker.handle(Subscribe(("s", 1), "x > 0", 1), "s", 0.0)
    many = 3 * MOST_PACKED_CHARS // (2 * len(pad))
    for number in range(2, many + 2):
        broker.handle(Subscribe(("s", number), f"x = {number} AND y = '{pad}'", number), "s", 0.0)
    effects = broker.handle(Unsubscribe(("s", 1), 9999), "s", 0.0)
    told = [e.message for e in effects if isinstance(e, Send) and e.link == "u"]
    *before, last = told
    assert isinstance(last, Replace) and all(isinstance(m, Subscribe) for m in before)
    assert len(wire.encode(wire.FrameKind.CONTROL, last)) < 1.1 * MOST_PACKED_CHARS
    brought = {id for id, _ in last.subscriptions} | {
        m.id for m in before if isinstance(m, Subscribe)
    }
    assert brought == set(sent(broker)) == {("s", number) for number in range(2, many + 2)}


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(8)), st.sampled_from(["lazy", "active", "packing"]))
def test_a_client_that_leaves_takes_all_of_its_own_along(
    order: list[int], covering: Strategy
) -> None:
    """Whatever covers what, none of the client's own subscriptions is sent to replace its
    others."""
    broker = broker_with(covering, "s", "t")
    for number, width in enumerate(order):
        broker.handle(Subscribe(("s", number + 1), f"x > {width}", number + 1), "s", 0.0)
    broker.handle(Subscribe(("t", 1), "x > 20", 1), "t", 0.0)
    effects = broker.handle(LinkDown(), "s", 0.0)
    told = [e.message for e in effects if isinstance(e, Send) and e.link == "u"]
    new = [m.id for m in told if isinstance(m, Subscribe)]
    new += [id for m in told if isinstance(m, Replace) for id, _ in m.subscriptions]
    assert new == [("t", 1)]
    assert sent(broker) == [("t", 1)]
