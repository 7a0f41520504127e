"""Confirmed publications where the routing cannot confirm; where it can, see
`test_torture_promises`."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from reefcast.model.messages import (
    Advertise,
    Confirmed,
    Deliver,
    LinkKind,
    LinkUp,
    Publish,
    Refused,
    Send,
    Subscribe,
)
from reefcast.model.publication import Publication
from reefcast.routing.broker import Broker
from reefcast.routing.confirming import Confirming


def test_a_routing_that_cannot_confirm_says_so() -> None:
    core = Broker("a", "gossip")
    core.handle(LinkUp(LinkKind.CLIENT), "p", 1.0)
    publish = Publish(Publication("p", 1, 0, {"x": 1}, ("t",)), confirm=1)
    effects = core.handle_publications([publish], "p", 1.0)
    (refused,) = [e.message for e in effects if isinstance(e, Send) and e.link == "p"]
    assert isinstance(refused, Refused)
    assert refused.publication == ("p", 1)
    assert "does not confirm publications" in refused.reason


def test_floods_are_sent_again_in_their_order_however_often() -> None:
    """What waited for a link stays behind what is sent over it again."""
    confirming = Confirming(False, Random(1), floods=True)
    for seq in range(1, 5):
        publish = Publish(Publication("p", seq, 0, {"n": 1}), confirm=1)
        _, copies, _ = confirming.came(publish, [("b", publish.header)], "p")
        last = copies
    waits = [copy for _, copy in last]
    for waiting in (waits, []):
        again = confirming.sent_again("b", [], waiting)
    assert [copy.publication.seq for copy in again] == [1, 2, 3, 4]


def test_what_begins_anew_is_owed_to_all_others_and_everybody_waits_for_these() -> None:
    confirming = Confirming(False, Random(1), floods=True)
    publish = Publish(Publication("p", 1, 0, {"n": 1}), confirm=1)
    hops = [("b", publish.header), ("c", publish.header)]
    work, _, _ = confirming.came(publish, hops, "p")
    assert not confirming.answered(Confirmed("p", 1, 1), "c")
    copies, answers = confirming.begin_anew("b", [*hops[1:], ("d", publish.header)])
    assert not answers
    assert [hop for hop, _ in copies] == ["c", "d"]
    (attempt,) = {copy.confirm for _, copy in copies}
    assert attempt != 1
    assert all(copy.again for _, copy in copies)
    assert not confirming.answered(Confirmed("p", 1, 1), "b")
    assert not confirming.answered(Confirmed("p", 1, attempt), "d")
    assert [send.link for send in confirming.answered(Confirmed("p", 1, attempt), "c")] == ["p"]
    assert not len(confirming)
    assert work.sent.keys() == {("c", (("p", 1), 1)), *((hop, (("p", 1), attempt)) for hop in "cd")}


def test_what_begins_anew_with_nobody_left_is_answered() -> None:
    confirming = Confirming(False, Random(1), floods=True)
    publish = Publish(Publication("p", 1, 0, {"n": 1}), confirm=1)
    confirming.came(publish, [("b", publish.header)], "p")
    copies, answers = confirming.begin_anew("b", [])
    assert not copies
    assert [send.link for send in answers] == ["p"]


def test_all_who_wait_for_several_attempts_wait_for_the_one_that_begins_anew() -> None:
    """The publisher has sent the publication again, by another link."""
    confirming = Confirming(False, Random(1), floods=True)
    publish = Publish(Publication("p", 1, 0, {"n": 1}), confirm=1)
    for attempt, link in ((1, "p"), (2, "q")):
        confirming.came(replace(publish, confirm=attempt), [("b", publish.header)], link)
    copies, _ = confirming.begin_anew("b", [("c", publish.header)])
    ((hop, copy),) = copies
    assert hop == "c"
    answers = confirming.answered(Confirmed("p", 1, copy.confirm), "c")
    assert sorted(send.link for send in answers) == ["p", "q"]
    assert not len(confirming)


def test_publications_that_come_together_are_confirmed_in_one_message_behind_their_effects() -> (
    None
):
    core = Broker("a", "acyclic")
    for client in ("p", "s"):
        core.handle(LinkUp(LinkKind.CLIENT), client, 1.0)
    core.handle(Advertise(("p", 1), "x > 0"), "p", 1.0)
    core.handle(Subscribe(("s", 1), "x > 1"), "s", 1.0)
    batch = [
        Publish(Publication("p", seq, 0, {"x": x}), confirm=1)
        for seq, x in enumerate((1, 2, 1, 3), 1)
    ]
    effects = core.handle_publications(batch, "p", 1.0)
    delivered = [e.publish.publication.seq for e in effects if isinstance(e, Deliver)]
    assert delivered == [2, 4]
    assert effects[-1] == Send("p", Confirmed("p", 1, 1, more=3))
    assert not any(isinstance(e, Send) for e in effects[:-1])
