"""Peers of a network with [security]: in networks with TLS a certificate makes one a member, and no
stranger or user comes in through it."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live

import reefcast
from live_networks import PATIENCE_S, make_network
from reefcast.errors import ConfigurationError, ReefcastError
from reefcast.model.grants import Right
from reefcast.network.file import NetworkFile
from reefcast.network.sections import RoleEntry, SecuritySection
from reefcast.protocol.principal import ALL_ROLES, NETWORK, Principal
from reefcast.security.credentials import NETWORK_KEY, PASSWORD_FILE, USER
from reefcast.server.node import Node
from reefcast.server.peer import Peer
from reefcast.server.supervisor import free_ports
from reefcast.tls.identity import peer_uri
from secured import KEY, PASSWORD, token, write_users
from tls_files import HERE, Office

QUICK = {"contacts": ["a"], "round_s": 0.05}
FX = "topic = 't' AND desk = 'fx'"
ROLES = [
    RoleEntry(name="fx-desk", publish=FX, subscribe=FX),
    RoleEntry(name="eq-desk", publish="desk = 'eq'", subscribe="desk = 'eq'"),
    RoleEntry(name="operator", rights=[Right.STATUS]),
    RoleEntry(name="guest", publish="desk = 'lobby'", subscribe="desk = 'lobby'"),
]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def operator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment names a user who may ask for the status, as somebody who joins must."""
    for name in ("AUTHORITY", "CERTIFICATE", "KEY", "SERVER_NAME"):
        monkeypatch.delenv(f"REEFCAST_{name}", raising=False)
    (tmp_path / "password").write_text(PASSWORD)
    monkeypatch.setenv(USER, "olga")
    monkeypatch.setenv(PASSWORD_FILE, str(tmp_path / "password"))
    monkeypatch.delenv(NETWORK_KEY, raising=False)


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The directory of temporary files."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


def gossip_network(folder: Path) -> NetworkFile:
    """Broker `a` with users of two desks, an operator and guests."""
    users = folder / "users.toml"
    write_users(users, ("anna", ["fx-desk"]), ("eva", ["eq-desk"]), ("olga", ["operator"]))
    (folder / "network.key").write_text(KEY)
    (folder / "network.key").chmod(0o600)
    network = make_network("a", routing="gossip", options=QUICK)
    network.role = ROLES
    network.security = SecuritySection(
        users=str(users), key=str(folder / "network.key"), anonymous=["guest"]
    )
    return network


async def secured_broker(live: Live, office: Office, folder: Path) -> Node:
    return await live.node(office.secured(gossip_network(folder)), "a")


def new_peer(office: Office, node: Node, **more: Any) -> Peer:
    files = office.issue("peer", peer_uri("test"), HERE)
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    return Peer(listen, join=[node.network.entry("a").listen], **files._asdict(), **more)


def strangers(office: Office, folder: Path) -> dict[str, dict[str, str]]:
    """Options of clients that the network admits, or not, and a peer must not."""
    (folder / "other.key").write_text(KEY[::-1])
    return {
        "a stranger": {},
        "a user": {"user": "anna", "password": PASSWORD},
        "a user of another desk": {"user": "eva", "password": PASSWORD},
        "an operator": {"user": "olga", "password": PASSWORD},
        "a token": {"token": token()},
        "another key": {"network_key": str(folder / "other.key")},
        "a certificate": office.issue("c")._asdict(),
    }


@pytest.mark.parametrize("keyed", [False, True], ids=["without the key", "with the key"])
async def test_a_peer_admits_nobody_whom_it_cannot_judge(
    live: Live,
    office: Office,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    keyed: bool,
) -> None:
    """They neither see what anna publishes, nor publish, whatever they prove elsewhere."""
    node = await secured_broker(live, office, tmp_path)
    trust, key = str(office.file), {"network_key": str(tmp_path / "network.key")} if keyed else {}
    async with (
        new_peer(office, node, **key) as peer,
        reefcast.connect(
            peer.url, authority=trust, network_key=peer.network_key, name="own"
        ) as own,
        reefcast.connect(
            f"reefcast+tls://{node.network.entry('a').listen}",
            authority=trust,
            user="anna",
            password=PASSWORD,
        ) as anna,
    ):
        at_peer, at_broker = await own.subscribe("topic = 't'"), await anna.subscribe(FX)
        for name in (USER, PASSWORD_FILE):
            monkeypatch.delenv(name)
        for who, shown in strangers(office, tmp_path).items():
            with pytest.raises(ReefcastError):
                async with reefcast.connect(peer.url, **{"authority": trust, **shown}) as stranger:
                    await stranger.subscribe("topic = 't'")
                    await stranger.publish(desk="fx", forged=who, topics=["t"])
                    pytest.fail(f"the peer admitted {who}")
        (session,) = peer.node.clients.sessions.values()
        assert session.principal == Principal(NETWORK, ALL_ROLES, "key")
        await anna.publish(desk="fx", n=1, topics=["t"])
        await own.publish(desk="fx", n=2, topics=["t"])
        await own.publish(desk="eq", n=3, topics=["t"])
        await own.publish(desk="fx", n=4, topics=["t"])
        async with asyncio.timeout(PATIENCE_S):
            assert {(await anext(at_peer)).get("n") for _ in range(4)} == {1, 2, 3, 4}
            assert {(await anext(at_broker)).get("n") for _ in range(3)} == {1, 2, 4}
        assert ("has no clients but those of its own program" in caplog.text) is not keyed


async def test_the_key_of_a_peer_is_there_for_its_account_while_it_runs(
    live: Live, office: Office, tmp_path: Path, temporary: Path
) -> None:
    node = await secured_broker(live, office, tmp_path)
    peer = new_peer(office, node)
    assert peer.network_key == ""
    kept = []
    for _ in range(2):  # it may start again, and is another peer then
        async with peer:
            kept.append(content_of_secret(peer.network_key))
            # Who joins by this peer is told the same.
            assert peer.node.network.for_peers().security == SecuritySection()
        assert peer.network_key == ""
        assert names_in(temporary) == []
    assert len(set(kept)) == 2


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def content_of_secret(file: str) -> str:
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
    return Path(file).read_text()


async def test_a_peer_that_cannot_start_leaves_no_key(
    live: Live, office: Office, tmp_path: Path, temporary: Path
) -> None:
    node = await secured_broker(live, office, tmp_path)
    peer = new_peer(office, node)
    async with await asyncio.start_server(lambda *_: None, *peer.name.split(":")):
        with pytest.raises(ConfigurationError, match="listen"):
            await peer.start()
    assert names_in(temporary) == []


async def test_without_tls_a_peer_needs_the_key(live: Live, tmp_path: Path) -> None:
    """Brokers would not let it in; so its clients would be alone."""
    network = gossip_network(tmp_path)
    await live.node(network, "a")
    peer = Peer(f"127.0.0.1:{free_ports(1)[0]}", join=[network.entry("a").listen])
    with pytest.raises(ConfigurationError, match=r"neither the key of the network .* certificate"):
        await peer.start()
    with pytest.raises(AssertionError):
        _ = peer.node


async def test_peers_ask_for_certificates_of_clients_where_brokers_do(
    live: Live, office: Office
) -> None:
    network = office.secured(make_network("a", routing="gossip", options=QUICK), "required")
    node = await live.node(network, "a")
    trust = str(office.file)
    async with new_peer(office, node) as peer:
        with pytest.raises(ReefcastError, match="certificate"):
            await reefcast.connect(peer.url, authority=trust)
        async with reefcast.connect(peer.url, **office.issue("c")._asdict()) as client:
            await client.subscribe("topic = 't'")
