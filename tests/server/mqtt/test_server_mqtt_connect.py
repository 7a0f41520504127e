"""CONNECT and CONNACK of MQTT, at a live broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from live_networks import until
from mqtt_clients import PATIENCE_S, MqttClient, MqttPlace, mqtt_broker
from mqtt_statements import fresh, shows
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.gateway import Gateway
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Suback,
    Subscribe,
    TopicRequest,
)
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.reasons import Reason
from reefcast.mqtt.surroundings import Settings
from reefcast.server.connection import SLICE_S
from reefcast.server.mqtt import introduction, line

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOO_LONG = "x" * (introduction.MOST_ID_CHARS + 1)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MqttPlace]:
    others = {"hurried": Settings(keep_alive_s=1)}
    async with mqtt_broker(tmp_path_factory.mktemp("broker"), others=others) as found:
        yield found


def bytes_of(packets: list[Packet], version: int) -> bytes:
    return b"".join(encode(each, version) for each in packets)


async def ended(client: MqttClient, reason: Reason) -> None:
    """Check that the broker ends a connection for this reason, as the version can say it."""
    packets = await client.until_closed()
    if client.version == MQTT_5:
        (last,) = packets
        assert isinstance(last, Disconnect)
        assert last.reason is reason
        assert last.properties.session_expiry_interval is None
    else:
        assert not packets


# --- the order of packets ------------------------------------------------------------------------


@shows("3.1.0-2 3.2.0-2 3.14.2-2 3.14.4-1 3.14.4-2 4.13.1-1", "3.1.0-2 4.8.0-1")
async def test_a_second_connect_ends_the_connection(place: MqttPlace, version: int) -> None:
    client = await place.client(version=version)
    client.say_hello()
    client.send(Pingreq())
    await ended(client, Reason.PROTOCOL_ERROR)


@shows("3.1.4-5 3.2.0-1", "3.1.4-4 3.2.0-1")
async def test_connack_comes_first_whatever_follows_connect(place: MqttPlace, version: int) -> None:
    client = await MqttClient.dial(place.port, version)
    subscribe = Subscribe(1, (TopicRequest(fresh()),))
    client.write(bytes_of([Connect(fresh()), subscribe, Pingreq(), Disconnect()], version))
    first, *rest = await client.until_closed()
    assert isinstance(first, Connack)
    assert first.reason is Reason.SUCCESS
    assert all(isinstance(each, Suback | Pingresp) for each in rest)


@shows(
    "3.1.3-8 3.1.4-2 3.1.4-6 3.2.2-7 3.14.0-1 4.13.2-1",
    "3.1.3-9 3.1.4-5 3.2.2-5",
)
async def test_nothing_behind_a_refused_connect_counts(place: MqttPlace, version: int) -> None:
    topic = fresh()
    watcher = await place.client()
    await watcher.subscribe(topic, 1)
    client = await MqttClient.dial(place.port, version)
    client.write(bytes_of([Connect(TOO_LONG), Publish(topic, b"refused")], version))
    (answer,) = await client.until_closed()
    assert isinstance(answer, Connack)
    assert answer.reason is Reason.CLIENT_IDENTIFIER_NOT_VALID
    await watcher.publish(topic, b"later", 1)
    assert (await watcher.event()).payload == b"later"


@shows(three="3.2.2-6")
async def test_a_connect_that_no_return_code_fits_is_not_answered(
    place: MqttPlace, version: int
) -> None:
    client = await MqttClient.dial(place.port, version)
    client.write(b"\x10\x0c\0\4MQTT\4\x03\0\0\0\0")  # with the reserved bit
    assert not await client.until_closed()


@pytest.mark.parametrize("slice_s", [SLICE_S, -1.0])  # -1.0: the turn ends after every step
@pytest.mark.parametrize("level", [3, 6])
async def test_an_unknown_version_is_named_in_the_connack(
    place: MqttPlace, level: int, slice_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "SLICE_S", slice_s)
    version = MQTT_5 if level > MQTT_5 else MQTT_3_1_1
    client = await MqttClient.dial(place.port, version)
    client.write(b"\x10\x0d\0\4MQTT%c\x02\0\0\0\1x" % level)
    (answer,) = await client.until_closed()
    assert isinstance(answer, Connack)
    assert answer.reason is Reason.UNSUPPORTED_PROTOCOL_VERSION


@shows(three="4.8.0-2")
async def test_a_failure_of_the_broker_ends_the_connection(
    place: MqttPlace, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, bystander = [await place.client(version=version) for _ in range(2)]
    with monkeypatch.context() as failing:
        failing.setattr(Gateway, "handle", lambda self, packet: 1 / 0)
        client.send(Pingreq())
        assert not await client.until_closed()
    bystander.send(Pingreq())
    await bystander.next(Pingresp)


# --- authentication ------------------------------------------------------------------------------


@shows("4.12.0-1 4.12.0-4")
async def test_enhanced_authentication_is_refused(place: MqttPlace, version: int) -> None:
    client = await MqttClient.dial(place.port, version)
    client.say_hello(authentication_method="GS2-KRB5", authentication_data=b"ticket")
    (answer,) = await client.until_closed()
    assert isinstance(answer, Connack)
    assert answer.reason is Reason.BAD_AUTHENTICATION_METHOD


@shows("4.12.0-6 4.12.1-2")
async def test_auth_without_a_method_ends_the_connection(place: MqttPlace, version: int) -> None:
    client = await place.client()
    assert client.connack.properties.authentication_method is None
    client.send(Auth(Reason.REAUTHENTICATE, Properties(authentication_method="GS2-KRB5")))
    await ended(client, Reason.PROTOCOL_ERROR)


# --- client identifiers --------------------------------------------------------------------------


@shows("3.1.3-5", "3.1.3-5")
async def test_all_letters_and_digits_make_identifiers(place: MqttPlace, version: int) -> None:
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    for client_id in ("0", *(alphabet[at : at + 23] for at in range(0, len(alphabet), 23))):
        await (await place.client(client_id, version=version)).leave()


@shows("3.1.3-6 3.1.3-7 3.2.2-16", "3.1.3-6")
async def test_clients_without_identifiers_get_one_each(place: MqttPlace, version: int) -> None:
    clients = [await place.client("", version=version) for _ in range(2)]
    if version == MQTT_5:
        assigned = [each.connack.properties.assigned_client_id for each in clients]
        assert len(set(assigned)) == 2
        assert all(assigned)
        again = await place.client(assigned[0] or "")
        assert again.connack.properties.assigned_client_id is None
        await ended(clients.pop(0), Reason.SESSION_TAKEN_OVER)
    for each in clients:  # neither took the other's place
        each.send(Pingreq())
        await each.next(Pingresp)


async def test_a_session_that_lasts_needs_an_identifier_in_3_1_1(place: MqttPlace) -> None:
    client = await MqttClient.dial(place.port, MQTT_3_1_1)
    client.write(b"\x10\x0c\0\4MQTT\4\0\0\0\0\0")
    (answer,) = await client.until_closed()
    assert isinstance(answer, Connack)
    assert answer.reason is Reason.CLIENT_IDENTIFIER_NOT_VALID


@shows("3.1.4-3", "3.1.4-2")
async def test_a_second_connection_ends_the_first(place: MqttPlace, version: int) -> None:
    name = fresh("client")
    first = await place.client(name, version=version)
    second = await place.client(name, version=version)
    await ended(first, Reason.SESSION_TAKEN_OVER)
    second.send(Pingreq())
    await second.next(Pingresp)


# --- keep-alive ----------------------------------------------------------------------------------


@shows("3.1.2-22 3.2.2-22", "3.1.2-24")
async def test_a_silent_client_is_disconnected(
    place: MqttPlace, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introduction, "PATIENCE", 0.1)
    silent = await place.client(version=version, keep_alive=1)
    free = await place.client(version=version, keep_alive=0)
    await ended(silent, Reason.KEEP_ALIVE_TIMEOUT)
    free.send(Pingreq())
    await free.next(Pingresp)


async def test_patience_is_one_and_a_half_keep_alives() -> None:
    assert introduction.silence_s(Connect(keep_alive=10), 0) == 15
    assert introduction.silence_s(Connect(keep_alive=10), 60) == 90


async def test_the_keep_alive_of_the_broker_counts(
    place: MqttPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introduction, "PATIENCE", 0.1)
    client = await MqttClient.connect(place.ports["hurried"], keep_alive=0)
    assert client.connack.properties.server_keep_alive == 1
    await ended(client, Reason.KEEP_ALIVE_TIMEOUT)


@shows("3.12.4-1", "3.12.4-1")
async def test_pings_are_answered(place: MqttPlace, version: int) -> None:
    client = await place.client(version=version)
    client.send(Pingreq())
    await client.next(Pingresp)


# --- what the client said it accepts -------------------------------------------------------------


@shows("3.1.2-28")
async def test_response_information_is_not_sent(place: MqttPlace, version: int) -> None:
    for wants in (None, False, True):
        client = await place.client(request_response_information=wants)
        assert client.connack.properties.response_information is None


@shows("3.1.2-29")
async def test_without_problem_information_answers_have_no_words(
    place: MqttPlace, version: int
) -> None:
    words = []
    for wants in (True, False):
        client = await place.client(request_problem_information=wants)
        refused = await client.publish("$SYS/mine", b"", 1)
        assert isinstance(refused, Puback)
        assert refused.reason is Reason.NOT_AUTHORIZED
        answer = await client.subscribe("a/#/b", 1)
        assert answer.reasons == (Reason.TOPIC_FILTER_INVALID,)
        words.append((refused.properties.reason_string, answer.properties.reason_string))
    assert all(words[0])
    assert words[1] == (None, None)


@shows("3.2.2-19 3.2.2-20")
async def test_a_connack_that_would_be_too_large_has_no_words(
    place: MqttPlace, version: int
) -> None:
    answers = []
    for most in (500, 20):
        client = await MqttClient.dial(place.port)
        client.say_hello(TOO_LONG, maximum_packet_size=most)
        (answer,) = await client.until_closed()
        assert isinstance(answer, Connack)
        assert answer.reason is Reason.CLIENT_IDENTIFIER_NOT_VALID
        answers.append(answer.properties.reason_string)
    assert answers[0]
    assert answers[1] is None


@shows("3.14.2-3 3.14.2-4")
async def test_a_disconnect_that_would_be_too_large_has_no_words(
    place: MqttPlace, version: int
) -> None:
    words = []
    for most in (500, 40):
        client = await place.client(maximum_packet_size=most)
        client.send(Auth())
        (last,) = await client.until_closed()
        assert isinstance(last, Disconnect)
        assert last.reason is Reason.PROTOCOL_ERROR
        words.append(last.properties.reason_string)
    assert words[0]
    assert words[1] is None


@shows("3.4.2-2 3.4.2-3 3.5.2-2 3.5.2-3 3.9.2-1 3.9.2-2")
async def test_answers_that_would_be_too_large_have_no_words(
    place: MqttPlace, version: int
) -> None:
    client = await place.client(maximum_packet_size=40)
    for qos in (1, 2):
        refused = await client.publish("$SYS/mine", b"", qos)
        assert refused is not None
        assert refused.reason is Reason.NOT_AUTHORIZED
        assert refused.properties.reason_string is None
    answer = await client.subscribe("a/#/b", 1)
    assert answer.reasons == (Reason.TOPIC_FILTER_INVALID,)
    assert answer.properties.reason_string is None


@shows("3.1.2-24 3.1.2-25")
async def test_events_that_are_too_large_count_as_sent(place: MqttPlace, version: int) -> None:
    topic = fresh()
    client = await place.client(maximum_packet_size=100, receive_maximum=1)
    await client.subscribe(topic, 2)
    publisher = await place.client()
    for qos in (0, 1, 2):
        await publisher.publish(topic, bytes(100), qos)
        await publisher.publish(topic, b"short", qos)
        assert (await client.event()).payload == b"short"


async def test_a_client_that_takes_no_connack_is_let_go(place: MqttPlace) -> None:
    client = await MqttClient.dial(place.port)
    client.say_hello(maximum_packet_size=3)
    assert not await client.until_closed()


async def test_a_broker_that_was_busy_looks_again_before_it_says_that_a_client_is_late(
    place: MqttPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both times for its CONNECT and for the answer to it, which are over at once here."""
    monkeypatch.setattr(line, "HELLO_S", 0.0)
    monkeypatch.setattr(line, "LATE_S", PATIENCE_S)
    before = set(place.front.shared.all)
    client = await MqttClient.dial(place.port)
    await until(lambda: place.front.shared.all - before)
    (found,) = place.front.shared.all - before
    assert isinstance(found, line.MqttLine)
    await until(lambda: found._is_late or found.over)
    client.say_hello(fresh("client"), clean_start=False, session_expiry_interval=100)
    assert (await client.next(Connack)).reason is Reason.SUCCESS
