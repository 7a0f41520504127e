"""Brokers and clients over TLS, on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from live_brokers import Live

import reefcast
from live_networks import PATIENCE_S, linked, make_network, path_network, until
from reefcast.errors import ConfigurationError, ConnectionLostError, RefusedError, TlsError
from reefcast.model.wire import Role
from reefcast.network.file import NetworkFile
from reefcast.server import tls_listener
from reefcast.server.node import Node
from reefcast.tls.files import TlsFiles
from reefcast.tls.identity import broker_uri, peer_uri
from tls_files import HERE, Office

Scenario = Callable[[Live], Awaitable[None]]
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=LOOPS.values(), ids=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Runs a scenario, and ends its brokers and clients."""

    async def whole(scenario: Scenario) -> None:
        async with AsyncExitStack() as stack:
            await scenario(Live(stack))

    def running(scenario: Scenario) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(whole(scenario))

    return running


Run = Callable[[Scenario], None]


def url_of(network: NetworkFile, name: str) -> str:
    host, port = network.address(name)
    return f"reefcast+tls://{host}:{port}"


def shown_by(files: TlsFiles) -> dict[str, Any]:
    """The options of a client with this certificate."""
    return {"authority": files.authority, "certificate": files.certificate, "key": files.key}


async def works(url: str, **options: Any) -> None:
    """Publishes an event, and gets it."""
    async with reefcast.connect(url, **options) as client:
        subscription = await client.subscribe("a = 1")
        await client.publish(a=1)
        async with asyncio.timeout(PATIENCE_S):
            await anext(subscription)


def test_links_and_clients_carry_much(run: Run, office: Office) -> None:
    async def scenario(live: Live) -> None:
        network = office.secured(path_network(2))
        await live.up(network)
        trust = str(office.file)
        async with (
            reefcast.connect(url_of(network, "b1"), authority=trust) as one,
            reefcast.connect(url_of(network, "b2"), authority=trust) as two,
        ):
            subscription = await two.subscribe("price > 1")
            for price in range(3000):
                await one.publish({"price": price}, payload=bytes(price % 7 * 1000))
            async with asyncio.timeout(PATIENCE_S):
                seen = [await anext(subscription) for _ in range(2998)]
        assert [event["price"] for event in seen] == list(range(2, 3000))
        assert [len(event.payload) for event in seen] == [i % 7 * 1000 for i in range(2, 3000)]

    run(scenario)


def test_clients_may_need_a_certificate(run: Run, office: Office) -> None:
    async def scenario(live: Live) -> None:
        network = office.secured(make_network("a"), "required")
        node = await live.node(network, "a")
        url = url_of(network, "a")
        with pytest.raises(TlsError, match="it wants to see a certificate"):
            await reefcast.connect(url, authority=str(office.file))
        late = office.expired("late")
        with pytest.raises(TlsError, match="the certificate of this end has expired"):
            await reefcast.connect(url, **shown_by(late))
        async with reefcast.connect(url, **shown_by(office.issue("billing"))):
            [client] = node.clients.sessions.values()
            assert client.status()["user"] == "CN=billing"

    run(scenario)


def test_a_broker_that_is_not_trusted(run: Run, office: Office, tmp_path: Path) -> None:
    async def scenario(live: Live) -> None:
        network = office.secured(make_network("a"))
        await live.node(network, "a")
        url = url_of(network, "a")
        with pytest.raises(
            TlsError, match="an authority that this end does not trust: name its file"
        ):
            await reefcast.connect(url)
        other = Office(tmp_path, "other")
        with pytest.raises(TlsError, match="an authority that this end does not trust"):
            await reefcast.connect(url, authority=str(other.file))
        await works(url, authority=str(office.file))

    run(scenario)


def test_the_certificate_is_for_the_host(run: Run, office: Office) -> None:
    async def scenario(live: Live) -> None:
        network = office.secured(make_network("a"))
        office.issue("a", broker_uri("test", "a"), ["north.example"])
        await live.node(network, "a")
        url, trust = url_of(network, "a"), str(office.file)
        with pytest.raises(TlsError, match="is for another host"):
            await reefcast.connect(url, authority=trust)
        await works(url, authority=trust, server_name="north.example")

    run(scenario)


def test_one_end_alone_speaks_tls(run: Run, office: Office) -> None:
    async def scenario(live: Live) -> None:
        network = office.secured(make_network("a"))
        await live.node(network, "a")
        url = url_of(network, "a")
        with pytest.raises(RefusedError, match=r"speaks TLS: connect to reefcast\+tls://"):
            await reefcast.connect(url.replace("+tls", ""))
        plain = make_network("b")
        await live.node(plain, "b")
        with pytest.raises(TlsError, match="does not speak TLS there"):
            await reefcast.connect(url_of(plain, "b"), authority=str(office.file))

    run(scenario)
