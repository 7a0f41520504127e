"""The listeners for MQTT of a network file: over TCP, WebSocket and TLS."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop
from live_brokers import Live
from mqtt_listeners import ports, with_mqtt
from secured_brokers import principals

import reefcast
from live_networks import PATIENCE_S, linked, make_network, path_network, until, url_of
from mqtt_clients import MqttClient
from reefcast.errors import ConfigurationError, LocalError
from reefcast.model import wire
from reefcast.model.wire import FrameKind, Role, StatusRequest
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.packets import MQTT_5, Connack, Connect, Will
from reefcast.mqtt.reasons import Reason
from reefcast.network.file import NetworkFile
from reefcast.network.listeners import ListenerEntry
from reefcast.network.sections import CertificateEntry
from reefcast.server.mqtt.listening import settings_of
from reefcast.server.node import Node
from reefcast.tls.files import TlsFiles
from secured import PASSWORD, secured
from tls_files import Office

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
Scenario = Callable[[Live], Awaitable[None]]
ANNA: dict[str, Any] = {"user_name": "anna", "password": PASSWORD.encode()}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=LOOPS.values(), ids=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Runs a scenario, and ends its brokers."""

    async def whole(scenario: Scenario) -> None:
        async with AsyncExitStack() as stack:
            await scenario(Live(stack))

    def running(scenario: Scenario) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(whole(scenario))

    return running


def trusting(office: Office, files: TlsFiles | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(office.file))
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


async def over_websocket(
    url: str, packet: Connect, tls: ssl.SSLContext, **headers: str
) -> Connack | None:
    """Connect over WebSocket; return the answer, None if the handshake was refused."""
    async with aiohttp.ClientSession() as http:
        try:
            socket = await http.ws_connect(url, protocols=("mqtt",), ssl=tls, headers=headers)
        except aiohttp.WSServerHandshakeError:
            return None
        await socket.send_bytes(encode(packet, MQTT_5))
        client = MqttClient(None, None, MQTT_5)  # type: ignore[arg-type]  # only its decoder is used
        packets, _ = client._decoder.receive((await socket.receive()).data)
        (answer,) = packets
        assert isinstance(answer, Connack)
        return answer


async def test_a_broker_listens_where_its_file_says(live: Live, tmp_path: Path) -> None:
    network = with_mqtt(make_network("ab", [("a", "b")]), tmp_path, content="json")
    await live.up(network)
    node = live.nodes["a"]
    tcp, websocket = ports(node)
    assert node.status(StatusRequest())["mqtt"] == {
        "connected": 0,
        "listeners": [
            {"listen": f"127.0.0.1:{tcp}", "over": "tcp", "tls": False},
            {"listen": f"127.0.0.1:{websocket}", "over": "websocket", "tls": False},
        ],
    }
    client = await MqttClient.connect(tcp)
    said = client.connack.properties
    assert (said.receive_maximum, said.topic_alias_maximum) == (1024, 16)
    assert said.maximum_packet_size == network.limits.publication_bytes
    async with reefcast.connect(url_of(network, "b")) as native:
        subscription = await native.subscribe("oven.heat > 200")
        await subscription.settled()
        await client.publish("plant/1", b'{"oven": {"heat": 230}}', 1)
        assert (await anext(subscription))["oven.heat"] == 230


def test_settings_are_those_of_the_entry() -> None:
    entry = ListenerEntry(
        broker="a",
        protocol="mqtt",
        content="json",
        user_properties=True,
        receive_maximum=3,
        maximum_packet_size=1000,
        session_expiry_s=60,
        topic_alias_maximum=0,
        keep_alive_s=30,
    )
    made = settings_of(entry, 5000)
    assert made.content.json and made.content.user_properties
    assert (made.receive_maximum, made.maximum_packet_size, made.session_expiry_s) == (3, 1000, 60)
    assert (made.topic_alias_maximum, made.keep_alive_s) == (0, 30)


def test_nothing_is_loaded_where_nothing_listens() -> None:
    code = (
        "import sys, reefcast.server.node, reefcast.cli.main, reefcast.cli.broker\n"
        "print([m for m in sys.modules if m.startswith(('reefcast.mqtt', 'reefcast.server.mqtt'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = with_mqtt(path_network(1), tmp_path)
    monkeypatch.delitem(sys.modules, "reefcast.server.mqtt.websocket", raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(LocalError, match=r"MQTT over WebSocket needs more packages .aiohttp"):
        Node(network, "b1")


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    network = with_mqtt(path_network(1), tmp_path)
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    network.listener[0].websocket = f"127.0.0.1:{port}"
    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
        await Node(network, "b1").start()
    taken.close()


async def test_wills_that_wait_are_published_when_the_broker_stops(
    live: Live, tmp_path: Path
) -> None:
    network = with_mqtt(make_network("ab", [("a", "b")]), tmp_path)
    await live.up(network)
    watcher = await MqttClient.connect(ports(live.nodes["b"])[0])
    await watcher.subscribe("wills/#", 1)
    client = await MqttClient.connect(
        ports(live.nodes["a"])[0],
        "c",
        session_expiry_interval=1000,
        will=Will("wills/c", b"gone", 1, properties=_delay(900)),
    )
    client.cut()
    front = live.nodes["a"].mqtt
    assert front is not None
    await until(lambda: not front.connected)
    await live.nodes.pop("a").stop()
    assert (await watcher.event()).topic == "wills/c"


@pytest.mark.parametrize("comes_back", [False, True])
async def test_the_will_of_a_client_that_is_back_at_another_broker(
    live: Live, tmp_path: Path, *, comes_back: bool
) -> None:
    """MQTT-3.1.3-9"""
    await live.up(with_mqtt(make_network("ab", [("a", "b")]), tmp_path))
    (here, _), (there, _) = (ports(live.nodes[name]) for name in "ab")
    watcher = await MqttClient.connect(there)
    await watcher.subscribe("wills/#", 1)
    lasting: dict[str, Any] = {"clean_start": False, "session_expiry_interval": 1000}
    will = Will("wills/c", b"gone", 1, properties=_delay(1))
    client = await MqttClient.connect(here, "c", will=will, **lasting)
    client.cut()
    front = live.nodes["a"].mqtt
    assert front is not None
    await until(lambda: not front.connected)
    if comes_back:
        client = await MqttClient.connect(there, "c", **lasting)
        assert client.connack.session_present
    await until(lambda: not live.nodes["a"].clients.sessions)
    await (await MqttClient.connect(here)).publish("wills/end", b"", 1)
    assert (await watcher.event()).topic == ("wills/end" if comes_back else "wills/c")


def _delay(seconds: int) -> Any:
    from reefcast.mqtt.properties import Properties

    return Properties(will_delay_interval=seconds)


# --- TLS ------------------------------------------------------------------------------------------


def with_users(office: Office, folder: Path) -> NetworkFile:
    network = office.secured(secured(folder), "optional")
    network.certificate = [CertificateEntry(subject="CN=meter", user="meter", roles=["fx-desk"])]
    return with_mqtt(network, folder, tls=True)


def test_users_over_tls(run: Callable[[Scenario], None], office: Office, tmp_path: Path) -> None:
    async def scenario(live: Live) -> None:
        network = with_users(office, tmp_path)
        node = await live.node(network, "b1")
        tcp, websocket = ports(node)
        url = f"https://127.0.0.1:{websocket}/mqtt"
        own = trusting(office, office.issue("meter"))
        device = await MqttClient.dial(tcp, ssl=own)
        device.say_hello("device")
        assert not (await device.next(Connack)).reason
        (principal,) = principals(node)
        assert (principal.user, principal.proof) == ("meter", "certificate")
        await device.subscribe("a", 1)
        await device.publish("a", bytes(300_000), 1)
        assert len((await device.event()).payload) == 300_000
        await device.leave()
        other = await MqttClient.dial(tcp, ssl=trusting(office))
        other.say_hello("device")
        (answer,) = await other.until_closed()
        assert isinstance(answer, Connack) and answer.reason is Reason.NOT_AUTHORIZED
        for packet, tls in ((Connect("c"), own), (Connect("c", **ANNA), trusting(office))):
            answer = await over_websocket(url, packet, tls)
            assert answer is not None and not answer.reason
        page = {"Origin": "https://shop.example"}
        assert await over_websocket(url, Connect("c"), own, **page) is None
        answer = await over_websocket(url, Connect("c", **ANNA), trusting(office), **page)
        assert answer is not None and not answer.reason
        assert not node.host.journal.counters["failures"]

    run(scenario)


async def said_to(port: int, data: bytes, **tls: Any) -> bytes:
    """What a program gets that says this."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **tls)
    writer.write(data)
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


def test_one_end_alone_speaks_tls(
    run: Callable[[Scenario], None], office: Office, tmp_path: Path
) -> None:
    async def scenario(live: Live) -> None:
        node = await live.node(with_users(office, tmp_path), "b1")
        tcp, websocket = ports(node)
        for version in (4, 5):
            plain = await MqttClient.dial(tcp, version)
            plain.say_hello(clean_start=True)
            (answer,) = await plain.until_closed()
            assert isinstance(answer, Connack) and answer.reason is Reason.NOT_AUTHORIZED
            words = answer.properties.reason_string or ""
            assert version == 4 or "this listener speaks TLS" in words
        answer = await said_to(websocket, b"GET /mqtt HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400") and b"wss://" in answer
        assert await said_to(tcp, b"\x16" * 1000) == b""
        await until(lambda: not node.shared.all)
        assert not node.host.journal.counters["failures"]

    run(scenario)


def test_who_comes_to_the_wrong_door_is_ended(
    run: Callable[[Scenario], None], office: Office, tmp_path: Path
) -> None:
    async def scenario(live: Live) -> None:
        network = with_mqtt(make_network("a"), tmp_path)
        node = await live.node(network, "a")
        tcp, websocket = ports(node)
        hello = wire.encode(FrameKind.HELLO, wire.hello(Role.CLIENT, "c", "", "s"))
        for port in (tcp, websocket):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("127.0.0.1", port, ssl=trusting(office))
            assert (await said_to(port, hello) == b"") is (port == tcp)
        connect = encode(Connect("c"), MQTT_5)
        assert b"400" in await said_to(websocket, connect)
        _, native = network.address("a")
        assert b"HTTP" not in await said_to(native, connect)
        assert await said_to(tcp, b"GET / HTTP/1.1\r\n\r\n") == b""
        client = await MqttClient.connect(tcp)
        await client.leave()
        await until(lambda: not node.shared.all)
        assert not node.host.journal.counters["failures"]

    run(scenario)


def test_the_listener_of_a_broker_that_drains_sends_to_another(
    run: Callable[[Scenario], None], tmp_path: Path
) -> None:
    async def scenario(live: Live) -> None:
        network = with_mqtt(make_network("ab", [("a", "b")]), tmp_path)
        for name in network.names:
            await live.node(network, name)
        await linked(live.nodes.values())
        client = await MqttClient.connect(ports(live.nodes["a"])[0])
        live.nodes["a"].draining.begin()
        (last,) = await client.until_closed()
        assert getattr(last, "reason", None) is Reason.USE_ANOTHER_SERVER
        assert last.properties.server_reference == network.listener[1].listen

    run(scenario)
