"""A raw MQTT client for tests: it sends packets, right or wrong, and shows what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from live_networks import make_network
from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.packets import (
    MQTT_5,
    Connack,
    Connect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    TopicRequest,
    Unsuback,
    Unsubscribe,
)
from reefcast.mqtt.properties import NO_PROPERTIES, Properties
from reefcast.mqtt.surroundings import Settings
from reefcast.server.listeners import Listener
from reefcast.server.mqtt.front import MqttFront
from reefcast.server.mqtt.line import MqttLine
from reefcast.server.node import Node

PATIENCE_S = 120.0
P = TypeVar("P", bound=Packet)


class MqttClient:
    """One connection. `inbox`: the packets that came and were not asked for yet; `ended`: the
    broker has closed it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int
    ) -> None:
        self.reader, self.writer, self.version = reader, writer, version
        self.inbox: list[Packet] = []
        self.ended = False
        self._decoder = Decoder(version)
        self._last_id = 0

    @classmethod
    async def dial(cls, port: int, version: int = MQTT_5, **tls: Any) -> Self:
        """Return a connection over which nothing has been sent yet."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, **tls), version)

    @classmethod
    async def connect(
        cls, port: int, client_id: str = "", *, version: int = MQTT_5, **fields: Any
    ) -> Self:
        """Connect a client, which must be accepted; `fields`: of the CONNECT, and of its
        properties. `connack`: the answer; `name`: its identifier."""
        client = await cls.dial(port, version)
        client.name = client_id
        client.say_hello(client_id, **fields)
        client.connack = await client.next(Connack)
        assert not client.connack.reason, client.connack
        return client

    connack: Connack
    name: str

    def say_hello(self, client_id: str = "", **fields: Any) -> None:
        self.send(Connect(client_id, **_with_properties(Connect, fields)))

    def send(self, packet: Packet) -> None:
        self.writer.write(encode(packet, self.version))

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    # --- what comes back --------------------------------------------------------------------------

    async def next(self, kind: type[P], matches: Callable[[P], bool] = lambda packet: True) -> P:
        """Return the next packet of this kind. Raises `ConnectionError` at the end."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for packet in self.inbox:
                    if isinstance(packet, kind) and matches(packet):
                        self.inbox.remove(packet)
                        return packet
                await self._read()

    async def _read(self) -> None:
        data = b"" if self.ended else await self.reader.read(1 << 16)
        if not data:
            self.ended = True
            raise ConnectionResetError(
                f"the broker has closed the connection; unread: {self.inbox}"
            )
        packets, error = self._decoder.receive(data)
        assert error is None, error
        self.inbox.extend(packets)

    async def until_closed(self) -> list[Packet]:
        """Wait until the broker has closed the connection; return what came before."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                while True:
                    await self._read()
            except ConnectionError:
                return self.inbox

    # --- the usual --------------------------------------------------------------------------------

    async def subscribe(
        self,
        topic_filter: str,
        qos: int = 0,
        properties: Properties = NO_PROPERTIES,
        **options: Any,
    ) -> Suback:
        """Subscribe, and return the answer."""
        id = self.next_id()
        self.send(Subscribe(id, (TopicRequest(topic_filter, qos, **options),), properties))
        return await self.next(Suback, lambda packet: packet.packet_id == id)

    async def unsubscribe(self, *topic_filters: str) -> Unsuback:
        id = self.next_id()
        self.send(Unsubscribe(id, topic_filters))
        return await self.next(Unsuback, lambda packet: packet.packet_id == id)

    async def publish(
        self, topic: str, payload: bytes = b"", qos: int = 0, **fields: Any
    ) -> Puback | Pubrec | None:
        """Publish, and wait until the broker has acknowledged it."""
        id = self.next_id() if qos else 0
        fields = _with_properties(Publish, fields)
        self.send(Publish(topic, payload, qos, packet_id=id, **fields))
        if qos == 1:
            return await self.next(Puback, lambda packet: packet.packet_id == id)
        if qos == 2:
            received = await self.next(Pubrec, lambda packet: packet.packet_id == id)
            if not received.reason.is_failure:
                self.send(Pubrel(id))
                await self.next(Pubcomp, lambda packet: packet.packet_id == id)
            return received
        return None

    async def event(self) -> Publish:
        """Return the next event, acknowledged as its QoS says."""
        event = await self.next(Publish)
        if event.qos == 1:
            self.send(Puback(event.packet_id))
        elif event.qos == 2:
            self.send(Pubrec(event.packet_id))
            await self.next(Pubrel, lambda packet: packet.packet_id == event.packet_id)
            self.send(Pubcomp(event.packet_id))
        return event

    def cut(self) -> None:
        """Break the connection."""
        self.writer.transport.abort()

    async def leave(self) -> None:
        """Disconnect, as clients should."""
        from reefcast.mqtt.packets import Disconnect

        self.send(Disconnect())
        await self.until_closed()


def _with_properties(kind: type, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a packet, with those that are properties in their place."""
    own = {name: value for name, value in fields.items() if name in kind.__struct_fields__}
    rest = {name: value for name, value in fields.items() if name not in own}
    return {**own, "properties": Properties(**rest)} if rest else own


class MqttPlace:
    """A broker with one more listener, for MQTT over TCP on `port`, and others for clients with
    settings of their own, on `ports`; they open with the others."""

    def __init__(
        self,
        node: Node,
        settings: Settings | None = None,
        others: Mapping[str, Settings] | None = None,
    ) -> None:
        self.node, self.front = node, MqttFront(node)
        self._listener = self._listen(settings or Settings())
        self._others = {name: self._listen(each) for name, each in (others or {}).items()}

    def _listen(self, settings: Settings) -> Listener:
        listener = Listener("127.0.0.1", 0, lambda: MqttLine(self.front, settings))
        self.node.listeners.append(listener)
        return listener

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def ports(self) -> dict[str, int]:
        return {name: each.port for name, each in self._others.items()}

    async def client(self, client_id: str = "", **fields: Any) -> MqttClient:
        return await MqttClient.connect(self.port, client_id, **fields)

    async def refusal(self, version: int = MQTT_5, **fields: Any) -> Connack:
        """Connect a client that must be refused; return the answer."""
        client = await MqttClient.dial(self.port, version)
        client.say_hello(**fields)
        (answer,) = await client.until_closed()
        assert isinstance(answer, Connack) and answer.reason.is_failure, answer
        return answer


@asynccontextmanager
async def mqtt_broker(
    directory: Path,
    settings: Settings | None = None,
    *,
    others: Mapping[str, Settings] | None = None,
    **limits: Any,
) -> AsyncIterator[MqttPlace]:
    """Run a broker that keeps its sessions in this directory."""
    network = make_network("a", **limits)
    network.sessions.directory = str(directory)
    node = Node(network, "a")
    place = MqttPlace(node, settings, others)
    await node.start()
    try:
        yield place
    finally:
        await node.stop()
