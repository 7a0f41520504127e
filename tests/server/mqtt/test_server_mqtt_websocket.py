"""MQTT over WebSocket at a live broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, WSServerHandshakeError

from live_networks import PATIENCE_S, until
from mqtt_clients import MqttClient, MqttPlace, mqtt_broker
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Will,
)
from reefcast.mqtt.reasons import Reason
from reefcast.mqtt.surroundings import Settings
from reefcast.server.listeners import Listener
from reefcast.server.mqtt import line
from reefcast.server.mqtt.line import MqttLine
from reefcast.server.mqtt.websocket import LEAST_MESSAGE_BYTES, WebSockets

VERSIONS = pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])
SMALL = Settings(maximum_packet_size=1000)


class Door:
    """A broker with a listener for WebSocket on `port`. `http`: a client for HTTP."""

    def __init__(self, place: MqttPlace, port: int, http: aiohttp.ClientSession) -> None:
        self.node, self.front = place.node, place.front
        self.port, self.http = port, http

    async def dial(self, version: int = MQTT_5, **more: Any) -> WebSocketClient:
        more = {"protocols": ("mqtt",), **more}
        socket = await self.http.ws_connect(f"http://127.0.0.1:{self.port}/mqtt", **more)
        assert socket.protocol == "mqtt"
        return WebSocketClient(socket, version)

    async def client(self, client_id: str = "", **fields: Any) -> MqttClient:
        client = await self.dial(fields.pop("version", MQTT_5))
        client.say_hello(client_id, **fields)
        client.connack = await client.next(Connack)
        assert not client.connack.reason
        return client

    async def answer(self, path: str, **headers: str) -> tuple[int, str]:
        """Ask by HTTP, without redirections."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.get(f"http://127.0.0.1:{self.port}{path}", headers=said) as found:
            return found.status, await found.text()


class WebSocketClient(MqttClient):
    """`frame_bytes`: how long its frames are, but for the last one of a `write`."""

    frame_bytes = 1 << 20

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, version: int) -> None:
        super().__init__(None, None, version)  # type: ignore[arg-type]  # it has a socket instead
        self.socket = socket
        self.closing = 0
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._sending = asyncio.create_task(self._send())

    def send(self, packet: Packet) -> None:
        self.write(encode(packet, self.version))

    def write(self, data: bytes) -> None:
        self._waiting.put_nowait(data)

    async def _send(self) -> None:
        with suppress(ConnectionError):
            while data := await self._waiting.get():
                for at in range(0, len(data), self.frame_bytes):
                    await self.socket.send_bytes(data[at : at + self.frame_bytes])

    async def _read(self) -> None:
        message = await self.socket.receive()
        if message.type is not WSMsgType.BINARY:
            self.ended = True
            self.closing = self.socket.close_code or 0
            raise ConnectionResetError
        packets, error = self._decoder.receive(message.data)
        assert error is None, error
        self.inbox.extend(packets)

    def cut(self) -> None:
        transport = self.socket.get_extra_info("socket")
        transport.shutdown(2)


@asynccontextmanager
async def door(
    folder: Path, settings: Settings | None = None, *, here_only: bool = True, **limits: Any
) -> AsyncIterator[Door]:
    async with mqtt_broker(folder, **limits) as place, aiohttp.ClientSession() as http:
        sockets = WebSockets(
            place.node.host.journal,
            lambda: MqttLine(place.front, settings or Settings()),
            (settings or Settings()).maximum_packet_size,
            here_only=here_only,
        )
        listener = Listener("127.0.0.1", 0, sockets.new_connection)
        place.node.listeners.append(listener)
        await listener.open("broker a")
        yield Door(place, listener.port, http)


@VERSIONS
@pytest.mark.parametrize("frame_bytes", [1, 7, 1 << 20])
async def test_packets_begin_and_end_anywhere_in_frames(
    tmp_path: Path, version: int, frame_bytes: int
) -> None:
    """MQTT-6.0.0-2, MQTT-6.0.0-3"""
    async with door(tmp_path) as place:
        client = await place.dial(version)
        client.frame_bytes = frame_bytes
        client.write(
            b"".join(
                encode(each, version)
                for each in (Connect("c"), Pingreq(), Publish("a", b"x" * 40), Pingreq())
            )
        )
        assert not (await client.next(Connack)).reason
        for _ in range(2):
            await client.next(Pingresp)
        await client.subscribe("a/#", 2)
        for qos, size in ((0, 10), (1, 300), (2, 700 if frame_bytes < 8 else 70_000)):
            await client.publish("a/b", bytes(size), qos)
            event = await client.event()
            assert (event.qos, len(event.payload)) == (qos, size)
        await client.leave()
        assert client.closing == 1000


async def test_a_text_frame_ends_the_connection(tmp_path: Path) -> None:
    """MQTT-6.0.0-1"""
    async with door(tmp_path) as place:
        watcher = await place.client()
        await watcher.subscribe("wills/#", 1)
        client = await place.client("c", will=Will("wills/c", b"gone", 1))
        assert isinstance(client, WebSocketClient)
        await client.socket.send_str("hello")
        (last,) = await client.until_closed()
        assert isinstance(last, Disconnect)
        assert last.reason is Reason.PROTOCOL_ERROR
        assert "binary frames" in (last.properties.reason_string or "")
        assert client.closing == 1003
        assert (await watcher.event()).topic == "wills/c"


async def test_a_message_has_an_end(tmp_path: Path) -> None:
    async with door(tmp_path, SMALL) as place:
        client = await place.client()
        client.write(bytes(LEAST_MESSAGE_BYTES + 1))
        await client.until_closed()
        assert isinstance(client, WebSocketClient)
        assert client.closing == 1009
        client = await place.client()
        client.send(Publish("a", bytes(2000)))
        (last,) = await client.until_closed()
        assert isinstance(last, Disconnect)
        assert last.reason is Reason.PACKET_TOO_LARGE


async def test_a_client_that_is_lost_leaves_its_will(tmp_path: Path) -> None:
    async with door(tmp_path) as place:
        watcher = await place.client()
        await watcher.subscribe("wills/#", 1)
        client = await place.client("c", will=Will("wills/c", b"gone", 1))
        client.cut()
        assert (await watcher.event()).topic == "wills/c"
        await until(lambda: place.front.connected == 1)


HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec_WebSocket_Protocol": "mqtt",
}


@pytest.mark.parametrize(
    ("path", "headers", "status", "words"),
    [
        ("/", HANDSHAKE, 404, "MQTT over WebSocket is at /mqtt"),
        ("/mqtt", {}, 426, "this is for MQTT over WebSocket"),
        ("/mqtt", {**HANDSHAKE, "Upgrade": "h2c"}, 426, "this is for MQTT over WebSocket"),
        ("/mqtt", {**HANDSHAKE, "Sec_WebSocket_Protocol": "mqttv3.1, chat"}, 400, '"mqtt"'),
        ("/mqtt", {**HANDSHAKE, "Sec_WebSocket_Version": "99"}, 400, "no handshake of WebSocket"),
        ("/mqtt", {**HANDSHAKE, "Sec_WebSocket_Key": "short"}, 400, "no handshake of WebSocket"),
        ("/mqtt", {**HANDSHAKE, "X_Long": "x" * 40_000}, 400, "no request that can be read"),
    ],
)
async def test_what_is_no_handshake_is_answered_in_words(
    tmp_path: Path, path: str, headers: dict[str, str], status: int, words: str
) -> None:
    async with door(tmp_path) as place:
        answered, text = await place.answer(path, **headers)
        assert answered == status
        assert words in text
        await until(lambda: not place.node.shared.all)


async def test_nothing_is_compressed(tmp_path: Path) -> None:
    async with door(tmp_path) as place:
        client = await place.dial(compress=15)
        assert not client.socket.compress


@pytest.mark.parametrize(
    ("origin", "host", "comes_in"),
    [
        ("http://localhost:8000", "127.0.0.1:1", True),
        ("http://127.0.0.1", "localhost", True),
        ("https://shop.example", "127.0.0.1:1", False),
        ("http://shop.example", "shop.example", False),  # whose name leads here
        ("null", "127.0.0.1:1", False),
        ("http://[", "127.0.0.1:1", False),
    ],
)
async def test_pages_of_others_are_not_on_this_machine(
    tmp_path: Path, origin: str, host: str, comes_in: bool
) -> None:
    async with door(tmp_path) as place:
        headers = {"Origin": origin, "Host": host}
        if comes_in:
            await place.dial(headers=headers)
            return
        with pytest.raises(WSServerHandshakeError) as caught:
            await place.dial(headers=headers)
        assert caught.value.status == 403


async def test_pages_of_all_origins_may_show_a_user(tmp_path: Path) -> None:
    async with door(tmp_path, here_only=False) as place:
        await place.dial(headers={"Origin": "https://shop.example"})


async def test_who_does_not_say_hello_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "HELLO_S", 0.05)
    async with door(tmp_path) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        client = await place.dial()
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""  # though it said no word of HTTP
        await client.until_closed()
        writer.close()


async def test_one_too_many_is_turned_away(tmp_path: Path) -> None:
    async with door(tmp_path, max_connections=1) as place:
        client = await place.client()
        with pytest.raises(aiohttp.ClientError):
            await place.dial()
        assert not client.ended


async def test_a_client_that_reads_nothing_waits(tmp_path: Path) -> None:
    """What the socket does not take waits in the port, and comes when the client reads again."""
    async with door(tmp_path) as place:
        slow, publisher = await place.client(), await place.client()
        assert isinstance(slow, WebSocketClient)
        await slow.subscribe("big")
        for _ in range(40):
            await publisher.publish("big", bytes(1_000_000), 1)
        (session,) = (each for each in place.node.clients.sessions.values() if each.port.paused)
        assert session.port.queue_len
        for _ in range(40):
            assert len((await slow.event()).payload) == 1_000_000
        assert not session.port.paused


async def test_the_broker_stops_reading(tmp_path: Path) -> None:
    """A publisher without credit waits, and nothing is lost."""
    async with door(tmp_path, credit=8) as place:
        subscriber, publisher = await place.client(), await place.client()
        await subscriber.subscribe("a", 1)
        for number in range(500):
            publisher.send(Publish("a", b"%d" % number, 1, packet_id=number + 1))
        got = [(await subscriber.event()).payload for _ in range(500)]
        assert got == [b"%d" % number for number in range(500)]
