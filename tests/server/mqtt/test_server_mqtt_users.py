"""Who MQTT clients are, what they may do, and how much."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live
from msgspec.structs import replace
from secured_brokers import lines, principals, url

import reefcast
from live_networks import until
from mqtt_clients import MqttClient, MqttPlace, mqtt_broker
from reefcast.model.grants import Right
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Disconnect,
    Puback,
    Publish,
    Pubrec,
    Will,
)
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.reasons import Reason
from reefcast.mqtt.surroundings import Settings
from reefcast.network.sections import LimitsSection, RoleEntry
from reefcast.protocol.principal import Principal, UserRole
from reefcast.server.node import Node
from secured import OTHER_PASSWORD, PASSWORD, secured, token, write_users

VERSIONS = pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])
KINDS = pytest.mark.parametrize("kind", ["passing", "durable", "shared"])
LASTING: dict[str, Any] = {"session_expiry_interval": 100}
ANNA: dict[str, Any] = {"user_name": "anna", "password": PASSWORD.encode()}
OTTO: dict[str, Any] = {**ANNA, "user_name": "otto"}
FX = RoleEntry(name="fx-desk", publish="topic MATCHES 'fx/#'", subscribe="topic MATCHES 'fx/#'")
ALL = RoleEntry(name="administrator", publish="TRUE", subscribe="TRUE", rights=list(Right))


async def place_of(
    live: Live, folder: Path, *roles: RoleEntry, settings: Settings | None = None, **section: Any
) -> MqttPlace:
    """A broker with users, and with these roles."""
    limits = section.pop("limits", LimitsSection())
    network = secured(folder, **section)
    network.role, network.limits = list(roles), limits
    network.sessions.directory = str(folder / "sessions")
    node = await live.node(network.validate(), "b1")
    place = MqttPlace(node, settings)
    await node.listeners[-1].open("broker b1")
    return place


# --- who they are ---------------------------------------------------------------------------------


@VERSIONS
async def test_a_user_with_its_password(live: Live, tmp_path: Path, version: int) -> None:
    place = await place_of(live, tmp_path)
    client = await place.client("c", version=version, **ANNA)
    proved = Principal("anna", frozenset({UserRole.CLIENT}), "password", ("fx-desk",))
    assert principals(place.node) == [proved]
    await client.subscribe("a", 1)
    await client.publish("a", b"1", 1)
    assert (await client.event()).payload == b"1"
    await client.leave()
    await until(lambda: lines(tmp_path)[-1]["event"] == "disconnected")
    connected, _ = lines(tmp_path)
    assert (connected["event"], connected["user"], connected["proof"]) == (
        *("connected", "anna"),
        "password",
    )


@pytest.mark.parametrize(("version", "user_name"), [(MQTT_5, None), (MQTT_5, ""), (MQTT_3_1_1, "")])
async def test_a_token_as_the_password(
    live: Live, tmp_path: Path, version: int, user_name: str | None
) -> None:
    place = await place_of(live, tmp_path)
    shown = token("bert", desk="fx").encode()
    client = await place.client(password=shown, user_name=user_name, version=version)
    (principal,) = principals(place.node)
    assert (principal.user, principal.proof, principal.claims["desk"]) == ("bert", "token", "fx")
    client.cut()


async def test_nobody_may_come_where_the_file_says_so(live: Live, tmp_path: Path) -> None:
    place = await place_of(live, tmp_path, anonymous=["fx-desk"])
    client = await place.client()
    (principal,) = principals(place.node)
    assert (principal.proof, principal.granted) == ("nothing", ("fx-desk",))
    client.cut()


WRONG = "the user or the password is wrong"
REFUSED: list[tuple[dict[str, Any], Reason, str]] = [
    ({}, Reason.NOT_AUTHORIZED, "asks who this is, and nothing is shown"),
    ({**ANNA, "password": OTHER_PASSWORD.encode()}, Reason.BAD_USER_NAME_OR_PASSWORD, WRONG),
    ({**ANNA, "user_name": "nina"}, Reason.BAD_USER_NAME_OR_PASSWORD, WRONG),
    ({"user_name": "anna"}, Reason.BAD_USER_NAME_OR_PASSWORD, "nothing is shown"),
    ({**ANNA, "password": b"\xff"}, Reason.BAD_USER_NAME_OR_PASSWORD, "no text in UTF-8"),
    ({"password": b"abc"}, Reason.BAD_USER_NAME_OR_PASSWORD, "no signed JWT"),
    ({"password": b"expired"}, Reason.BAD_USER_NAME_OR_PASSWORD, "the token has expired"),
]


@pytest.mark.parametrize(("fields", "reason", "words"), REFUSED)
async def test_who_proves_nothing_is_refused(
    live: Live, tmp_path: Path, fields: dict[str, Any], reason: Reason, words: str
) -> None:
    if fields.get("password") == b"expired":
        fields = {"password": token(seconds=-11).encode()}
    place = await place_of(live, tmp_path)
    answer = await place.refusal(**fields)
    assert answer.reason is reason
    assert words in (answer.properties.reason_string or "")
    (line,) = lines(tmp_path)
    assert line["event"] == "refused" and words in line["reason"]
    assert line.get("tried") == ("anna" if words == WRONG and "anna" in str(fields) else None)
    if "password" not in fields or fields["user_name" if "user_name" in fields else "password"]:
        assert not place.node.clients.sessions


async def test_who_is_refused_with_3_1_1(live: Live, tmp_path: Path) -> None:
    place = await place_of(live, tmp_path)
    wrong = {**ANNA, "password": OTHER_PASSWORD.encode()}
    answer = await place.refusal(MQTT_3_1_1, **wrong)
    assert answer.reason is Reason.BAD_USER_NAME_OR_PASSWORD  # return code 4
    answer = await place.refusal(MQTT_3_1_1)
    assert answer.reason is Reason.NOT_AUTHORIZED  # return code 5


async def test_who_guesses_waits(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = await place_of(live, tmp_path)
    pauses: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real_sleep(0)

    monkeypatch.setattr("reefcast.server.proving.asyncio.sleep", sleep)
    guesses = [{**OTTO, "password": b"guess %d" % n} for n in range(12)]
    seen = [(await place.refusal(**guess)).reason for guess in guesses]
    assert seen[0] is Reason.BAD_USER_NAME_OR_PASSWORD
    assert seen[-1] is Reason.CONNECTION_RATE_EXCEEDED
    counters = place.node.host.journal.counters
    assert counters["proofs_failed"] == seen.count(seen[0])
    assert any(pause > 0.1 for pause in pauses)


async def test_a_token_that_expires_ends_the_connection(live: Live, tmp_path: Path) -> None:
    place = await place_of(live, tmp_path)
    client = await place.client(password=token(seconds=-9.2).encode())  # and 10 s of patience
    (last,) = await client.until_closed()
    assert isinstance(last, Disconnect) and last.reason is Reason.MAXIMUM_CONNECT_TIME
    assert "has expired" in (last.properties.reason_string or "")


async def test_a_user_that_is_removed_is_disconnected(live: Live, tmp_path: Path) -> None:
    place = await place_of(live, tmp_path)
    client = await place.client(**ANNA)
    write_users(tmp_path / "users.toml", ("otto", ["administrator"]))
    await until(place.node.look_at_users)
    (last,) = await client.until_closed()
    assert isinstance(last, Disconnect) and last.reason is Reason.ADMINISTRATIVE_ACTION
    assert "'anna' was removed" in (last.properties.reason_string or "")


@pytest.mark.parametrize("key", [True, False])
async def test_an_id_follows_from_a_secret(tmp_path: Path, key: bool) -> None:
    """Brokers that share one give a client the same id. Without any, nobody can tell the secret of
    another user's client, though everybody knows the names."""
    network = secured(tmp_path, **({} if key else {"key": ""}))
    fronts = [MqttPlace(Node(network, "b1")).front for _ in range(2)]
    first, second = (each.identity("anna", "c", lasting=True) for each in fronts)
    assert (first == second) is key
    assert first == fronts[0].identity("anna", "c", lasting=True)
    assert first != fronts[0].identity("otto", "c", lasting=True)


async def test_a_client_of_another_user_is_another_client(live: Live, tmp_path: Path) -> None:
    """Nobody takes over the session of another user by its client identifier."""
    place = await place_of(live, tmp_path)
    lasting: dict[str, Any] = {"clean_start": False, "session_expiry_interval": 100}
    anna = await place.client("same", **ANNA, **lasting)
    await anna.subscribe("a", 1)
    otto = await place.client("same", **OTTO, **lasting)
    assert not otto.connack.session_present
    await otto.publish("a", b"1", 1)
    assert (await anna.event()).payload == b"1"


# --- what they may do -----------------------------------------------------------------------------


async def test_a_publication_outside_the_grant(live: Live, tmp_path: Path) -> None:
    place = await place_of(live, tmp_path, FX, ALL)
    client = await place.client(**ANNA)
    watcher = await place.client(**OTTO)
    await watcher.subscribe("#", 1)
    counters = place.node.host.journal.counters
    await client.publish("hr", b"0")
    await until(lambda: counters["mqtt_refused"] == 1)
    one, two = await client.publish("hr", b"1", 1), await client.publish("hr", b"2", 2)
    assert isinstance(one, Puback) and isinstance(two, Pubrec)
    assert one.reason is two.reason is Reason.NOT_AUTHORIZED
    assert "lies outside" in (one.properties.reason_string or "")
    kept = await client.publish("hr", b"3", 1, retain=True)
    assert kept is not None and kept.reason.is_failure
    await client.publish("fx/1", b"4", 1)
    assert (await watcher.event()).payload == b"4"
    told = [line for line in lines(tmp_path) if line["event"] == "request_refused"]
    assert {line["user"] for line in told} == {"anna"}
    assert len(told) >= 4


async def test_a_will_outside_the_grant_is_not_published(live: Live, tmp_path: Path) -> None:
    place = await place_of(live, tmp_path, FX, ALL)
    watcher = await place.client(**OTTO)
    await watcher.subscribe("#", 1)
    for topic in ("hr/gone", "fx/gone"):
        lost = await place.client(**ANNA, will=Will(topic, b"", 1))
        lost.cut()
    assert (await watcher.event()).topic == "fx/gone"
    assert not watcher.inbox


@KINDS
async def test_a_subscription_is_narrowed(live: Live, tmp_path: Path, kind: str) -> None:
    place = await place_of(live, tmp_path, FX, ALL)
    client = await place.client("c", **ANNA, **(LASTING if kind == "durable" else {}))
    publisher = await place.client(**OTTO)
    text = "$share/g/#" if kind == "shared" else "#"
    assert (await client.subscribe(text, 1)).reasons == (Reason.GRANTED_QOS_1,)
    for topic in ("hr", "fx/1"):
        await publisher.publish(topic, b"", 1)
    assert (await client.event()).topic == "fx/1"
    assert not client.inbox


@KINDS
async def test_who_may_see_nothing_subscribes_to_nothing(
    live: Live, tmp_path: Path, kind: str
) -> None:
    place = await place_of(live, tmp_path, RoleEntry(name="fx-desk", publish="TRUE"), ALL)
    client = await place.client("c", **ANNA, **(LASTING if kind == "durable" else {}))
    answer = await client.subscribe("$share/g/#" if kind == "shared" else "#", 1)
    assert answer.reasons == (Reason.NOT_AUTHORIZED,)
    assert "may see nothing" in (answer.properties.reason_string or "")
    answer = await client.publish("a", b"", 2)
    assert answer is not None and not answer.reason.is_failure
    place.node.regrant([FX, ALL])
    await client.subscribe("$share/g/#" if kind == "shared" else "#", 1)
    await client.publish("fx/1", b"", 1)
    assert (await client.event()).topic == "fx/1"


async def test_retained_values_are_narrowed(live: Live, tmp_path: Path) -> None:
    place = await place_of(live, tmp_path, FX, ALL)
    publisher, client = await place.client(**OTTO), await place.client(**ANNA)
    for topic in ("hr", "fx/1"):
        await publisher.publish(topic, topic.encode(), 1, retain=True)
    await client.subscribe("#", 1)
    event = await client.event()
    assert event.retain and event.topic == "fx/1"
    cleared = await client.publish("hr", b"", 1, retain=True)
    assert cleared is not None and cleared.reason.is_failure
    await publisher.subscribe("hr")
    assert (await publisher.event()).payload == b"hr"
    assert not client.inbox


async def test_what_the_broker_says_of_itself_needs_a_right(live: Live, tmp_path: Path) -> None:
    place = await place_of(live, tmp_path, FX, ALL)
    client, operator = await place.client(**ANNA), await place.client(**OTTO)
    answer = await client.subscribe("$SYS/#")
    assert answer.reasons == (Reason.NOT_AUTHORIZED,)
    assert not (await operator.subscribe("$SYS/broker/version")).reasons[0].is_failure
    assert (await operator.event()).payload.startswith(b"reefcast version")


@pytest.mark.parametrize("lasting", [False, True])
async def test_a_changed_grant_holds_for_what_waits(
    live: Live, tmp_path: Path, *, lasting: bool
) -> None:
    """Deliveries that wait for acknowledgements of earlier ones are not sent any more."""
    place = await place_of(live, tmp_path, FX, ALL)
    more: dict[str, Any] = {"session_expiry_interval": 100} if lasting else {}
    client = await place.client("c", **ANNA, receive_maximum=1, **more)
    await client.subscribe("fx/#", 1)
    publisher = await place.client(**OTTO)
    for topic in ("fx/1", "fx/secret", "fx/2"):
        await publisher.publish(topic, b"", 1)
    first = await client.next(Publish)
    narrow = replace(FX, subscribe="topic MATCHES 'fx/+' AND NOT topic = 'fx/secret'")
    place.node.regrant([narrow, ALL])
    client.send(Puback(first.packet_id))
    got = [first.topic, (await client.event()).topic]
    await publisher.publish("fx/secret", b"", 1)
    await publisher.publish("fx/3", b"", 1)
    got.append((await client.event()).topic)
    assert got == ["fx/1", "fx/2", "fx/3"]


async def test_a_changed_grant_holds_for_what_the_socket_did_not_take(
    live: Live, tmp_path: Path
) -> None:
    place = await place_of(live, tmp_path, FX, ALL)
    client, publisher = await place.client("c", **ANNA), await place.client(**OTTO)
    await client.subscribe("fx/#")
    (port,) = (s.port for s in place.node.clients.sessions.values() if "mqtt:c" in s.name)
    for _ in range(200):
        await publisher.publish("fx/big", bytes(500_000), 1)
        if port.queue_len >= 3:
            break
    assert port.queue_len >= 3
    place.node.regrant([replace(FX, subscribe="topic = 'fx/end'"), ALL])
    assert not port.queue_len
    await publisher.publish("fx/end", b"", 1)
    while (await client.event()).topic != "fx/end":
        pass


# --- how much -------------------------------------------------------------------------------------


async def test_clients_and_connections_have_limits(live: Live, tmp_path: Path) -> None:
    limits = LimitsSection(max_clients=3, max_user_connections=2, max_connections=4)
    place = await place_of(live, tmp_path, limits=limits)
    held = [await place.client(**ANNA) for _ in range(2)]
    answer = await place.refusal(**ANNA)
    assert answer.reason is Reason.QUOTA_EXCEEDED
    assert "max_user_connections" in (answer.properties.reason_string or "")
    held.append(await place.client(**OTTO))
    answer = await place.refusal(**OTTO)
    assert answer.reason is Reason.SERVER_BUSY
    assert "max_clients" in (answer.properties.reason_string or "")
    held.append(await MqttClient.dial(place.port))
    beyond = await MqttClient.dial(place.port)
    assert not await beyond.until_closed()  # nobody knows yet what it speaks
    assert len(place.node.shared.all) == 4


async def test_a_publication_has_a_size(tmp_path: Path) -> None:
    async with mqtt_broker(tmp_path, publication_bytes=1000) as place:
        client = await place.client()
        answer = await client.publish("a", bytes(2000), 1)
        assert answer is not None and answer.reason is Reason.QUOTA_EXCEEDED
        assert "publication_bytes" in (answer.properties.reason_string or "")
        await client.subscribe("a")
        await client.publish("a", bytes(100), 1)
        assert len((await client.event()).payload) == 100


async def test_who_publishes_too_fast_is_read_later(live: Live, tmp_path: Path) -> None:
    limits = LimitsSection(user_publications_per_s=200, credit=50)
    place = await place_of(live, tmp_path, limits=limits)
    subscriber, anna = await place.client(**OTTO), await place.client("writer", **ANNA)
    await subscriber.subscribe("a", 1)
    for number in range(260):
        anna.send(Publish("a", b"%d" % number))
    accounts = place.node.host.congestion.accounts
    (account,) = (found for name, found in accounts.items() if "mqtt:writer" in name)
    await until(lambda: account.throttled)
    got = [(await subscriber.event()).payload for _ in range(260)]
    assert got == [b"%d" % number for number in range(260)]


async def test_filters_have_limits(tmp_path: Path) -> None:
    async with mqtt_broker(tmp_path, max_subscriptions=2) as place:
        client = await place.client()
        reasons = [(await client.subscribe(topic)).reasons[0] for topic in "abc"]
        assert reasons == [*([Reason.SUCCESS] * 2), Reason.QUOTA_EXCEEDED]
        said = Properties(user_properties=(("filter", " OR ".join(["x = 1"] * 1000)),))
        assert (await client.subscribe("d", 0, said)).reasons == (Reason.QUOTA_EXCEEDED,)


# --- durable sessions -----------------------------------------------------------------------------


async def test_sessions_are_seen_by_the_usual_commands(live: Live, tmp_path: Path) -> None:
    place = await place_of(live, tmp_path)
    device = await place.client("device", **ANNA, session_expiry_interval=100)
    await device.subscribe("a/#", 1)
    await device.leave()
    publisher = await place.client(**OTTO)
    for number in range(3):
        await publisher.publish("a/b", b"%d" % number, 1)
    async with reefcast.connect(url(place.node), user="anna", password=PASSWORD) as client:
        (row,) = await client.sessions()
        assert (row.name, row.owner) == ("mqtt:device", "anna")
        session = client.session("mqtt:device")
        status = await session.status()
        assert list(status.subscriptions.values()) == ["topic MATCHES 'a/#'"]
        assert [each.event.payload for each in await session.look(most=5)] == [b"0", b"1", b"2"]
        assert await session.drain() == 3
    again = await place.client("device", **ANNA, clean_start=False, session_expiry_interval=100)
    assert again.connack.session_present
    await publisher.publish("a/b", b"new", 1)
    assert (await again.event()).payload == b"new"
