"""Brokers of a network with [security], and what can be seen of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from live_brokers import Live

import reefcast
from live_networks import url_of
from reefcast.protocol.principal import Principal
from reefcast.security.credentials import NetworkKey
from reefcast.server.admin import ask_status
from reefcast.server.node import Node
from secured import (
    KEY,
    PASSWORD,
    secured,
)

ANNA = {"user": "anna", "password": PASSWORD}


async def broker(live: Live, folder: Path, **section: Any) -> Node:
    return await live.node(secured(folder, **section), "b1")


def url(node: Node) -> str:
    return url_of(node.network, node.name)


def principals(node: Node) -> list[Principal]:
    return [session.principal for session in node.clients.sessions.values()]


def lines(folder: Path, broker: str = "b1") -> list[dict[str, Any]]:
    """The audit log."""
    text = (folder / "audit" / f"{broker}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


async def status(node: Node) -> dict[str, Any]:
    return await ask_status(*node.network.address(node.name), credentials=NetworkKey(KEY.encode()))


async def opened(node: Node, options: dict[str, str]) -> reefcast.Client:
    return await reefcast.connect(url(node), **options)
