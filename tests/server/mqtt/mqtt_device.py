"""An MQTT client that keeps its promises whatever happens to its broker: it connects again, and
sends again what the standard says (MQTT-4.4.0-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from mqtt_clients import MqttClient
from reefcast.mqtt.packets import (
    Connack,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    TopicRequest,
)

PAUSE_S = 0.05
EXPIRY_S = 3600


class Device:
    """One client, connected to one of `ports`, by turns. `got`: the payloads that it has received;
    `unacknowledged`: what it has published, by packet identifier; `lost_session`: how often its
    session was not there any more."""

    def __init__(self, name: str, ports: Sequence[int], topic_filter: str = "", qos: int = 2):
        self.name = name
        self._ports = list(ports)
        self._topic_filter, self._qos = topic_filter, qos
        self._subscribed = not topic_filter
        self.got: list[bytes] = []
        self.unacknowledged: dict[int, Publish | Pubrel] = {}
        self.subscribed = asyncio.Event()
        self.lost_session = 0
        self._known: set[int] = set()
        self._last = 0
        self._client: MqttClient | None = None
        self._connected_before = False
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Stay connected, until cancelled."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._connection(self._ports[0])
            self._client = None
            self._ports.append(self._ports.pop(0))
            await asyncio.sleep(PAUSE_S)

    async def _connection(self, port: int) -> None:
        client = await MqttClient.dial(port)
        client.say_hello(self.name, clean_start=False, session_expiry_interval=EXPIRY_S)
        answer = await client.next(Connack)
        if answer.reason:
            raise ConnectionRefusedError(answer)
        if self._connected_before and not answer.session_present:
            self.lost_session += 1
        self._connected_before = True
        self._client = client
        if not self._subscribed:
            request = TopicRequest(self._topic_filter, self._qos)
            client.send(Subscribe(1, (request,)))
        for packet in self.unacknowledged.values():
            is_publish = isinstance(packet, Publish)
            client.send(msgspec.structs.replace(packet, dup=True) if is_publish else packet)
        while True:
            self._handle(client, await client.next(object))  # type: ignore[type-var]  # any packet

    def _handle(self, client: MqttClient, packet: Packet) -> None:
        if isinstance(packet, Publish):
            self._received(client, packet)
        elif isinstance(packet, Pubrel):
            self._known.discard(packet.packet_id)
            client.send(Pubcomp(packet.packet_id))
        elif isinstance(packet, Puback | Pubcomp):
            assert not packet.reason.is_failure or isinstance(packet, Pubcomp), packet
            self.unacknowledged.pop(packet.packet_id, None)
            self._changed.set()
        elif isinstance(packet, Pubrec):
            assert not packet.reason.is_failure, packet
            self.unacknowledged[packet.packet_id] = Pubrel(packet.packet_id)
            client.send(Pubrel(packet.packet_id))
        elif isinstance(packet, Suback):
            assert packet.reasons[0] == self._qos, packet
            self._subscribed = True
            self.subscribed.set()

    def _received(self, client: MqttClient, packet: Publish) -> None:
        if packet.qos < 2 or packet.packet_id not in self._known:
            self.got.append(packet.payload)
        if packet.qos == 2:
            self._known.add(packet.packet_id)
            client.send(Pubrec(packet.packet_id))
        elif packet.qos == 1:
            client.send(Puback(packet.packet_id))

    async def publish(self, topic: str, payload: bytes, qos: int, *, window: int = 8) -> None:
        """Publish when fewer than `window` publications are not acknowledged."""
        while len(self.unacknowledged) >= window:
            self._changed.clear()
            await self._changed.wait()
        self._last = self._last % 65_535 + 1
        packet = Publish(topic, payload, qos, packet_id=self._last)
        self.unacknowledged[self._last] = packet
        if self._client is not None:
            self._client.send(packet)

    async def all_acknowledged(self) -> None:
        while self.unacknowledged:
            self._changed.clear()
            await self._changed.wait()
