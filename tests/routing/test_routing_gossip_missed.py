"""Nodes that one broker cannot reach: it calls them again, takes them back, and compares what
came."""

from __future__ import annotations

from gossip_broker import CONTACT, Alone, carried, event, opened, said

from reefcast.model.messages import Effect, LinkDown
from reefcast.routing.gossip.membership import MOST_TOLD
from reefcast.routing.gossip.messages import Digest, Join, Left, Linked, Members, Met, Missing
from reefcast.routing.gossip.missed import MISSED_ROUNDS, MOST_MISSED, MissedNodes
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.repair import TOLD_ROUNDS
from reefcast.routing.gossip.router import CALLED


def lose(alone: Alone, *nodes: str) -> None:
    """Break the connections to these nodes; no others can be opened."""
    for node in nodes:
        assert opened(alone.handle(node, LinkDown())) == [node]
        alone.handle(node, LinkDown())


def without(*missed: str, topics: str = "t") -> Alone:
    """Return a broker that is in these topics and misses these nodes in all of them; `x` and `y`
    are still neighbours."""
    alone = Alone()
    for topic in topics:
        alone.joined(topic, "x", "y", *missed)
    lose(alone, *missed)
    return alone


def call(alone: Alone) -> list[str]:
    """Return the nodes that the broker calls in a round, in vain."""
    called = opened(alone.round())
    for node in called:
        alone.handle(node, LinkDown())
    return called


def digests(effects: list[Effect], to: str = "") -> list[Digest]:
    return [message for message in said(effects, Digest, to) if isinstance(message, Digest)]


# --- calling --------------------------------------------------------------------------------------


def test_some_are_called_in_each_round_one_after_the_other() -> None:
    alone = without("p", "q", "r")
    called = [node for _ in range(6) for node in call(alone)]
    assert len(called) == 6 * CALLED
    assert called == (["p", "q", "r"] * 6)[: len(called)]


def test_all_are_called_when_one_was_reached_but_once_in_a_round() -> None:
    alone = without("p", "q", "r", "u", "v")
    assert sorted(opened(alone.up("r"))) == ["p", "q", "u", "v"]
    for node in "pquv":
        alone.handle(node, LinkDown())
    assert opened(alone.up("q")) == []
    assert len(opened(alone.round())) == CALLED


def test_who_has_left_is_called_no_more() -> None:
    alone = without("p")
    alone.up("p")
    alone.handle("p", Left(topic="t"), LinkDown())
    assert [call(alone) for _ in range(3)] == [[], [], []]


def test_nobody_is_called_for_a_topic_that_the_broker_has_left() -> None:
    alone = without("p")
    alone.handle("c", LinkDown())
    assert not alone.router.memberships
    assert call(alone) == []


def test_not_all_are_remembered_and_none_for_ever() -> None:
    missed = MissedNodes()
    for number in range(MOST_MISSED + 5):
        missed.add(f"n{number}", True, number)
    assert list(missed) == [f"n{number}" for number in range(5, MOST_MISSED + 5)]
    missed.add("n5", False, 100)
    assert missed["n5"].neighbour
    missed.forget(MISSED_ROUNDS + 10)
    assert next(iter(missed)) == "n11"
    missed.forget(MISSED_ROUNDS + 99)
    assert list(missed) == ["n5"]


# --- having them back -----------------------------------------------------------------------------


def test_who_is_reached_is_a_neighbour_again_in_all_topics_in_which_it_was() -> None:
    alone = without("p", topics="st")
    alone.joined("u", "x")
    effects = alone.up("p")
    assert said(effects, Linked, "p") == [Linked(topic=topic, linked=True) for topic in "st"]
    assert "p" in alone.view("s") and "p" in alone.view("t") and "p" not in alone.view("u")


def test_it_is_not_in_quarantine_any_more() -> None:
    alone = without("p")
    alone.up("p")
    alone.handle("p", Left(topic="t"))
    alone.handle("x", Met(topic="t", node="p"))
    assert "p" in alone.view("t")


def test_a_view_is_as_large_as_it_was_when_those_leave_who_came_back() -> None:
    alone = without("p")
    overlay = alone.router.memberships["t"].overlay
    size = overlay.size
    overlay.view = (*overlay.view, "z")  # in place of p
    alone.up("p")
    alone.handle("p", Left(topic="t"))
    assert overlay.size == size == len(overlay.view)


def test_where_one_cannot_be_reached_who_introduces_it_is_taken() -> None:
    alone = without("p")
    alone.up("z")
    assert said(alone.handle("z", Met(topic="t", node="p")), Linked) == [
        Linked(topic="t", linked=True)
    ]
    assert set(alone.view("t")) == {"x", "y", "z"}


def test_a_contact_that_was_asked_in_vain_is_asked() -> None:
    alone = Alone()
    alone.subscribe("topic = 't'")
    alone.handle(CONTACT, LinkDown())
    assert opened(alone.round()) == [CONTACT]
    assert len(said(alone.up(CONTACT), Join)) == 1


def test_two_contacts_tell_each_other_whom_they_know() -> None:
    """The topic may have begun at two contacts that could not reach each other."""
    alone = Alone(GossipOptions(contacts=("me", "x")))
    alone.subscribe("topic = 't'")
    alone.handle("x", LinkDown())
    alone.up("y")
    alone.handle("y", Join(topic="t", token=1))
    assert opened(alone.round()) == ["x"]
    effects = alone.up("x")
    assert said(effects, Members) == [Members(topic="t", nodes=("y",))]
    assert said(effects, Linked) == [Linked(topic="t", linked=True)]


def test_what_waited_for_somebody_goes_to_who_is_reached() -> None:
    alone = Alone()
    alone.joined("t", "y")
    alone.handle("y", LinkDown())
    alone.handle("y", LinkDown())
    assert alone.view("t") == ()
    assert carried(alone.publish("t")) == []
    assert [to for to, _ in carried(alone.up("y"))] == ["y"]


# --- comparing ------------------------------------------------------------------------------------


def test_who_is_reached_is_told_of_all_that_is_kept_in_parts() -> None:
    alone = without("p")
    count = 2 * MOST_TOLD + 1
    for seq in range(1, count + 1):
        alone.handle("x", event("t", seq=seq))
    for _ in range(TOLD_ROUNDS + 1):
        call(alone)
    parts = digests(alone.up("p"), "p")
    assert [len(part.ids) for part in parts] == [MOST_TOLD, MOST_TOLD, 1]
    assert [id for part in parts for id in part.ids] == [("p", seq) for seq in range(1, count + 1)]
    assert [part.asks for part in parts] == [GossipOptions().kept_rounds, 0, 0]
    assert all(part.part for part in parts)


def test_who_asks_is_told_as_much_but_not_what_it_was_told_just_now() -> None:
    alone = without("p")
    alone.handle("x", event("t"))
    alone.up("p")
    asks = Digest(topic="t", ids=(), part=True, asks=GossipOptions().kept_rounds)
    assert digests(alone.handle("p", asks)) == []
    assert [part.ids for part in digests(alone.handle("y", asks))] == [(("p", 1),)]
    assert digests(alone.handle("y", asks)) == []
    alone.round()
    assert [part.ids for part in digests(alone.handle("y", asks))] == [(("p", 1),)]


def test_over_a_new_connection_what_came_lately_is_compared() -> None:
    alone = without()
    alone.handle("x", event("t", seq=1))
    for _ in range(TOLD_ROUNDS + 1):
        alone.round()
    alone.handle("x", event("t", seq=2))
    alone.handle("y", LinkDown())
    [digest] = digests(alone.up("y"), "y")
    assert digest == Digest(topic="t", ids=(("p", 2),), part=True, asks=TOLD_ROUNDS)


def test_of_many_who_tell_of_the_same_one_is_asked_until_it_is_gone() -> None:
    alone = without()
    told = Digest(topic="t", ids=(("p", 1),), part=True)
    wanted = [Missing(topic="t", ids=(("p", 1),))]
    assert said(alone.handle("x", told), Missing) == wanted
    assert said(alone.handle("y", told), Missing) == []
    alone.handle("x", LinkDown())
    assert said(alone.handle("y", told), Missing) == wanted
    alone.round()
    assert said(alone.handle("y", told), Missing) == []
    alone.round()
    assert said(alone.handle("y", told), Missing) == wanted


def test_a_part_of_what_is_there_is_no_reason_to_send_the_rest() -> None:
    alone = Alone(GossipOptions(contacts=(CONTACT,), repair=True))
    alone.joined("t", "x")
    alone.handle("x", event("t"))
    assert carried(alone.handle("x", Digest(topic="t", ids=(), part=True))) == []
    assert carried(alone.handle("x", Digest(topic="t", ids=()))) == [("x", 1)]


def test_the_first_neighbour_that_there_is_again_is_told_all() -> None:
    alone = Alone()
    alone.joined("t", "y")
    alone.handle("y", event("t"), LinkDown())
    alone.handle("y", LinkDown())
    for _ in range(4):
        call(alone)
    alone.up("z")
    [digest] = digests(alone.handle("z", Met(topic="t", node="z")), "z")
    assert digest.ids == (("p", 1),)
