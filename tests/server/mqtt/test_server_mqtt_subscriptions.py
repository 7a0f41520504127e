"""SUBSCRIBE and UNSUBSCRIBE of MQTT, plain and shared, at a live broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from mqtt_clients import MqttClient, MqttPlace, mqtt_broker
from mqtt_statements import fresh, shows
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    TopicRequest,
    Unsubscribe,
    Will,
)
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.reasons import Reason

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MqttPlace]:
    async with mqtt_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found


def identified(*identifiers: int) -> Properties:
    return Properties(subscription_identifiers=identifiers)


# --- SUBSCRIBE -----------------------------------------------------------------------------------


@shows(
    "2.2.1-6 3.8.4-1 3.8.4-2 3.8.4-5 3.8.4-6 3.8.4-7 3.9.3-1",
    "2.3.1-7 3.8.4-1 3.8.4-2 3.8.4-4 3.8.4-5 3.9.3-1",
)
async def test_each_topic_filter_has_its_answer(place: MqttPlace, version: int) -> None:
    topic = fresh()
    client = await place.client(version=version)
    wanted = [("2", 2), ("0", 0), ("#/wrong", 1), ("1", 1)]
    requests = tuple(TopicRequest(f"{topic}/{name}", qos) for name, qos in wanted)
    client.send(Subscribe(500, requests))
    answer = await client.next(Suback)
    assert answer.packet_id == 500
    wrong = Reason.TOPIC_FILTER_INVALID if version == MQTT_5 else Reason.UNSPECIFIED_ERROR
    assert answer.reasons == (Reason(2), Reason(0), wrong, Reason(1))
    for name, qos in wanted[:2] + wanted[3:]:
        await client.publish(f"{topic}/{name}", b"", 2)
        event = await client.event()
        assert (event.topic, event.qos) == (f"{topic}/{name}", qos)


@shows("3.8.4-8", "3.8.4-6")
async def test_events_have_the_lesser_qos(place: MqttPlace, version: int) -> None:
    topic = fresh()
    for lasting in (False, True):
        more = {"session_expiry_interval": 100} if lasting and version == MQTT_5 else {}
        fields = {"clean_start": not lasting, **more}
        client = await place.client(fresh("client"), version=version, **fields)
        for granted in range(3):
            await client.subscribe(f"{topic}/{granted}", granted)
            for qos in range(3):
                await client.publish(f"{topic}/{granted}", b"", qos)
                assert (await client.event()).qos == min(qos, granted)


@shows("3.8.4-3 3.8.4-4", "3.8.4-3")
@pytest.mark.parametrize("lasting", [False, True])
async def test_the_same_topic_filter_replaces_a_subscription(
    place: MqttPlace, version: int, lasting: bool
) -> None:
    topic = fresh()
    more = {"session_expiry_interval": 100} if version == MQTT_5 and lasting else {}
    client = await place.client(fresh("client"), version=version, clean_start=not lasting, **more)
    await client.publish(topic, b"kept", 1, retain=True)
    for qos in (0, 1, 0, 2, 1):
        await client.subscribe(topic, qos)
        event = await client.event()
        assert (event.payload, event.retain) == (b"kept", True)
        await client.publish(topic, b"live", 2)
        event = await client.event()
        assert (event.payload, event.qos) == (b"live", qos)
    await client.unsubscribe(topic)
    await client.publish(topic, b"gone", 2)
    client.send(Pingreq())
    await client.next(Pingresp)
    assert not client.inbox


async def test_replacing_a_subscription_loses_nothing(place: MqttPlace) -> None:
    topic = fresh()
    client, publisher = await place.client(), await place.client()
    await client.subscribe(topic, 1)
    for number in range(40):
        publisher.send(Publish(topic, b"%d" % number, 1, packet_id=number + 1))
        client.send(Subscribe(number + 1, (TopicRequest(topic, 1),)))
    got = [int((await client.event()).payload) for _ in range(40)]
    assert got == list(range(40))


@shows("3.3.4-2", "3.3.5-1")
async def test_overlapping_subscriptions_get_the_greatest_qos(
    place: MqttPlace, version: int
) -> None:
    topic = fresh()
    client = await place.client(version=version)
    for qos, topic_filter in enumerate((f"{topic}/#", f"{topic}/a", f"{topic}/+")):
        await client.subscribe(topic_filter, qos)
    await client.publish(f"{topic}/a", b"", 2)
    assert (await client.event()).qos == 2
    await client.publish(f"{topic}/b/c", b"", 2)
    assert (await client.event()).qos == 0


@shows("3.3.4-3 3.3.4-4 3.3.4-5")
async def test_events_carry_the_identifiers_of_their_subscriptions(
    place: MqttPlace, version: int
) -> None:
    topic = fresh()
    client = await place.client()
    await client.subscribe(f"{topic}/#", 1, identified(268_435_455))
    await client.subscribe(f"{topic}/+", 1, identified(5))
    await client.subscribe(f"{topic}/a", 1)
    await client.publish(f"{topic}/a", b"", 1)
    event = await client.event()
    assert set(event.properties.subscription_identifiers) == {5, 268_435_455}
    await client.publish(f"{topic}/b/c", b"", 1)
    assert (await client.event()).properties.subscription_identifiers == (268_435_455,)
    await client.subscribe(f"{topic}/#", 1)
    await client.publish(f"{topic}/b/c", b"", 1)
    assert (await client.event()).properties.subscription_identifiers == ()
    await client.publish(f"{topic}/r", b"kept", 1, retain=True)
    await client.event()
    await client.subscribe(f"{topic}/r", 1, identified(9))
    event = await client.event()
    assert (event.retain, event.properties.subscription_identifiers) == (True, (9,))


@pytest.mark.parametrize("lasting", [False, True])
async def test_copies_for_sessions_and_connections_carry_their_own_identifiers(
    place: MqttPlace, lasting: bool
) -> None:
    topic = fresh()
    more = {"session_expiry_interval": 100} if lasting else {}
    client = await place.client(fresh("client"), **more)
    await client.subscribe(f"{topic}/#", 0, identified(1))
    await client.subscribe(f"{topic}/+", 2, identified(2))
    await client.publish(f"{topic}/a", b"", 2)
    await client.publish(f"{topic}/a/last", b"", 0)
    events = []
    while not events or not events[-1].topic.endswith("last"):
        events.append(await client.event())
    found = {(each.qos, each.properties.subscription_identifiers) for each in events[:-1]}
    assert found == ({(0, (1,)), (2, (2,))} if lasting else {(2, (1, 2))})


@shows("3.8.3-3")
@pytest.mark.parametrize("lasting", [False, True])
async def test_no_local_keeps_own_publications_away(
    place: MqttPlace, version: int, lasting: bool
) -> None:
    topic = fresh()
    more = {"session_expiry_interval": 100} if lasting else {}
    client, other = await place.client(fresh("client"), **more), await place.client()
    await client.subscribe(topic, 1, no_local=True)
    for qos in range(3):
        await client.publish(topic, b"own", qos)
        await other.publish(topic, b"other", qos)
        assert (await client.event()).payload == b"other"


@shows("4.7.2-1", "4.7.2-1")
async def test_wildcards_at_the_beginning_match_no_system_topics(
    place: MqttPlace, version: int
) -> None:
    name = fresh("$name")
    client = await place.client(version=version)
    for topic_filter in ("#", "+/x", f"{name}/x"):
        await client.subscribe(topic_filter, 1)
    await client.publish(f"{name}/x", b"1", 1)
    event = await client.next(Publish, lambda event: event.topic[0] == "$")
    assert event.topic == f"{name}/x"
    await client.unsubscribe(f"{name}/x")
    await client.publish(f"{name}/x", b"2", 1)
    last = f"{fresh('last')}/x"
    await client.publish(last, b"3", 1)
    await client.next(Publish, lambda event: event.topic == last)
    assert not any(isinstance(each, Publish) and each.topic[0] == "$" for each in client.inbox)


async def test_what_the_broker_says_of_itself(place: MqttPlace) -> None:
    client = await place.client()
    await client.subscribe("$SYS/broker/#", 0, identified(5))
    topics = {(event := await client.event()).topic: event for _ in range(5)}
    assert "$SYS/broker/version" in topics
    for each in topics.values():
        assert each.retain
        assert each.properties.subscription_identifiers == (5,)


# --- UNSUBSCRIBE ---------------------------------------------------------------------------------


@shows(
    "2.2.1-6 3.10.4-1 3.10.4-2 3.10.4-4 3.10.4-5 3.10.4-6 3.11.3-1",
    "2.3.1-7 3.10.4-1 3.10.4-2 3.10.4-4 3.10.4-5 3.10.4-6",
)
async def test_unsubscribing(place: MqttPlace, version: int) -> None:
    topic = fresh()
    client = await place.client(version=version)
    for name in ("a", "A", "+"):
        await client.subscribe(f"{topic}/{name}", 1)
    answer = await client.unsubscribe(f"{topic}/a", f"{topic}/none", f"{topic}/#", f"{topic}/+")
    if version == MQTT_5:
        none = Reason.NO_SUBSCRIPTION_EXISTED
        assert answer.reasons == (Reason.SUCCESS, none, none, Reason.SUCCESS)
    await client.publish(f"{topic}/a", b"", 1)
    await client.publish(f"{topic}/A", b"", 1)
    assert (await client.event()).topic == f"{topic}/A"
    await client.unsubscribe(f"{topic}/none")


async def test_requests_are_answered_in_their_order(place: MqttPlace) -> None:
    client = await place.client()
    topic = fresh()
    for number in range(1, 20, 2):
        client.send(Subscribe(number, (TopicRequest(topic, 1),)))
        client.send(Unsubscribe(number + 1, (topic,)))
    got = []
    while len(got) < 20:
        await client._read()
        got += client.inbox
        client.inbox.clear()
    assert [each.packet_id for each in got] == list(range(1, 21))
    assert all(each.reasons[0] in (Reason.SUCCESS, Reason(1)) for each in got)


# --- shared subscriptions ------------------------------------------------------------------------


async def got_by(clients: list[MqttClient], count: int) -> list[list[bytes]]:
    """Return the payloads that came to each client, which acknowledges them."""
    found: list[list[bytes]] = [[] for _ in clients]
    while sum(map(len, found)) < count:
        for client, payloads in zip(clients, found, strict=True):
            client.send(Pingreq())
            await client.next(Pingresp)
            while any(isinstance(each, Publish) for each in client.inbox):
                payloads.append((await client.event()).payload)
    return found


async def cut(lost: MqttClient, watcher: MqttClient, will_topic: str) -> None:
    """Break a connection, and wait until the broker knows."""
    await watcher.subscribe(will_topic)
    lost.cut()
    await watcher.next(Publish, lambda event: event.topic == will_topic)


@shows("4.8.2-3", "3.8.4-6")
async def test_members_share_events_each_with_its_qos(place: MqttPlace, version: int) -> None:
    topic = fresh()
    clients = [await place.client(fresh("client"), version=version) for _ in range(2)]
    for qos, client in enumerate(clients, 1):
        answer = await client.subscribe(f"$share/{fresh('g')}/{topic}", qos)
        assert answer.reasons == (Reason(qos),)
    publisher = await place.client()
    await publisher.publish(topic, b"for each group", 2)
    assert [(await each.event()).qos for each in clients] == [1, 2]


async def test_each_event_goes_to_one_member(place: MqttPlace) -> None:
    topic, group = fresh(), fresh("g")
    clients = [await place.client(fresh("client")) for _ in range(3)]
    for client in clients:
        await client.subscribe(f"$share/{group}/{topic}/#", 1)
    alone = await place.client()
    await alone.subscribe(f"{topic}/#", 1)
    publisher = await place.client()
    for number in range(30):
        await publisher.publish(f"{topic}/{number}", b"%d" % number, 1)
    got = [each for payloads in await got_by(clients, 30) for each in payloads]
    assert sorted(map(int, got)) == list(range(30))
    assert [int((await alone.event()).payload) for _ in range(30)] == list(range(30))
    for client in clients[1:]:
        answer = await client.unsubscribe(f"$share/{group}/{topic}/#")
        assert answer.reasons == (Reason.SUCCESS,)
    for number in range(10):
        await publisher.publish(f"{topic}/{number}", b"%d" % number, 1)
    assert await got_by(clients, 10) == [[b"%d" % number for number in range(10)], [], []]


async def test_shared_subscriptions_get_no_retained_messages(place: MqttPlace) -> None:
    topic = fresh()
    client = await place.client()
    await client.publish(topic, b"kept", 1, retain=True)
    await client.subscribe(f"$share/{fresh('g')}/{topic}", 1)
    await client.publish(topic, b"live", 1)
    assert (await client.event()).payload == b"live"


async def test_no_local_of_a_shared_subscription_is_an_error(place: MqttPlace) -> None:
    client = await place.client()
    client.send(Subscribe(1, (TopicRequest(f"$share/{fresh('g')}/a", 1, no_local=True),)))
    (last,) = await client.until_closed()
    assert isinstance(last, Disconnect)
    assert last.reason is Reason.PROTOCOL_ERROR


async def test_what_a_member_leaves_behind_goes_to_others(place: MqttPlace) -> None:
    topic, share = fresh(), f"$share/{fresh('g')}/"
    first, second = await place.client(receive_maximum=2), await place.client()
    await first.subscribe(share + topic, 1)
    publisher = await place.client()
    for number in range(6):
        await publisher.publish(topic, b"%d" % number, 1)
    await first.next(Publish)
    await second.subscribe(share + topic, 1)
    first.cut()
    events = [await second.event() for _ in range(6)]
    assert {int(each.payload) for each in events} == set(range(6))
    assert not any(each.dup for each in events)


@shows("4.8.2-6")
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_a_member_refuses_goes_to_nobody_else(
    place: MqttPlace, version: int, qos: int
) -> None:
    topic, share = fresh(), f"$share/{fresh('g')}/"
    first = await place.client(will=Will(f"{topic}/gone"))
    second = await place.client()
    await first.subscribe(share + topic, qos)
    publisher = await place.client()
    await publisher.publish(topic, b"unwanted", qos)
    event = await first.next(Publish)
    refusal = Puback if qos == 1 else Pubrec
    first.send(refusal(event.packet_id, Reason.UNSPECIFIED_ERROR))
    await second.subscribe(share + topic, qos)
    await cut(first, second, f"{topic}/gone")
    await publisher.publish(topic, b"wanted", qos)
    assert (await second.event()).payload == b"wanted"


@shows("4.8.2-4")
async def test_a_delivery_with_qos_2_waits_for_its_member(place: MqttPlace, version: int) -> None:
    topic, share, name = fresh(), f"$share/{fresh('g')}/", fresh("client")
    said = {"session_expiry_interval": 100}
    first = await place.client(name, will=Will(f"{topic}/gone"), **said)
    await first.subscribe(share + topic, 2, identified(7))
    publisher = await place.client()
    for number in range(3):
        await publisher.publish(topic, b"%d" % number, 2, content_type="x")
    begun = [await first.next(Publish) for _ in range(3)]
    first.send(Pubrec(begun[0].packet_id))
    await first.next(Pubrel)
    first.send(Pubrec(begun[1].packet_id, Reason.UNSPECIFIED_ERROR))
    second = await place.client()
    await second.subscribe(share + topic, 2)
    await cut(first, second, f"{topic}/gone")
    await publisher.publish(topic, b"next", 2)
    assert (await second.event()).payload == b"next"
    for _ in range(2):
        first = await place.client(name, clean_start=False, **said)
        assert (await first.next(Pubrel)).packet_id == begun[0].packet_id
        again = await first.next(Publish)
        assert again == msgspec.structs.replace(begun[2], dup=True)
        first.cut()
    first = await place.client(name, clean_start=False, **said)
    again = await first.event()
    assert again.packet_id == begun[2].packet_id
    first.send(Pubcomp((await first.next(Pubrel)).packet_id))
    await first.leave()
    first = await place.client(name, clean_start=False, **said)
    await first.publish(topic, b"last", 2)
    got = [each for payloads in await got_by([first, second], 1) for each in payloads]
    assert got == [b"last"]


@shows("4.8.2-5")
async def test_a_delivery_with_qos_2_goes_to_nobody_else(place: MqttPlace, version: int) -> None:
    topic, share, name = fresh(), f"$share/{fresh('g')}/", fresh("client")
    for fields in ({}, {"session_expiry_interval": 100}):
        first, second = await place.client(name, **fields), await place.client()
        await first.subscribe(share + topic, 2)
        await first.publish(topic, b"begun", 2)
        await first.next(Publish)
        await second.subscribe(share + topic, 2)
        first.cut()
        await place.client(name, clean_start=True)
        await second.publish(topic, b"next", 2)
        assert (await second.event()).payload == b"next"
        await second.unsubscribe(share + topic)


async def test_a_client_of_3_1_1_shares_too(place: MqttPlace) -> None:
    topic, share = fresh(), f"$share/{fresh('g')}/"
    clients = [await place.client(version=version) for version in (MQTT_3_1_1, MQTT_5)]
    for client in clients:
        await client.subscribe(share + topic, 1)
    publisher = await place.client()
    for number in range(10):
        await publisher.publish(topic, b"%d" % number, 1)
    assert sum(map(len, await got_by(clients, 10))) == 10
