"""QoS 1 and 2 of MQTT in both directions, flow control and order, at a live broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from mqtt_clients import MqttClient, MqttPlace, mqtt_broker
from mqtt_statements import fresh, shows
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from reefcast.mqtt.reasons import Reason
from reefcast.mqtt.surroundings import Settings

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MqttPlace]:
    others = {"narrow": Settings(receive_maximum=2)}
    async with mqtt_broker(tmp_path_factory.mktemp("broker"), others=others) as found:
        yield found


async def pair(place: MqttPlace, version: int, topic: str, qos: int) -> list[MqttClient]:
    """Return a publisher, and a subscriber of the topic."""
    publisher, subscriber = [await place.client(version=version) for _ in range(2)]
    await subscriber.subscribe(topic, qos)
    return [publisher, subscriber]


async def quiet(client: MqttClient) -> list[Packet]:
    """Return what came before the answer to a PINGREQ, which comes behind it."""
    client.send(Pingreq())
    await client.next(Pingresp)
    return client.inbox


# --- one publication -----------------------------------------------------------------------------


@shows("4.3.1-1 3.3.4-1", "4.3.1-1 3.3.4-1")
async def test_qos_0(place: MqttPlace, version: int) -> None:
    topic = fresh()
    publisher, subscriber = await pair(place, version, topic, 2)
    await publisher.publish(topic, b"x")
    event = await subscriber.event()
    assert (event.qos, event.dup, event.packet_id) == (0, False, 0)
    assert not await quiet(publisher)


@shows(
    "2.2.1-4 2.2.1-5 4.3.2-1 4.3.2-2 4.3.2-4 4.5.0-1",
    "2.3.1-4 2.3.1-6 4.3.2-2",
)
async def test_qos_1(place: MqttPlace, version: int) -> None:
    topic = fresh()
    publisher, subscriber = await pair(place, version, topic, 2)
    publisher.send(Publish(topic, b"x", 1, packet_id=7))
    assert (await publisher.next(Puback)).packet_id == 7
    first = await subscriber.next(Publish)
    publisher.send(Publish(topic, b"y", 1, packet_id=7))
    second = await subscriber.next(Publish)
    assert [(each.qos, each.dup, each.payload) for each in (first, second)] == [
        (1, False, b"x"),
        (1, False, b"y"),
    ]
    assert 0 < first.packet_id != second.packet_id > 0


@shows("4.3.2-5", "4.3.2-2")
async def test_an_identifier_is_free_after_its_puback(place: MqttPlace, version: int) -> None:
    topic = fresh()
    publisher, subscriber = await pair(place, version, topic, 1)
    for payload in (b"x", b"y"):
        publisher.send(Publish(topic, payload, 1, dup=payload == b"y", packet_id=7))
        await publisher.next(Puback)
        event = await subscriber.event()
        assert (event.payload, event.dup) == (payload, False)


@shows(
    "2.2.1-5 4.3.3-1 4.3.3-2 4.3.3-4 4.3.3-8 4.3.3-11 3.3.4-1",
    "2.3.1-6 4.3.3-1 3.3.4-1",
)
async def test_qos_2(place: MqttPlace, version: int) -> None:
    topic = fresh()
    publisher, subscriber = await pair(place, version, topic, 2)
    publisher.send(Publish(topic, b"x", 2, packet_id=7))
    assert await publisher.next(Pubrec) == Pubrec(7)
    publisher.send(Pubrel(7))
    assert await publisher.next(Pubcomp) == Pubcomp(7)
    event = await subscriber.next(Publish)
    assert (event.qos, event.dup) == (2, False)
    subscriber.send(Pubrec(event.packet_id))
    assert await subscriber.next(Pubrel) == Pubrel(event.packet_id)
    subscriber.send(Pubrec(event.packet_id))  # as if the PUBREL had been lost
    assert await subscriber.next(Pubrel) == Pubrel(event.packet_id)
    subscriber.send(Pubcomp(event.packet_id))
    subscriber.send(Pubrec(event.packet_id))
    late = await subscriber.next(Pubrel)
    if version != MQTT_3_1_1:
        assert late.reason is Reason.PACKET_IDENTIFIER_NOT_FOUND


@shows("4.3.3-10 3.3.1-3", "4.3.3-2 3.3.1-3")
async def test_a_repeated_publication_with_qos_2_is_delivered_once(
    place: MqttPlace, version: int
) -> None:
    topic = fresh()
    publisher, subscriber = await pair(place, version, topic, 2)
    for dup in (False, True, True):
        publisher.send(Publish(topic, b"once", 2, dup=dup, packet_id=7))
        assert await publisher.next(Pubrec) == Pubrec(7)
    publisher.send(Pubrel(7))
    await publisher.next(Pubcomp)
    await publisher.publish(topic, b"then", 2)
    assert [(await subscriber.event()).payload for _ in range(2)] == [b"once", b"then"]


@shows("4.3.3-12", "4.3.3-2")
async def test_an_identifier_is_free_after_its_pubcomp(place: MqttPlace, version: int) -> None:
    topic = fresh()
    publisher, subscriber = await pair(place, version, topic, 2)
    for payload in (b"x", b"y"):
        publisher.send(Publish(topic, payload, 2, dup=payload == b"y", packet_id=7))
        await publisher.next(Pubrec)
        publisher.send(Pubrel(7))
        await publisher.next(Pubcomp)
        event = await subscriber.event()
        assert (event.payload, event.dup) == (payload, False)


@shows("4.3.3-9")
async def test_an_identifier_is_free_after_a_refusal(place: MqttPlace, version: int) -> None:
    topic = fresh()
    publisher, subscriber = await pair(place, version, topic, 2)
    publisher.send(Publish("$SYS/mine", b"x", 2, packet_id=7))
    assert (await publisher.next(Pubrec)).reason is Reason.NOT_AUTHORIZED
    publisher.send(Publish(topic, b"y", 2, packet_id=7))
    assert (await publisher.next(Pubrec)).reason is Reason.SUCCESS
    assert (await subscriber.event()).payload == b"y"


@shows("4.4.0-2 4.3.3-4")
async def test_what_a_client_refuses_is_not_sent_again(place: MqttPlace, version: int) -> None:
    name, topic = fresh("client"), fresh()
    client = await place.client(
        name, clean_start=False, session_expiry_interval=100, receive_maximum=1
    )
    await client.subscribe(topic, 2)
    publisher = await place.client()
    for qos in (1, 2):
        await publisher.publish(topic, b"unwanted", qos)
    event = await client.next(Publish)
    client.send(Puback(event.packet_id, Reason.IMPLEMENTATION_SPECIFIC_ERROR))
    event = await client.next(Publish)
    client.send(Pubrec(event.packet_id, Reason.QUOTA_EXCEEDED))
    await publisher.publish(topic, b"wanted", 1)
    assert (await client.event()).payload == b"wanted"
    await client.leave()
    client = await place.client(name, clean_start=False, session_expiry_interval=100)
    await publisher.publish(topic, b"last", 1)
    assert (await client.event()).payload == b"last"
    assert not any(isinstance(each, Pubrel) for each in await quiet(client))


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_publication_that_is_not_allowed_ends_nothing(place: MqttPlace, qos: int) -> None:
    client = await place.client()
    refused = await client.publish("$SYS/mine", b"", qos)
    assert refused is not None
    assert refused.reason is Reason.NOT_AUTHORIZED
    assert "$SYS" in (refused.properties.reason_string or "")
    await client.publish("$SYS/mine")
    assert not await quiet(client)


@shows(three="3.3.5-2")
async def test_a_publication_that_is_not_allowed_is_acknowledged(
    place: MqttPlace, version: int
) -> None:
    client = await place.client(version=version)
    for qos in (1, 2):
        assert await client.publish("$SYS/mine", b"", qos)
    assert not await quiet(client)


async def test_releasing_what_was_never_published(place: MqttPlace) -> None:
    client = await place.client()
    client.send(Pubrel(7))
    assert (await client.next(Pubcomp)).reason is Reason.PACKET_IDENTIFIER_NOT_FOUND
    for packet in (Puback(9), Pubcomp(9)):
        client.send(packet)
    assert not await quiet(client)


# --- flow control --------------------------------------------------------------------------------


@shows("3.3.4-9 4.9.0-1 4.9.0-2")
@pytest.mark.parametrize("lasting", [False, True])
async def test_no_more_than_the_client_takes_are_unacknowledged(
    place: MqttPlace, version: int, lasting: bool
) -> None:
    topic = fresh()
    more = {"session_expiry_interval": 100} if lasting else {}
    client = await place.client(fresh("client"), receive_maximum=2, **more)
    await client.subscribe(topic, 2)
    publisher = await place.client()
    for number in range(6):
        await publisher.publish(topic, b"%d" % number, 1 + number % 2)
    begun = [await client.next(Publish) for _ in range(2)]
    for number in range(2, 6):
        assert not any(isinstance(each, Publish) for each in await quiet(client))
        event = begun.pop(0)
        assert event.payload == b"%d" % (number - 2)
        if event.qos == 1:
            client.send(Puback(event.packet_id))
        else:
            client.send(Pubrec(event.packet_id))
            await client.next(Pubrel)
            assert not any(isinstance(each, Publish) for each in await quiet(client))
            client.send(Pubcomp(event.packet_id))
        begun.append(await client.next(Publish))


@shows("3.3.4-10 4.9.0-3")
async def test_a_full_window_delays_nothing_else(place: MqttPlace, version: int) -> None:
    topic = fresh()
    client = await place.client(receive_maximum=1)
    await client.subscribe(topic, 1)
    publisher = await place.client()
    for number in range(2):
        await publisher.publish(topic, b"%d" % number, 1)
    await client.next(Publish)
    await publisher.publish(topic, b"qos 0")
    assert (await client.next(Publish)).payload == b"qos 0"
    await client.subscribe(fresh(), 1)
    await client.unsubscribe(topic)
    await client.publish(fresh(), b"", 2)
    assert not await quiet(client)


@pytest.mark.parametrize("qos", [1, 2])
async def test_more_than_the_broker_takes_end_the_connection(place: MqttPlace, qos: int) -> None:
    client = await MqttClient.connect(place.ports["narrow"])
    assert client.connack.properties.receive_maximum == 2
    for number in range(1, 20):
        client.send(Publish(fresh(), b"", qos, packet_id=number))
    last = (await client.until_closed())[-1]
    assert isinstance(last, Disconnect)
    assert last.reason is Reason.RECEIVE_MAXIMUM_EXCEEDED


async def test_3_1_1_has_no_receive_maximum(place: MqttPlace) -> None:
    client = await MqttClient.connect(place.ports["narrow"], version=MQTT_3_1_1)
    for number in range(1, 20):
        client.send(Publish("a", b"", 2, packet_id=number))
    for number in range(1, 20):
        assert (await client.next(Pubrec)).packet_id == number
    assert not await quiet(client)


async def test_a_connection_begins_with_all_of_the_receive_maximum(place: MqttPlace) -> None:
    name = fresh("client")
    for round in range(3):
        client = await MqttClient.connect(
            place.ports["narrow"], name, clean_start=False, session_expiry_interval=100
        )
        for number in (1, 2):
            client.send(Publish("a", b"", 2, packet_id=2 * round + number))
            await client.next(Pubrec)
        client.cut()
    client = await MqttClient.connect(
        place.ports["narrow"], name, clean_start=False, session_expiry_interval=100
    )
    for number in range(1, 7):
        client.send(Pubrel(number))
        assert (await client.next(Pubcomp)).reason is Reason.SUCCESS


async def test_a_refused_publication_gives_its_place_back(place: MqttPlace) -> None:
    client = await MqttClient.connect(place.ports["narrow"])
    for qos in (1, 2, 1, 2, 1, 2):
        refused = await client.publish("$SYS/mine", b"", qos)
        assert refused is not None
        assert refused.reason is Reason.NOT_AUTHORIZED


# --- order ---------------------------------------------------------------------------------------


@shows("4.6.0-5 4.6.0-6", "4.6.0-2 4.6.0-3 4.6.0-5 4.6.0-6")
async def test_publications_and_their_acknowledgements_keep_their_order(
    place: MqttPlace, version: int
) -> None:
    topic = fresh()
    publisher, subscriber = await pair(place, version, topic, 2)
    for number in range(1, 61):
        publisher.send(Publish(topic, b"%d" % number, 1 + number % 2, packet_id=number))
    for kind, numbers in ((Puback, range(2, 61, 2)), (Pubrec, range(1, 61, 2))):
        got = [(await publisher.next(kind)).packet_id for _ in numbers]
        assert got == list(numbers)
    events = [await subscriber.next(Publish) for _ in range(60)]
    assert [int(each.payload) for each in events] == list(range(1, 61))


@shows("4.6.0-4", "4.6.0-4")
@pytest.mark.parametrize("lasting", [False, True])
async def test_releases_keep_the_order_of_what_was_received(
    place: MqttPlace, version: int, lasting: bool
) -> None:
    topic = fresh()
    client = await place.client(
        fresh("client"),
        version=version,
        clean_start=not lasting,
        **({"session_expiry_interval": 9} if lasting and version != MQTT_3_1_1 else {}),
    )
    publisher = await place.client()
    await publisher.publish(f"{topic}/kept", b"kept", 2, retain=True)
    await client.subscribe(f"{topic}/+", 2)
    for _ in range(5):
        await publisher.publish(f"{topic}/x", b"", 2)
    events = [await client.next(Publish) for _ in range(6)]
    for each in reversed(events):
        client.send(Pubrec(each.packet_id))
    got = [(await client.next(Pubrel)).packet_id for _ in events]
    assert got == [each.packet_id for each in reversed(events)]
