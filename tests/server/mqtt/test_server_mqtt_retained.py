"""Retained messages of MQTT, at a live broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from mqtt_clients import MqttClient, MqttPlace, mqtt_broker
from mqtt_statements import fresh, shows
from reefcast.mqtt.packets import MQTT_3_1_1, MQTT_5, Pingreq, Pingresp, Publish

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MqttPlace]:
    async with mqtt_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


async def kept(
    place: MqttPlace, topic_filter: str, version: int = MQTT_5
) -> dict[str, tuple[bytes, int]]:
    """Return what is retained: payloads and QoS by topics."""
    client = await place.client(version=version)
    await client.subscribe(topic_filter, 2)
    last = fresh("last")
    await client.publish(last, b"last", 1, retain=True)
    await client.subscribe(last, 1)
    found = {}
    while (event := await client.event()).topic != last:
        assert event.retain
        found[event.topic] = (event.payload, event.qos)
    return found


async def quiet(client: MqttClient) -> bool:
    client.send(Pingreq())
    await client.next(Pingresp)
    return not any(isinstance(each, Publish) for each in client.inbox)


@shows(
    "3.3.1-5 3.3.1-6 3.3.1-7 3.3.1-8",
    "3.3.1-5 3.3.1-6 3.3.1-7 3.3.1-8 3.3.1-10 3.3.1-11 3.3.1-12 3.1.2-7",
)
async def test_the_last_message_with_retain_is_kept(place: MqttPlace, version: int) -> None:
    topic = fresh()
    client = await place.client(version=version)
    live = await place.client(version=version)
    await live.subscribe(topic, 2)
    for qos in range(3):
        await client.publish(topic, b"%d" % qos, qos, retain=True)
        await live.event()
        assert await kept(place, topic, version) == {topic: (b"%d" % qos, qos)}
    await client.publish(topic, b"passing", 2)
    await client.publish(topic, b"", 2)
    for _ in range(2):
        await live.event()
    await client.leave()
    assert await kept(place, f"{topic}/#", version) == {topic: (b"2", 2)}
    client = await place.client(version=version)
    for qos in range(3):
        await client.publish(topic, b"", qos, retain=True)
        event = await live.event()
        assert (event.payload, event.retain) == (b"", False)
        assert await kept(place, topic, version) == {}
        await client.publish(topic, b"more", 1, retain=True)
        await live.event()


@shows("3.3.1-9 3.3.1-10 3.3.1-11")
@pytest.mark.parametrize("lasting", [False, True])
async def test_retain_handling(place: MqttPlace, version: int, lasting: bool) -> None:
    topic = fresh()
    more = {"session_expiry_interval": 100} if lasting else {}
    client = await place.client(fresh("client"), **more)
    await client.publish(topic, b"kept", 1, retain=True)
    for handling, times in ((0, 2), (1, 1), (2, 0)):
        for _ in range(2):
            await client.subscribe(topic, 1, retain_handling=handling)
        for _ in range(times):
            event = await client.event()
            assert (event.payload, event.retain) == (b"kept", True)
        await client.publish(topic, b"live", 1)
        event = await client.event()
        assert (event.payload, event.retain) == (b"live", False)
        assert await quiet(client)
        await client.unsubscribe(topic)


@shows("3.3.1-12 3.3.1-13", "3.3.1-9")
@pytest.mark.parametrize("lasting", [False, True])
async def test_retain_as_published(place: MqttPlace, version: int, lasting: bool) -> None:
    topic = fresh()
    fields = {"session_expiry_interval": 100} if lasting and version == MQTT_5 else {}
    clients = [
        await place.client(fresh("client"), version=version, clean_start=not lasting, **fields)
        for _ in range(2)
    ]
    await clients[0].subscribe(topic, 1)
    if version == MQTT_5:
        await clients[1].subscribe(topic, 1, retain_as_published=True)
    publisher = await place.client(version=version)
    for qos in (0, 1):
        for retain in (True, False):
            await publisher.publish(topic, b"x", qos, retain=retain)
            assert not (await clients[0].event()).retain
            if version == MQTT_5:
                assert (await clients[1].event()).retain is retain


async def test_versions_share_what_is_retained(place: MqttPlace) -> None:
    topic = fresh()
    for version, other in ((MQTT_5, MQTT_3_1_1), (MQTT_3_1_1, MQTT_5)):
        client = await place.client(version=version)
        await client.publish(topic, b"%d" % version, 1, retain=True)
        assert await kept(place, topic, other) == {topic: (b"%d" % version, 1)}


async def test_a_retained_message_has_its_properties(place: MqttPlace) -> None:
    topic = fresh()
    client = await place.client()
    said = {"content_type": "text/x", "user_properties": (("b", "1"), ("a", "2"), ("b", "0"))}
    await client.publish(topic, b"kept", 1, retain=True, **said)
    await client.subscribe(topic, 1)
    properties = (await client.event()).properties
    assert properties.content_type == "text/x"
    assert properties.user_properties == said["user_properties"]
