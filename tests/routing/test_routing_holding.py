"""One broker, message by message: what it holds for neighbours that stop, restart or stay away."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from routing_harness import link_up

from reefcast.errors import ProtocolError
from reefcast.model.messages import (
    Advertise,
    Discard,
    Effect,
    Leave,
    Leaving,
    LinkDown,
    LinkKind,
    LinkUp,
    Publish,
    Refused,
    Relearned,
    Send,
    SetTimer,
    Settled,
    Subscribe,
    Synced,
    Timer,
    Unadvertise,
)
from reefcast.model.publication import Publication
from reefcast.routing.broker import Broker
from reefcast.routing.gate import HOLD_S
from reefcast.routing.holding import ANSWER_S
from reefcast.routing.neighbour_links import RELEARN_S


def publication(seq: int) -> Publish:
    return Publish(Publication("p", seq, 0, {"x": 1}))


def sent(effects: Iterable[Effect], link: str = "b") -> list[object]:
    """Return what went over the link: publications by number, with a star if they went again."""
    return [
        f"{m.publication.seq}{'*' * m.again}" if isinstance(m, Publish) else m
        for m in (e.message for e in effects if isinstance(e, Send) and e.link == link)
    ]


def kinds(effects: Iterable[Effect], link: str = "b") -> list[str]:
    return [m if isinstance(m, str) else type(m).__name__ for m in sent(effects, link)]


def a_broker(most_held: int = 100) -> Broker:
    """Return broker a with neighbour b, which has a subscription to all, and client p, which may
    publish anything."""
    broker = Broker("a", "acyclic", neighbours=["b"], most_held=most_held)
    link_up(broker, "b")
    broker.handle(Synced(), "b", 0.0)
    broker.handle(LinkUp(LinkKind.CLIENT), "p", 0.0)
    told = broker.handle(Advertise(("p", 1), "TRUE", 1), "p", 0.0)
    (advertise,) = (e.message for e in told if isinstance(e, Send) and e.link == "b")
    broker.handle(Settled(advertise.token), "b", 0.0)
    broker.handle(Subscribe(("s", 1), "TRUE", 7), "b", 0.0)
    assert sent(broker.handle(publication(1), "p", 0.0)) == ["1"]
    return broker


def comes_back(broker: Broker, *kept: int) -> list[int]:
    """Restart b, which has not acknowledged these; return the tokens that it has to answer."""
    again = tuple(Publish(publication(seq).publication, again=True) for seq in kept)
    effects = broker.handle(LinkUp(LinkKind.BROKER, again), "b", 10.0)
    assert "Publish" not in kinds(effects)
    return [getattr(m, "token", 0) for m in sent(effects) if getattr(m, "token", 0)]


def test_what_waits_goes_in_order_when_the_neighbour_has_relearned_and_answered() -> None:
    broker = a_broker()
    (token,) = comes_back(broker, 2, 3)
    assert sent(broker.handle(publication(4), "p", 10.0)) == []
    assert broker.links.queue_len("b") == 3
    assert sent(broker.handle(Subscribe(("s", 1), "TRUE", 1), "b", 10.0)) == [Settled(1)]
    broker.handle(Relearned(), "b", 10.1)
    assert sent(broker.handle(publication(5), "p", 10.1)) == []
    assert sent(broker.handle(Settled(token), "b", 10.2)) == ["2*", "3*", "4*", "5*"]
    assert sent(broker.handle(publication(6), "p", 10.3)) == ["6"]
    assert broker.links.queue_len("b") == 1  # by this input; the driver counts the others


def test_answers_alone_end_no_wait() -> None:
    """The neighbour may have nothing to relearn from this broker, but something from others."""
    broker = a_broker()
    (token,) = comes_back(broker, 2)
    assert sent(broker.handle(Settled(token), "b", 10.0)) == []
    assert sent(broker.handle(Relearned(), "b", 10.1)) == ["2*"]


def test_the_wait_for_answers_ends() -> None:
    """A broker beyond b may be away for longer."""
    broker = a_broker()
    comes_back(broker, 2)
    (timer,) = broker.handle(Relearned(), "b", 10.0)
    assert timer == SetTimer("answer:b", 10.0 + ANSWER_S)
    assert sent(broker.handle(Timer("answer:b"), "", 10.0 + ANSWER_S)) == ["2*"]


def test_a_second_restart_starts_the_wait_anew() -> None:
    broker = a_broker()
    (old,) = comes_back(broker, 2)
    broker.handle(publication(3), "p", 10.0)
    broker.handle(Relearned(), "b", 10.0)
    (new,) = comes_back(broker)
    assert new > old
    assert sent(broker.handle(Settled(old), "b", 10.0)) == []
    broker.handle(Relearned(), "b", 10.0)
    assert sent(broker.handle(Settled(new), "b", 10.0)) == ["2*", "3*"]


def test_what_the_neighbour_does_not_say_again_is_swept_when_it_has_answered() -> None:
    """The neighbour may say `Synced` before it has handled the advertisement that makes it repeat
    the others."""
    broker = a_broker()
    (token,) = comes_back(broker)
    broker.handle(Synced(), "b", 10.0)
    assert broker.tables()["PRT"] == 1
    broker.handle(Subscribe(("s", 1), "TRUE", 1), "b", 10.0)
    broker.handle(Settled(token), "b", 10.0)
    assert broker.tables()["PRT"] == 1

    (token,) = comes_back(broker)
    broker.handle(Settled(token), "b", 10.0)
    assert broker.tables()["PRT"] == 1
    broker.handle(Synced(), "b", 10.0)
    assert broker.tables()["PRT"] == 0


def test_an_advertisement_is_withdrawn_behind_what_needs_it() -> None:
    broker = a_broker()
    (token,) = comes_back(broker, 2)
    assert kinds(broker.handle(Unadvertise(("p", 1), 2), "p", 10.0)) == []
    broker.handle(Relearned(), "b", 10.0)
    assert kinds(broker.handle(Settled(token), "b", 10.0)) == ["2*", "Unadvertise"]


def test_publications_of_a_publisher_that_left_are_shown_the_way() -> None:
    broker = a_broker()
    broker.handle(LinkDown(), "p", 5.0)
    effects = broker.handle(LinkUp(LinkKind.BROKER, (publication(2),)), "b", 10.0)
    lent = next(m for m in sent(effects) if isinstance(m, Advertise))
    assert (lent.id[0], lent.filter) == ("@a", "TRUE")
    broker.handle(Relearned(), "b", 10.0)
    released = sent(broker.handle(Settled(lent.token), "b", 10.0))
    assert released == ["2*", Unadvertise(lent.id)]


def test_who_is_about_to_stop_gets_no_publication() -> None:
    broker = a_broker()
    assert sent(broker.handle(Leaving(token=5), "b", 9.0)) == [Settled(5)]
    assert sent(broker.handle(publication(2), "p", 9.0)) == []
    (token,) = comes_back(broker)
    broker.handle(Relearned(), "b", 10.0)
    assert sent(broker.handle(Settled(token), "b", 10.0)) == ["2*"]
    with pytest.raises(ProtocolError):
        broker.handle(Leaving(token=5), "p", 9.0)


def test_a_broker_has_left_when_its_neighbours_have_answered() -> None:
    broker = a_broker()
    (leaving,) = sent(broker.handle(Leave(("b", "gone")), "", 1.0))
    assert not broker.neighbours.left
    broker.handle(Settled(leaving.token), "b", 1.0)
    assert broker.neighbours.left
    alone = Broker("a", "acyclic")
    alone.handle(Leave(()), "", 0.0)
    assert alone.neighbours.left
    broker = a_broker()
    broker.handle(Leave(("b",)), "", 1.0)
    assert sent(broker.handle(Leave(()), "", 2.0)) == [], "b was told again after it had left"
    assert broker.neighbours.left


def test_of_two_neighbours_that_stop_each_hands_over_what_it_has_first() -> None:
    broker = Broker("a", "acyclic", neighbours=["b", "c"])
    for link in "bc":
        link_up(broker, link)
        broker.handle(Synced(), link, 0.0)
    broker.handle(Advertise(("q", 1), "TRUE", 9), "c", 0.0)
    broker.handle(Subscribe(("s", 1), "TRUE", 7), "b", 0.0)
    effects = broker.handle(Leave(("b", "c")), "", 1.0)
    tokens = {link: sent(effects, link)[0].token for link in "bc"}
    assert sent(broker.handle(Leaving(token=5), "b", 1.0)) == []
    late = Publish(Publication("q", 1, 0, {"x": 1}))
    assert sent(broker.handle(late, "c", 1.0)) == ["1"], "b is still there, and takes it"
    assert sent(broker.handle(Settled(tokens["c"]), "c", 1.0)) == [Settled(5)]
    assert not broker.neighbours.left
    broker.handle(Settled(tokens["b"]), "b", 1.0)
    assert broker.neighbours.left


def test_what_waits_is_bounded_and_goes_with_the_link() -> None:
    broker = a_broker(most_held=2)
    comes_back(broker, 2, 3)
    (dropped,) = broker.handle(publication(4), "p", 10.0)
    assert isinstance(dropped, Discard) and dropped.reason == "link_lost"
    assert dropped.publish.publication.seq == 2
    gone = broker.handle(LinkDown(), "b", 70.0)
    assert [e.publish.publication.seq for e in gone if isinstance(e, Discard)] == [3, 4]
    assert broker.links.queue_len("b") == 0


def test_only_brokers_say_that_they_have_relearned() -> None:
    with pytest.raises(ProtocolError):
        a_broker().handle(Relearned(), "p", 0.0)


# --- a broker that relearns itself ----------------------------------------------------------------


def test_its_clients_publications_wait_until_it_has_relearned() -> None:
    broker = Broker("a", "flooding", neighbours=["b", "c"])
    link_up(broker, "b")
    broker.handle(LinkUp(LinkKind.CLIENT), "p", 0.0)
    broker.handle(publication(1), "p", 0.0)
    broker.handle(Synced(), "b", 0.0)
    assert broker.handle(Timer("hold:p"), "", HOLD_S) == [SetTimer("hold:p", 2 * HOLD_S)]
    link_up(broker, "c", HOLD_S)
    effects = broker.handle(Synced(), "c", HOLD_S)
    assert "1" in sent(effects, "b") and "1*" in sent(effects, "c")
    assert Relearned() in sent(effects, "b")


def answers(effects: Iterable[Effect]) -> list[object]:
    said = sent(effects, "p")
    return [m for m in said if isinstance(m, Settled | Refused)]


@pytest.mark.parametrize("comes", [True, False])
def test_an_advertisement_waits_for_a_neighbour_that_was_never_up(comes: bool) -> None:
    """This holds even if the broker's own relearning no longer waits for that neighbour."""
    broker = Broker("a", "acyclic", neighbours=["b", "c"], patience_s=60.0)
    link_up(broker, "b")
    broker.handle(Synced(), "b", 0.0)
    broker.handle(LinkUp(LinkKind.CLIENT), "p", 0.0)
    told = broker.handle(Advertise(("p", 1), "TRUE", 1), "p", 0.0)
    token = next(m.token for m in sent(told) if isinstance(m, Advertise))
    assert answers(broker.handle(Settled(token), "b", 0.0)) == []
    effects = broker.handle(Timer("relearn"), "", RELEARN_S)
    assert not broker.relearning and answers(effects) == []
    assert SetTimer("absent", 60.0) in effects
    if not comes:
        assert answers(broker.handle(Timer("absent"), "", 60.0)) == [Settled(1)]
        return
    effects = broker.handle(LinkUp(LinkKind.BROKER), "c", 20.0)
    token = next(m.token for m in sent(effects, "c") if isinstance(m, Advertise))
    assert answers(broker.handle(Synced(), "c", 20.0)) == []
    assert answers(broker.handle(Settled(token), "c", 20.0)) == [Settled(1)]


def test_so_does_one_that_is_made_later() -> None:
    broker = Broker("a", "acyclic", neighbours=["b", "c"], patience_s=60.0)
    link_up(broker, "b")
    broker.handle(Synced(), "b", 0.0)
    broker.handle(Timer("relearn"), "", RELEARN_S)
    broker.handle(LinkUp(LinkKind.CLIENT), "p", 6.0)
    told = broker.handle(Advertise(("p", 1), "TRUE", 1), "p", 6.0)
    token = next(m.token for m in sent(told) if isinstance(m, Advertise))
    assert answers(broker.handle(Settled(token), "b", 6.0)) == []
    assert answers(broker.handle(Timer("absent"), "", 60.0)) == [Settled(1)]


def test_a_neighbour_that_comes_late_is_absent_until_it_has_told_all_not_until_others_have() -> (
    None
):
    """The answers that count are those to its own messages: c may stay away for longer than b."""
    broker = Broker("a", "acyclic", neighbours=["b", "c"])
    broker.handle(LinkUp(LinkKind.CLIENT), "p", 0.0)
    broker.handle(Advertise(("p", 1), "TRUE", 1), "p", 0.0)
    broker.handle(Timer("relearn"), "", RELEARN_S)
    assert broker.router.absent == ["b", "c"]
    effects = broker.handle(LinkUp(LinkKind.BROKER), "b", 20.0)
    token = next(m.token for m in sent(effects) if isinstance(m, Advertise))
    broker.handle(Synced(), "b", 20.0)
    assert broker.router.absent == ["b", "c"]
    broker.handle(Settled(token), "b", 20.0)
    assert broker.router.absent == ["c"]
