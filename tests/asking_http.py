"""Requests to the admin listeners of brokers and storages, byte by byte."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from live_networks import PATIENCE_S
from reefcast.network.file import NetworkFile
from reefcast.server.node import Node
from reefcast.server.supervisor import free_ports

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


class Said(NamedTuple):
    """An answer; `headers` by names in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def with_admin(network: NetworkFile) -> NetworkFile:
    """The network, each of whose brokers has an admin listener on loopback."""
    for entry, port in zip(network.broker, free_ports(len(network.broker)), strict=True):
        entry.admin = f"127.0.0.1:{port}"
    return network.validate()


Listening = Node | tuple[str, int]
"""A broker, or the address of a listener."""


async def raw(at: Listening, request: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """All that the listener answers, until it closes the connection."""
    address = at if isinstance(at, tuple) else at.network.admin_address(at.name)
    assert address is not None
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(*address, ssl=tls)
        try:
            writer.write(request)
            return await reader.read()
        finally:
            writer.close()


async def ask(
    at: Listening,
    path: str = "/metrics",
    headers: Mapping[str, str] = {},
    *,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
) -> Said:
    said = {"Host": "localhost", "Connection": "close", **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items())]
    answer = await raw(at, "\r\n".join([*lines, "", ""]).encode(), tls)
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    fields: dict[str, str] = {}
    for line in rest:
        name, _, value = line.partition(": ")
        before = fields.get(name.lower())
        fields[name.lower()] = value if before is None else f"{before}, {value}"
    return Said(int(first.split()[1]), fields, body)


Labels = frozenset[tuple[str, str]]


async def scrape(
    at: Listening, headers: Mapping[str, str] = {}, *, tls: ssl.SSLContext | None = None
) -> dict[str, dict[Labels, float]]:
    """Sample names -> labels -> values, read by the strict parser of OpenMetrics."""
    said = await ask(at, headers={**OPENMETRICS, **headers}, tls=tls)
    assert said.status == 200, said.body
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(said.body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def labels(**values: str) -> Labels:
    return frozenset(values.items())
