"""Clients of MQTT and of the native protocol at different brokers see each other's events."""

from __future__ import annotations

import json
from pathlib import Path

from live_brokers import Live
from mqtt_listeners import ports, with_mqtt

import reefcast
from live_networks import make_network, until, url_of
from mqtt_clients import MqttClient
from reefcast.model.wire import StatusRequest
from reefcast.mqtt.packets import Will
from reefcast.mqtt.properties import Properties


async def test_native_events_come_by_topic_with_their_attributes_as_json(
    live: Live, tmp_path: Path
) -> None:
    network = with_mqtt(make_network("ab", [("a", "b")]), tmp_path)
    await live.up(network)
    device = await MqttClient.connect(ports(live.nodes["a"])[0], "device")
    await device.subscribe("stock/+", 1)
    async with reefcast.connect(url_of(network, "b")) as native:
        await native.publish(topics=["other", "stock/IBM"], price=99.5, desk={"name": "fx"})
        await native.publish({"price": 1}, topics=["stock/IBM"], payload=b"as it is")
        await native.publish(price=3)  # without a topic it reaches no MQTT client
        await native.publish(topics=["stock/end"])
    first, second, last = [await device.event() for _ in range(3)]
    assert (first.topic, first.qos, first.properties.content_type) == (
        *("stock/IBM", 1),
        "application/json",
    )
    assert json.loads(first.payload) == {"price": 99.5, "desk.name": "fx"}
    assert (second.payload, second.properties.content_type) == (b"as it is", None)
    assert last.topic == "stock/end"


async def test_a_retained_message_is_found_at_every_broker(live: Live, tmp_path: Path) -> None:
    network = with_mqtt(make_network("abc", [("a", "b"), ("b", "c")]), tmp_path)
    await live.up(network)
    near = await MqttClient.connect(ports(live.nodes["a"])[0])
    await near.publish("state/1", b"on", 1, retain=True)
    await until(lambda: live.nodes["c"].status(StatusRequest())["counters"]["retained_values"])
    far = await MqttClient.connect(ports(live.nodes["c"])[0])
    await far.subscribe("state/#", 1)
    event = await far.event()
    assert (event.payload, event.retain) == (b"on", True)
    async with reefcast.connect(url_of(network, "b")) as native:
        values = await native.retained("topic = 'state/1'")
    assert [value.payload for value in values] == [b"on"]


async def test_a_broker_that_stops_publishes_the_wills_of_those_who_are_connected(
    live: Live, tmp_path: Path
) -> None:
    """Also wills with a delay: nobody would publish them later."""
    network = with_mqtt(make_network("ab", [("a", "b")]), tmp_path)
    await live.up(network)
    watcher = await MqttClient.connect(ports(live.nodes["b"])[0])
    await watcher.subscribe("wills/#", 1)
    late = Will("wills/device", b"gone", 1, properties=Properties(will_delay_interval=1000))
    device = await MqttClient.connect(
        ports(live.nodes["a"])[0], "device", will=late, session_expiry_interval=1000
    )
    await live.nodes["a"].stop()
    assert (await watcher.event()).topic == "wills/device"
    await device.until_closed()
