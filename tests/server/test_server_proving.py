"""Who may connect where the network file has a [security] section, and as whom."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from live_brokers import Live

import reefcast
from live_networks import PATIENCE_S, linked, make_network, until, url_of
from reefcast.errors import ProtocolError, RefusedError
from reefcast.model import wire
from reefcast.model.wire import FrameKind, Role
from reefcast.network.sections import (
    CertificateEntry,
    RoleEntry,
    SecuritySection,
    StorageEntry,
    TlsSection,
)
from reefcast.protocol.principal import ALL_ROLES, Principal, UserRole
from reefcast.protocol.proofs import (
    Answer,
    Circumstances,
    Confirmation,
    Credentials,
    Method,
    Question,
    Respondent,
    answer_with_key,
    confirm_key,
    decode_asked,
    encode_proof,
    has_key,
    is_confirmed,
)
from reefcast.security import checking
from reefcast.security.credentials import NetworkKey, Password, Token
from reefcast.security.passwords import cost_of, is_password
from reefcast.security.showing import circumstances
from reefcast.security.users import read_users
from reefcast.server.admin import admin_connection, ask_status
from reefcast.server.certified import OF_PROVED, Certified
from reefcast.server.floods import Floods
from reefcast.server.greeting import Greeting
from reefcast.server.node import Node
from reefcast.server.peer import Peer
from reefcast.server.proving import Proving
from reefcast.server.supervisor import free_ports, overlay_status
from reefcast.tls.identity import broker_uri, peer_uri, storage_uri
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
from tls_files import Office

ANNA = {"user": "anna", "password": PASSWORD}


async def broker(live: Live, folder: Path, **section: Any) -> Node:
    return await live.node(secured(folder, **section), "b1")


def url(node: Node) -> str:
    return url_of(node.network, node.name)


def principals(node: Node) -> list[Principal]:
    return [session.principal for session in node.clients.sessions.values()]


def lines(folder: Path, broker: str = "b1") -> list[dict[str, Any]]:
    """The audit log."""
    text = (folder / "audit" / f"{broker}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


# --- clients --------------------------------------------------------------------------------------


async def test_a_user_with_its_password_is_let_in_as_that_user(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    async with reefcast.connect(url(node), **ANNA) as client:
        assert principals(node) == [
            Principal("anna", frozenset({UserRole.CLIENT}), "password", ("fx-desk",))
        ]
        subscription = await client.subscribe("x > 0")
        await client.publish(x=1)
        assert (await anext(subscription))["x"] == 1


async def test_a_user_with_a_token_is_let_in_with_its_claims(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    shown = token("bert", desk="fx")
    async with reefcast.connect(url(node), token=shown):
        (principal,) = principals(node)
        assert (principal.user, principal.proof) == ("bert", "token")
        assert principal.granted == ("fx-desk",)
        assert principal.claims["desk"] == "fx"
        assert principal.expires_at_s == pytest.approx(principal.claims["exp"] + 10)


async def test_who_shows_the_networks_key_is_a_part_of_it(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    async with reefcast.connect(url(node), network_key=str(tmp_path / "network.key")):
        (principal,) = principals(node)
        assert principal == Principal("$network", ALL_ROLES, "key")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "asks who this is, and nothing is shown"),
    ({"user": "anna", "password": OTHER_PASSWORD}, "the user or the password is wrong"),
    ({"user": "nina", "password": PASSWORD}, "the user or the password is wrong"),
    ({"user": "anna", "password": PASSWORD * 100}, "the user or the password is wrong"),
    ({"user": "", "token": "abc"}, "no signed JWT"),
    ({"token": "expired"}, "the token has expired"),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED, ids=[s for _, s in REFUSED])
async def test_who_proves_nothing_is_refused_with_a_sentence(
    live: Live, tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    if options.get("token") == "expired":
        options = {"token": token(seconds=-11)}
    node = await broker(live, tmp_path)
    with pytest.raises(RefusedError, match=sentence):
        await reefcast.connect(url(node), **options)
    assert not node.clients.sessions
    assert (await status(node))["counters"]["proofs_failed"] == 1


async def status(node: Node) -> dict[str, Any]:
    return await ask_status(*node.network.address(node.name), credentials=NetworkKey(KEY.encode()))


async def test_another_key_of_the_network_proves_nothing(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    (tmp_path / "other.key").write_text(KEY[::-1])
    with pytest.raises(RefusedError, match="has another key of the network than broker b1"):
        await reefcast.connect(url(node), network_key=str(tmp_path / "other.key"))


async def test_clients_may_be_anonymous_where_the_network_file_says_so(
    live: Live, tmp_path: Path
) -> None:
    node = await broker(live, tmp_path, anonymous=["guest"])
    async with reefcast.connect(url(node)):
        assert principals(node) == [
            Principal("anonymous", frozenset({UserRole.CLIENT}), "nothing", ("guest",))
        ]
    with pytest.raises(RefusedError, match="the user or the password is wrong"):
        await reefcast.connect(url(node), user="anna", password=OTHER_PASSWORD)


async def test_a_client_is_told_what_the_broker_would_accept(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path, tokens="")
    with pytest.raises(RefusedError, match="accepts the network's key, a password as a proof"):
        await reefcast.connect(url(node), token=token())


async def test_a_method_that_was_not_offered_is_refused(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path, tokens="")
    client = await live.dial(node)
    client.say_hello()
    question = decode_asked(await client.next(FrameKind.PROOF))
    assert isinstance(question, Question)
    assert (question.network, question.broker) == ("test", "b1")
    answer = encode_proof(Answer(Method.TOKEN, secret=token()))
    client.writer.write(wire.frame(FrameKind.PROOF, answer))
    assert await client.reason() == "broker b1 accepts no token here"


async def test_a_storage_proves_itself_by_its_role(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    write_users(tmp_path / "users.toml", ("anna", ["fx-desk"]), ("store", ["storage"]))
    await until(lambda: "store" in node.shared.authenticator._users.by_name)  # type: ignore[attr-defined]  # the file was read
    async with reefcast.connect(url(node), user="store", password=PASSWORD):
        (principal,) = principals(node)
        assert principal.roles == {UserRole.CLIENT, UserRole.STORAGE}


# --- administrators -------------------------------------------------------------------------------


async def test_administrators_prove_themselves_like_clients(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    address = node.network.address("b1")
    with pytest.raises(RefusedError, match="asks who this is"):
        await ask_status(*address)
    anna = Password("anna", lambda: PASSWORD)
    assert (await ask_status(*address, credentials=anna))["broker"] == "b1"
    async with admin_connection(*address, credentials=anna) as asked:
        with pytest.raises(RefusedError, match=r"'anna' is not granted .*'administrator'"):
            await asked.move("b2", "b3")
    async with admin_connection(*address, credentials=Password("otto", lambda: PASSWORD)) as asked:
        with pytest.raises(RefusedError, match=r"(?!.*granted)"):
            await asked.move("b2", "b3")
    said = [line for line in lines(tmp_path) if line["event"] == "wish_refused"]
    assert [(line["user"], line["wish"], line["old"]) for line in said] == [
        ("anna", "MoveLink", "b2"),
        ("otto", "MoveLink", "b2"),
    ]


async def test_a_token_serves_an_administrator(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    shown = Token(lambda: token(roles="administrator other"))
    async with admin_connection(*node.network.address("b1"), credentials=shown) as asked:
        await asked.status()
        (connection,) = (each for each in node.shared.all if each.principal.user)
        assert UserRole.ADMINISTRATOR in connection.principal.roles


# --- brokers and peers ----------------------------------------------------------------------------


async def test_brokers_with_the_same_key_link(live: Live, tmp_path: Path) -> None:
    network = secured(tmp_path, 3)
    for name in network.names:
        await live.node(network, name)
    await linked(live.nodes.values())
    users = {
        (node.name, name): link.principal
        for node in live.nodes.values()
        for name, link in node.links.items()
    }
    assert users == {
        pair: Principal(pair[1], ALL_ROLES, "key")
        for pair in [("b1", "b2"), ("b2", "b1"), ("b2", "b3"), ("b3", "b2")]
    }
    async with (
        reefcast.connect(url_of(network, "b1"), **ANNA) as publisher,
        reefcast.connect(url_of(network, "b3"), **ANNA) as subscriber,
    ):
        subscription = await subscriber.subscribe("x > 0")
        await publisher.publish(x=1)
        assert (await anext(subscription))["x"] == 1


NO_LINK = [
    ("b1", "other", "'b1' has another key of the network than broker b2"),
    ("b1", "none", "has none"),
    ("b2", "none", "broker 'b2' did not prove that it belongs to this network"),
]


@pytest.mark.parametrize(
    ("who", "what", "sentence"), NO_LINK, ids=[f"{w} {k}" for w, k, _ in NO_LINK]
)
async def test_a_broker_with_another_key_or_none_gets_no_link(
    live: Live, tmp_path: Path, who: str, what: str, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    """b1 dials. It does not take the word of a broker that asks for nothing."""
    caplog.set_level(logging.INFO)
    network = secured(tmp_path, 2)
    (tmp_path / "other.key").write_text(KEY[::-1])
    keys = {"other": SecuritySection(key=str(tmp_path / "other.key")), "none": None}
    for name in network.names:
        seen = secured(tmp_path, 2)
        seen.broker, seen.link = network.broker, network.link
        if name == who:
            seen.security = keys[what]
        await live.node(seen, name)
    await until(lambda: sentence in caplog.text)
    states = {link.state for node in live.nodes.values() for link in node.links.values()}
    assert "up" not in states


async def test_a_client_with_the_key_demands_it_of_the_broker(live: Live, tmp_path: Path) -> None:
    """So a storage gives its history to no broker of somebody else."""
    secured(tmp_path)
    node = await live.node(make_network("a"), "a")
    with pytest.raises(reefcast.ProtocolError, match="'a' did not prove that it belongs"):
        await reefcast.connect(url(node), network_key=str(tmp_path / "network.key"))


async def test_peers_join_with_the_key(live: Live, tmp_path: Path) -> None:
    secured(tmp_path)
    key = str(tmp_path / "network.key")
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    options = {"round_s": 0.05}
    async with Peer(first, options=options, network_key=key) as one:
        with pytest.raises(reefcast.ConnectionLostError, match=r"no network to join: .* asks who"):
            await Peer(second, join=[first]).start()
        async with (
            Peer(second, join=[first], network_key=key) as other,
            reefcast.connect(one.url, network_key=key) as publisher,
            reefcast.connect(other.url, network_key=key) as subscriber,
        ):
            subscription = await subscriber.subscribe("topic = 'fx'")
            await (await publisher.subscribe("topic = 'fx'")).settled()
            await until(
                lambda: (
                    any(link.user == second for link in one.node.soft_links.links.values())
                    or any(link.user == first for link in other.node.soft_links.links.values())
                )
            )
            async with asyncio.timeout(60):
                while True:
                    await publisher.publish(topics=["fx"], x=1)
                    try:
                        async with asyncio.timeout(0.2):
                            event = await anext(subscription)
                            break
                    except TimeoutError:
                        continue
            assert event["x"] == 1
            stranger = await live.dial(one.node, f"127.0.0.1:{free_ports(1)[0]}")
            stranger.say_hello(role=Role.SOFT, network="reefcast")
            await stranger.next(FrameKind.PROOF)
            nothing = encode_proof(Answer(Method.NOTHING))
            stranger.writer.write(wire.frame(FrameKind.PROOF, nothing))
            assert "asks who this is, and nothing is shown" in await stranger.reason()


# --- no replay, no reflection ---------------------------------------------------------------------


async def test_an_answer_is_worth_nothing_on_another_connection(live: Live, tmp_path: Path) -> None:
    """Neither as it was, nor with a nonce of one's own."""
    node = await broker(live, tmp_path)
    first = await live.dial(node)
    first.say_hello()
    question = decode_asked(await first.next(FrameKind.PROOF))
    assert isinstance(question, Question)
    hello = wire.hello(Role.CLIENT, "c", "", "s")
    answer = answer_with_key(KEY.encode(), question, hello, bytes(32))
    first.writer.write(wire.frame(FrameKind.PROOF, encode_proof(answer)))
    await first.next(FrameKind.HELLO)
    for again in (answer, msgspec.structs.replace(answer, nonce=b"\1" * 32)):
        second = await live.dial(node)
        second.say_hello()
        await second.next(FrameKind.PROOF)
        second.writer.write(wire.frame(FrameKind.PROOF, encode_proof(again)))
        assert "has another key of the network" in await second.reason()


@pytest.mark.parametrize("change", ["role", "name", "session", "broker", "network", "label"])
def test_a_mac_is_for_one_pair_of_ends_in_one_direction(change: str) -> None:
    key, nonce = KEY.encode(), bytes(32)
    question = Question("net", "b", (), b"\2" * 32)
    hello = wire.hello(Role.BROKER, "a", "net", "s")
    answer = answer_with_key(key, question, hello, nonce)
    assert has_key(key, question, hello, answer)
    replace = msgspec.structs.replace
    if change == "label":
        confirmed = confirm_key(key, question, hello, answer)
        assert is_confirmed(key, question, hello, nonce, confirmed)
        assert not has_key(key, question, hello, replace(answer, mac=confirmed.mac))
        assert not is_confirmed(key, question, hello, nonce, Confirmation(answer.mac))
    elif change in ("broker", "network"):
        assert not has_key(key, replace(question, **{change: "other"}), hello, answer)
    else:
        other = Role.SOFT if change == "role" else "other"
        assert not has_key(key, question, replace(hello, **{change: other}), answer)
    assert not has_key(key, question, hello, replace(answer, nonce=b""))


async def test_a_broker_that_confirms_with_a_wrong_mac_is_not_believed() -> None:
    hello = wire.hello(Role.CLIENT, "c", "", "s")
    respondent = Respondent(NetworkKey(KEY.encode()), Circumstances(hello, False, bytes(32)))
    with pytest.raises(ProtocolError, match="confirms a key that nobody has shown"):
        respondent.respond(encode_proof(Confirmation(bytes(32))))
    respondent.respond(encode_proof(Question("net", "b", ("key",), bytes(32))))
    with pytest.raises(ProtocolError, match="broker 'b' has another key than this end"):
        respondent.respond(encode_proof(Confirmation(bytes(32))))
    with pytest.raises(ProtocolError, match="did not prove that it belongs"):
        respondent.check(wire.hello(Role.BROKER, "b", "net", "s"), known=False)
    respondent.check(wire.hello(Role.BROKER, "b", "net", "s"), known=True)


# --- where others can read ------------------------------------------------------------------------


def elsewhere(tls: dict[str, Any] | None = None, **hello: Any) -> Greeting:
    """The greeting of a connection from another machine; `tls`: with this certificate."""

    class Encrypted:
        def getpeercert(self) -> dict[str, Any] | None:
            return tls

    shown = {"peername": ("10.0.0.1", 1), "ssl_object": None if tls is None else Encrypted()}
    said = {"role": Role.CLIENT, "name": "c", "network": "", "session": "s", **hello}
    return Greeting(
        wire.hello(**said), shown=shown.get, write=lambda frame: None, go_on=lambda: None
    )


async def test_passwords_and_tokens_are_asked_for_only_where_nobody_else_reads(
    tmp_path: Path,
) -> None:
    proving = Proving(secured(tmp_path), "b1", Counter())
    assert proving._question(elsewhere()).methods == ("key",)
    assert proving._question(elsewhere({})).methods == ("key", "password", "token")
    for role in (Role.BROKER, Role.SOFT):
        assert proving._question(elsewhere({}, role=role)).methods == ("key",)
    proving.close()


@pytest.mark.parametrize("shown", [Password("anna", lambda: PASSWORD), Token(lambda: "abc")])
def test_a_client_shows_them_only_there(shown: Credentials) -> None:
    """Whatever the broker asks for."""
    question = Question("net", "b", ("password", "token"), bytes(32))
    hello = wire.hello(Role.CLIENT, "c", "", "s")
    for peer, tls, may in (("10.0.0.1", None, 0), ("10.0.0.1", object(), 1), ("::1", None, 1)):
        known = {"peername": (peer, 1), "ssl_object": tls}.get
        respondent = Respondent(shown, circumstances(hello, known))
        if may:
            assert respondent.respond(encode_proof(question))
        else:
            with pytest.raises(RefusedError, match=r"others can read .* use reefcast\+tls"):
                respondent.respond(encode_proof(question))


# --- certificates ---------------------------------------------------------------------------------


def certificate(*uris: str, host: str = "10.0.0.1", **subject: str) -> dict[str, Any]:
    """As `ssl` tells it."""
    pairs = tuple(((name, value),) for name, value in subject.items())
    names = (*(("URI", uri) for uri in uris), ("IP Address", host))
    return {"subject": pairs, "subjectAltName": names}


BILLING = certificate(organizationName="Reef, Inc.", commonName="billing")
ANNA_IS = certificate(commonName="anna")
B1_IS = certificate(broker_uri("test", "b1"), commonName="b1")
S1_IS = certificate(storage_uri("test", "s1"), commonName="s1")
PEER_IS = certificate(peer_uri("test"), commonName="peer")


@pytest.fixture
async def proving(tmp_path: Path) -> AsyncIterator[Proving]:
    network = secured(tmp_path)
    network.tls = TlsSection(certificate="c", key="k", authority="a", clients="optional")
    network.certificate = [
        CertificateEntry(subject="CN=billing, O=Reef\\, Inc.", user="billing", roles=["pay"]),
        CertificateEntry(subject="CN=anna", user="anna"),
    ]
    network.storage = [StorageEntry(name="s1", broker="b1", topics=["#"], directory="s1")]
    network.validate()
    made = Proving(network, "b1", Counter(), Certified(network, Floods(Counter())))
    yield made
    made.close()


def client_of(user: str, *granted: str) -> Principal:
    return Principal(user, frozenset({UserRole.CLIENT}), "certificate", granted)


STORAGE = frozenset({UserRole.CLIENT, UserRole.STORAGE})
BROKER, SOFT = {"role": Role.BROKER, "name": "b1"}, {"role": Role.SOFT, "name": "10.0.0.1:7"}
CERTIFICATES: list[tuple[dict[str, Any], dict[str, Any], Principal | None]] = [
    (BILLING, {}, client_of("billing", "pay")),
    (ANNA_IS, {}, client_of("anna", "fx-desk")),
    (ANNA_IS, {"role": Role.ADMIN}, client_of("anna", "fx-desk")),
    (certificate(commonName="billing"), {}, None),
    (certificate(commonName="anna", organizationName="Reef"), {}, None),
    (certificate(commonName="b1"), BROKER, None),
    (B1_IS, BROKER, Principal("b1", frozenset({UserRole.BROKER}), "certificate")),
    (B1_IS, {"role": Role.BROKER, "name": "b2"}, None),
    (B1_IS, SOFT, None),
    (PEER_IS, SOFT, Principal("10.0.0.1:7", frozenset({UserRole.PEER}), "certificate")),
    (PEER_IS, {"role": Role.SOFT, "name": "10.0.0.2:7"}, None),
    (B1_IS, {"role": Role.ADMIN}, Principal("$network", OF_PROVED, "certificate")),
    (S1_IS, {}, Principal("s1", STORAGE, "certificate")),
    (S1_IS, BROKER, None),
    (certificate(broker_uri("other", "b1")), BROKER, None),
    (certificate(broker_uri("other", "b1")), {}, None),
    ({}, {}, None),
]


@pytest.mark.parametrize(("shown", "hello", "who"), CERTIFICATES)
def test_what_a_certificate_proves(
    proving: Proving, shown: dict[str, Any], hello: dict[str, Any], who: Principal | None
) -> None:
    """Where it proves nothing, something else is asked for."""
    proved = proving.prove(elsewhere(shown, **hello))
    if who is None:
        assert inspect.iscoroutine(proved)
        proved.close()
    else:
        assert proved == who


def test_without_tls_no_certificate_proves_anything(tmp_path: Path) -> None:
    proving = Proving(secured(tmp_path), "b1", Counter())
    proved = proving.prove(elsewhere(B1_IS, **BROKER))
    assert inspect.iscoroutine(proved)
    proved.close()
    proving.close()


def test_who_dialled_takes_a_certificate_that_names_the_broker(proving: Proving) -> None:
    for shown, right in ((B1_IS, True), (certificate(broker_uri("test", "b2")), False)):
        greeting = elsewhere(shown, **BROKER)
        greeting.respondent = proving.respond(greeting.hello, greeting.shown)
        if right:
            proved = proving.prove(greeting)
            assert isinstance(proved, Principal) and proved.user == "b1"
        else:
            with pytest.raises(ProtocolError, match="did not prove that it belongs"):
                proving.prove(greeting)


def test_roles_of_a_certificate_change_with_the_users_file(
    proving: Proving, tmp_path: Path
) -> None:
    anna, *others = (
        proving.prove(elsewhere(shown, role=Role.ADMIN)) for shown in (ANNA_IS, BILLING, B1_IS)
    )
    write_users(tmp_path / "users.toml", ("anna", ["bonds"]))
    assert proving.look()
    assert isinstance(anna, Principal)
    assert proving.review(anna) == anna._replace(granted=("bonds",))
    for other in others:
        assert isinstance(other, Principal) and proving.review(other) is other


async def test_users_storages_and_brokers_over_tls(live: Live, tmp_path: Path) -> None:
    """Two brokers that have certificates and no key; a user with a password, one with a
    certificate."""
    office = Office(tmp_path)
    network = office.secured(secured(tmp_path, 2), "optional")
    assert network.security is not None
    network.security.key = ""
    network.certificate = [CertificateEntry(subject="CN=billing", user="billing", roles=["pay"])]
    for name in network.validate().names:
        await live.node(network, name)
    await linked(live.nodes.values())
    (link,) = live.nodes["b1"].links.values()
    assert link.principal == Principal("b2", frozenset({UserRole.BROKER}), "certificate")
    host, port = network.address("b1")
    tls, trust = f"reefcast+tls://{host}:{port}", {"authority": str(office.file)}
    own = office.issue("billing")._asdict()
    async with (
        reefcast.connect(tls, **trust, **ANNA),
        reefcast.connect(tls, **own),
        reefcast.connect(tls, **trust, token=token("bert")),
    ):
        users = {each.user: each.proof for each in principals(live.nodes["b1"])}
        assert users == {"anna": "password", "billing": "certificate", "bert": "token"}
    with pytest.raises(RefusedError, match="asks who this is, and nothing is shown"):
        await reefcast.connect(tls, **trust)
    assert {line["tls"] for line in lines(tmp_path)} == {True}
    answers = await overlay_status(network)
    assert all(answer is not None for answer in answers.values())


# --- a token that expires -------------------------------------------------------------------------


async def test_a_connection_ends_when_its_token_expires(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.security.tokens.LEEWAY_S", 0)
    node = await broker(live, tmp_path)
    client = await reefcast.connect(url(node), token=token(seconds=0.5))
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
    first, second = token(seconds=1.5), token(seconds=600, roles=["bonds"])
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
    tokens = [token("anna", 1.2), *(token("bert") for _ in range(100))]
    client = await reefcast.connect(url(node), token=lambda: tokens.pop(0))
    assert principals(node)[0].user == "anna"
    await until(lambda: any(line["event"] == "expired" for line in lines(tmp_path)))
    reasons = [line["reason"] for line in lines(tmp_path) if line["event"] == "expired"]
    assert "the newer one was refused: the newer token is that of user 'bert'" in reasons[0]
    await client._stop()


async def test_a_proof_that_nobody_asked_for_is_out_of_place(live: Live, tmp_path: Path) -> None:
    node = await broker(live, tmp_path)
    client = await live.dial(node)
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
    away = await live.dial(node, "away")
    away.say_hello(features=(wire.RESUME,))
    await away.next(FrameKind.PROOF)
    shown = Answer(Method.PASSWORD, user="anna", secret=PASSWORD)
    away.writer.write(wire.frame(FrameKind.PROOF, encode_proof(shown)))
    await away.next(FrameKind.HELLO)
    away.writer.transport.abort()
    await until(lambda: node.clients.sessions["away"].port.line is None)
    async with reefcast.connect(url(node), user="otto", password=PASSWORD) as otto:
        write_users(tmp_path / "users.toml", ("otto", ["bonds"]))
        await until(lambda: anna.ended)
        assert "user 'anna' was removed" in str(anna.ended)
        await until(lambda: "away" not in node.clients.sessions)
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
        await until(lambda: node.shared.authenticator.look() or seen(node))
        assert client.connected
        with pytest.raises(RefusedError, match="the user or the password is wrong"):
            await reefcast.connect(url(node), **ANNA)
        async with reefcast.connect(url(node), user="anna", password=OTHER_PASSWORD):
            assert client.connected


def seen(node: Node) -> bool:
    proving = node.shared.authenticator
    assert isinstance(proving, Proving)
    return "otto" not in proving._users.by_name


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
    monkeypatch.setattr("reefcast.security.attempts.FIRST_PAUSE_S", 1.0)
    node = await broker(live, tmp_path)
    for _ in range(3):
        with pytest.raises(RefusedError, match="password is wrong"):
            await reefcast.connect(url(node), user="anna", password=OTHER_PASSWORD)
    assert (await status(node))["counters"]["proofs_failed"] == 3
    began_s = time.monotonic()
    refusals = await asyncio.gather(*(refusal(node) for _ in range(6)))
    took_s = time.monotonic() - began_s
    late = [each for each in refusals if "try again in" in each]
    # The others would wait for longer than an attempt may.
    assert took_s >= 1 and 3 <= len(late) < 6
    counters = (await status(node))["counters"]
    assert counters["proofs_failed"] == 3 + 6 - len(late)
    assert counters["proofs_slowed"] >= len(late)


async def refusal(node: Node) -> str:
    with pytest.raises(RefusedError) as refused:
        await reefcast.connect(url(node), user="anna", password=OTHER_PASSWORD)
    return str(refused.value)


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
    await until(lambda: node.shared.authenticator._passwords._waiting == 2)  # type: ignore[attr-defined]  # all wait
    with pytest.raises(RefusedError, match="too many passwords are being checked"):
        await opened(node, ANNA)
    async with reefcast.connect(url(node), token=token("bert")) as bert:
        subscription = await bert.subscribe("x > 0")
        await bert.publish(x=1)
        assert (await anext(subscription))["x"] == 1
    assert not any(each.done() for each in waiting)
    go.set()
    for each in waiting:
        await (await each).close()


async def opened(node: Node, options: dict[str, str]) -> reefcast.Client:
    return await reefcast.connect(url(node), **options)


# --- the audit log --------------------------------------------------------------------------------


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
    errors = []
    for options in (
        ANNA,
        {"user": "anna", "password": OTHER_PASSWORD},
        {"user": OTHER_PASSWORD, "password": "x"},
        *({"token": each} for each in (right, expired, wrong, OTHER_PASSWORD)),
        *({"network_key": str(tmp_path / name)} for name in ("network.key", "other.key")),
    ):
        try:
            async with reefcast.connect(url(node), **options) as client:
                await client.publish(x=1)
        except reefcast.ReefcastError as error:
            errors.append(str(error))
    assert len(errors) == 6
    for payload in (b"\xff" + PASSWORD.encode(), b"\x81\xa6secret" + PASSWORD.encode()):
        garbler = await live.dial(node)
        garbler.say_hello()
        await garbler.next(FrameKind.PROOF)
        garbler.writer.write(wire.frame(FrameKind.PROOF, payload))
        errors.append(await garbler.reason())
    found = json.dumps([lines(tmp_path), await status(node), errors]) + caplog.text
    hashes = [entry.hash for entry in read_users(tmp_path / "users.toml").by_name.values()]
    secrets = (PASSWORD, KEY, KEY[::-1], TOKEN_SECRET, right, expired, wrong, *hashes)
    parts = [part for each in (right, expired, wrong) for part in each.split(".")[1:]]
    assert not [each for each in (*secrets, *parts) if each in found]
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
    address, shown = network.address("b1"), [token("bert", 1.0, roles=["fx-desk"])]
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
