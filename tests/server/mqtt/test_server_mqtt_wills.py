"""Wills of MQTT clients, at a live broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from mqtt_clients import MqttClient, MqttPlace, mqtt_broker
from mqtt_statements import fresh, shows
from reefcast.mqtt.packets import Disconnect, Will
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.reasons import Reason

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MqttPlace]:
    async with mqtt_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


async def watching(place: MqttPlace, topic: str) -> MqttClient:
    client = await place.client()
    await client.subscribe(topic, 2)
    return client


async def waits_for(place: MqttPlace, name: str, will: Will, **fields: Any) -> MqttClient:
    """Connect a client whose will waits, and whose session outlives it."""
    fields.setdefault("session_expiry_interval", 1000)
    return await place.client(name, will=will, **fields)


async def nothing_came(place: MqttPlace, watcher: MqttClient, topic: str) -> None:
    await (await place.client()).publish(topic, b"nothing before", 1)
    assert (await watcher.event()).payload == b"nothing before"


def delayed(topic: str, seconds: int) -> Will:
    return Will(topic, b"gone", 1, properties=Properties(will_delay_interval=seconds))


@shows("3.1.2-7 3.1.2-8 3.1.2-14", "3.1.2-8 3.1.2-16")
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_lost_client_leaves_its_will(place: MqttPlace, version: int, qos: int) -> None:
    topic = fresh()
    watcher = await watching(place, topic)
    client = await place.client(version=version, will=Will(topic, b"gone", qos))
    client.cut()
    event = await watcher.event()
    assert (event.payload, event.qos) == (b"gone", qos)
    await watcher.publish(f"{topic}/kept", b"kept", 1, retain=True)
    await watcher.subscribe(f"{topic}/#", 1)
    assert (await watcher.event()).topic == f"{topic}/kept"


@shows("3.1.2-15", "3.1.2-17")
async def test_a_will_may_be_retained(place: MqttPlace, version: int) -> None:
    topic = fresh()
    watcher = await watching(place, topic)
    client = await place.client(version=version, will=Will(topic, b"gone", 1, True))
    client.cut()
    assert not (await watcher.event()).retain
    event = await (late := await watching(place, topic)).event()
    assert (event.payload, event.retain) == (b"gone", True)
    await late.publish(topic, b"", 1, retain=True)


@shows("3.1.2-10 3.14.4-3", "3.1.2-10 3.1.2-12 3.14.4-3")
async def test_a_client_that_leaves_takes_its_will_with_it(place: MqttPlace, version: int) -> None:
    topic = fresh()
    watcher = await watching(place, topic)
    name = fresh("client")
    client = await place.client(name, version=version, will=Will(topic, b"gone", 1))
    await client.leave()
    client = await place.client(name, version=version)  # which has none now
    client.cut()
    client = await place.client(name, version=version)
    await nothing_came(place, watcher, topic)


@shows("3.1.2-10", "3.1.2-10")
async def test_a_will_is_published_once(place: MqttPlace, version: int) -> None:
    topic, name = fresh(), fresh("client")
    watcher = await watching(place, topic)
    client = await place.client(name, version=version, will=Will(topic, b"gone", 1))
    client.cut()
    assert (await watcher.event()).payload == b"gone"
    client = await place.client(name, version=version)
    client.cut()
    await place.client(name, version=version)
    await nothing_came(place, watcher, topic)


@shows("3.1.2-8", "3.1.2-8")
async def test_who_errs_or_is_taken_over_leaves_its_will(place: MqttPlace, version: int) -> None:
    topic, name = fresh(), fresh("client")
    watcher = await watching(place, topic)
    client = await place.client(name, version=version, will=Will(topic, b"erred", 1))
    client.say_hello()
    assert (await watcher.event()).payload == b"erred"
    await place.client(name, version=version, will=Will(topic, b"taken over", 1))
    await place.client(name, version=version)
    assert (await watcher.event()).payload == b"taken over"


async def test_disconnect_may_ask_for_the_will(place: MqttPlace) -> None:
    topic = fresh()
    watcher = await watching(place, topic)
    client = await place.client(will=Will(topic, b"gone", 1))
    client.send(Disconnect(Reason.DISCONNECT_WITH_WILL_MESSAGE))
    await client.until_closed()
    assert (await watcher.event()).payload == b"gone"


@shows("3.1.3-10")
async def test_a_will_has_its_properties(place: MqttPlace, version: int) -> None:
    topic = fresh()
    watcher = await watching(place, topic)
    pairs = (("b", "1"), ("a", "2"), ("b", "1"))
    said = Properties(
        payload_format_indicator=1,
        message_expiry_interval=100,
        content_type="text/x",
        response_topic="answers",
        correlation_data=b"7",
        user_properties=pairs,
    )
    client = await place.client(will=Will(topic, b"gone", 1, properties=said))
    client.cut()
    assert (await watcher.event()).properties == said


# --- the delay -----------------------------------------------------------------------------------


@shows("3.1.3-9")
async def test_who_is_back_in_time_prevents_the_will(place: MqttPlace, version: int) -> None:
    topic, name = fresh(), fresh("client")
    watcher = await watching(place, topic)
    client = await waits_for(place, name, delayed(topic, 1000))
    client.cut()
    client = await waits_for(place, name, delayed(topic, 1000), clean_start=False)
    assert client.connack.session_present
    client = await waits_for(place, name, delayed(topic, 1000), clean_start=False)
    await nothing_came(place, watcher, topic)
    await client.leave()
    await nothing_came(place, watcher, topic)


async def test_the_end_of_the_session_does_not_wait(place: MqttPlace) -> None:
    topic = fresh()
    watcher = await watching(place, topic)
    client = await place.client(will=delayed(topic, 1000))  # its session ends at once
    client.cut()
    assert (await watcher.event()).payload == b"gone"
    client = await waits_for(place, fresh("client"), delayed(topic, 1000))
    leave = Disconnect(Reason.DISCONNECT_WITH_WILL_MESSAGE, Properties(session_expiry_interval=0))
    client.send(leave)
    assert (await watcher.event()).payload == b"gone"
    name = fresh("client")
    client = await waits_for(place, name, delayed(topic, 1000))
    client.cut()
    await place.client(name, clean_start=True)  # ends the former session
    assert (await watcher.event()).payload == b"gone"


async def test_a_will_comes_when_its_delay_is_over(place: MqttPlace) -> None:
    topic = fresh()
    watcher = await watching(place, topic)
    for fields in ({}, {"session_expiry_interval": 1}):
        seconds = 1000 if fields else 1
        client = await waits_for(place, fresh("client"), delayed(topic, seconds), **fields)
        client.cut()
    for _ in range(2):
        assert (await watcher.event()).payload == b"gone"


async def test_a_client_whose_will_waits_gets_its_events_later(place: MqttPlace) -> None:
    topic, name = fresh(), fresh("client")
    client = await waits_for(place, name, delayed(fresh(), 1000))
    await client.subscribe(topic, 1)
    client.cut()
    publisher = await place.client()
    await publisher.publish(topic, b"meanwhile", 1)
    client = await waits_for(place, name, delayed(fresh(), 1000), clean_start=False)
    assert (await client.event()).payload == b"meanwhile"


@pytest.mark.parametrize("topic", ["", "a/+", "a/#"])
async def test_a_will_needs_a_topic(place: MqttPlace, topic: str) -> None:
    client = await MqttClient.dial(place.port)
    client.say_hello(will=Will(topic, b"gone"))
    (answer,) = await client.until_closed()
    assert answer.reason is Reason.TOPIC_NAME_INVALID
