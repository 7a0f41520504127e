"""An MQTT client at a live broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqtt_clients import MqttClient, mqtt_broker
from reefcast.mqtt.packets import MQTT_3_1_1, MQTT_5, Connack, Publish, TopicRequest
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.reasons import Reason

VERSIONS = pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_publishes_and_gets(tmp_path: Path, version: int, qos: int) -> None:
    async with mqtt_broker(tmp_path) as place:
        subscriber = await place.client(version=version)
        publisher = await place.client(version=version)
        granted = await subscriber.subscribe("plant/+/oven", qos)
        assert granted.reasons == (Reason(qos),)
        await publisher.publish("plant/1/oven", b"hot", qos)
        event = await subscriber.event()
        assert (event.topic, event.payload, event.qos, event.retain, event.dup) == (
            *("plant/1/oven", b"hot"),
            *(qos, False, False),
        )


@VERSIONS
async def test_a_session_keeps_what_it_is_owed(tmp_path: Path, version: int) -> None:
    more = {"session_expiry_interval": 100} if version == MQTT_5 else {}
    async with mqtt_broker(tmp_path) as place:
        device = await place.client("device", version=version, clean_start=False, **more)
        assert not device.connack.session_present
        await device.subscribe("a/#", 2)
        await device.leave()
        publisher = await place.client()
        for qos in (1, 2):
            await publisher.publish("a/b", b"%d" % qos, qos)
        device = await place.client("device", version=version, clean_start=False, **more)
        assert device.connack.session_present
        events = [await device.event() for _ in range(2)]
        assert [(event.qos, event.payload) for event in events] == [(1, b"1"), (2, b"2")]
        await device.leave()
        device = await place.client("device", version=version, clean_start=True)
        assert not device.connack.session_present
        device = await place.client("device", version=version, clean_start=False, **more)
        assert not device.connack.session_present


async def test_a_retained_message_is_sent_to_new_subscriptions(tmp_path: Path) -> None:
    async with mqtt_broker(tmp_path) as place:
        client = await place.client()
        await client.publish("r", b"kept", 1, retain=True)
        await client.subscribe("r", 1)
        event = await client.event()
        assert event.retain and event.payload == b"kept"
        await client.publish("r", b"", 1, retain=True)
        event = await client.event()
        assert not event.retain and not event.payload
        await client.subscribe("r", 1)
        await client.publish("r", b"live", 1)
        assert (await client.event()).payload == b"live"


async def test_a_condition_on_the_content(tmp_path: Path) -> None:
    async with mqtt_broker(tmp_path) as place:
        new, old = await place.client(), await place.client(version=MQTT_3_1_1)
        said = Properties(user_properties=(("filter", "price < 100 AND desk.name = 'fx'"),))
        await new.subscribe("stock/#", 1, said)
        await old.subscribe("$filter/price%20%3C%20100%20AND%20desk.name%20%3D%20'fx'/stock/#", 1)
        publisher = await place.client()
        for price in (120, 99):
            text = b'{"price": %d, "desk": {"name": "fx"}}' % price
            await publisher.publish("stock/IBM", text, 1, content_type="application/json")
        for client in (new, old):
            assert b"99" in (await client.event()).payload
        wrong = Properties(user_properties=(("filter", "price <"),))
        answer = await new.subscribe("stock/#", 1, wrong)
        assert answer.reasons == (Reason.TOPIC_FILTER_INVALID,)
        assert "1:8" in (answer.properties.reason_string or "") or "line 1" in (
            answer.properties.reason_string or ""
        ), answer


async def test_the_will_of_a_client_that_is_lost(tmp_path: Path) -> None:
    from reefcast.mqtt.packets import Will

    async with mqtt_broker(tmp_path) as place:
        watcher = await place.client()
        await watcher.subscribe("wills/#", 1)
        lost = await place.client("lost", will=Will("wills/lost", b"gone", 1))
        left = await place.client("left", will=Will("wills/left", b"gone", 1))
        await left.leave()
        lost.cut()
        event = await watcher.event()
        assert event.topic == "wills/lost"


async def test_who_connects_takes_the_session_over(tmp_path: Path) -> None:
    async with mqtt_broker(tmp_path) as place:
        first = await place.client("same")
        await place.client("same")
        (last,) = await first.until_closed()
        assert last.reason is Reason.SESSION_TAKEN_OVER


async def test_a_shared_subscription(tmp_path: Path) -> None:
    async with mqtt_broker(tmp_path) as place:
        clients = [await place.client(f"c{i}") for i in range(2)]
        for client in clients:
            assert (await client.subscribe("$share/g/jobs/#", 1)).reasons == (Reason(1),)
        publisher = await place.client()
        for i in range(20):
            await publisher.publish("jobs/x", b"%d" % i, 1)
        got: list[bytes] = []
        for client in clients:
            while any(isinstance(each, Publish) for each in client.inbox) or len(got) < 10:
                got.append((await client.event()).payload)
        assert len(set(got)) == len(got)


async def test_the_first_packet_must_be_connect(tmp_path: Path) -> None:
    async with mqtt_broker(tmp_path) as place:
        client = await MqttClient.dial(place.port)
        client.send(Publish("a"))
        assert not await client.until_closed()
        client = await MqttClient.dial(place.port)
        client.say_hello(authentication_method="GS2-KRB5")
        (answer,) = await client.until_closed()
        assert isinstance(answer, Connack)
        assert answer.reason is Reason.BAD_AUTHENTICATION_METHOD


async def test_options_of_subscriptions(tmp_path: Path) -> None:
    async with mqtt_broker(tmp_path) as place:
        client = await place.client()
        await client.subscribe("a", 0, no_local=True)
        await client.subscribe("+", 1, Properties(subscription_identifiers=(7,)))
        await client.publish("a", b"1", 1)
        event = await client.event()
        assert event.properties.subscription_identifiers == (7,)
        assert TopicRequest("a").qos == 0
