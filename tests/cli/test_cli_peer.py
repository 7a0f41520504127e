"""`reefcast peer`."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import reefcast
from children import Children, ended, line_of
from live_networks import make_network
from reefcast.cli.peer import _files
from reefcast.server.node import Node
from reefcast.server.supervisor import free_ports
from reefcast.tls.files import TlsFiles
from reefcast.tls.identity import peer_uri
from secured import PASSWORD, secured
from tls_files import HERE, Office


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


async def test_peers_find_each_other_and_clients_use_them(children: Children) -> None:
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    one = await children.start("peer", "--listen", first, "--json")
    assert json.loads(await line_of(one.stdout)) == {"peer": first, "network": "reefcast"}
    wanted = ("--subscribe", "topic = 'fx' AND price > 10")
    two = await children.start("peer", "--listen", second, "--join", first, *wanted)
    assert await line_of(two.stdout) == f"peer {second} is in network reefcast\n".encode()
    assert await line_of(two.stderr) == b"reefcast: subscribed\n"
    for price in (9, 12):
        code, _, errors = await children.run(
            "publish", f"reefcast://{first}", f"price={price}", "--topic", "fx"
        )
        assert code == 0, errors
    assert b"price=12" in await line_of(two.stdout)
    for process in (two, one):
        process.send_signal(signal.SIGTERM)
        code, rest, errors = await ended(process)
        assert (code, rest) == (0, ""), errors


async def test_without_the_key_of_a_secured_network_it_serves_itself_alone(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints what anna publishes at a broker, and anna cannot connect to it."""
    office = Office(tmp_path)
    network = office.secured(make_network("a", routing="gossip", options={"contacts": ["a"]}))
    network.security = secured(tmp_path).security
    node, listen = Node(network, "a"), f"127.0.0.1:{free_ports(1)[0]}"
    place, files = network.entry("a").listen, office.issue("peer", peer_uri("test"), HERE)
    proof = [f"--{name}={file}" for name, file in files._asdict().items()]
    monkeypatch.setenv("REEFCAST_USER", "anna")
    monkeypatch.setenv("REEFCAST_PASSWORD", PASSWORD)
    await node.start()
    try:
        wanted = ("--subscribe", "topic = 'fx'")
        peer = await children.start("peer", "--listen", listen, "--join", place, *proof, *wanted)
        assert await line_of(peer.stdout) == f"peer {listen} is in network test\n".encode()
        assert b"has no clients but those of its own program" in await line_of(peer.stderr)
        assert await line_of(peer.stderr) == b"reefcast: subscribed\n"
        with pytest.raises(reefcast.RefusedError, match="this end has a password"):
            await reefcast.connect(f"reefcast+tls://{listen}", authority=str(office.file))
        url = f"reefcast+tls://{place}"
        async with reefcast.connect(url, authority=str(office.file)) as anna:
            await anna.publish(price=12, topics=["fx"])
            assert b"price=12" in await line_of(peer.stdout)
        peer.send_signal(signal.SIGTERM)
        code, rest, errors = await ended(peer)
        assert (code, rest) == (0, ""), errors
    finally:
        await node.stop()


async def test_a_filter_without_a_topic_ends_the_peer(children: Children) -> None:
    (port,) = free_ports(1)
    listen = f"127.0.0.1:{port}"
    code, _, errors = await children.run("peer", "--listen", listen, "--subscribe", "price > 10")
    assert code == 2
    assert "write topic = " in errors


def test_an_authority_in_the_environment_gives_a_peer_no_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REEFCAST_AUTHORITY", "a.pem")
    monkeypatch.delenv("REEFCAST_CERTIFICATE", raising=False)
    monkeypatch.delenv("REEFCAST_KEY", raising=False)
    assert _files(TlsFiles()) == TlsFiles()
    assert _files(TlsFiles(certificate="p.pem")) == TlsFiles("a.pem", "p.pem")
    monkeypatch.setenv("REEFCAST_CERTIFICATE", "p.pem")
    assert _files(TlsFiles()) == TlsFiles("a.pem", "p.pem")
