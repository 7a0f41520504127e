"""Peers, soft links and administration over TLS; what a certificate permits."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live

import reefcast
from live_networks import PATIENCE_S, make_network, path_network
from reefcast.client.client import session_of
from reefcast.errors import (
    ConfigurationError,
    ConnectionLostError,
    RefusedError,
    TlsError,
)
from reefcast.history.messages import Stores
from reefcast.protocol.principal import UserRole
from reefcast.server.admin import admin_connection, ask_status, asking
from reefcast.server.certified import UNNAMED, UNNAMED_HERE, Certified
from reefcast.server.floods import Floods
from reefcast.server.peer import Peer
from reefcast.server.supervisor import free_ports, overlay_status
from reefcast.tls.credentials import Asking, asking_context
from reefcast.tls.files import TlsFiles
from reefcast.tls.identity import Identity, peer_uri, storage_uri
from tls_files import HERE, Office


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AUTHORITY", "CERTIFICATE", "KEY", "SERVER_NAME"):
        monkeypatch.delenv(f"REEFCAST_{name}", raising=False)


def named(files: TlsFiles) -> dict[str, Any]:
    return files._asdict()


# --- peers ----------------------------------------------------------------------------------------


async def test_peers_and_brokers_of_one_network(live: Live, office: Office) -> None:
    """The peer dials brokers, and brokers dial the peer."""
    options = {"contacts": ["a", "b"], "round_s": 0.05}
    network = office.secured(make_network("ab", routing="gossip", options=options))
    await live.up(network)
    host, port = network.address("b")
    name = f"127.0.0.1:{free_ports(1)[0]}"
    files = office.issue("peer", peer_uri("test"), HERE)
    url = f"reefcast+tls://{host}:{port}"
    trust = str(office.file)
    async with (
        Peer(name, join=[f"{host}:{port}"], **named(files)) as peer,
        reefcast.connect(peer.url, authority=trust) as here,
        reefcast.connect(url, authority=trust) as there,
    ):
        assert peer.url == f"reefcast+tls://{name}"
        at_peer = await here.subscribe("topic = 'fx'")
        at_broker = await there.subscribe("topic = 'fx'")
        await here.publish(n=1, topics=["fx"])
        await there.publish(n=2, topics=["fx"])
        for subscription in (at_peer, at_broker):
            async with asyncio.timeout(PATIENCE_S):
                assert {(await anext(subscription))["n"] for _ in range(2)} == {1, 2}


async def test_a_peer_needs_the_certificate_of_one(live: Live, office: Office) -> None:
    options = {"contacts": ["a"], "round_s": 0.05}
    network = office.secured(make_network("a", routing="gossip", options=options))
    await live.up(network)
    place = network.entry("a").listen
    client, elsewhere = office.issue("c"), office.issue("far", peer_uri("test"), ["10.0.0.1"])
    with pytest.raises(ConfigurationError, match="needs the URI reefcast://test/peer"):
        await Peer("127.0.0.1:1", join=[place], **named(office.issue("c2", "", HERE))).start()
    with pytest.raises(ConfigurationError, match=r"good for both ends of a connection"):
        await Peer("127.0.0.1:1", join=[place], **named(client)).start()
    with pytest.raises(ConfigurationError, match=r"is not for 127\.0\.0\.1, where the peer"):
        await Peer("127.0.0.1:1", join=[place], **named(elsewhere)).start()
    with pytest.raises(ConnectionLostError, match="speaks TLS"):
        await Peer("127.0.0.1:1", join=[place]).start()


def test_with_a_certificate_a_peer_may_be_reached_from_elsewhere(office: Office) -> None:
    files = office.issue("far", peer_uri("reefcast"), ["10.0.0.1"])
    Peer("10.0.0.1:7301", **named(files))
    with pytest.raises(ConfigurationError, match="there is no encryption: give a certificate"):
        Peer("10.0.0.1:7301")


# --- administration -------------------------------------------------------------------------------


async def test_operators_ask_the_broker_that_they_mean(live: Live, office: Office) -> None:
    network = office.secured(path_network(2))
    await live.up(network)
    answers = await overlay_status(network)
    assert {name: answer and answer["broker"] for name, answer in answers.items()} == {
        "b1": "b1",
        "b2": "b2",
    }
    other = asking(network, "b2")
    assert other is not None
    with pytest.raises(TlsError, match=r"what answers for broker b2 shows .* of CN=b1"):
        await ask_status(*network.address("b1"), tls=other)


async def test_operators_may_need_a_certificate(
    live: Live, office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = office.secured(make_network("a"), "required")
    await live.up(network)
    place, trust = network.address("a"), TlsFiles(str(office.file))
    bare = Asking(asking_context(trust, hosts=True))
    with pytest.raises(TlsError, match="it wants to see a certificate"):
        await ask_status(*place, tls=bare)
    for name, value in zip(("CERTIFICATE", "KEY"), office.issue("operator").own, strict=True):
        monkeypatch.setenv(f"REEFCAST_{name}", value)
    assert await ask_status(*place, tls=asking(network, "a"))
    late = office.expired("late")
    with pytest.raises(TlsError, match="the certificate of this end has expired"):
        await ask_status(*place, tls=asking(network, "a", late))
    with pytest.raises(RefusedError, match="speaks TLS"):
        await ask_status(*place)
    stranger = Office(tmp_path)
    unknown = Asking(asking_context(TlsFiles(str(stranger.file)), hosts=True))
    with pytest.raises(TlsError, match="an authority that this end does not trust"):
        await ask_status(*place, tls=unknown)


async def test_wishes_without_a_certificate_are_granted_on_loopback(
    live: Live, office: Office
) -> None:
    """As without TLS; what the broker then says is another matter."""
    network = office.secured(make_network("a"))
    await live.up(network)
    tls = Asking(asking_context(TlsFiles(str(office.file)), hosts=True))
    async with admin_connection(*network.address("a"), tls) as asked:
        with pytest.raises(RefusedError, match="routing"):
            await asked.move("b", "c")


# --- what a certificate permits -------------------------------------------------------------------


def roles(clients: str, shown: Identity | None, address: str) -> frozenset[UserRole]:
    """What a client may be."""
    network = make_network("a")
    network.tls.clients = clients  # type: ignore[assignment]  # a word of the file
    certified = Certified(network, Floods(Counter()))
    return certified.client(shown, address).roles


CLIENT = Identity("CN=x", frozenset(), frozenset())
STORAGE = Identity("CN=s", frozenset({storage_uri("test", "s")}), frozenset())
FOREIGN = Identity("CN=s", frozenset({storage_uri("test2", "s")}), frozenset())
ALL = frozenset({UserRole.CLIENT, UserRole.STORAGE, UserRole.ADMINISTRATOR})


@pytest.mark.parametrize(
    ("clients", "shown", "address", "expected"),
    [
        ("none", None, "127.0.0.1", UNNAMED_HERE.roles),
        ("none", None, "10.0.0.1", UNNAMED.roles),
        ("none", CLIENT, "10.0.0.1", UNNAMED.roles),
        ("none", FOREIGN, "10.0.0.1", UNNAMED.roles),
        ("none", STORAGE, "10.0.0.1", ALL - {UserRole.ADMINISTRATOR}),
        ("optional", STORAGE, "10.0.0.1", ALL - {UserRole.ADMINISTRATOR}),
        ("optional", None, "10.0.0.1", UNNAMED.roles),
        ("optional", CLIENT, "10.0.0.1", ALL),
        ("required", CLIENT, "10.0.0.1", ALL),
    ],
)
def test_what_clients_may_be(
    clients: str, shown: Identity | None, address: str, expected: frozenset[UserRole]
) -> None:
    assert roles(clients, shown, address) == expected
    assert not {UserRole.BROKER, UserRole.PEER} & expected


async def test_a_storage_needs_a_certificate(live: Live, office: Office) -> None:
    network = office.secured(make_network("a"))
    await live.up(network)
    host, port = network.address("a")
    url, trust = f"reefcast+tls://{host}:{port}", str(office.file)
    files = office.issue("s1", storage_uri("test", "s1"))
    async with reefcast.connect(url, **named(files)) as client:
        await store(client)
    with pytest.raises(ConnectionLostError, match="is not granted the role 'storage'"):
        async with reefcast.connect(url, authority=trust) as client:
            await store(client)


async def store(client: reefcast.Client) -> None:
    """Says that it answers for a topic."""
    session_of(client).say([Stores(topics=("fx",), name="s1")])
    await client.subscribe("a = 1")
