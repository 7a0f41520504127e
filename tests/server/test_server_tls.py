"""Brokers and clients over TLS, on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop
from live_brokers import Live

import reefcast
from live_networks import PATIENCE_S, make_network, path_network, until
from reefcast.errors import ConfigurationError, ConnectionLostError, RefusedError, TlsError
from reefcast.model import wire
from reefcast.model.wire import Close, FrameKind, Role
from reefcast.network.file import NetworkFile
from reefcast.protocol.frames import FrameReader
from reefcast.server import node as node_module
from reefcast.server import tls_listener
from reefcast.server.node import Node
from reefcast.tls.credentials import answering_context, dialling_context
from reefcast.tls.files import TlsFiles
from reefcast.tls.identity import broker_uri, peer_uri
from reefcast.tls.making import write_key
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
        node = await live.node(plain, "b")
        node.shared.floods.log = lambda *args, **_: said.append(args[-1])
        with pytest.raises(TlsError, match="does not speak TLS there"):
            await reefcast.connect(url_of(plain, "b"), authority=str(office.file))
        assert any("the other end speaks TLS, and this one does not" in str(each) for each in said)

    said: list[object] = []
    run(scenario)


# --- brokers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [Role.BROKER, Role.SOFT])
def test_a_broker_must_show_that_it_is_one(run: Run, office: Office, role: Role) -> None:
    """By its own certificate: not by that of another broker, of a client with its name, of the same
    broker of another network, or of a peer; and not without any."""

    async def scenario(live: Live) -> None:
        network = office.secured(make_network("ab", [("a", "b")]))
        node = await live.node(network, "b")
        others = {
            "nobody": TlsFiles(str(office.file)),
            "the client": office.issue("a"),
            "another broker": office.issue("other", broker_uri("test", "b"), HERE),
            "of another network": office.issue("foreign", broker_uri("test2", "a"), HERE),
            "peer": office.issue("peer", peer_uri("test"), HERE),
        }
        for who, files in others.items():
            close = await refused(network, role, "a", files)
            wanted = "shows no certificate" if who == "nobody" else "needs reefcast://test/broker/a"
            assert wanted in close.reason, who
            assert not close.retry
        if role is Role.BROKER:
            reader, writer = await dialled(network, role, "a", office.broker("test", "a"))
            kind, _ = await first_frame(reader)
            assert kind == FrameKind.HELLO
            assert node.links["a"].user == "a"
            writer.close()

    run(scenario)


async def dialled(
    network: NetworkFile, role: Role, name: str, files: TlsFiles
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to broker `b` that said hello."""
    context = dialling_context(files)
    reader, writer = await asyncio.open_connection(*network.address("b"), ssl=context)
    writer.write(wire.encode(FrameKind.HELLO, wire.hello(role, name, "test", "session")))
    return reader, writer


async def first_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    frames = FrameReader()
    async with asyncio.timeout(PATIENCE_S):
        while data := await reader.read(65536):
            for kind, payload in frames.feed(data):
                return kind, payload
    raise AssertionError("the broker said nothing")


async def refused(network: NetworkFile, role: Role, name: str, files: TlsFiles) -> Close:
    reader, writer = await dialled(network, role, name, files)
    kind, payload = await first_frame(reader)
    writer.close()
    assert kind == FrameKind.CLOSE
    return wire.decode_close(payload)


def test_a_broker_that_is_dialled_must_show_it_too(
    run: Run, office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(live: Live) -> None:
        network = office.secured(make_network("ab", [("a", "b")]))
        whole = network.tls
        await live.node(network, "a")  # a dials b
        server = await asyncio.get_running_loop().create_server(
            lambda: Answering("b"),
            *network.address("b"),
            ssl=answering_context(office.issue("b2", "", HERE), "optional"),
        )
        await until(lambda: "no link: 'b' says that it is a broker" in caplog.text)
        server.close()
        assert network.tls == whole

    run(scenario)


class Answering(asyncio.Protocol):
    """Says at once that it is this broker."""

    def __init__(self, name: str) -> None:
        self._name = name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        hello = wire.hello(Role.BROKER, self._name, "test", "session")
        transport.write(wire.encode(FrameKind.HELLO, hello))  # type: ignore[attr-defined]  # as asserted


def test_a_link_over_tls_survives_breaks(run: Run, office: Office) -> None:
    async def scenario(live: Live) -> None:
        network = office.secured(path_network(2))
        nodes = await live.up(network)
        trust = str(office.file)
        async with (
            reefcast.connect(url_of(network, "b1"), authority=trust) as one,
            reefcast.connect(url_of(network, "b2"), authority=trust) as two,
        ):
            subscription = await two.subscribe("n >= 0")
            for n in range(300):
                await one.publish(n=n, text="x" * 2000)
                if n % 60 == 30:
                    link = nodes["b1"].links["b2"].connection
                    for connection in list(nodes["b2"].shared.all if n % 120 else [link]):
                        connection and connection.transport.abort()
            async with asyncio.timeout(PATIENCE_S):
                assert [(await anext(subscription))["n"] for _ in range(300)] == list(range(300))

    run(scenario)


# --- new files ------------------------------------------------------------------------------------


async def end_of_certificate(network: NetworkFile, trust: str) -> str:
    """When the certificate that broker `a` shows now expires."""
    context = dialling_context(TlsFiles(trust))
    _, writer = await asyncio.open_connection(*network.address("a"), ssl=context)
    shown = writer.get_extra_info("peercert")["notAfter"]
    writer.close()
    return str(shown)


def test_new_files_count_without_a_restart(
    run: Run,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(live: Live) -> None:
        monkeypatch.setattr(node_module, "TICK_S", 0.02)
        office = Office(tmp_path)
        network = office.secured(make_network("a"))
        node = await live.node(network, "a")
        trust, url = str(office.file), url_of(network, "a")
        async with reefcast.connect(url, authority=trust) as client:
            before = await end_of_certificate(network, trust)
            files = office.broker("test", "a", days=20)
            await until(lambda: "shows the new certificate" in caplog.text)
            assert await end_of_certificate(network, trust) != before
            after = await end_of_certificate(network, trust)
            write_key(Path(files.key), b"no key")
            await until(lambda: "keeps the certificate that it has" in caplog.text)
            assert "are not a certificate and its private key in PEM" in caplog.text
            assert await end_of_certificate(network, trust) == after
            office.expired("a", broker_uri("test", "a"), HERE)
            node.reload()
            assert "a.pem has expired: get a new one" in caplog.text
            await works(url, authority=trust)
            other = Office(tmp_path, "authority")  # clients of the former one are now strangers
            other.broker("test", "a")
            node.reload()
            await works(url, authority=trust)
            assert client.connected

    run(scenario)


def test_a_client_uses_new_files_when_it_connects_again(run: Run, tmp_path: Path) -> None:
    async def scenario(live: Live) -> None:
        office = Office(tmp_path)
        network = office.secured(make_network("a"), "required")
        node = await live.node(network, "a")
        files = office.issue("billing")
        back = asyncio.Event()
        url = url_of(network, "a")
        async with reefcast.connect(url, on_reconnect=back.set, **shown_by(files)) as client:
            new = Office(tmp_path)  # another authority, in the same file
            new.broker("test", "a")
            new.issue("billing")
            node.reload()
            for connection in list(node.shared.all):
                connection.transport.abort()
            await back.wait()
            subscription = await client.subscribe("a = 1")
            await client.publish(a=1)
            async with asyncio.timeout(PATIENCE_S):
                await anext(subscription)

    run(scenario)


def test_a_client_that_was_connected_tries_again_and_then_says_why(
    run: Run, tmp_path: Path
) -> None:
    office, trust = Office(tmp_path), tmp_path / "old.pem"
    trust.write_bytes(office.file.read_bytes())

    async def scenario(live: Live) -> None:
        network = office.secured(make_network("a"))
        node = await live.node(network, "a")
        url = url_of(network, "a")
        async with reefcast.connect(url, authority=str(trust), reconnect_timeout_s=0.2) as client:
            subscription = await client.subscribe("a = 1")
            Office(tmp_path).broker("test", "a")
            node.reload()
            for connection in list(node.shared.all):
                connection.transport.abort()
            with pytest.raises(ConnectionLostError, match=r"within 0\.2 s: .* does not trust"):
                await anext(subscription)

    run(scenario)


def test_a_broker_with_wrong_files_does_not_start(run: Run, office: Office) -> None:
    async def scenario(live: Live) -> None:
        network = office.secured(make_network("a"))
        office.expired("a", broker_uri("test", "a"), HERE)
        with pytest.raises(ConfigurationError, match=r"a\.pem has expired"):
            Node(network, "a")
        office.remove("a")
        with pytest.raises(ConfigurationError, match=r"a\.pem: No such file"):
            Node(network, "a")

    run(scenario)


# --- those who say nothing, or something else -----------------------------------------------------


def test_silent_connections_keep_nobody_out(
    run: Run, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(live: Live) -> None:
        monkeypatch.setattr(tls_listener, "MOST_HANDSHAKES", 8)
        network = office.secured(make_network("a"))
        node = await live.node(network, "a")
        silent = [await asyncio.open_connection(*network.address("a")) for _ in range(20)]
        for _, writer in silent[10:]:
            writer.write(b"\x16\x03\x01")  # the beginning of a handshake
        await works(url_of(network, "a"), authority=str(office.file))
        ended = [asyncio.ensure_future(reader.read()) for reader, _ in silent]
        await until(lambda: sum(map(asyncio.Future.done, ended)) >= 12)
        for waiting in ended:
            waiting.cancel()
        for _, writer in silent:
            writer.close()
        [listener] = node.listeners
        assert isinstance(listener, tls_listener.TlsListener)
        await until(lambda: not listener._under_way)

    run(scenario)


def test_what_is_neither_is_refused_alone(run: Run, office: Office) -> None:
    async def scenario(live: Live) -> None:
        network = office.secured(make_network("a"))
        await live.node(network, "a")
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16", b"\x16" * 1000, bytes(70_000), b""):
            reader, writer = await asyncio.open_connection(*network.address("a"))
            writer.write(data)
            if writer.can_write_eof():
                writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                with suppress(ConnectionError):
                    await reader.read()
            writer.close()
        await works(url_of(network, "a"), authority=str(office.file))

    run(scenario)


async def test_without_descriptors_nothing_is_accepted_for_a_while(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the loop does not ask again and again meanwhile."""
    monkeypatch.setattr(tls_listener, "PAUSE_S", 0.05)
    loop = asyncio.get_running_loop()
    answering = answering_context(office.broker("test", "a"), "none")
    made: list[asyncio.Protocol] = []

    def make() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    listener = tls_listener.TlsListener(
        "127.0.0.1", 0, make, refuse=make, context=lambda: answering, failed=lambda *_: None
    )
    await listener.open("a")
    asked = 0

    class Full:
        """A listening socket of a process that has all the files it may have."""

        def __init__(self, real: socket.socket) -> None:
            self._real = real

        def accept(self) -> tuple[socket.socket, object]:
            nonlocal asked
            asked += 1
            if asked <= 3:
                raise OSError(errno.EMFILE, "too many open files")
            return self._real.accept()

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

    [real] = listener._sockets
    loop.remove_reader(real)
    full = Full(real)
    listener._sockets[:] = [full]  # type: ignore[list-item]  # it is asked for nothing else
    loop.add_reader(full, listener._accept, full)  # type: ignore[arg-type]  # as above
    context = dialling_context(TlsFiles(str(office.file)))
    _, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=context)
    writer.close()
    await until(lambda: made)
    assert 4 <= asked <= 6
    listener.close()
