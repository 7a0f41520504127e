"""Who may connect where the network file has a [security] section, and as whom."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from live_brokers import Live
from msgspec.structs import replace
from raw_client import OWN
from secured_brokers import ANNA, broker, lines, principals, status, url

import reefcast
from live_networks import linked, make_network, until, url_of
from reefcast.errors import ConfigurationError, ProtocolError, RefusedError
from reefcast.model import wire
from reefcast.model.wire import FrameKind, Role
from reefcast.network.file import NetworkFile
from reefcast.network.sections import (
    CertificateEntry,
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
from reefcast.security.credentials import NetworkKey, Password, Token
from reefcast.security.showing import circumstances
from reefcast.server.admin import admin_connection, ask_status
from reefcast.server.certified import OF_PROVED, Certified
from reefcast.server.floods import Floods
from reefcast.server.greeting import Greeting
from reefcast.server.peer import Peer
from reefcast.server.proving import Proving
from reefcast.server.supervisor import free_ports, overlay_status
from reefcast.tls.identity import broker_uri, peer_uri, storage_uri
from secured import (
    KEY,
    OTHER_PASSWORD,
    PASSWORD,
    secured,
    token,
    write_users,
)
from tls_files import Office

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


@pytest.mark.parametrize("shown", [{"user": "a" * 201}, {"secret": "a" * 16_385}])
async def test_what_is_too_long_for_a_name_or_a_secret_is_not_remembered(
    live: Live, tmp_path: Path, shown: dict[str, str]
) -> None:
    """Ten thousand names that failed are kept, for ten minutes."""
    node = await broker(live, tmp_path)
    stranger = await live.dial(node)
    stranger.say_hello()
    await stranger.next(FrameKind.PROOF)
    answer = encode_proof(Answer(Method.PASSWORD, **shown))
    stranger.writer.write(wire.frame(FrameKind.PROOF, answer))
    assert "which are the most here" in await stranger.reason()
    proving = node.authenticator
    assert isinstance(proving, Proving)
    assert not proving._attempts.remembered


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
    await until(lambda: "store" in node.authenticator._users.by_name)  # type: ignore[attr-defined]  # the file was read
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
    # A broker without [security] takes anybody, for as long as the other end stays.
    asking = [node for node in live.nodes.values() if node.network.security is not None]
    assert "up" not in {link.state for node in asking for link in node.links.values()}


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
    first = await live.dial(node, OWN)
    first.say_hello()
    question = decode_asked(await first.next(FrameKind.PROOF))
    assert isinstance(question, Question)
    hello = wire.hello(Role.CLIENT, OWN.id, "", "s")
    answer = answer_with_key(KEY.encode(), question, hello, bytes(32))
    first.writer.write(wire.frame(FrameKind.PROOF, encode_proof(answer)))
    await first.next(FrameKind.HELLO)
    for again in (answer, msgspec.structs.replace(answer, nonce=b"\1" * 32)):
        second = await live.dial(node, OWN)
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


async def test_who_listens_in_a_brokers_place_gets_no_answer_for_another_one(
    live: Live, tmp_path: Path
) -> None:
    """It could pass on the question of a third broker, and be taken there for who dialled."""
    network = secured(tmp_path, 3)
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = Question(network.network.name, "b3", ("key",), bytes(32))
        writer.write(wire.frame(FrameKind.PROOF, encode_proof(question)))
        answers.put_nowait(await reader.read())
        writer.close()

    server = await asyncio.start_server(listen, *network.address("b2"))
    async with server:
        node = await live.node(network, "b1")
        assert node.links["b2"].dials
        said = await answers.get()
    assert b"was dialled, and" in said and b"answer" not in said


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
    (certificate(storage_uri("test", "not in the file"), commonName="s9"), {}, None),
    (PEER_IS, {}, None),
    (certificate(broker_uri("other", "b1")), BROKER, None),
    (certificate(broker_uri("other", "b1")), {}, None),
    ({}, {}, None),
]


@pytest.mark.parametrize(("shown", "hello", "who"), CERTIFICATES)
def test_what_a_certificate_proves(
    proving: Proving, shown: dict[str, Any], hello: dict[str, Any], who: Principal | None
) -> None:
    """Where it proves nothing, clients are asked for something else; brokers are refused."""
    if who is None and hello.get("role") in (Role.BROKER, Role.SOFT):
        with pytest.raises(ProtocolError, match="says that it is a broker"):
            proving.prove(elsewhere(shown, **hello))
        return
    proved = proving.prove(elsewhere(shown, **hello))
    if who is None:
        assert inspect.iscoroutine(proved)
        proved.close()
    else:
        assert isinstance(proved, Principal) and proved._replace(signed_by="") == who


def test_without_tls_no_certificate_proves_anything(tmp_path: Path) -> None:
    proving = Proving(secured(tmp_path), "b1", Counter())
    proved = proving.prove(elsewhere(B1_IS, **BROKER))
    assert inspect.iscoroutine(proved)
    proved.close()
    proving.close()


def test_who_dialled_takes_a_certificate_that_names_the_broker(proving: Proving) -> None:
    for shown, right in ((B1_IS, True), (certificate(broker_uri("test", "b2")), False)):
        greeting = elsewhere(shown, **BROKER)
        greeting.respondent = proving.respond(greeting.hello, greeting.shown, greeting.hello.name)
        if right:
            proved = proving.prove(greeting)
            assert isinstance(proved, Principal) and proved.user == "b1"
        else:
            with pytest.raises(ProtocolError, match="'b1' says that it is a broker"):
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


def test_what_the_network_file_says_by_now_counts(proving: Proving, tmp_path: Path) -> None:
    """Other certificates, and who proves nothing; what failed before is still known."""
    anna, billing, part = (
        proving.prove(elsewhere(shown, role=Role.ADMIN)) for shown in (ANNA_IS, BILLING, B1_IS)
    )
    guest = Principal("anonymous", frozenset({UserRole.CLIENT}), "nothing", ("guest",))
    owner = Principal("billing", frozenset({UserRole.CLIENT}), "certificate", ("pay",))
    network = secured(tmp_path, anonymous=["guest"])
    network.tls = TlsSection(certificate="c", key="k", authority="a", clients="optional")
    network.certificate = [CertificateEntry(subject="CN=anna", user="anna", roles=["bonds"])]
    now = proving.for_network(network)
    assert isinstance(anna, Principal) and isinstance(billing, Principal)
    assert isinstance(part, Principal)
    assert now.review(anna) == anna._replace(granted=("bonds",))
    assert now.review(billing) is None and now.review(owner) is None
    assert now.review(part) is part and now.review(guest) is guest
    assert proving.review(owner) is owner and proving.review(guest) is None
    assert now._attempts is proving._attempts and now._passwords is proving._passwords
    # The same certificate, of another user now.
    network.certificate = [CertificateEntry(subject="CN=anna", user="otto")]
    assert now.for_network(network).review(anna) is None
    network.security = replace(network.security, users=str(tmp_path / "none.toml"))
    with pytest.raises(ConfigurationError, match=r"none\.toml cannot be read"):
        now.for_network(network)


async def test_users_storages_and_brokers_over_tls(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert await asked_by(network, tmp_path) == {"$network"}
    monkeypatch.setenv("REEFCAST_USER", ANNA["user"])
    monkeypatch.setenv("REEFCAST_PASSWORD", ANNA["password"])
    assert await asked_by(network, tmp_path) == {"anna"}, "not the broker, whose key is at hand"


async def asked_by(network: NetworkFile, folder: Path) -> set[str]:
    """Return as whom the brokers saw an operator who has just asked for the status."""
    before = len(lines(folder))
    answers = await overlay_status(network)
    assert all(answer is not None for answer in answers.values())
    fresh = lines(folder)[before:]
    return {
        each["user"] for each in fresh if (each["event"], each["role"]) == ("connected", "admin")
    }
