"""Where MQTT clients come in: the listeners of one `[[listener]]` of the network file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from reefcast.extras import extra_for
from reefcast.mqtt.content import ContentOptions
from reefcast.mqtt.packets import Connect
from reefcast.mqtt.reasons import MqttError, Reason
from reefcast.mqtt.surroundings import Settings
from reefcast.protocol.privacy import is_loopback
from reefcast.server.listeners import Listener
from reefcast.server.mqtt.front import MqttFront, MqttListener
from reefcast.server.mqtt.line import MqttLine
from reefcast.server.mqtt.serving import ServingBroker
from reefcast.server.tls_listener import TlsListener

if TYPE_CHECKING:
    from reefcast.network.listeners import ListenerEntry

Make = Callable[[], asyncio.BaseProtocol]


class LineWithoutTls(MqttLine):
    """A connection without TLS to a listener that speaks it: the client is told so."""

    def _connect(self, packet: Connect) -> None:
        raise MqttError(Reason.NOT_AUTHORIZED, "this listener speaks TLS: connect with TLS")


def front_of(node: ServingBroker) -> MqttFront:
    """Return what the MQTT clients of a broker have in common, with the listeners that its network
    file says; the broker opens them."""
    front = MqttFront(node)
    _ = front.renderer.packets  # compiled now, at the first start, and not while clients wait
    for entry in node.network.listener:
        if entry.broker == node.name and entry.protocol == "mqtt":
            front.listeners += mqtt_listeners(node, front, entry)
    node.listeners += [each.listener for each in front.listeners]
    return front


def mqtt_listeners(
    node: ServingBroker, front: MqttFront, entry: ListenerEntry
) -> list[MqttListener]:
    """Return the listeners of an entry: for TCP and for WebSocket."""
    settings = settings_of(entry, node.network.limits.publication_bytes)
    found = []
    if entry.address is not None:
        found.append(_over_tcp(node, front, settings, entry.address, entry))
    if entry.websocket_address is not None:
        found.append(_over_websocket(node, front, settings, entry.websocket_address, entry))
    return found


def settings_of(entry: ListenerEntry, most_bytes: int) -> Settings:
    """Return what the listener offers. `most_bytes`: of a publication, for all clients."""
    return Settings(
        receive_maximum=entry.receive_maximum,
        maximum_packet_size=entry.maximum_packet_size or most_bytes,
        session_expiry_s=entry.session_expiry_s,
        topic_alias_maximum=entry.topic_alias_maximum,
        keep_alive_s=entry.keep_alive_s,
        content=ContentOptions(json=entry.content == "json", user_properties=entry.user_properties),
    )


def _over_tcp(
    node: ServingBroker,
    front: MqttFront,
    settings: Settings,
    address: tuple[str, int],
    entry: ListenerEntry,
) -> MqttListener:
    def make() -> MqttLine:
        return MqttLine(front, settings)

    def refuse() -> MqttLine:
        return LineWithoutTls(front, settings)

    return _listener(node, address, make, refuse, "tcp", entry)


def _over_websocket(
    node: ServingBroker,
    front: MqttFront,
    settings: Settings,
    address: tuple[str, int],
    entry: ListenerEntry,
) -> MqttListener:
    with extra_for("MQTT over WebSocket"):
        from reefcast.server.mqtt.websocket import WebSockets  # loads aiohttp
        from reefcast.server.web.http import PlainHttp
    sockets = WebSockets(
        node.host.journal,
        lambda: MqttLine(front, settings),
        settings.maximum_packet_size,
        here_only=is_loopback(address[0]) and node.network.security is None,
    )
    return _listener(node, address, sockets.new_connection, PlainHttp, "websocket", entry)


def _listener(
    node: ServingBroker,
    address: tuple[str, int],
    make: Make,
    refuse: Make,
    over: str,
    entry: ListenerEntry,
) -> MqttListener:
    tls = node.tls
    if tls is None or not entry.speaks_tls(address[0], has_tls=True):
        return MqttListener(Listener(*address, make), over, False)
    listener = TlsListener(
        *(*address, make),
        refuse=refuse,
        context=lambda: tls.value.answering,
        failed=node.say_no_tls,
    )
    return MqttListener(listener, over, True)
