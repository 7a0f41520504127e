"""The gateway beside a client that does what the standard says, over connections that break, and a
broker whose answers come late and in another order."""

from __future__ import annotations

import random
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from mqtt_gateway_twin import EVERY, Connection, World

from reefcast.mqtt.packets import (
    Packet,
    Puback,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    TopicRequest,
    Unsubscribe,
)
from reefcast.mqtt.reasons import Reason
from reefcast.sessions.home import TAKEN_OVER
from reefcast.sessions.messages import MOST_TEXT_BYTES, ConsumerEnded


@given(seed=st.integers(0, 1 << 32), receive_maximum=st.integers(1, 6), breaks=st.booleans())
@settings(max_examples=120, deadline=None)
def test_all_arrives_as_its_qos_says(seed: int, receive_maximum: int, breaks: bool) -> None:
    rng = random.Random(seed)
    world = World(rng, receive_maximum)
    own: list[tuple[int, bytes]] = []
    events: list[tuple[int, bytes]] = []
    for number in range(80):
        what, qos = rng.random(), rng.choice((1, 2))
        payload = b"%d" % number
        if what < 0.15 and len(world.client.mine) < 20:
            own.append((qos, payload))
            world.client_publishes(qos, payload)
        elif what < 0.3:
            events.append((qos, payload))
            world.event(qos, payload)
        elif breaks and what < 0.36:
            world.reconnect()
        else:
            world.any_step()
    world.settle()
    client = world.client

    assert not client.mine
    assert not client.unreleased
    assert client.acknowledged == {payload for _, payload in own}
    published = list(world.published.values())
    for qos, payload in own:
        if qos == 2 or not breaks:
            assert published.count(payload) == 1
        assert payload in published

    assert not world.home.owed
    for qos, payload in events:
        if qos == 2 or not breaks:
            assert client.got.count(payload) == 1
        assert payload in client.got
    first = sorted({payload for _, payload in events}, key=client.got.index)
    assert first == [payload for _, payload in events]
    assert {key[:2] for key in world.home.notes} <= {"s/"}


@given(seed=st.integers(0, 1 << 32), deaths=st.booleans())
@settings(max_examples=120, deadline=None)
def test_what_has_begun_is_completed(seed: int, deaths: bool) -> None:
    """Whatever the client subscribes to meanwhile, and however much it takes at once. A broker that
    dies may take with it that a retained value was sent with QoS 1."""
    rng = random.Random(seed)
    world = World(rng, rng.randint(1, 6), deaths=deaths)
    client = world.client
    for number in range(80):
        what, qos = rng.random(), rng.choice((1, 2))
        if what < 0.2:
            world.event(qos, b"%d" % number)
        elif what < 0.25:
            world.retain(rng.choice("ab"), qos, b"r%d" % number)
        elif what < 0.32:
            client.receive_maximum = rng.randint(1, 6)
            world.reconnect()
        elif what < 0.38:
            asked = Subscribe(1, (TopicRequest(EVERY, qos),))
            world.up.append(rng.choice((asked, Unsubscribe(1, (EVERY,)))))
        else:
            world.any_step()
    world.settle()

    assert not client.unreleased
    for payload, qos in world.begun.items():
        if payload.startswith(b"r"):
            assert (deaths and qos == 1) or payload in client.got
        elif qos == 2:
            assert client.got.count(payload) == 1
        else:
            assert payload in client.got
    assert not world.home.owed
    world.reconnect()
    world.settle()
    assert {key[:2] for key in world.home.notes} <= {"s/"}


def test_a_session_that_was_taken_over_stays() -> None:
    """Its new consumer needs it, though it was to end with the connection of the old one."""
    for taken_over in (True, False):
        world = World(random.Random(1), 5)
        old = world.connection
        consumer = world.home.consumer
        assert consumer is not None
        old.gateway.expiry_s = 0
        if taken_over:
            with patch.object(Connection, "end") as end:
                old.gateway.answer(ConsumerEnded(consumer=consumer[1], reason=TAKEN_OVER))
            assert end.call_args.args[0] is Reason.SESSION_TAKEN_OVER
        old.gateway.end()
        while old.step(world.rng):
            pass
        assert world.home.there is taken_over


def test_all_subscriptions_are_known_before_the_session_hands_out_anything() -> None:
    """What matches none of those that are known would be acknowledged, and lost."""
    world = World(random.Random(1), 10)
    for topic, qos in (("t", 1), ("passing", 0), ("u", 1)):
        world.connection.take(Subscribe(1, (TopicRequest(topic, qos),)))
        world.settle()
    world.connection.take(Unsubscribe(1, (EVERY,)))
    world.settle()
    world.reconnect_after(lambda: owe_each(world, ["t", "u"]))
    assert payloads(sent(world)) == [b"t", b"u"]
    assert len(world.home.owed) == 2


def owe_each(world: World, topics: list[str]) -> None:
    """Have the session owe an event to each of its subscriptions, the oldest first."""
    for topic, number in zip(topics, sorted(world.home.filters.values()), strict=True):
        world.event(1, topic.encode(), topic)
        body, _ = world.home.owed[world.home.last]
        world.home.owed[world.home.last] = (body, (number,))


def answer_with_retained(world: World, qos: int, payload: bytes) -> None:
    """Have the client subscribe once more, and a retained value be found for it."""
    world.retain("t", qos, payload)
    world.connection.take(Subscribe(1, (TopicRequest(EVERY, 2),)))
    home = world.connection.lanes["home"]
    while home:
        home.popleft()()
    world.connection.lanes["recall"].popleft()()


def sent(world: World) -> list[Packet]:
    packets = list(world.connection.wire)
    world.connection.wire.clear()
    return packets


def payloads(packets: list[Packet]) -> list[bytes]:
    return [each.payload for each in packets if isinstance(each, Publish)]


def test_a_retained_value_with_qos_2_is_noted_before_it_is_sent() -> None:
    """Nothing overtakes it, of which a newer value may be."""
    world = World(random.Random(1), 10)
    answer_with_retained(world, 2, b"old")
    assert [type(each) for each in sent(world)] == [Suback]
    for qos in (1, 0, 2):
        world.event(qos, b"new %d" % qos)
    assert world.connection.hand()
    assert not sent(world)
    world.connection.take(Pubrec(1))
    assert sent(world) == [Pubrel(1, Reason.PACKET_IDENTIFIER_NOT_FOUND)]
    assert world.connection.step(world.rng)
    assert "d/1" in world.home.notes
    assert payloads(sent(world)) == [b"old", b"new 1", b"new 0", b"new 2"]


def test_a_retained_value_that_waits_for_its_turn_is_not_overtaken() -> None:
    world = World(random.Random(1), 2)
    world.event(1, b"first")
    assert world.connection.hand()
    world.retain("a", 1, b"one")
    answer_with_retained(world, 1, b"old")
    world.event(0, b"new")
    assert world.connection.hand()
    before = sent(world)
    assert payloads(before) == [b"first", b"one"]
    world.connection.take(
        Puback(next(each for each in before if isinstance(each, Publish)).packet_id)
    )
    assert payloads(sent(world)) == [b"old", b"new"]


def test_a_retained_value_too_long_for_a_note_occupies_its_identifier() -> None:
    """It comes once, and if its broker dies, its identifier is not used before the client has said
    that it knows it no more."""
    world = World(random.Random(1), 10)
    answer_with_retained(world, 2, b"x" * MOST_TEXT_BYTES)
    assert world.connection.step(world.rng)
    assert world.home.notes["o/1"] == "0"
    sent(world)
    world.reconnect_after(lambda: None)
    assert Pubrel(1) in sent(world)


def test_a_retained_value_that_is_refused_leaves_no_note() -> None:
    for payload in (b"x", b"x" * MOST_TEXT_BYTES):
        world = World(random.Random(1), 10)
        answer_with_retained(world, 2, payload)
        assert world.connection.step(world.rng)
        sent(world)
        world.connection.take(Pubrec(1, Reason.UNSPECIFIED_ERROR))
        world.settle()
        assert not {"d/1", "o/1"} & world.home.notes.keys()
