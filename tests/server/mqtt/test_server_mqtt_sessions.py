"""MQTT sessions that outlive their connections, at a live broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from mqtt_clients import MqttClient, MqttPlace, mqtt_broker
from mqtt_statements import fresh, shows
from reefcast.mqtt.lasting import SUBSCRIPTION, session_name
from reefcast.mqtt.packets import (
    MQTT_5,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.reasons import Reason
from reefcast.mqtt.surroundings import Settings

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MqttPlace]:
    others = {"brief": Settings(session_expiry_s=0)}
    async with mqtt_broker(tmp_path_factory.mktemp("broker"), others=others) as found:
        yield found


async def lasting(place: MqttPlace, name: str, version: int = MQTT_5, **fields: Any) -> MqttClient:
    """Connect a client whose session outlives its connection, and goes on."""
    if version == MQTT_5:
        fields.setdefault("session_expiry_interval", 1000)
    return await place.client(name, version=version, clean_start=False, **fields)


# --- which session -------------------------------------------------------------------------------


@shows(
    "3.1.2-4 3.1.2-5 3.1.2-6 3.1.2-23 3.1.4-4 3.2.2-2 3.2.2-3",
    "3.1.2-4 3.1.2-5 3.1.4-3 3.2.2-1 3.2.2-2 3.2.2-3 4.5.0-1",
)
async def test_a_session_is_made_resumed_and_discarded(place: MqttPlace, version: int) -> None:
    name, topic = fresh("client"), fresh()
    publisher = await place.client()
    client = await lasting(place, name, version)
    assert not client.connack.session_present
    await client.subscribe(topic, 1)
    client.cut()
    await publisher.publish(topic, b"1", 1)
    client = await lasting(place, name, version)
    assert client.connack.session_present
    assert (await client.event()).payload == b"1"
    await client.leave()
    await publisher.publish(topic, b"2", 1)
    client = await place.client(name, version=version, clean_start=True)
    assert not client.connack.session_present
    await publisher.publish(topic, b"3", 1)
    await client.subscribe(topic, 1)
    await publisher.publish(topic, b"4", 1)
    assert (await client.event()).payload == b"4"
    await client.leave()
    assert not (await lasting(place, name, version)).connack.session_present


@shows("4.1.0-1 4.1.0-2", "3.1.2-6 4.1.0-1 4.1.0-2")
async def test_a_session_without_expiry_ends_with_its_connection(
    place: MqttPlace, version: int
) -> None:
    name, topic = fresh("client"), fresh()
    client = await place.client(name, version=version, clean_start=True)
    await client.subscribe(topic, 1)
    await client.publish(topic, b"1", 1)
    assert (await client.event()).payload == b"1"
    client.cut()
    client = await lasting(place, name, version)
    assert not client.connack.session_present
    await client.subscribe(fresh(), 1)
    await client.publish(topic, b"2", 1)
    await client.publish(topic, b"3", 2)
    assert not any(isinstance(each, Publish) for each in client.inbox)


@shows("3.1.3-2", "3.1.3-2")
async def test_each_identifier_has_its_session(place: MqttPlace, version: int) -> None:
    names, topic = [fresh("client"), fresh("client")], fresh()
    for number, name in enumerate(names):
        client = await lasting(place, name, version)
        await client.subscribe(f"{topic}/{number}", 1)
        await client.leave()
    publisher = await place.client()
    for number in range(2):
        await publisher.publish(f"{topic}/{number}", b"%d" % number, 1)
    for number, name in enumerate(names):
        client = await lasting(place, name, version)
        assert (await client.event()).payload == b"%d" % number


@pytest.mark.parametrize("after", [0, 1000, None])
async def test_the_expiry_may_change_at_disconnect(place: MqttPlace, after: int | None) -> None:
    name = fresh("client")
    client = await lasting(place, name)
    client.send(Disconnect(properties=Properties(session_expiry_interval=after)))
    await client.until_closed()
    assert (await lasting(place, name)).connack.session_present is (after != 0)


async def test_a_session_without_expiry_cannot_get_one_at_disconnect(place: MqttPlace) -> None:
    client = await place.client()
    client.send(Disconnect(properties=Properties(session_expiry_interval=1)))
    (last,) = await client.until_closed()
    assert isinstance(last, Disconnect)
    assert last.reason is Reason.PROTOCOL_ERROR


async def test_the_connack_tells_a_shorter_expiry(place: MqttPlace) -> None:
    client = await lasting(place, fresh("client"), session_expiry_interval=0xFFFF_FFFF)
    told = client.connack.properties.session_expiry_interval
    assert told == Settings().session_expiry_s
    client = await MqttClient.connect(place.ports["brief"], fresh(), session_expiry_interval=9)
    assert client.connack.properties.session_expiry_interval == 0
    client = await lasting(place, fresh("client"))
    assert client.connack.properties.session_expiry_interval is None


async def test_a_session_that_goes_on_without_expiry_ends_this_time(place: MqttPlace) -> None:
    name = fresh("client")
    await (await lasting(place, name)).leave()
    client = await lasting(place, name, session_expiry_interval=None)
    assert client.connack.session_present
    await client.leave()
    assert not (await lasting(place, name)).connack.session_present


# --- what a session remembers --------------------------------------------------------------------


async def test_all_subscriptions_go_on_with_their_options(place: MqttPlace) -> None:
    name, topic = fresh("client"), fresh()
    client = await lasting(place, name)
    said = Properties(subscription_identifiers=(7,), user_properties=(("filter", "a = 1"),))
    await client.subscribe(f"{topic}/0", 0, said)
    await client.subscribe(f"{topic}/1", 1, said, retain_as_published=True)
    await client.subscribe(f"{topic}/own", 1, no_local=True)
    await client.subscribe("$SYS/broker/version", 0, retain_handling=2)
    await client.leave()
    client = await lasting(place, name)
    assert client.connack.session_present
    publisher = await place.client()
    json = {"content_type": "application/json"}
    for a in (2, 1):
        text = b'{"a": %d}' % a
        await publisher.publish(f"{topic}/0", text, 1, **json)
        await publisher.publish(f"{topic}/1", text, 1, retain=True, **json)
    await client.publish(f"{topic}/own", b"", 1)
    events = {(event := await client.event()).topic[-1]: event for _ in range(2)}
    assert {key: (each.qos, each.retain) for key, each in events.items()} == {
        "0": (0, False),
        "1": (1, True),
    }
    for each in events.values():
        assert b"1" in each.payload
        assert each.properties.subscription_identifiers == (7,)
    answer = await client.unsubscribe(
        f"{topic}/0", f"{topic}/1", f"{topic}/own", "$SYS/broker/version", f"{topic}/none"
    )
    assert answer.reasons == (*[Reason.SUCCESS] * 4, Reason.NO_SUBSCRIPTION_EXISTED)
    await client.leave()
    client = await lasting(place, name)
    await publisher.publish(f"{topic}/1", b'{"a": 1}', 1, **json)
    await client.subscribe(f"{topic}/2", 1)
    await publisher.publish(f"{topic}/2", b"last", 1)
    assert (await client.event()).payload == b"last"


@shows(
    "3.3.1-1 4.3.2-3 4.3.3-3 4.4.0-1 3.1.2-5",
    "3.3.1-1 2.3.1-4 4.3.2-1 4.4.0-1",
)
async def test_what_is_not_acknowledged_is_sent_again(place: MqttPlace, version: int) -> None:
    name, topic = fresh("client"), fresh()
    client = await lasting(place, name, version)
    await client.subscribe(topic, 2)
    publisher = await place.client()
    for number in range(6):
        await publisher.publish(topic, b"%d" % number, 1 + number % 2)
    first = [await client.next(Publish) for _ in range(6)]
    assert [each.payload for each in first] == [b"%d" % number for number in range(6)]
    assert not any(each.dup for each in first)
    client.send(Puback(first[2].packet_id))
    client.send(Pubrec(first[1].packet_id))
    await client.next(Pubrel)
    client.cut()
    client = await lasting(place, name, version)
    released = await client.next(Pubrel)
    assert released.packet_id == first[1].packet_id
    again = [await client.next(Publish) for _ in range(4)]
    assert all(each.dup for each in again)
    kept = [(each.payload, each.qos, each.packet_id) for each in again]
    assert kept == [(each.payload, each.qos, each.packet_id) for each in (first[0], *first[3:])]
    for each in again:
        answer = Puback if each.qos == 1 else Pubrec
        client.send(answer(each.packet_id))
    for each in again:
        if each.qos == 2:
            await client.next(Pubrel, lambda packet, id=each.packet_id: packet.packet_id == id)
            client.send(Pubcomp(each.packet_id))
    client.send(Pubcomp(released.packet_id))
    await publisher.publish(topic, b"last", 1)
    assert (await client.event()).payload == b"last"
    await client.leave()
    client = await lasting(place, name, version)
    await publisher.publish(topic, b"fresh", 1)
    event = await client.event()
    assert (event.payload, event.dup) == (b"fresh", False)
    assert not client.inbox


@shows("4.4.0-1", "4.4.0-1")
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_retained_message_is_sent_again(place: MqttPlace, version: int, qos: int) -> None:
    name, topic = fresh("client"), fresh()
    publisher = await place.client()
    for end in "ab":
        await publisher.publish(f"{topic}/{end}", b"kept", qos, retain=True)
    client = await lasting(place, name, version)
    await client.subscribe(f"{topic}/#", qos)
    first = {(each := await client.next(Publish)).topic: each for _ in range(2)}
    answer = Puback if qos == 1 else Pubrec
    client.send(answer(first[f"{topic}/b"].packet_id))
    await publisher.publish(f"{topic}/a", b"live", qos)
    live = await client.next(Publish)
    if qos == 2:
        await client.next(Pubrel)
    for _ in range(2):
        client.cut()
        client = await lasting(place, name, version)
        again = [await client.next(Publish) for _ in range(2)]
        kept = first[f"{topic}/a"]
        assert [(each.packet_id, each.payload, each.retain, each.dup) for each in again] == [
            (kept.packet_id, b"kept", True, True),
            (live.packet_id, b"live", False, True),
        ]
    for each in again:
        client.send(answer(each.packet_id))
        if qos == 2:
            await client.next(Pubrel, lambda packet, id=each.packet_id: packet.packet_id == id)
            client.send(Pubcomp(each.packet_id))
    if qos == 2:
        client.send(Pubcomp((await client.next(Pubrel)).packet_id))
    await nothing_is_left(place, client, version)


async def nothing_is_left(place: MqttPlace, client: MqttClient, version: int) -> None:
    """Check that the client's next connection gets nothing, and that its session has no notes but
    those of subscriptions."""
    client.send(Pingreq())
    await client.next(Pingresp)
    await client.leave()
    client = await lasting(place, client.name, version)
    topic = fresh()
    await client.subscribe(topic, 1)
    await client.publish(topic, b"last", 1)
    assert (await client.event()).payload == b"last"
    assert not client.inbox
    home = place.node.host.core.delivering.hosting._home
    assert home is not None
    (session,) = [each for each in home.each() if each.record.name == session_name(client.name)]
    assert {key[:2] for key in session.notes.texts} <= {SUBSCRIPTION}


@shows("4.3.3-5 4.3.3-6", "4.3.3-1")
async def test_a_release_is_repeated_until_it_is_completed(place: MqttPlace, version: int) -> None:
    name, topic = fresh("client"), fresh()
    client = await lasting(place, name, version)
    await client.subscribe(topic, 2)
    publisher = await place.client()
    await publisher.publish(topic, b"once", 2)
    event = await client.next(Publish)
    client.send(Pubrec(event.packet_id))
    for _ in range(3):
        assert (await client.next(Pubrel)).packet_id == event.packet_id
        client.cut()
        client = await lasting(place, name, version)
    assert (await client.next(Pubrel)).packet_id == event.packet_id
    client.send(Pubcomp(event.packet_id))
    await publisher.publish(topic, b"other", 2)
    assert (await client.event()).payload == b"other"


@shows("4.3.3-10 4.3.3-8", "4.3.3-2")
async def test_a_publication_repeated_after_a_reconnection_is_not_delivered_twice(
    place: MqttPlace, version: int
) -> None:
    name, topic = fresh("client"), fresh()
    watchers = [await place.client(), await lasting(place, fresh("client"))]
    for each in watchers:
        await each.subscribe(topic, 2)
    client = await lasting(place, name, version)
    for dup in (False, True, True):
        client.send(Publish(topic, b"once", 2, dup=dup, packet_id=9))
        assert (await client.next(Pubrec)).reason is Reason.SUCCESS
        client.cut()
        client = await lasting(place, name, version)
        assert client.connack.session_present
    client.send(Pubrel(9))
    assert (await client.next(Pubcomp)).reason is Reason.SUCCESS
    await client.publish(topic, b"again", 2)
    for each in watchers:
        assert [(await each.event()).payload for _ in range(2)] == [b"once", b"again"]


async def test_a_refused_publication_frees_its_identifier_for_good(place: MqttPlace) -> None:
    name, topic = fresh("client"), fresh()
    watcher = await place.client()
    await watcher.subscribe(topic, 2)
    client = await lasting(place, name)
    client.send(Publish("$SYS/mine", b"", 2, packet_id=9))
    assert (await client.next(Pubrec)).reason is Reason.NOT_AUTHORIZED
    client.cut()
    client = await lasting(place, name)
    client.send(Pubrel(9))
    assert (await client.next(Pubcomp)).reason is Reason.PACKET_IDENTIFIER_NOT_FOUND


@shows("3.10.4-3", "3.10.4-3")
@pytest.mark.parametrize("cuts", [0, 1, 2])
async def test_unsubscribing_completes_what_has_begun(
    place: MqttPlace, version: int, cuts: int
) -> None:
    """Also over other connections, and if the one in which the client unsubscribes breaks before
    the first of what a former one has left is sent again."""
    name, topic = fresh("client"), fresh()
    client = await lasting(place, name, version)
    await client.subscribe(f"{topic}/+", 1)
    await client.subscribe(topic, 2)
    publisher = await place.client()
    for qos in (1, 2):
        await publisher.publish(topic, b"%d" % qos, qos)
    begun = [await client.next(Publish) for _ in range(2)]
    if cuts == 2:
        client.cut()
        client = await lasting(place, name, version)
    await client.unsubscribe(topic)
    await publisher.publish(topic, b"new", 2)
    if cuts:
        client.cut()
        client = await lasting(place, name, version)
        again = [await client.next(Publish) for _ in range(2)]
        assert [(each.packet_id, each.qos, each.payload) for each in again] == [
            (each.packet_id, each.qos, each.payload) for each in begun
        ]
    client.send(Puback(begun[0].packet_id))
    client.send(Pubrec(begun[1].packet_id))
    assert (await client.next(Pubrel)).packet_id == begun[1].packet_id
    client.send(Pubcomp(begun[1].packet_id))
    await publisher.publish(f"{topic}/a", b"last", 1)
    event = await client.event()
    assert (event.payload, event.dup) == (b"last", False)
    await nothing_is_left(place, client, version)


async def test_what_was_sent_comes_again_whichever_subscription_it_is_for(
    place: MqttPlace,
) -> None:
    """The home hands it out as soon as the session has a consumer: all subscriptions are known by
    then."""
    name, topics = fresh("client"), [fresh() for _ in range(5)]
    client = await lasting(place, name)
    for topic in topics:
        await client.subscribe(topic, 1)
    publisher = await place.client()
    for topic in topics:
        await publisher.publish(topic, b"x", 1)
    sent = [await client.next(Publish) for _ in topics]
    for _ in range(12):
        client.cut()
        client = await lasting(place, name)
        again = [await client.next(Publish) for _ in topics]
        assert [(each.packet_id, each.topic) for each in again] == [
            (each.packet_id, each.topic) for each in sent
        ]


async def test_other_options_do_not_change_what_has_begun(place: MqttPlace) -> None:
    name, topic = fresh("client"), fresh()
    client = await lasting(place, name)
    await client.subscribe(topic, 2, Properties(subscription_identifiers=(7,)))
    publisher = await place.client()
    await publisher.publish(topic, b"1", 2)
    begun = await client.next(Publish)
    await client.subscribe(topic, 1, Properties(subscription_identifiers=(8,)))
    await publisher.publish(topic, b"2", 2)
    assert (await client.event()).qos == 1
    client.cut()
    client = await lasting(place, name)
    again = await client.event()
    assert (again.packet_id, again.qos) == (begun.packet_id, 2)
    assert again.properties.subscription_identifiers == (7,)
    await nothing_is_left(place, client, MQTT_5)


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_has_begun_of_a_shared_subscription_goes_on_without_it(
    place: MqttPlace, qos: int
) -> None:
    name, topic = fresh("client"), fresh()
    client = await lasting(place, name)
    await client.subscribe(f"$share/group/{topic}", qos)
    publisher = await place.client()
    await publisher.publish(topic, b"1", qos)
    begun = await client.next(Publish)
    await client.unsubscribe(f"$share/group/{topic}")
    client.cut()
    client = await lasting(place, name)
    again = await client.event()
    assert (again.packet_id, again.payload, again.dup) == (begun.packet_id, b"1", True)
    await nothing_is_left(place, client, MQTT_5)
