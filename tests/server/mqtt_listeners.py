"""Networks whose brokers listen for MQTT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reefcast.network.file import NetworkFile
from reefcast.network.listeners import ListenerEntry
from reefcast.server.node import Node
from reefcast.server.supervisor import free_ports


def with_mqtt(network: NetworkFile, folder: Path, **fields: Any) -> NetworkFile:
    """Return the network with a listener at each broker, over TCP and over WebSocket."""
    network.sessions.directory = str(folder / "sessions")
    for name in network.names:
        listen, websocket = (f"127.0.0.1:{port}" for port in free_ports(2))
        entry = ListenerEntry(
            broker=name, protocol="mqtt", listen=listen, websocket=websocket, **fields
        )
        network.listener.append(entry)
    return network.validate()


def ports(node: Node) -> list[int]:
    """Return on which ports a broker listens for MQTT: over TCP, over WebSocket."""
    assert node.mqtt is not None
    return [each.listener.port for each in node.mqtt.listeners]
