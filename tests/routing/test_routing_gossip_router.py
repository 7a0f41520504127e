"""Topics, publications and connections of one broker of routing `gossip`."""

from __future__ import annotations

import pytest
from gossip_broker import CONTACT, Alone, carried, closed, event, handed, opened, said

from reefcast.model.messages import (
    Deliver,
    Discard,
    Header,
    LinkDown,
    OpenLink,
    Publish,
    Refused,
    Send,
    Settled,
    Unadvertise,
    Unsubscribe,
)
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.gossip.membership import WAITING_ROUNDS
from reefcast.routing.gossip.messages import (
    Digest,
    Join,
    JoinWalk,
    Left,
    Linked,
    Met,
    Missing,
    TopicMessage,
    Walk,
    Wave,
)
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.repair import OFFERED_ROUNDS

# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "filter",
    ["TRUE", "a < 3", "topic LIKE 'x%'", "topic = 'x' OR a < 3", "topic <> 'x'", "NOT topic = 'x'"],
)
def test_a_filter_that_names_no_topics_is_refused_before_anything_changes(filter: str) -> None:
    alone = Alone()
    [refused] = alone.subscribe(filter)
    assert isinstance(refused, Send)
    assert isinstance(refused.message, Refused)
    assert "write topic = '...' or topic IN (...)" in refused.message.reason
    assert not alone.router.memberships
    assert not alone.broker.tables()["PRT"]
    assert opened(alone.subscribe("topic = 'x'")) == [CONTACT]  # and it may try again


@pytest.mark.parametrize(
    ("filter", "topics"),
    [
        ("topic = 'x'", ["x"]),
        ("topic = 'x' AND a < 3", ["x"]),
        ("topic IN ('x', 'y') AND a < 3", ["x", "y"]),
        ("topic = 'x' AND a < 3 OR topic = 'y' AND a > 3", ["x", "y"]),
    ],
)
def test_the_topics_of_a_filter_are_entered(filter: str, topics: list[str]) -> None:
    alone = Alone()
    alone.subscribe(filter)
    assert list(alone.router.memberships) == topics


def test_a_publication_without_topics_is_refused() -> None:
    alone = Alone()
    effects = alone.publish()
    [reason] = [
        effect.message.reason
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Refused)
    ]
    assert "publish(..., topics=[...])" in reason
    assert not alone.router.memberships


def test_without_contacts_nobody_can_be_met() -> None:
    alone = Alone(GossipOptions())
    [refused] = alone.subscribe("topic = 'x'")
    assert isinstance(refused, Send)
    assert isinstance(refused.message, Refused)
    assert "as contacts in [routing]" in refused.message.reason


def test_a_topic_that_has_no_contacts_is_refused_where_only_single_topics_have_some() -> None:
    alone = Alone(GossipOptions(topics={"x": (CONTACT,)}))
    [refused] = alone.subscribe("topic IN ('x', 'y')")
    assert isinstance(refused, Send)
    assert isinstance(refused.message, Refused)
    assert "topic 'y'" in refused.message.reason
    assert not alone.router.memberships
    assert opened(alone.subscribe("topic = 'x'")) == [CONTACT]


# --- publications ---------------------------------------------------------------------------------


def test_further_conditions_are_looked_at_at_the_edge() -> None:
    alone = Alone()
    alone.joined("t", "x", "y")
    alone.subscribe("topic = 't' AND a > 3", client="d")
    effects = alone.handle("x", event("t", a=1))
    assert handed(effects) == ["c"]
    assert carried(effects) == [("y", 1)]
    assert handed(alone.handle("x", event("t", seq=2, a=5))) == ["c", "d"]


def test_what_came_before_ends_here() -> None:
    alone = Alone()
    alone.joined("t", "x", "y")
    alone.handle("x", event("t"))
    [discard] = alone.handle("y", event("t"))
    assert isinstance(discard, Discard)
    assert discard.reason == "duplicate"


def test_a_publication_on_several_topics_crosses_each_connection_once() -> None:
    alone = Alone()
    alone.joined("s", "x", "y")
    alone.joined("t", "y", "z")
    effects = alone.publish("s", "t")
    assert sorted(to for to, _ in carried(effects)) == ["x", "y", "z"]
    assert handed(effects) == ["c"]
    effects = alone.handle("x", event("s", "t"))
    assert sorted(to for to, _ in carried(effects)) == ["y", "z"]
    assert [e.to for e in effects if isinstance(e, Deliver)] == [{"c": [1, 2]}]


def test_the_fanout_is_of_each_topic() -> None:
    alone = Alone(GossipOptions(contacts=(CONTACT,), fanout=2))
    alone.joined("t", *"uvwxyz")
    counts = [len(carried(alone.handle("u", event("t", seq=seq)))) for seq in range(1, 100)]
    assert set(counts) == {1, 2}  # 1, where one of the two had sent it


def test_hops_are_counted() -> None:
    alone = Alone()
    alone.joined("t", "x", "y")
    publish = Publish(event("t").publication, Header(3))
    [onward] = [e for e in alone.handle("x", publish) if isinstance(e, Send)]
    assert isinstance(onward.message, Publish)
    assert onward.message.header.hops == 4


def test_what_is_published_before_anybody_was_met_waits_and_goes() -> None:
    alone = Alone()
    assert opened(alone.publish("t")) == [CONTACT]
    assert carried(alone.publish("t")) == []
    assert [type(m) for m in said(alone.up("x"), TopicMessage)] == [Join]
    alone.up("y")
    effects = alone.handle("y", Met(topic="t", node="z"))
    assert opened(effects) == ["z"]
    assert carried(effects) == []
    effects = alone.up("z")
    assert [seq for _, seq in carried(effects)] == [1, 2]
    assert carried(alone.publish("t")) == [("z", 3)]


def test_what_waits_in_vain_is_counted_as_unsent() -> None:
    alone = Alone()
    alone.publish("t")
    alone.up("x")
    for _ in range(WAITING_ROUNDS):
        alone.round()
    assert alone.broker.counters["unsent"] == 0
    alone.round()
    assert alone.broker.counters["unsent"] == 1
    assert carried(alone.handle("x", Met(topic="t", node="x"))) == []


def test_a_contact_without_others_waits_for_nobody() -> None:
    alone = Alone(GossipOptions(contacts=("me",)))
    alone.publish("t")
    alone.round()
    assert alone.broker.counters["unsent"] == 0
    assert not alone.router.memberships["t"].waiting


def test_a_new_neighbour_is_told_what_came_lately() -> None:
    alone = Alone()
    alone.joined("t", "x")
    alone.handle("x", event("t"))
    alone.up("y")
    effects = alone.handle("y", Met(topic="t", node="z"))
    assert opened(effects) == ["z"]
    [digest] = said(alone.up("z"), Digest)
    assert isinstance(digest, Digest)
    assert digest.ids == (("p", 1),)
    assert carried(alone.handle("z", Missing(topic="t", ids=(("p", 1),)))) == [("z", 1)]
    for _ in range(OFFERED_ROUNDS + 1):
        alone.round()
    alone.up("u")
    assert said(alone.handle("u", Met(topic="t", node="u")), Digest) == []


def test_who_joins_is_told_all_and_wants_none_of_it() -> None:
    """What came before the broker joined is not for its clients."""
    alone = Alone(GossipOptions(contacts=("me", CONTACT)))
    alone.joined("t", "x")
    alone.handle("x", event("t"))
    for _ in range(OFFERED_ROUNDS + 1):
        alone.round()
    alone.up("y")
    walk = JoinWalk(topic="t", joiner="y", grows=True, nonce=1, left=0)
    [digest] = said(alone.handle("x", walk), Digest, "y")
    other = Alone()
    other.subscribe("topic = 't'")
    other.up("x", "z")
    assert said(other.handle("x", Met(topic="t", node="x"), digest), Missing) == []
    other.handle("x", Settled(1))
    later = Digest(topic="t", ids=(("p", 1), ("p", 2)))
    assert said(other.handle("z", later), Missing) == [Missing(topic="t", ids=(("p", 2),))]
    assert handed(other.handle("z", event("t"))) == ["c"]  # it is not refused, where it comes


def test_what_was_before_is_told_as_if_it_was_here() -> None:
    """Otherwise neighbours would send it."""
    alone = Alone(GossipOptions(contacts=(CONTACT,), repair=True))
    alone.subscribe("topic = 't'")
    alone.up("x")
    alone.handle("x", Met(topic="t", node="x"), Digest(topic="t", ids=(("p", 1),)))
    [digest] = said(alone.round(), Digest)
    assert isinstance(digest, Digest)
    assert digest.ids == (("p", 1),)
    assert carried(alone.handle("x", Digest(topic="t", ids=()))) == []
    assert carried(alone.handle("x", Missing(topic="t", ids=(("p", 1),)))) == []


# --- topics ---------------------------------------------------------------------------------------


def test_who_says_what_it_will_publish_is_in_the_overlay_before_it_does() -> None:
    alone = Alone()
    assert opened(alone.advertise("topic = 't'", client="d")) == [CONTACT]
    assert alone.publish("t") == []  # until the advertisement has settled
    alone.up("x")
    effects = alone.handle("x", Met(topic="t", node="x"), Settled(1))
    assert carried(effects) == [("x", 2)]


def test_a_subscription_settles_when_the_broker_has_joined() -> None:
    alone = Alone()
    alone.subscribe("topic = 't'")
    [join] = said(alone.up("x"), Join)
    assert join.token
    assert not [
        e for e in alone.handle("x", Met(topic="t", node="x")) if e == Send("c", Settled(1))
    ]
    assert Send("c", Settled(1)) in alone.handle("x", Settled(join.token))
    assert alone.subscribe("topic = 't' AND a < 3") == [Send("c", Settled(2))]


def test_nobody_is_settled_while_the_broker_joins() -> None:
    """Neither the client that made the broker join is settled, nor one that came later."""
    alone = Alone()
    alone.subscribe("topic = 't'")
    assert alone.subscribe("topic = 't' AND a < 3", client="d") == []
    assert alone.subscribe("topic IN ('t', 'u')") == []
    first, second = said(alone.up("x"), Join)
    settled = [Send("c", Settled(1)), Send("d", Settled(2))]
    assert alone.handle("x", Settled(first.token)) == settled
    assert alone.handle("x", Settled(second.token)) == [Send("c", Settled(3))]


def test_who_leaves_and_joins_again_waits_for_the_second_time() -> None:
    alone = Alone()
    alone.subscribe("topic = 't'")
    alone.handle("c", Unsubscribe(("c", 1)))
    alone.subscribe("topic = 't'")
    first, second = said(alone.up("x"), Join)
    assert alone.handle("x", Settled(first.token)) == [Send("c", Settled(1))]
    assert alone.handle("x", Settled(second.token)) == [Send("c", Settled(2))]


def test_a_subscription_waits_for_a_connection_that_is_just_being_closed() -> None:
    alone = Alone()
    alone.up("x")
    assert [closed(alone.round()) for _ in range(2)] == [[], ["x"]]
    assert alone.subscribe("topic = 't'") == []
    assert alone.handle("x", LinkDown()) == [OpenLink("x")]
    [join] = said(alone.up("x"), Join)
    assert alone.handle("x", Settled(join.token)) == [Send("c", Settled(1))]


def test_a_subscription_waits_for_no_contact_that_cannot_be_had() -> None:
    alone = Alone()
    alone.subscribe("topic = 't'")
    assert alone.handle("x", LinkDown()) == [Send("c", Settled(1))]


def test_it_leaves_with_its_last_subscription() -> None:
    alone = Alone()
    alone.joined("t", "x", "y")
    alone.subscribe("topic = 't'", client="d")
    assert said(alone.handle("c", Unsubscribe(("c", 1))), TopicMessage) == []
    effects = alone.handle("d", Unsubscribe(("d", 2)))
    assert {m.instead for m in said(effects, Left) if isinstance(m, Left)} == {"x", "y"}
    assert not alone.router.memberships
    walk = Walk(topic="t", path=("x",), nonce=1, left=3)
    assert alone.handle("x", walk) == [Send("x", Left(topic="t"))]


def test_it_leaves_with_its_last_publisher() -> None:
    alone = Alone()
    alone.advertise("topic = 't'", client="c")
    alone.publish("t", client="d")
    alone.publish("t", client="c")
    alone.up("x")
    alone.handle("x", Settled(1))
    alone.handle("c", Unadvertise(("c", 1)))
    assert list(alone.router.memberships) == ["t"]
    alone.handle("d", LinkDown())
    assert not alone.router.memberships


def test_a_contact_stays() -> None:
    alone = Alone(GossipOptions(contacts=("me", "x")))
    alone.joined("t", "x")
    alone.handle("c", Unsubscribe(("c", 1)))
    assert alone.view("t") == ("x",)


def test_a_contact_enters_when_somebody_joins_and_only_then() -> None:
    alone = Alone(GossipOptions(contacts=("me",)))
    alone.up("x")
    wave = Wave(topic="t", contact="x", life=1, number=1, forward=True)
    assert alone.handle("x", wave) == []
    assert said(alone.handle("x", Join(topic="t", token=1)), Met) != []
    assert alone.view("t") == ("x",)
    alone.up("y")
    assert alone.handle("y", Join(topic="other", token=1)) != []
    assert set(alone.router.memberships) == {"t", "other"}


def test_who_is_no_contact_lets_nobody_join() -> None:
    alone = Alone()
    alone.up("y")
    assert said(alone.handle("y", Join(topic="t", token=1)), Left) != []
    assert not alone.router.memberships


@pytest.mark.parametrize(
    "message",
    [
        Left(topic="t"),
        Wave(topic="t", contact="x", life=1, number=1, forward=True),
        Linked(topic="t", linked=False),
        Missing(topic="t", ids=(("p", 1),)),
    ],
)
def test_what_needs_no_answer_gets_none_from_a_stranger(message: TopicMessage) -> None:
    alone = Alone()
    alone.up("x")
    assert alone.handle("x", message) == []


def test_a_stranger_gives_a_joiner_back() -> None:
    """Otherwise fewer nodes than needed would take the joiner in, or none."""
    alone = Alone()
    alone.up("x")
    walk = JoinWalk(topic="t", joiner="y", grows=True, nonce=1, left=2, token=7)
    first, second = alone.handle("x", walk)
    assert first == Send("x", Left(topic="t"))
    assert isinstance(second, Send)
    assert isinstance(second.message, JoinWalk)
    assert (second.link, second.message.joiner, second.message.left) == ("x", "y", 1)
    assert alone.handle("x", Settled(second.message.token)) == [Send("x", Settled(7))]


def test_strangers_do_not_send_a_joiner_to_and_fro_for_ever() -> None:
    alone = Alone()
    alone.up("x")
    walk = JoinWalk(topic="t", joiner="y", grows=True, nonce=1, left=2, token=7)
    for left in (1, 0):
        [walk] = said(alone.handle("x", walk), JoinWalk)
        assert isinstance(walk, JoinWalk)
        assert walk.left == left
    assert said(alone.handle("x", walk), TopicMessage) == [Left(topic="t")]


# --- connections ----------------------------------------------------------------------------------


def test_topics_share_a_connection() -> None:
    alone = Alone()
    assert opened(alone.subscribe("topic = 's'")) == [CONTACT]
    assert opened(alone.subscribe("topic = 't'")) == []
    assert [m.topic for m in said(alone.up("x"), Join)] == ["s", "t"]


def test_a_connection_that_nobody_needs_for_a_round_is_closed() -> None:
    alone = Alone()
    alone.joined("s", "x", "y")
    alone.joined("t", "y")
    alone.handle("c", Unsubscribe(("c", 1)))
    assert list(alone.router.memberships) == ["t"]
    assert closed(alone.round()) == []
    assert closed(alone.round()) == ["x"]
    assert closed(alone.round()) == []
    alone.handle("x", LinkDown())
    assert list(alone.router.soft_links) == ["y"]


def test_a_connection_that_somebody_else_needs_stays() -> None:
    alone = Alone()
    alone.joined("t", "x")
    alone.up("y")
    alone.handle("y", Linked(topic="t", linked=True))
    assert [closed(alone.round()) for _ in range(3)] == [[], [], []]
    alone.handle("y", Linked(topic="t", linked=False))
    assert [closed(alone.round()) for _ in range(2)] == [[], ["y"]]


def test_a_connection_that_breaks_is_opened_again_with_what_was_under_way() -> None:
    alone = Alone()
    alone.joined("t", "x", "y")
    lost = event("t", seq=9)
    assert opened(alone.handle("y", LinkDown((lost,)))) == ["y"]
    assert carried(alone.handle("x", event("t", seq=10))) == []
    effects = alone.up("y")
    assert said(effects, Linked, "y") == [Linked(topic="t", linked=True)]
    assert carried(effects) == [("y", 9), ("y", 10)]


def test_a_connection_that_breaks_and_is_not_needed_is_not_opened_again() -> None:
    alone = Alone()
    alone.joined("t", "x")
    alone.up("y")
    alone.handle("y", Linked(topic="t", linked=True))
    assert alone.handle("y", LinkDown()) == []
    assert alone.router.memberships["t"].overlay.in_links == {"x"}


def test_a_node_that_cannot_be_had_is_given_up() -> None:
    alone = Alone()
    alone.joined("s", "x", "y")
    alone.joined("t", "x", "y")
    lost = event("t", seq=9)
    alone.handle("y", LinkDown((lost,)))
    effects = alone.handle("y", LinkDown())
    assert [e.reason for e in effects if isinstance(e, Discard)] == ["link_lost"]
    assert (alone.view("s"), alone.view("t")) == (("x",), ("x",))
    alone.handle("x", Met(topic="s", node="y"))
    assert alone.view("s") == ("x",)  # in quarantine
    assert opened(alone.handle("x", event("t", seq=10))) == []


def test_what_is_meant_for_a_connection_that_is_being_closed_opens_it_again() -> None:
    alone = Alone()
    alone.joined("t", "x")
    alone.up("y")
    assert [closed(alone.round()) for _ in range(2)] == [[], ["y"]]
    assert alone.handle("x", Met(topic="t", node="y")) == []
    assert opened(alone.handle("y", LinkDown())) == ["y"]
    assert Linked(topic="t", linked=True) in said(alone.up("y"), Linked)


def test_an_answer_for_one_who_is_about_to_be_cut_off_is_not_lost() -> None:
    """`y` asks while its connection is being closed: it is in no view here."""
    alone = Alone(GossipOptions(contacts=("me", "y")))
    alone.joined("t", "x")
    alone.up("z")
    assert [closed(alone.round()) for _ in range(2)] == [[], ["z"]]
    walk = JoinWalk(topic="t", joiner="x", grows=True, nonce=1, left=0)
    assert (
        alone.handle("z", walk, JoinWalk(topic="other", joiner="x", grows=True, nonce=1, left=1))
        != []
    )
    assert alone.router.soft_links["z"] is SoftLink.CLOSING
    assert opened(alone.handle("z", LinkDown())) == ["z"]
    assert said(alone.up("z"), Left) == [Left(topic="other")]


# --- repair ---------------------------------------------------------------------------------------


def repairing() -> Alone:
    alone = Alone(GossipOptions(contacts=(CONTACT,), repair=True, kept_rounds=5))
    alone.joined("t", "x")
    return alone


def test_every_round_a_neighbour_is_told_what_is_here() -> None:
    alone = repairing()
    assert [m.ids for m in said(alone.round(), Digest) if isinstance(m, Digest)] == [()]
    alone.handle("x", event("t"))
    told = [m.ids for _ in range(6) for m in said(alone.round(), Digest) if isinstance(m, Digest)]
    assert told == [(("p", 1),)] * 5 + [()]


def test_without_repair_nobody_is_told() -> None:
    alone = Alone()
    alone.joined("t", "x")
    alone.handle("x", event("t"))
    assert said(alone.round(), Digest) == []


def test_a_neighbour_gets_what_it_has_not_and_is_asked_for_what_is_not_here() -> None:
    alone = repairing()
    alone.handle("x", event("t", seq=1), event("t", seq=2))
    effects = alone.handle("x", Digest(topic="t", ids=(("p", 2), ("p", 3))))
    assert carried(effects) == [("x", 1)]
    assert said(effects, Missing) == [Missing(topic="t", ids=(("p", 3),))]
    assert alone.broker.counters["repaired"] == 1
    # A client that had it from the former life of its broker drops it.
    copies = [e.message for e in effects if isinstance(e, Send)]
    assert all(copy.again for copy in copies if isinstance(copy, Publish))


def test_what_others_may_have_forgotten_is_asked_for_but_not_sent_again() -> None:
    """The rounds of different nodes do not begin at the same time."""
    alone = repairing()
    alone.handle("x", event("t"))
    for _ in range(4):
        alone.round()
    assert carried(alone.handle("x", Digest(topic="t", ids=()))) == []
    assert carried(alone.handle("x", Missing(topic="t", ids=(("p", 1),)))) == [("x", 1)]


# --- what can be seen -----------------------------------------------------------------------------


def test_an_operator_sees_the_topics() -> None:
    alone = Alone(GossipOptions(contacts=("me", "x")))
    alone.joined("t", "x", "y")
    alone.subscribe("topic = 't' AND a < 3", client="d")
    told = alone.broker.status(0.0)
    rows = told["rows"]["topics"]
    assert rows["columns"] == ("topic", "view", "known by", "for", "neighbours")
    assert rows["rows"] == [("t", 2, 2, "2 and contact", ", ".join(alone.view("t")))]
    assert set(told["counted"]) == {"repaired", "unsent"}
    assert {"topics", "counted"} <= set(told["legend"])
