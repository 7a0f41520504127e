"""The outbox without sockets: numbering, credit, and what is sent again."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reefcast.client.encoding import encode_event
from reefcast.client.outbox import Outbox
from reefcast.errors import InvalidValueError, ProtocolError
from reefcast.model import wire
from reefcast.model.messages import Advertise, Subscribe
from reefcast.model.wire import FrameKind
from reefcast.protocol.frames import FrameReader


def opened(credit: int = 10) -> Outbox:
    outbox = Outbox("me", lambda: None)
    outbox.begin(0, credit, same_broker=False, controls=[])
    return outbox


def publish(outbox: Outbox, count: int = 1) -> None:
    for _ in range(count):
        outbox.publish(encode_event(("me", outbox.seq + 1), 0, {"x": 1}, (), b""))


def sent(outbox: Outbox) -> list[int | str]:
    """Take the output; return the numbers of publications, and the filters of what was claimed."""
    frames = FrameReader().feed(outbox.drain())
    return [
        wire.CLIENT_CODEC.decode_publish(payload).publication.seq
        if kind in (FrameKind.PUBLISH, FrameKind.PUBLISH_AGAIN)
        else wire.CLIENT_CODEC.decode_control(payload).filter
        for kind, payload in frames
    ]


def test_wakes_once_for_each_time_that_there_is_something_to_take() -> None:
    woken: list[None] = []
    outbox = Outbox("me", lambda: woken.append(None))
    outbox.begin(0, 10, same_broker=False, controls=[])
    publish(outbox, 3)
    assert len(woken) == 1
    assert sent(outbox) == [1, 2, 3]
    publish(outbox)
    assert len(woken) == 2
    assert outbox.output_bytes == len(outbox.drain())
    assert (outbox.drain(), outbox.output_bytes) == (b"", 0)


def test_credit_is_taken_and_granted() -> None:
    outbox = opened(credit=2)
    publish(outbox, 2)
    assert not outbox.has_room
    outbox.grant(1)
    assert outbox.has_room
    with pytest.raises(ProtocolError, match="-1"):
        outbox.grant(-1)


def test_controls_go_first_and_publications_keep_their_order() -> None:
    outbox = opened()
    outbox.send_control(Subscribe(("me", 1), "a", 1))
    publish(outbox, 4)
    outbox.drain()
    outbox.acknowledge(3)
    assert outbox.acknowledged_seq == 2
    outbox.disconnect()
    outbox.begin(4, 1, same_broker=True, controls=[Subscribe(("me", 2), "a", 2)])
    assert outbox.acknowledged_seq == 3
    assert not outbox.has_room
    assert sent(outbox) == ["a", 4]
    outbox.acknowledge(6)
    assert outbox.acknowledged_seq == 4


def test_what_was_published_before_any_advertisement_goes_again_before_it() -> None:
    """The advertisement may not match what was published before it."""
    outbox = opened()
    publish(outbox, 2)
    advertise = Advertise(("me", 1), "x > 5", 1)
    outbox.send_control(advertise)
    publish(outbox, 2)
    assert sent(outbox) == [1, 2, "x > 5", 3, 4]
    for credit, expected in ((10, [1, 2, "x > 5", 3, 4]), (1, [1, "x > 5"])):
        outbox.disconnect()
        outbox.begin(0, credit, same_broker=False, controls=[advertise])
        assert sent(outbox) == expected
    outbox.grant(10)
    assert sent(outbox) == [2, 3, 4]
    outbox.acknowledge(2)  # 1, and the advertisement
    outbox.disconnect()
    outbox.begin(2, 10, same_broker=True, controls=[advertise])
    assert sent(outbox) == [2, "x > 5", 3, 4]


def test_an_impossible_acknowledgement_is_the_brokers_fault() -> None:
    outbox = opened()
    publish(outbox, 2)
    for number in (3, -1):
        with pytest.raises(ProtocolError, match=f"frame {number}"):
            outbox.acknowledge(number)


def test_wrong_events_are_refused() -> None:
    for attributes in ({"x": b"1"}, {"x": 2**64}, {1: 1}):
        with pytest.raises(InvalidValueError):
            encode_event(("me", 1), 0, attributes, (), b"")
    with pytest.raises(InvalidValueError, match="topic"):
        encode_event(("me", 1), 0, {}, ["a", ""], b"")
    with pytest.raises(InvalidValueError, match="the publication has"):
        encode_event(("me", 1), 0, {"x": "x" * wire.MAX_FRAME_BYTES}, (), b"")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.integers(1, 5)),
            st.tuples(st.just("acknowledge"), st.integers(1, 5)),
            st.tuples(st.just("grant"), st.integers(0, 5)),
            st.tuples(st.just("reconnect"), st.integers(0, 8)),
        ),
        max_size=40,
    )
)
def test_one_broker_process_takes_over_every_publication_once(
    script: list[tuple[str, int]],
) -> None:
    """The broker counts what reached it; a reconnect loses what it had not taken over."""
    outbox = opened(credit=3)
    at_broker: list[int] = []
    on_the_way: list[int] = []

    def arrive(count: int) -> None:
        on_the_way.extend(sent(outbox))
        at_broker.extend(on_the_way[:count])
        del on_the_way[:count]

    for step, n in script:
        if step == "publish":
            for _ in range(n):
                if outbox.has_room:
                    publish(outbox)
        elif step == "acknowledge":
            arrive(n)
            outbox.acknowledge(len(at_broker))
        elif step == "grant":
            outbox.grant(n)
        else:
            arrive(n // 2)
            on_the_way.clear()
            outbox.disconnect()
            outbox.begin(len(at_broker), n, same_broker=True, controls=[])
    outbox.grant(1000)
    arrive(1000)
    outbox.acknowledge(len(at_broker))
    assert at_broker == list(range(1, outbox.seq + 1))
    assert outbox.acknowledged_seq == outbox.seq


@example([("publish", 2), ("cut", 0), ("come back", 0)])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.integers(1, 5)),
            st.tuples(st.just("say"), st.integers(0, 0)),
            st.tuples(st.just("arrive"), st.integers(0, 9)),
            st.tuples(st.just("cut"), st.integers(0, 9)),
            st.tuples(st.just("come back"), st.integers(0, 0)),
        ),
        max_size=40,
    )
)
def test_a_session_that_goes_on_loses_no_word_and_overdraws_no_credit(
    script: list[tuple[str, int]],
) -> None:
    """The broker gives a credit back for each publication that reaches it, or with the hello."""
    window = 4
    outbox = opened(credit=window)
    at_broker: list[int | str] = []
    said: list[int | str] = []
    on_the_way: list[int | str] = []
    allowance, connected = window, True

    def arrive(count: int) -> None:
        nonlocal allowance
        on_the_way.extend(sent(outbox))
        for each in on_the_way[:count]:
            at_broker.append(each)
            assert isinstance(each, str) or allowance > 0, "more than the credit allows"
            if isinstance(each, int) and connected:
                outbox.grant(1)
            elif isinstance(each, int):
                allowance -= 1
        del on_the_way[:count]

    for step, n in script:
        if step == "publish":
            for _ in range(n if connected else 0):
                if outbox.has_room:
                    publish(outbox)
                    said.append(outbox.seq)
        elif step == "say":
            said.append(f"n = {len(said)}")
            outbox.send_control(Subscribe(("me", 1), f"n = {len(said) - 1}", 1))
        elif step == "arrive" and connected:
            arrive(n)
            outbox.acknowledge(len(at_broker))
        elif step == "cut" and connected:
            on_the_way.extend(sent(outbox))
            connected = False
            arrive(n)
            on_the_way.clear()
            outbox.disconnect()
        elif step == "come back" and not connected:
            connected, allowance = True, window
            outbox.go_on(len(at_broker), allowance)
            unacknowledged = [each for each in said[len(at_broker) :] if isinstance(each, int)]
            assert outbox.credit == window - len(unacknowledged)
    if not connected:
        connected, allowance = True, window
        outbox.go_on(len(at_broker), allowance)
    arrive(1000)
    assert at_broker == said
