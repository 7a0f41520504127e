"""Two ends of a connection, without any I/O: each receives what the other sends, however it is
cut."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reefcast.errors import InternalError, ProtocolError
from reefcast.model import wire
from reefcast.model.versions import Agreed, Offer
from reefcast.model.wire import Close, FrameKind, Role
from reefcast.protocol.link import LINGER_S, Link, Overdue
from reefcast.protocol.numbered import ACK_DELAY_S, ACK_EVERY
from reefcast.protocol.states import NEXT, State, Step, after

SILENCE_S, PING_S = 5.0, 1.0
OPEN_STEPS = {
    State.WAITING: (),
    State.GREETING: (Step.HELLO,),
    State.OPEN: (Step.HELLO, Step.ADMIT),
    State.CLOSING: (Step.CLOSE,),
    State.CLOSED: (Step.LOSE,),
}


class End:
    """A link, with what it has written and nobody has carried yet, and what it has received."""

    def __init__(self, name: str, offer: Offer = wire.OFFER) -> None:
        self.name = name
        self.written = bytearray()
        self.link = Link(self.written.extend, offer)
        self.heard: list[tuple[int, Any]] = []

    def hello(self, received: int = 0) -> None:
        offer = self.link._offer
        hello = wire.hello(Role.BROKER, self.name, "net", "s", offer=offer, received=received)
        self.link.say_hello(hello)

    def handle(self, data: bytes, now: float = 0.0) -> None:
        for kind, frame in self.link.receive(data):
            if self.link.over:
                return
            payload = self.link.handle(kind, frame)
            if payload is None:
                continue
            if kind == FrameKind.HELLO:
                self.link.admit(SILENCE_S, PING_S, now)
            elif kind == FrameKind.CONTROL:
                self.link.took(1)
                self.link.acknowledge_soon(now)
            self.heard.append((kind, payload))

    def take(self) -> bytes:
        data = bytes(self.written)
        self.written.clear()
        return data


def met(now: float = 0.0) -> tuple[End, End]:
    """Return two ends that have said hello to each other."""
    one, other = End("one"), End("other")
    one.hello()
    other.hello()
    other.handle(one.take(), now)
    one.handle(other.take(), now)
    assert one.link.state is other.link.state is State.OPEN
    one.heard.clear()
    other.heard.clear()
    return one, other


def control(number: int) -> bytes:
    return wire.frame(FrameKind.CONTROL, b"%d" % number)


# --- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "step"), list(product(State, Step)))
def test_only_the_steps_of_the_table_can_be_taken(state: State, step: Step) -> None:
    if (state, step) in NEXT:
        assert after(state, step) in State
    else:
        with pytest.raises(InternalError, match=f"{state.name} cannot {step.name}"):
            after(state, step)


def test_every_state_is_reached_and_every_one_can_be_left() -> None:
    for state, steps in OPEN_STEPS.items():
        reached = State.WAITING
        for step in steps:
            reached = after(reached, step)
        assert reached is state
        assert after(state, Step.LOSE) is State.CLOSED


def test_a_link_that_was_not_greeted_admits_nobody() -> None:
    with pytest.raises(InternalError, match="WAITING cannot ADMIT"):
        End("one").link.admit(1.0, 1.0, 0.0)


# --- bytes ----------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(0, 40))
@example(0, 0)
def test_frames_come_whole_wherever_the_bytes_are_cut(seed: int, count: int) -> None:
    rng = random.Random(seed)
    one, other = End("one"), End("other")
    other.hello()
    one.hello()
    said = [rng.randbytes(rng.choice((0, 1, 5, 300, 70_000))) for _ in range(count)]
    for payload in said:
        one.written += wire.frame(FrameKind.CONTROL, payload)
        if rng.random() < 0.2:
            one.written += wire.encode(FrameKind.PING, 0)
    data = one.take()
    while data:
        some = rng.choice((1, 2, 7, 1000, len(data)))
        other.handle(data[:some])
        data = data[some:]
    (kind, hello), *controls = other.heard
    assert (kind, hello.name) == (FrameKind.HELLO, "one")
    assert controls == [(FrameKind.CONTROL, payload) for payload in said]
    assert other.link.taken.count == count


@given(st.binary(max_size=400), st.booleans())
def test_no_bytes_do_more_than_end_the_link(data: bytes, greeted: bool) -> None:
    one = met()[0] if greeted else End("one")
    with suppress(ProtocolError):
        one.handle(data)
    if any(kind == FrameKind.CLOSE for kind, _ in one.heard):
        assert one.link.state is State.CLOSED


def test_the_first_frame_is_a_hello() -> None:
    for said in (control(1), wire.encode(FrameKind.PING, 0)):
        with pytest.raises(ProtocolError, match="the first frame must be HELLO"):
            End("one").handle(said)


def test_what_follows_on_a_hello_waits_until_the_other_end_was_let_in() -> None:
    one, other = End("one"), End("other")
    one.hello()
    frames = other.link.receive(one.take() + control(1))
    other.link.handle(*next(frames))
    assert other.link.state is State.GREETING
    with pytest.raises(ProtocolError, match="of kind 2"):
        other.link.handle(FrameKind.CONTROL, b"")
    other.link.admit(SILENCE_S, PING_S, 0.0)
    assert [other.link.handle(*frame) for frame in frames] == [b"1"]


def test_who_dialled_answers_before_it_hears_a_hello() -> None:
    """The other end sends nothing else before that."""
    one, other = End("one"), End("other")
    one.link = Link(one.written.extend, answer=lambda question: question.upper())
    one.hello()
    for frame in other.link.receive(one.take()):
        other.link.handle(*frame)
    for question in (b"who", b"really"):
        one.handle(wire.frame(FrameKind.PROOF, question))
        (answer,) = other.link.receive(one.take())
        assert other.link.handle(*answer) == question.upper()
        assert one.heard == [] and one.link.state is State.WAITING
    other.link.admit(SILENCE_S, PING_S, 0.0)
    other.hello()
    one.handle(other.take())
    assert one.link.state is State.OPEN
    one.handle(wire.frame(FrameKind.PROOF, b"again"))
    assert one.take() == wire.frame(FrameKind.PROOF, b"AGAIN")
    one.link.answer = None
    one.handle(wire.frame(FrameKind.PROOF, b"again"))
    assert one.heard[-1] == (FrameKind.PROOF, b"again") and not one.written


def test_who_dialled_may_have_no_answer_now_and_give_one_later() -> None:
    one = End("one")
    one.link = Link(one.written.extend, answer=lambda question: None)
    one.handle(wire.frame(FrameKind.PROOF, b"who"))
    assert one.heard == [] and not one.written
    one.link.prove(b"me")
    assert one.take() == wire.frame(FrameKind.PROOF, b"me")


def test_who_has_no_answer_takes_proof_for_no_hello() -> None:
    with pytest.raises(ProtocolError, match="the first frame must be HELLO, but it is of kind 24"):
        End("one").handle(wire.frame(FrameKind.PROOF, b"who"))


def test_a_hello_may_not_be_long_and_other_frames_may() -> None:
    with pytest.raises(ProtocolError, match="a frame has 1 to 65536 bytes"):
        End("one").handle(wire.frame(FrameKind.HELLO, bytes(70_000)))
    one, _ = met()
    one.handle(wire.frame(FrameKind.CONTROL, bytes(70_000)))
    assert len(one.heard) == 1


def test_both_speak_the_newest_version_that_both_know() -> None:
    one, other = End("one", Offer(3, 1, ("a", "b"))), End("other", Offer(2, 2, ("b", "c")))
    one.hello()
    other.hello()
    other.handle(one.take())
    one.handle(other.take())
    assert one.link.agreed == other.link.agreed == Agreed(2, frozenset("b"))
    stranger = End("stranger", Offer(1))
    stranger.hello()
    with pytest.raises(ProtocolError, match="upgrade the older one"):
        other = End("other", Offer(3, 2))
        other.handle(stranger.take())


# --- acknowledgements -----------------------------------------------------------------------------


def test_a_timer_that_comes_a_rounding_error_early_need_not_be_set_again() -> None:
    _, other = met()
    other.handle(control(1), 0.1)
    assert other.link.time_passed(other.link.due_s - 1e-9) is None
    assert other.take() == wire.encode(FrameKind.ACK, 1)
    assert other.link.due_s == other.link.tick_s


def test_several_are_acknowledged_at_once_and_a_few_a_little_later() -> None:
    one, other = met()
    other.handle(b"".join(control(n) for n in range(ACK_EVERY)))
    assert other.take() == wire.encode(FrameKind.ACK, ACK_EVERY)
    for number, now in ((ACK_EVERY + 1, 0.1), (ACK_EVERY + 2, 0.2)):
        assert other.link.time_passed(now) is None
        other.handle(control(number), now)
        assert not other.written
        assert other.link.due_s == now + ACK_DELAY_S
        assert other.link.time_passed(now + ACK_DELAY_S) is None
        one.handle(other.take())
        assert one.heard.pop() == (FrameKind.ACK, number)
        assert other.link.due_s == other.link.tick_s


def test_an_end_that_goes_on_says_what_it_has_and_counts_from_there() -> None:
    one, other = End("one"), End("other")
    one.hello()
    other.hello(received=17)
    other.handle(one.take())
    other.take()
    other.handle(control(18))
    assert (other.link.taken.count, other.take()) == (18, b"")
    other.link.time_passed(ACK_DELAY_S)
    assert other.take() == wire.encode(FrameKind.ACK, 18)


# --- time -----------------------------------------------------------------------------------------


def pass_time(end: End, until_s: float, now: float = 0.0) -> tuple[float, Overdue | None]:
    """Let the time of this end pass up to `until_s`, or until something is overdue."""
    while end.link.due_s <= until_s:
        now = end.link.due_s
        overdue = end.link.time_passed(now)
        if overdue is not None:
            return now, overdue
    return until_s, None


def test_a_hello_that_does_not_come() -> None:
    one = End("one")
    one.link.await_hello(5.0)
    assert one.link.time_passed(4.9) is None
    assert pass_time(one, 10.0) == (5.0, Overdue.HELLO)
    assert one.link.due_s == math.inf


@given(st.floats(0.3, 100.0))
def test_silence_is_found_within_a_tenth(silence_s: float) -> None:
    one = End("one")
    other = End("other")
    other.hello()
    for frame in one.link.receive(other.take()):
        one.link.handle(*frame)
        one.link.admit(silence_s, math.inf, 0.0)
    at_s, overdue = pass_time(one, 200.0)
    assert overdue is Overdue.WORD
    tick_s = one.link.tick_s
    assert tick_s <= silence_s / 10 + 1e-9
    assert silence_s - tick_s <= at_s <= silence_s + tick_s + 1e-9


def test_an_end_that_was_suspended_blames_nobody() -> None:
    one, _ = met()
    for now in (100.0, 200.0, 300.0):
        assert one.link.time_passed(now) is None
        one.handle(control(1), now)


def test_an_end_that_does_not_read_blames_nobody() -> None:
    one, _ = met()
    one.link.listening = False
    assert pass_time(one, 60.0) == (60.0, None)
    one.link.listening = True
    at_s, overdue = pass_time(one, 120.0, 60.0)
    assert overdue is Overdue.WORD and at_s > 60.0 + SILENCE_S - 2 * one.link.tick_s


def test_two_that_have_nothing_to_say_keep_each_other_alive() -> None:
    one, other = met()
    for step in range(1, 400):
        now = step / 4
        for end, far in ((one, other), (other, one)):
            assert end.link.time_passed(now) is None
            far.handle(end.take(), now)
    assert one.link.state is other.link.state is State.OPEN
    assert one.heard == []


def test_who_writes_says_no_ping() -> None:
    one, _ = met()
    for now in range(1, 20):
        one.link.wrote = True
        one.link._heard = True
        one.link.time_passed(float(now))
    assert not one.written


# --- the end --------------------------------------------------------------------------------------


def test_close_is_the_last_that_is_said_and_heard() -> None:
    one, other = met()
    one.handle(control(1))
    last = one.link.close(Close("enough", retry=True), 10.0)
    assert one.take() == wire.encode(FrameKind.ACK, 1)
    one.handle(control(2))
    assert one.heard == [(FrameKind.CONTROL, b"1")]
    other.handle(last + control(3))
    assert other.heard == [(FrameKind.CLOSE, Close("enough", retry=True))]
    assert other.link.state is State.CLOSED
    assert pass_time(one, 20.0) == (10.0 + LINGER_S, Overdue.END)
    with pytest.raises(InternalError, match="CLOSING cannot CLOSE"):
        one.link.close(Close("again"), 11.0)


def test_a_refusal_instead_of_a_hello() -> None:
    one = End("one")
    one.handle(wire.encode(FrameKind.CLOSE, Close("no room")))
    assert one.heard == [(FrameKind.CLOSE, Close("no room"))]
    assert one.link.over


def test_a_link_that_was_lost_has_nothing_to_do() -> None:
    one, _ = met()
    one.handle(control(1))
    one.link.lost()
    assert one.link.due_s == math.inf
    one.link.acknowledge_soon(0.0)
    assert not one.written and one.link.over
