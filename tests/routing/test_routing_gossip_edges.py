"""One broker of routing `gossip`, with messages that come twice, late, or from the wrong node."""

from __future__ import annotations

import pytest
from gossip_broker import CONTACT, Alone, carried, closed, event, handed, opened, said

from reefcast.model.messages import (
    LinkDown,
    OpenLink,
    Settled,
    Unadvertise,
)
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.gossip import membership
from reefcast.routing.gossip.messages import Digest, Left, Linked, Met, Missing
from reefcast.routing.gossip.options import GossipOptions

# --- topics ---------------------------------------------------------------------------------------


def test_an_advertisement_enters_and_leaves_all_its_topics() -> None:
    alone = Alone()
    alone.advertise("topic IN ('s', 't')")
    alone.up(CONTACT)
    alone.handle(CONTACT, Settled(1), Settled(2))
    assert list(alone.router.memberships) == ["s", "t"]
    alone.handle("c", Unadvertise(("c", 1)))
    assert not alone.router.memberships


def test_a_client_that_goes_takes_only_its_own_advertisements_along() -> None:
    alone = Alone()
    alone.advertise("topic = 's'", client="c")
    alone.advertise("topic = 't'", client="d")
    alone.up(CONTACT)
    alone.handle(CONTACT, Settled(1), Settled(2))
    alone.handle("c", LinkDown())
    assert list(alone.router.memberships) == ["t"]
    alone.handle("d", Unadvertise(("d", 2)))
    assert not alone.router.memberships


def test_the_topics_that_others_publish_to_are_not_entered() -> None:
    alone = Alone()
    alone.joined("t", "x", "y")
    assert handed(alone.handle("x", event("s", "t"))) == ["c"]
    assert list(alone.router.memberships) == ["t"]


def test_all_that_are_named_for_a_topic_are_its_contacts() -> None:
    alone = Alone(GossipOptions(contacts=(CONTACT,), topics={"t": ("y", "z", "u")}))
    assert alone.router.contacts_of("t") == ("y", "z", "u")
    assert alone.router.contacts_of("s") == (CONTACT,)


def test_topics_are_spread_over_the_contacts_the_same_at_all_brokers() -> None:
    names = tuple("uvwxyz")
    topics = [f"t{number}" for number in range(60)]
    here, there, elsewhere = (
        Alone(GossipOptions(contacts=order, seed=seed)).router
        for order, seed in ((names, 0), (names[::-1], 0), (names, 1))
    )
    chosen = [here.contacts_of(topic) for topic in topics]
    assert all(len(set(contacts)) == 2 for contacts in chosen)
    assert {contact for contacts in chosen for contact in contacts} == set(names)
    assert chosen == [there.contacts_of(topic) for topic in topics]
    assert chosen != [elsewhere.contacts_of(topic) for topic in topics]


# --- publications ---------------------------------------------------------------------------------


def test_what_is_published_while_a_connection_opens_is_sent_once() -> None:
    alone = Alone()
    alone.joined("t", "x")
    assert opened(alone.handle("x", Met(topic="t", node="z"))) == ["z"]
    for _ in range(2):
        assert [to for to, _ in carried(alone.publish("t", client="c"))] == ["x"]
    first, second = carried(alone.up("z"))
    assert (first[0], second[0], second[1] - first[1]) == ("z", "z", 1)
    assert carried(alone.publish("t", client="c"))[1:] == [("z", second[1] + 1)]


def test_too_many_that_wait_are_counted_as_unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "MOST_WAITING", 3)
    alone = Alone()
    for _ in range(5):
        alone.publish("t")
    assert alone.broker.counters["unsent"] == 2
    alone.up("x")
    assert [seq for _, seq in carried(alone.handle("x", Met(topic="t", node="x")))] == [3, 4, 5]


def test_the_publication_with_which_a_topic_begins_is_told_of() -> None:
    alone = Alone()
    alone.publish("t")
    alone.up("x", "y")
    alone.handle("x", Met(topic="t", node="x"), Settled(1))
    [digest] = said(alone.handle("y", Met(topic="t", node="y")), Digest)
    assert isinstance(digest, Digest)
    assert digest.ids == (("d", 1),)


def test_without_repair_nothing_is_sent_unasked() -> None:
    alone = Alone()
    alone.joined("t", "x")
    alone.handle("x", event("t"))
    effects = alone.handle("x", Digest(topic="t", ids=(("p", 2),)))
    assert carried(effects) == []
    assert said(effects, Missing) == [Missing(topic="t", ids=(("p", 2),))]
    assert alone.broker.counters["repaired"] == 0


def test_what_was_here_is_not_asked_for_when_it_is_forgotten() -> None:
    alone = Alone(GossipOptions(contacts=(CONTACT,), repair=True, kept_rounds=2))
    alone.joined("t", "x")
    alone.handle("x", event("t"))
    for _ in range(9):
        alone.round()
    assert not alone.router.memberships["t"].kept.every()
    assert said(alone.handle("x", Digest(topic="t", ids=(("p", 1),))), Missing) == []


# --- connections ----------------------------------------------------------------------------------


def test_who_opened_a_connection_is_known() -> None:
    alone = Alone()
    alone.subscribe("topic = 't'")
    alone.up(CONTACT, "y")
    assert alone.router.soft_links == {CONTACT: SoftLink.OPENED, "y": SoftLink.ACCEPTED}


def test_a_connection_that_is_needed_is_opened_again_though_nothing_was_lost() -> None:
    alone = Alone()
    alone.joined("t", "x", "y")
    assert alone.handle("y", LinkDown()) == [OpenLink("y")]


def test_links_are_told_again_in_all_topics_and_once() -> None:
    alone = Alone()
    alone.joined("s", "x", "y")
    alone.joined("t", "x", "y")
    alone.handle("y", LinkDown())
    linked = [Linked(topic=topic, linked=True) for topic in "st"]
    assert said(alone.up("y"), Linked) == linked
    alone.handle("y", Left(topic="s"), Left(topic="t"), LinkDown())
    assert said(alone.up("y"), Linked) == []  # it has opened it
    assert said(alone.handle("x", Met(topic="t", node="y")), Linked) == linked[1:]
    assert said(alone.up("y"), Linked) == []


def test_a_node_that_was_given_up_and_comes_back_is_told_once() -> None:
    options = GossipOptions(contacts=(CONTACT,), quarantine_rounds=1)
    alone = Alone(options)
    alone.joined("t", "x", "y")
    assert opened(alone.handle("y", LinkDown())) == ["y"]
    assert opened(alone.handle("y", LinkDown())) == []
    for _ in range(3):
        assert opened(alone.round()) == ["y"]
        assert opened(alone.handle("y", LinkDown())) == []
    assert opened(alone.handle("x", Met(topic="t", node="y"))) == ["y"]
    assert said(alone.up("y"), Linked) == [Linked(topic="t", linked=True)]


def test_idle_are_connections_for_a_whole_round_and_not_for_one_now_and_then() -> None:
    alone = Alone()
    alone.joined("t", "x")
    alone.up("y")
    for _ in range(4):
        assert closed(alone.round()) == []
        alone.handle("y", Linked(topic="t", linked=True))
        assert closed(alone.round()) == []
        alone.handle("y", Linked(topic="t", linked=False))
    assert [closed(alone.round()) for _ in range(2)] == [[], ["y"]]


def test_a_connection_that_is_new_is_not_idle_yet() -> None:
    alone = Alone()
    alone.joined("t", "x")
    alone.up("y")
    assert closed(alone.round()) == []
    alone.handle("y", LinkDown())
    alone.up("y")
    assert [closed(alone.round()) for _ in range(2)] == [[], ["y"]]


def test_a_connection_that_was_wanted_while_it_closed_is_wanted_that_once() -> None:
    alone = Alone()
    alone.joined("t", "x")
    alone.up("y")
    assert [closed(alone.round()) for _ in range(2)] == [[], ["y"]]
    alone.handle("y", Digest(topic="other", ids=()))  # is answered
    assert opened(alone.handle("y", LinkDown())) == ["y"]
    alone.up("y")
    assert [closed(alone.round()) for _ in range(2)] == [[], ["y"]]
    assert alone.handle("y", LinkDown()) == []
