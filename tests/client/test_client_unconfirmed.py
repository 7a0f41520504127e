"""The publications that a client keeps until they are confirmed, and sends again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reefcast.client.outbox import Outbox
from reefcast.client.unconfirmed import Unconfirmed
from reefcast.errors import ConnectionLostError
from reefcast.model import wire
from reefcast.model.messages import Confirmed, Publish
from reefcast.model.publication import Publication
from reefcast.protocol.frames import FrameReader

CREDIT = 100


def _frame(seq: int) -> bytes:
    return wire.encode_published(wire.encode_publication(Publication("p", seq, 0, {"x": seq})))


def _written(outbox: Outbox) -> list[Publish]:
    decode = wire.CLIENT_CODEC.decode_publish
    return [decode(payload, kind) for kind, payload in FrameReader().feed(outbox.drain())]


def _seqs(publications: list[Publish]) -> list[tuple[int, int, bool]]:
    return [(each.publication.seq, each.confirm, each.again) for each in publications]


def _begin(
    outbox: Outbox, asked: Mapping[int, bytes], credit: int = CREDIT, *, received: int = 0
) -> None:
    same = bool(received)
    outbox.begin(received, credit, same_broker=same, controls=(), asked=asked)


def test_what_is_not_confirmed_goes_again_first_and_in_order() -> None:
    outbox, unconfirmed = Outbox("p", lambda: None), Unconfirmed()
    _begin(outbox, {})
    for seq in range(1, 7):
        frame = _frame(seq)
        outbox.publish(unconfirmed.add(seq, frame) if seq % 2 else frame)
    assert _seqs(_written(outbox)) == [
        *((1, 1, False), (2, 0, False), (3, 1, False)),
        *((4, 0, False), (5, 1, False), (6, 0, False)),
    ]
    outbox.acknowledge(4)
    assert outbox.acknowledged_seq == 4
    unconfirmed.answered(Confirmed("p", 1, 1))
    outbox.disconnect()
    _begin(outbox, unconfirmed.again())
    outbox.publish(unconfirmed.add(7, _frame(7)))
    assert _seqs(_written(outbox)) == [
        *((3, 2, True), (5, 2, True), (6, 0, True), (7, 1, False)),
    ]
    outbox.acknowledge(1)  # of the frame that went again
    assert outbox.acknowledged_seq == 4
    outbox.acknowledge(4)
    assert outbox.acknowledged_seq == 7


def test_those_that_go_again_wait_for_credit_and_are_not_doubled() -> None:
    outbox, unconfirmed = Outbox("p", lambda: None), Unconfirmed()
    _begin(outbox, {})
    for seq in range(1, 5):
        outbox.publish(unconfirmed.add(seq, _frame(seq)))
    outbox.drain()
    outbox.acknowledge(4)
    outbox.disconnect()
    _begin(outbox, unconfirmed.again(), credit=1)
    assert _seqs(_written(outbox)) == [(1, 2, True)]
    assert not outbox.has_room
    outbox.disconnect()
    _begin(outbox, unconfirmed.again(), credit=3)
    assert _seqs(_written(outbox)) == [(1, 3, True), (2, 3, True), (3, 3, True)]
    outbox.grant(5)
    assert _seqs(_written(outbox)) == [(4, 3, True)]
    assert outbox.has_room
    outbox.acknowledge(4)
    assert outbox.acknowledged_seq == 4


def test_what_was_confirmed_before_it_was_acknowledged_asks_no_more() -> None:
    outbox, unconfirmed = Outbox("p", lambda: None), Unconfirmed()
    _begin(outbox, {})
    outbox.publish(unconfirmed.add(1, _frame(1)))
    outbox.drain()
    unconfirmed.answered(Confirmed("p", 1, 1))
    outbox.disconnect()
    _begin(outbox, unconfirmed.again())
    assert _seqs(_written(outbox)) == [(1, 0, True)]


def test_who_waits_until_all_is_done_does_not_go_on_with_what_a_broker_keeps() -> None:
    unconfirmed = Unconfirmed()
    for seq in range(1, 5):
        unconfirmed.add(seq, _frame(seq))
    answered, done = (unconfirmed.everything(until_done=wish) for wish in (False, True))
    unconfirmed.add(5, _frame(5))
    for seq in range(1, 5):
        unconfirmed.answered(Confirmed("p", seq, 1, kept=True))
    assert (answered.open, done.open) == (0, 4)
    for seq in (1, 2):
        unconfirmed.answered(Confirmed("p", seq, 1))
    unconfirmed.answered(Confirmed("p", 3, 1, refused="session 's' is full"))
    assert (answered.refusals, done.refusals) == ([], [(3, "session 's' is full")])
    later = unconfirmed.everything(until_done=True)
    assert (done.open, later.open) == (1, 2)
    ended = ConnectionLostError("gone")
    unconfirmed.fail(ended)
    assert done.ended == later.ended == ended
    unconfirmed.answered(Confirmed("p", 4, 1))
    assert (done.open, later.open) == (0, 1)


def test_a_group_hears_of_its_own_publications() -> None:
    unconfirmed = Unconfirmed()
    first = unconfirmed.begin()
    unconfirmed.add(1, _frame(1))
    second = unconfirmed.begin()
    unconfirmed.noted(2, [_frame(2), _frame(3)])
    unconfirmed.end(first)
    unconfirmed.end(second)
    assert unconfirmed.noted(4, [_frame(4)]) == [_frame(4)]
    assert (first.open, second.open, len(unconfirmed)) == (3, 2, 3)
    unconfirmed.answered(Confirmed("p", 2, 1, refused="session 's' is full"))
    assert first.refusals == second.refusals == [(2, "session 's' is full")]
    unconfirmed.answered(Confirmed("p", 3, 1, kept=True))
    assert (first.open, second.open, len(unconfirmed)) == (1, 0, 2)
    ended = ConnectionLostError("gone")
    unconfirmed.fail(ended)
    assert (first.ended, second.ended) == (ended, None)


@pytest.mark.parametrize("former", [0, 2])
def test_many_are_kept_and_sent_as_one_after_the_other(former: int) -> None:
    """Also the attempts of an earlier life count, and mark what goes as sent before."""
    frames = [_frame(seq) for seq in (1, 2, 3)]
    many, single = Unconfirmed(), Unconfirmed()
    for unconfirmed in (many, single):
        unconfirmed.former_attempts = former
        unconfirmed.begin()
    sent = many.noted(1, frames)
    assert sent == [single.add(seq, frame) for seq, frame in enumerate(frames, 1)]
    assert many.again() == single.again()
    outbox = Outbox("p", lambda: None)
    _begin(outbox, {})
    for frame in sent:
        outbox.publish(frame)
    assert _seqs(_written(outbox)) == [(seq, former + 1, former > 0) for seq in (1, 2, 3)]


def test_one_answer_is_for_consecutive_publications_as_several_are() -> None:
    for runs in ([(1, 0), (2, 0), (3, 0), (4, 0)], [(1, 3)], [(2, 2), (1, 0)]):
        unconfirmed, done = Unconfirmed(), list[int]()
        unconfirmed.on_done = done.append
        group = unconfirmed.begin()
        sent = unconfirmed.noted(1, [_frame(seq) for seq in range(1, 6)])
        assert sent == [wire.asking(_frame(seq), 1, again=False) for seq in range(1, 6)]
        patient = unconfirmed.everything(until_done=True)
        for seq, more in runs:
            unconfirmed.answered(Confirmed("p", seq, 1, kept=True, more=more))
        assert (group.open, patient.open, len(unconfirmed), done) == (1, 5, 5, [])
        for seq, more in runs:
            unconfirmed.answered(Confirmed("p", seq, 1, more=more))
            unconfirmed.answered(Confirmed("p", seq, 1, more=more))  # nobody waits any more
        assert (group.open, patient.open, len(unconfirmed)) == (1, 1, 1)
        assert sorted(done) == [1, 2, 3, 4]
        unconfirmed.answered(Confirmed("p", 5, 1, refused="full"))
        assert group.refusals == patient.refusals == [(5, "full")]
        assert group.open == patient.open == 0
