"""What changes while users are connected: tokens that expire, users who come and go, roles; what
happens to those who guess; and the audit log."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live
from msgspec.structs import replace
from raw_client import OWN
from secured_brokers import ANNA, broker, lines, opened, principals, status, url

import reefcast
from live_networks import PATIENCE_S, linked, until
from reefcast.client.client import session_of
from reefcast.errors import ConnectionLostError, RefusedError
from reefcast.model import wire
from reefcast.model.wire import FrameKind
from reefcast.network.sections import (
    RoleEntry,
)
from reefcast.protocol.principal import UserRole
from reefcast.protocol.proofs import (
    Answer,
    Method,
    encode_proof,
)
from reefcast.security import checking
from reefcast.security.credentials import Password
from reefcast.security.passwords import cost_of, is_password
from reefcast.security.users import change_users, read_users
from reefcast.server.admin import ask_status
from reefcast.server.node import Node
from reefcast.server.proving import Proving
from secured import (
    CHEAP,
    KEY,
    OTHER_PASSWORD,
    PASSWORD,
    TOKEN_SECRET,
    secured,
    token,
    write_users,
)

# --- a token that expires -------------------------------------------------------------------------


async def test_a_connection_ends_when_its_token_expires(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.security.tokens.LEEWAY_S", 0)
    node = await broker(live, tmp_path)
    client = await reefcast.connect(url(node), token=token(seconds=3))
    await until(lambda: client.ended)
    assert "the token has expired" in str(client.ended)
    said = [line for line in lines(tmp_path) if line["event"] == "expired"]
    assert said[0]["reason"] == "the token of user 'anna' has expired"


async def test_a_newer_token_in_time_keeps_the_connection_and_changes_its_roles(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the program gives it."""
    monkeypatch.setattr("reefcast.security.tokens.LEEWAY_S", 0)
    node = await broker(live, tmp_path)
    file = tmp_path / "token"
    first, second = token(seconds=4), token(seconds=600, roles=["bonds"])
    file.write_text(first)
    shown = [first, first, first]

    def fetch() -> str:
        return shown.pop()

    async def fetch_later() -> str:
        await asyncio.sleep(0)
        return later.pop()

    later = [first]
    ways: list[dict[str, Any]] = [
        {"token_file": str(file)},
        {"token": fetch},
        {"token": fetch_later},
    ]
    async with AsyncExitStack() as stack:
        lost: list[int] = []
        for way in ways:
            connecting = reefcast.connect(url(node), **way, on_disconnect=partial(lost.append, 1))
            await stack.enter_async_context(connecting)
        file.write_text(second)
        shown.extend([second, "no token"])
        later.extend([second, first])
        await until(lambda: all(each.granted == ("bonds",) for each in principals(node)))
        assert len(principals(node)) == 3 and not lost
        assert all(each.expires_at_s > time.time() + 500 for each in principals(node))
    said = [line["event"] for line in lines(tmp_path)]
    assert said.count("proved_again") == 3 and said.count("not_proved_again") == 1


async def test_a_newer_token_of_another_user_counts_for_nothing(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.security.tokens.LEEWAY_S", 0)
    node = await broker(live, tmp_path)
    tokens = [token("anna", 3), *(token("bert") for _ in range(100))]
    client = await reefcast.connect(url(node), token=lambda: tokens.pop(0))
    assert principals(node)[0].user == "anna"
    await until(lambda: any(line["event"] == "expired" for line in lines(tmp_path)))
    reasons = [line["reason"] for line in lines(tmp_path) if line["event"] == "expired"]
    assert "the newer one was refused: the newer token is that of user 'bert'" in reasons[0]
    await client._stop()


async def test_a_proof_that_nobody_asked_for_is_out_of_place(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    client = await live.dial(node, OWN)
    client.say_hello()
    await client.next(FrameKind.PROOF)
    answer = wire.frame(FrameKind.PROOF, encode_proof(Answer(Method.TOKEN, secret=token())))
    client.writer.write(answer)
    await client.next(FrameKind.HELLO)
    client.writer.write(answer)
    assert await client.reason() == "a PROOF frame came that nobody asked for"


async def test_a_program_whose_token_cannot_be_had_tries_again(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    failures = [OSError("no route"), OSError("no route")]

    def fetch() -> str:
        if failures:
            raise failures.pop()
        return token()

    async with reefcast.connect(url(node), token=fetch):
        assert principals(node)[0].user == "anna"
    with pytest.raises(reefcast.ConfigurationError, match=r"there is no proof .*ZeroDivision"):
        await reefcast.connect(url(node), token=lambda: str(1 / 0))


# --- users who come and go ------------------------------------------------------------------------


async def test_a_user_who_is_removed_is_disconnected(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    anna = await reefcast.connect(url(node), **ANNA)
    away = await live.dial(node, OWN)
    away.say_hello(features=(wire.RESUME,))
    await away.next(FrameKind.PROOF)
    shown = Answer(Method.PASSWORD, user="anna", secret=PASSWORD)
    away.writer.write(wire.frame(FrameKind.PROOF, encode_proof(shown)))
    await away.next(FrameKind.HELLO)
    away.writer.transport.abort()
    await until(lambda: node.clients.sessions[OWN.id].port.line is None)
    async with reefcast.connect(url(node), user="otto", password=PASSWORD) as otto:
        write_users(tmp_path / "users.toml", ("otto", ["bonds"]))
        await until(lambda: anna.ended)
        assert "user 'anna' was removed" in str(anna.ended)
        await until(lambda: OWN.id not in node.clients.sessions)
        (session,) = node.clients.sessions.values()
        assert session.principal.granted == ("bonds",)
        assert UserRole.ADMINISTRATOR not in session.principal.roles
        assert otto.connected


async def test_a_changed_password_ends_nothing_and_counts_at_once(
    live: Live, tmp_path: Path
) -> None:
    node = await broker(live, tmp_path)
    async with reefcast.connect(url(node), **ANNA) as client:
        write_users(tmp_path / "users.toml", ("anna", ["fx-desk"]), password=OTHER_PASSWORD)
        await until(lambda: node.authenticator.look() or seen(node))
        assert client.connected
        with pytest.raises(RefusedError, match="the user or the password is wrong"):
            await reefcast.connect(url(node), **ANNA)
        async with reefcast.connect(url(node), user="anna", password=OTHER_PASSWORD):
            assert client.connected


def seen(node: Node) -> bool:
    proving = node.authenticator
    assert isinstance(proving, Proving)
    return "otto" not in proving._users.by_name


async def test_a_token_ends_with_the_key_that_signed_it(live: Live, tmp_path: Path) -> None:
    """Who has a newer one comes back with it."""
    node = await broker(live, tmp_path)
    keys = tmp_path / "tokens.key"
    async with (
        reefcast.connect(url(node), token=token("bert", seconds=86_400)) as bert,
        reefcast.connect(url(node), **ANNA) as anna,
    ):
        keys.write_text(f"{TOKEN_SECRET}\n")  # the same one, written in another way
        proving = node.authenticator
        assert isinstance(proving, Proving) and proving._tokens_file is not None
        watched = proving._tokens_file
        await until(lambda: watched._seen[1] == len(TOKEN_SECRET) + 1)
        assert bert.connected
        keys.write_text(TOKEN_SECRET[::-1])
        with pytest.raises(RefusedError, match="signed by none of the keys"):
            async for _ in await bert.subscribe("x > 0"):
                pass
        assert anna.connected
        sessions = node.clients.sessions.values()
        assert [each.principal.user for each in sessions if each.port.line] == ["anna"]
    reasons = [line["reason"] for line in lines(tmp_path) if "reason" in line]
    assert any("the key that signed the token of user 'bert' was removed" in r for r in reasons)


async def test_a_user_who_is_removed_while_its_password_is_checked_stays_out(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, began = threading.Event(), threading.Event()

    def slow(password: str, known: str) -> bool:
        began.set()
        assert go.wait(PATIENCE_S)
        return is_password(password, known)

    monkeypatch.setattr(checking, "is_password", slow)
    node = await broker(live, tmp_path)
    anna = asyncio.ensure_future(opened(node, ANNA))
    otto = asyncio.ensure_future(opened(node, {"user": "otto", "password": PASSWORD}))
    await until(began.is_set)
    file = tmp_path / "users.toml"
    change_users(
        file, lambda users: [replace(each, roles=["x"]) for each in users if each.name != "anna"]
    )
    await until(lambda: "anna" not in node.authenticator._users.by_name)  # type: ignore[attr-defined]  # it is read
    go.set()
    with pytest.raises(RefusedError, match="the user or the password is wrong"):
        await anna
    async with await otto:
        assert [each.granted for each in principals(node)] == [("x",)]


async def test_a_users_file_that_is_wrong_changes_nothing(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = await broker(live, tmp_path)
    async with reefcast.connect(url(node), **ANNA) as client:
        (tmp_path / "users.toml").write_text("[[user]]\nname = 5\n")
        await until(lambda: "users and keys stay as they were" in caplog.text)
        assert client.connected
        async with reefcast.connect(url(node), **ANNA):
            assert len(principals(node)) == 2
    assert caplog.text.count("users and keys stay as they were") == 1


# --- failures -------------------------------------------------------------------------------------


async def test_failures_are_counted_and_slowed_down(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who shows something right that cannot be guessed is let in meanwhile."""
    for name in ("FIRST_PAUSE_S", "ADDRESS_PAUSE_S"):
        monkeypatch.setattr(f"reefcast.security.attempts.{name}", 1000.0)
    node = await broker(live, tmp_path)
    wrong = {"user": "anna", "password": OTHER_PASSWORD}
    for _ in range(3):
        with pytest.raises(RefusedError, match="password is wrong"):
            await reefcast.connect(url(node), **wrong)
    # Somebody else at this address may be who fails: so a client that was connected tries on.
    for shown in (wrong, ANNA):
        with pytest.raises(ConnectionLostError, match=r"too many attempts .* again in \d+ s"):
            await reefcast.connect(url(node), **shown, connect_timeout_s=0.1)
    with pytest.raises(RefusedError, match="no signed JWT"):
        await reefcast.connect(url(node), token="abc")
    async with reefcast.connect(url(node), token=token()):
        counters = (await status(node))["counters"]
    assert counters["proofs_failed"] == 4 and counters["proofs_slowed"] >= 3


async def test_an_attempt_waits_after_others_failed(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.security.attempts.FREE", 0)
    monkeypatch.setattr("reefcast.security.attempts.FIRST_PAUSE_S", 0.4)
    node = await broker(live, tmp_path)
    with pytest.raises(RefusedError, match="password is wrong"):
        await reefcast.connect(url(node), user="anna", password=OTHER_PASSWORD)
    began_s = time.monotonic()
    async with reefcast.connect(url(node), **ANNA):
        assert time.monotonic() - began_s >= 0.4  # as there is a pause for the user, too
    assert (await status(node))["counters"]["proofs_slowed"] == 1


async def test_a_password_that_was_right_is_not_hashed_again(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []

    def counting(password: str, known: str) -> bool:
        hashed.append(known)
        return is_password(password, known)

    monkeypatch.setattr(checking, "is_password", counting)
    node = await broker(live, tmp_path)
    for _ in range(3):
        async with reefcast.connect(url(node), **ANNA):
            pass
    assert len(hashed) == 1
    for user in ("anna", "nina", "nina"):
        with pytest.raises(RefusedError):
            await reefcast.connect(url(node), user=user, password=OTHER_PASSWORD)
    assert len(hashed) == 4
    assert {cost_of(known) for known in hashed} == {CHEAP}
    assert hashed[1] != hashed[2] == hashed[3]


async def test_hashing_holds_nobody_up_and_only_some_wait_for_it(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, began = threading.Event(), threading.Event()

    def slow(password: str, known: str) -> bool:
        began.set()
        assert go.wait(PATIENCE_S)
        return is_password(password, known)

    monkeypatch.setattr(checking, "is_password", slow)
    monkeypatch.setattr(checking, "MOST_WAITING", 2)
    node = await broker(live, tmp_path)
    waiting = [asyncio.ensure_future(opened(node, ANNA)) for _ in range(2)]
    await until(began.is_set)
    await until(lambda: node.authenticator._passwords._waiting == 2)  # type: ignore[attr-defined]  # all wait
    with pytest.raises(ConnectionLostError, match="too many passwords are being checked"):
        await reefcast.connect(url(node), **ANNA, connect_timeout_s=0.5)
    async with reefcast.connect(url(node), token=token("bert")) as bert:
        subscription = await bert.subscribe("x > 0")
        await bert.publish(x=1)
        assert (await anext(subscription))["x"] == 1
    assert not any(each.done() for each in waiting)
    go.set()
    for each in waiting:
        await (await each).close()


# --- the audit log --------------------------------------------------------------------------------


async def test_a_flood_of_connections_does_not_fill_the_audit_log(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.security.audit.MOST_LINES", 3)
    monkeypatch.setattr("reefcast.security.audit.PERIOD_S", 1e9)
    node = await broker(live, tmp_path, anonymous=["guest"])
    node.host.audit.tick(0.0)
    for _ in range(10):
        async with reefcast.connect(url(node)):
            pass
    await until(lambda: not principals(node))
    await node.stop()
    said = [(line["event"], line.get("of"), line.get("count")) for line in lines(tmp_path)]
    assert sorted(said) == [
        *[("connected", None, None)] * 3,
        *[("disconnected", None, None)] * 3,
        *(("left_out", of, 7) for of in ("connected", "disconnected")),
    ]


async def test_the_audit_log_says_who_connected_how_and_what_was_refused(
    live: Live, tmp_path: Path
) -> None:
    node = await broker(live, tmp_path)
    async with reefcast.connect(url(node), **ANNA, name="desk") as client:
        name = client.id
        with pytest.raises(RefusedError):
            await client.subscribe("topic = '$reefcast/session/created'")
    with pytest.raises(RefusedError):
        await reefcast.connect(url(node), user="nina", password=OTHER_PASSWORD)
    with pytest.raises(RefusedError):
        await reefcast.connect(url(node), user="anna", password=OTHER_PASSWORD)
    await until(lambda: any(line["event"] == "disconnected" for line in lines(tmp_path)))
    said = [
        {k: v for k, v in line.items() if k not in ("at", "broker")} for line in lines(tmp_path)
    ]
    anna = {
        "role": "client",
        "name": name,
        "user": "anna",
        "proof": "password",
        "roles": ["fx-desk"],
        "address": "127.0.0.1",
        "tls": False,
    }
    connected, subscription, *rest = said
    assert connected == {"event": "connected", **anna}
    assert subscription["event"] == "subscription_refused" and subscription["user"] == "anna"
    assert "advisory events are for administrators" in subscription["reason"]
    assert {"event": "disconnected", **anna} in rest
    unknown, refused = (line for line in rest if line["event"] == "refused")
    assert "tried" not in unknown and refused.pop("tried") == "anna"
    assert refused.pop("name").startswith("client-")
    assert refused == {
        "event": "refused",
        "role": "client",
        "address": "127.0.0.1",
        "tls": False,
        "reason": "the user or the password is wrong",
    }


async def test_no_secret_is_written_anywhere(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is right or wrong: not into logs, the status, errors, or the audit log."""
    caplog.set_level(logging.DEBUG)
    network = secured(tmp_path, 2)
    for name in network.names:
        await live.node(network, name)
    await linked(live.nodes.values())
    node = live.nodes["b1"]
    (tmp_path / "other.key").write_text(KEY[::-1])
    right, expired = token(), token(seconds=-100)
    wrong = right[:-6] + "AAAAAA"
    errors, own = [], []
    for options in (
        ANNA,
        {"user": "anna", "password": OTHER_PASSWORD},
        {"user": OTHER_PASSWORD, "password": "x"},
        *({"token": each} for each in (right, expired, wrong, OTHER_PASSWORD)),
        *({"network_key": str(tmp_path / name)} for name in ("network.key", "other.key")),
    ):
        try:
            async with reefcast.connect(url(node), **options) as client:
                own += [session_of(client).hello().secret, session_of(client).hello().session]
                await client.publish(x=1)
        except reefcast.ReefcastError as error:
            errors.append(str(error))
    assert len(errors) == 6
    for payload in (b"\xff" + PASSWORD.encode(), b"\x81\xa6secret" + PASSWORD.encode()):
        garbler = await live.dial(node, OWN)
        garbler.say_hello()
        await garbler.next(FrameKind.PROOF)
        garbler.writer.write(wire.frame(FrameKind.PROOF, payload))
        errors.append(await garbler.reason())
    found = json.dumps([lines(tmp_path), await status(node), errors]) + caplog.text
    hashes = [entry.hash for entry in read_users(tmp_path / "users.toml").by_name.values()]
    secrets = (PASSWORD, KEY, KEY[::-1], TOKEN_SECRET, right, expired, wrong, *hashes)
    parts = [part for each in (right, expired, wrong) for part in each.split(".")[1:]]
    assert own
    assert not [each for each in (*secrets, *parts, *own) if each in found]
    assert OTHER_PASSWORD not in found  # also where it stands for a user's name
    assert "the user or the password is wrong" in found


# --- with roles -----------------------------------------------------------------------------------


async def test_roles_come_from_users_and_tokens_and_change_while_a_client_is_connected(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.security.tokens.LEEWAY_S", 0)
    network = secured(tmp_path)
    network.role = [
        RoleEntry(name="fx-desk", publish="desk = 'fx'", subscribe="desk = 'fx'"),
        RoleEntry(name="bonds", publish="desk = 'bonds'", subscribe="desk = ${claims.desk}"),
        RoleEntry(name="operator", rights=["status", "move"]),
    ]
    write_users(tmp_path / "users.toml", ("anna", ["fx-desk"]), ("otto", ["operator"]))
    node = await live.node(network.validate(), "b1")
    address, shown = network.address("b1"), [token("bert", 3, roles=["fx-desk"])]
    async with (
        reefcast.connect(url(node), network_key=str(tmp_path / "network.key")) as feed,
        reefcast.connect(url(node), **ANNA) as anna,
        reefcast.connect(url(node), token=lambda: shown[-1]) as bert,
    ):
        shown.append(token("bert", 600, roles=["bonds"], desk="bonds"))
        seen: dict[str, list[str]] = {"anna": [], "bert": []}

        async def read(name: str, client: reefcast.Client) -> None:
            async for event in await client.subscribe("TRUE"):
                seen[name].append(str(event["desk"]))

        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(read(*each)) for each in (("anna", anna), ("bert", bert))]
            await until(lambda: all(p.granted for p in principals(node) if p.proof != "key"))

            async def feed_until(name: str, desk: str) -> None:
                async with asyncio.timeout(60):
                    while desk not in seen[name]:
                        for each in ("fx", "bonds"):
                            await feed.publish(desk=each)
                        await asyncio.sleep(0.05)

            await feed_until("anna", "fx")
            await feed_until("bert", "bonds")  # with the newer token
            assert set(seen["anna"]) == {"fx"}
            with pytest.raises(RefusedError):
                await anna.publish(desk="bonds")
                await anna.flush()
            write_users(tmp_path / "users.toml", ("anna", []), ("otto", ["operator"]))
            await until(lambda: not granted(node, "anna"))
            count = len(seen["anna"])
            await feed_until("bert", "bonds")
            for _ in range(5):
                await feed.publish(desk="fx")
            await feed.flush()
            with pytest.raises(RefusedError):
                await anna.publish(desk="fx")
                await anna.flush()
            assert len(seen["anna"]) == count
            for task in reading:
                task.cancel()
    otto = Password("otto", lambda: PASSWORD)
    assert (await ask_status(*address, credentials=otto))["broker"] == "b1"
    with pytest.raises(RefusedError, match="user 'anna' has no right to 'status' here"):
        await ask_status(*address, credentials=Password("anna", lambda: PASSWORD))


def granted(node: Node, user: str) -> tuple[str, ...]:
    return next(each.granted for each in principals(node) if each.user == user)
