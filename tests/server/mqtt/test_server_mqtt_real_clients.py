"""MQTT clients that others have written, at a live broker: paho, aiomqtt, mosquitto_sub and
mosquitto_pub, MQTT.js in Node and in a page."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import aiomqtt
import paho.mqtt.client as paho
import pytest
from aiohttp import web
from live_brokers import Live
from mqtt_listeners import ports, with_mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from browsers import browser, page_of
from foreign_clients import MQTT_JS, MQTT_JS_FOR_PAGES, NEEDS_MOSQUITTO, NEEDS_MQTT_JS, NODE
from live_networks import PATIENCE_S, make_network

pytestmark = [pytest.mark.live]
VERSIONS = pytest.mark.parametrize("version", [4, 5])
OVER = pytest.mark.parametrize("over", ["tcp", "websocket"])
SCENARIO = Path(__file__).parent / "scenario.js"
CHEAP = "price < 100"
CHEAP_3_1_1 = "$filter/price%20%3C%20100/stock/#"


class Seen(NamedTuple):
    """An event as a client saw it."""

    topic: str
    payload: str
    qos: int
    retain: bool


class Place(NamedTuple):
    """Where a broker serves MQTT over TCP, and over WebSocket."""

    tcp: int
    websocket: int

    def port(self, over: str) -> int:
        return self.tcp if over == "tcp" else self.websocket

    def url(self, over: str) -> str:
        end = "" if over == "tcp" else "/mqtt"
        return f"{'mqtt' if over == 'tcp' else 'ws'}://127.0.0.1:{self.port(over)}{end}"


@pytest.fixture
async def place(live: Live, tmp_path: Path) -> Place:
    network = with_mqtt(make_network("a"), tmp_path, content="json")
    return Place(*ports(await live.node(network, "a")))


class Client(Protocol):
    """A client of one of the Python libraries. `present`: whether it found its session."""

    present: bool

    async def subscribe(self, topic: str, qos: int, filter: str = "") -> None: ...
    async def publish(
        self, topic: str, payload: str, qos: int, *, retain: bool = False
    ) -> None: ...
    async def event(self) -> Seen: ...
    async def leave(self) -> None: ...
    def cut(self) -> None: ...


def _expiry(version: int) -> Properties | None:
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 100
    return properties if version == 5 else None


def _condition(version: int, filter: str) -> Properties | None:
    if not (filter and version == 5):
        return None
    properties = Properties(PacketTypes.SUBSCRIBE)
    properties.UserProperty = ("filter", filter)
    return properties


class PahoClient:
    """paho-mqtt, with its own thread."""

    present = False

    def __init__(self, place: Place, id: str, version: int, over: str, *, lasting: bool, will: str):
        self._loop = asyncio.get_running_loop()
        self._came: asyncio.Queue[Seen] = asyncio.Queue()
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        more: dict[str, Any] = {} if version == 5 else {"clean_session": not lasting}
        self._client = client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            id,
            protocol=paho.MQTTProtocolVersion(version),
            transport="tcp" if over == "tcp" else "websockets",
            reconnect_on_failure=False,
            **more,
        )
        self._version = version
        self._where = place.port(over)
        self._how = {"clean_start": not lasting} if version == 5 else {}
        self._how |= {"properties": _expiry(version)} if lasting and version == 5 else {}
        client.ws_set_options(path="/mqtt")
        if will:
            client.will_set(will, "gone", 1)
        client.on_message = lambda _, __, m: self._put(
            self._came, Seen(m.topic, m.payload.decode(), m.qos, m.retain)
        )
        client.on_connect = lambda _, __, flags, code, ___: self._put(self._answers, (flags, code))
        client.on_subscribe = lambda _, __, ___, codes, ____: self._put(self._answers, codes)
        client.on_publish = lambda _, __, mid, code, ___: self._put(self._answers, code)

    def _put(self, queue: asyncio.Queue[Any], what: Any) -> None:
        self._loop.call_soon_threadsafe(queue.put_nowait, what)

    async def _answer(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await self._answers.get()

    async def open(self) -> PahoClient:
        await asyncio.to_thread(self._client.connect, "127.0.0.1", self._where, **self._how)
        self._client.loop_start()
        flags, code = await self._answer()
        assert not code.is_failure, code
        self.present = flags.session_present
        return self

    async def subscribe(self, topic: str, qos: int, filter: str = "") -> None:
        if self._version == 5:
            options = SubscribeOptions(qos=qos)
            condition = _condition(5, filter)
            self._client.subscribe(topic, options=options, properties=condition)
        else:
            self._client.subscribe(topic, qos)
        (code,) = await self._answer()
        assert code.value == qos, code

    async def publish(self, topic: str, payload: str, qos: int, *, retain: bool = False) -> None:
        self._client.publish(topic, payload, qos, retain)
        assert not (await self._answer()).is_failure

    async def event(self) -> Seen:
        async with asyncio.timeout(PATIENCE_S):
            return await self._came.get()

    async def leave(self) -> None:
        self._client.disconnect()
        await asyncio.to_thread(self._client.loop_stop)

    def cut(self) -> None:
        found: Any = self._client.socket()
        getattr(found, "_socket", found).shutdown(socket.SHUT_RDWR)


class AioClient:
    """aiomqtt, in the test's own loop."""

    present = False

    def __init__(self, place: Place, id: str, version: int, over: str, *, lasting: bool, will: str):
        how: dict[str, Any] = {"clean_session": not lasting}
        if version == 5:
            how = {"clean_start": not lasting}
            how |= {"properties": _expiry(version)} if lasting else {}
        self._version = version
        self._client = aiomqtt.Client(
            "127.0.0.1",
            place.port(over),
            identifier=id,
            protocol=aiomqtt.ProtocolVersion(version),
            transport="tcp" if over == "tcp" else "websockets",
            websocket_path="/mqtt" if over == "websocket" else None,
            will=aiomqtt.Will(will, b"gone", 1) if will else None,
            **how,
        )
        self._stack = AsyncExitStack()

    async def open(self) -> AioClient:
        await self._stack.enter_async_context(self._client)
        self._messages = aiter(self._client.messages)
        return self

    async def subscribe(self, topic: str, qos: int, filter: str = "") -> None:
        more = {"properties": _condition(5, filter)} if filter and self._version == 5 else {}
        (code,) = await self._client.subscribe(topic, qos, **more)
        assert getattr(code, "value", code) == qos

    async def publish(self, topic: str, payload: str, qos: int, *, retain: bool = False) -> None:
        await self._client.publish(topic, payload, qos, retain)

    async def event(self) -> Seen:
        async with asyncio.timeout(PATIENCE_S):
            found = await anext(self._messages)
        return Seen(found.topic.value, bytes(found.payload).decode(), found.qos, found.retain)

    async def leave(self) -> None:
        await self._stack.aclose()

    def cut(self) -> None:
        found: Any = self._client._client.socket()
        getattr(found, "_socket", found).shutdown(socket.SHUT_RDWR)


@OVER
@VERSIONS
@pytest.mark.parametrize("kind", [PahoClient, AioClient])
async def test_python_clients(place: Place, kind: Any, version: int, over: str) -> None:
    async def opened(id: str, *, lasting: bool = False, will: str = "") -> Client:
        made: Client = await kind(place, id, version, over, lasting=lasting, will=will).open()
        return made

    publisher, device = await opened("publisher"), await opened("device", lasting=True)
    assert not device.present
    await device.subscribe("a/#", 2)
    for qos in (0, 1, 2):
        await publisher.publish(f"a/{qos}", "live", qos)
    got = sorted([await device.event() for _ in range(3)])
    assert got == [Seen(f"a/{qos}", "live", qos, False) for qos in (0, 1, 2)]

    await publisher.publish("r/1", "kept", 1, retain=True)
    await device.subscribe("r/#", 1)
    assert await device.event() == Seen("r/1", "kept", 1, True)

    await device.subscribe("stock/#" if version == 5 else CHEAP_3_1_1, 1, CHEAP)
    for price in (120, 99):
        await publisher.publish("stock/IBM", json.dumps({"price": price}), 1)
    assert (await device.event()).payload == '{"price": 99}'

    await device.leave()
    for qos in (1, 2):
        await publisher.publish("a/b", f"away {qos}", qos)
    device = await opened("device", lasting=True)
    assert device.present or kind is AioClient  # which does not tell
    event = await device.event()
    if event.topic == "stock/IBM":  # it left before it had acknowledged it
        event = await device.event()
    got = [event, await device.event()]
    assert got == [Seen("a/b", f"away {qos}", qos, False) for qos in (1, 2)]
    lost = await opened("lost", will="a/will")
    lost.cut()
    assert await device.event() == Seen("a/will", "gone", 1, False)
    for each in (device, publisher):
        await each.leave()


# --- mosquitto ------------------------------------------------------------------------------------


class Mosquitto:
    """mosquitto_sub and mosquitto_pub, for one version."""

    def __init__(self, place: Place, version: int) -> None:
        name = {4: "mqttv311", 5: "mqttv5"}[version]
        self._how = ["-h", "127.0.0.1", "-p", str(place.tcp), "-V", name]
        self.lasting = ["-c", *(["-x", "100"] if version == 5 else [])]

    async def publish(self, topic: str, payload: str, qos: int, *more: str) -> None:
        words = ["-t", topic, "-m", payload, "-q", str(qos), *more]
        program = await asyncio.create_subprocess_exec("mosquitto_pub", *self._how, *words)
        assert await program.wait() == 0

    async def subscribed(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("mosquitto_sub", *self._how, "-F", "%t %p %q %r", *words), stdout=subprocess.PIPE
        )

    async def seen(self, *words: str) -> list[Seen]:
        """Subscribe until as many events have come as `-C` says."""
        reader = await self.subscribed(*words)
        async with asyncio.timeout(PATIENCE_S):
            output, _ = await reader.communicate()
        assert reader.returncode == 0
        found = [line.rsplit(" ", 2) for line in output.decode().splitlines()]
        return [
            Seen(*event.partition(" ")[::2], int(qos), retain == "1")
            for event, qos, retain in found
        ]


@NEEDS_MOSQUITTO
@VERSIONS
async def test_mosquitto(place: Place, version: int) -> None:
    programs = Mosquitto(place, version)
    device = ["-i", "device", "-q", "2", "-t", "a/#", *programs.lasting]
    assert await programs.seen(*device, "-E") == []  # subscribes, and leaves
    for qos in (0, 1, 2):
        await programs.publish("a/b", f"away {qos}", qos)
    got = await programs.seen(*device, "-C", "3")
    assert got == [Seen("a/b", f"away {qos}", qos, False) for qos in (0, 1, 2)]

    await programs.publish("r/1", "kept", 1, "-r")
    assert await programs.seen("-t", "r/#", "-q", "1", "-C", "1") == [Seen("r/1", "kept", 1, True)]

    condition = ["-t", CHEAP_3_1_1]
    if version == 5:
        condition = ["-t", "stock/#", "-D", "subscribe", "user-property", "filter", CHEAP]
    client = ["-i", "trader", "-q", "1", *condition, *programs.lasting]
    await programs.seen(*client, "-E")
    for price in (120, 99):
        await programs.publish("stock/IBM", f'{{"price":{price}}}', 1)
    (event,) = await programs.seen(*client, "-C", "1")
    assert event.payload == '{"price":99}'

    will = ["--will-topic", "a/will", "--will-payload", "gone", "--will-qos", "1"]
    lost = await programs.subscribed("-i", "lost", "-t", "r/#", *will)
    assert lost.stdout is not None
    assert await lost.stdout.readline()  # it is connected
    lost.kill()
    await lost.wait()
    assert await programs.seen(*device, "-C", "1") == [Seen("a/will", "gone", 1, False)]


# --- MQTT.js --------------------------------------------------------------------------------------


def check(seen: dict[str, Any]) -> None:
    """Check what `scenario.js` returns."""
    assert not seen["fresh"] and seen["present"]
    assert sorted(seen["live"]) == [[f"a/{qos}", "live", qos, False] for qos in (0, 1, 2)]
    assert seen["retained"] == ["r/1", "kept", 1, True]
    assert seen["filtered"] == ["stock/IBM", '{"price":99}', 1, False]
    assert seen["owed"] == [["a/b", f"away {qos}", qos, False] for qos in (1, 2)]
    assert seen["will"] == ["a/will", "gone", 1, False]


@NEEDS_MQTT_JS
@OVER
@VERSIONS
async def test_mqtt_js(place: Place, version: int, over: str) -> None:
    program = await asyncio.create_subprocess_exec(
        *(str(NODE), str(SCENARIO), str(MQTT_JS), place.url(over), str(version)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        output, errors = await program.communicate()
    assert program.returncode == 0, errors.decode()
    check(json.loads(output))


PAGE = """<!doctype html><title>MQTT</title>
<script src="mqtt.min.js"></script><script src="scenario.js"></script>"""


@asynccontextmanager
async def site() -> AsyncIterator[str]:
    """A page with MQTT.js, on this machine; the address."""

    async def page(request: web.BaseRequest) -> web.StreamResponse:
        files = {"/mqtt.min.js": MQTT_JS_FOR_PAGES, "/scenario.js": SCENARIO}
        if request.path in files:
            return web.FileResponse(files[request.path])
        return web.Response(text=PAGE, content_type="text/html")

    server = await asyncio.get_running_loop().create_server(web.Server(page), "127.0.0.1", 0)
    yield "http://127.0.0.1:{1}/".format(*server.sockets[0].getsockname())
    server.close()


@pytest.mark.long
@NEEDS_MQTT_JS
async def test_a_page_in_a_browser(place: Place) -> None:
    run = "([url, version]) => scenario(mqtt, url, version)"
    async with browser() as chromium, site() as base, page_of(chromium, base) as page:
        check(await page.evaluate(run, [place.url("websocket"), 5]))
