"""PUBLISH of MQTT at a live broker: topics, properties, expiry, aliases."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from mqtt_clients import MqttPlace, mqtt_broker
from mqtt_statements import fresh, shows
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Disconnect,
    Puback,
    Publish,
    Pubrec,
    Pubrel,
)
from reefcast.mqtt.properties import NO_PROPERTIES, Properties
from reefcast.mqtt.reasons import Reason
from reefcast.timing import Machine

pytestmark = pytest.mark.asyncio(loop_scope="module")
Pass = Callable[[float], None]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MqttPlace]:
    async with mqtt_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def pass_s(monkeypatch: pytest.MonkeyPatch) -> Pass:
    """Return what lets seconds pass at the clock of the broker."""
    passed_us = 0

    def passing(seconds: float) -> None:
        nonlocal passed_us
        passed_us += round(seconds * 1e6)

    monkeypatch.setattr(Machine, "now_us", lambda self: time.time_ns() // 1000 + passed_us)
    return passing


# --- topics and properties -----------------------------------------------------------------------


@shows("3.3.2-3", "3.3.2-3")
async def test_events_have_topics_that_match(place: MqttPlace, version: int) -> None:
    topic = fresh()
    client = await place.client(version=version)
    await client.subscribe(f"{topic}/+/c/#")
    matching = [f"{topic}/b/c", f"{topic}/b/c/", f"{topic}//c/d/e"]
    for each in (topic, f"{topic}/b", *matching[:2], f"/{topic}/b/c", f"{topic}/b/d", matching[2]):
        await client.publish(each)
    assert [(await client.event()).topic for _ in matching] == matching


@shows("3.3.2-4 3.3.2-15 3.3.2-16 3.3.2-17 3.3.2-18 3.3.2-20")
@pytest.mark.parametrize("qos", [0, 2])
async def test_properties_are_forwarded_unaltered(place: MqttPlace, version: int, qos: int) -> None:
    topic = fresh()
    pairs = tuple((f"name{number % 7}", f"ü{number}") for number in range(60))
    said = Properties(
        payload_format_indicator=1,
        content_type="text/plain; charset=utf-8",
        response_topic="answers/here",
        correlation_data=bytes(range(256)),
        user_properties=(("b", "1"), ("a", ""), ("", "2"), ("b", "1"), *pairs),
    )
    subscribers = [
        await place.client(),
        await place.client(fresh("client"), session_expiry_interval=100),
        await place.client(version=MQTT_3_1_1),
    ]
    for each in subscribers:
        await each.subscribe(topic, 2)
    client = await place.client()
    await client.publish(topic, "hé".encode(), qos, properties=said)
    for each in subscribers:
        event = await each.event()
        assert event.payload == "hé".encode()
        assert event.properties == (said if each.version == MQTT_5 else NO_PROPERTIES)


async def test_request_and_response(place: MqttPlace) -> None:
    service, asker = await place.client(), await place.client()
    question, answers = fresh(), fresh()
    await service.subscribe(question, 1)
    await asker.subscribe(answers, 1)
    await asker.publish(question, b"?", 1, response_topic=answers, correlation_data=b"7")
    asked = (await service.event()).properties
    await service.publish(
        asked.response_topic or "", b"!", 1, correlation_data=asked.correlation_data
    )
    answer = await asker.event()
    assert (answer.payload, answer.properties.correlation_data) == (b"!", b"7")


# --- expiry --------------------------------------------------------------------------------------


@shows("3.3.2-5 3.3.2-6")
@pytest.mark.parametrize("lasting", [False, True])
async def test_messages_expire_while_they_wait(
    place: MqttPlace, version: int, lasting: bool, pass_s: Pass
) -> None:
    topic = fresh()
    more = {"session_expiry_interval": 1000} if lasting else {}
    client = await place.client(fresh("client"), receive_maximum=1, **more)
    await client.subscribe(topic, 1)
    publisher = await place.client()
    await publisher.publish(topic, b"first", 1)
    first = await client.next(Publish)
    assert first.properties.message_expiry_interval is None
    for seconds in (100, 5, 200):
        await publisher.publish(topic, b"%d" % seconds, 1, message_expiry_interval=seconds)
    pass_s(60)
    client.send(Puback(first.packet_id))
    for seconds in (100, 200):
        event = await client.event()
        assert event.payload == b"%d" % seconds
        left = event.properties.message_expiry_interval
        assert left is not None
        assert seconds - 65 < left <= seconds - 60


async def test_retained_messages_expire(place: MqttPlace, pass_s: Pass) -> None:
    topic = fresh()
    client = await place.client()
    for seconds in (5, 100):
        await client.publish(
            f"{topic}/{seconds}", b"", 1, retain=True, message_expiry_interval=seconds
        )
        await client.publish(f"{topic}/{seconds}", b"x", 1, retain=True)
        await client.publish(
            f"{topic}/{seconds}", b"y", 1, retain=True, message_expiry_interval=seconds
        )
    pass_s(60)
    await client.subscribe(f"{topic}/#", 1)
    event = await client.event()
    assert event.topic == f"{topic}/100"
    assert 35 < (event.properties.message_expiry_interval or 0) <= 40


@shows("4.3.3-7 4.3.3-13")
async def test_a_delivery_that_has_begun_does_not_expire(
    place: MqttPlace, version: int, pass_s: Pass
) -> None:
    topic = fresh()
    client = await place.client()
    await client.subscribe(topic, 2)
    publisher = await place.client()
    publisher.send(
        Publish(topic, b"x", 2, packet_id=1, properties=Properties(message_expiry_interval=5))
    )
    await publisher.next(Pubrec)
    event = await client.next(Publish)
    pass_s(60)
    client.send(Pubrec(event.packet_id))
    await client.next(Pubrel)
    assert (await publisher.publish(fresh(), b"", 2)) == Pubrec(1)
    publisher.send(Pubrel(1))


@shows("4.3.3-7")
async def test_what_was_sent_does_not_expire_between_connections(
    place: MqttPlace, version: int, pass_s: Pass
) -> None:
    names, topic = [fresh("client"), fresh("client")], fresh()
    publisher, said = await place.client(), {"message_expiry_interval": 50}
    await publisher.publish(topic, b"kept", 2, retain=True, **said)
    fields = {"clean_start": False, "session_expiry_interval": 1000}
    clients = [await place.client(name, receive_maximum=1, **fields) for name in names]
    await clients[0].subscribe(topic, 2, retain_handling=2)
    for payload in (b"sent", b"waits"):
        await publisher.publish(topic, payload, 2, **said)
    await clients[1].subscribe(topic, 2)
    first = [await each.next(Publish) for each in clients]
    assert [each.payload for each in first] == [b"sent", b"kept"]
    for each in clients:
        each.cut()
    pass_s(60)
    home = place.node.host.core.delivering.hosting._home
    assert home is not None
    home.due(home._utc_s - home.epoch_s + 60)
    for name, sent in zip(names, first, strict=True):
        client = await place.client(name, **fields)
        again = await client.event()
        assert (again.packet_id, again.payload, again.dup) == (sent.packet_id, sent.payload, True)
        await client.publish(topic, b"last", 1)
        assert (await client.event()).payload == b"last"


# --- topic aliases -------------------------------------------------------------------------------


@shows("3.3.2-7 3.3.2-12")
async def test_aliases_stand_for_topics_in_their_connection(place: MqttPlace, version: int) -> None:
    topic = fresh()
    client, other = await place.client(), await place.client()
    await client.subscribe(f"{topic}/#", 1)
    most = client.connack.properties.topic_alias_maximum or 0
    for alias in range(1, most + 1):
        await client.publish(f"{topic}/{alias}", b"", 1, topic_alias=alias)
        await other.publish(f"{topic}/other", b"", 1, topic_alias=alias)
    for _ in range(2 * most):
        assert (await client.event()).properties.topic_alias is None
    for alias in range(1, most + 1):
        await client.publish("", b"", 1, topic_alias=alias)
        assert (await client.event()).topic == f"{topic}/{alias}"
    await client.publish(f"{topic}/new", b"", 1, topic_alias=1)
    await client.publish("", b"", 1, topic_alias=1)
    assert [(await client.event()).topic for _ in range(2)] == [f"{topic}/new"] * 2
    last = await place.client()
    last.send(Publish("", properties=Properties(topic_alias=1)))
    (end,) = await last.until_closed()
    assert isinstance(end, Disconnect)
    assert end.reason is Reason.PROTOCOL_ERROR


@shows("3.3.2-8 3.3.2-9 3.2.2-17")
async def test_an_alias_above_the_maximum_ends_the_connection(
    place: MqttPlace, version: int
) -> None:
    client = await place.client()
    most = client.connack.properties.topic_alias_maximum or 0
    client.send(Publish("a", properties=Properties(topic_alias=most + 1)))
    (end,) = await client.until_closed()
    assert isinstance(end, Disconnect)
    assert end.reason is Reason.TOPIC_ALIAS_INVALID


@shows("3.1.2-26 3.1.2-27 3.3.2-11")
async def test_the_broker_sends_no_aliases(place: MqttPlace, version: int) -> None:
    topic = fresh()
    clients = [await place.client(topic_alias_maximum=most) for most in (None, 0, 10)]
    for each in clients:
        await each.subscribe(topic, 1)
    for _ in range(3):
        await clients[0].publish(topic, b"", 1)
        for each in clients:
            event = await each.event()
            assert (event.topic, event.properties.topic_alias) == (topic, None)
