"""The gateway beside a client that does what the standard says, over connections that break, and a
broker whose answers come late and in another order."""

from __future__ import annotations

import random
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from mqtt_gateway_twin import EVERY, Connection, World

from reefcast.mqtt.packets import Subscribe, TopicRequest, Unsubscribe
from reefcast.mqtt.reasons import Reason
from reefcast.sessions.home import TAKEN_OVER
from reefcast.sessions.messages import ConsumerEnded


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
    dies may take with it that a retained value was sent."""
    rng = random.Random(seed)
    world = World(rng, rng.randint(1, 6), deaths=deaths)
    client = world.client
    for number in range(80):
        what, qos = rng.random(), rng.choice((1, 2))
        if what < 0.2:
            world.event(qos, b"%d" % number)
        elif what < 0.25:
            world.retain(rng.choice("ab"), 1 if deaths else qos, b"r%d" % number)
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
            assert deaths or payload in client.got
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
