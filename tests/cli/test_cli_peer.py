"""`reefcast peer`."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator

import pytest

from children import Children, ended, line_of
from reefcast.cli.peer import _files
from reefcast.server.supervisor import free_ports
from reefcast.tls.files import TlsFiles


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
