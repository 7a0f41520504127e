"""MQTT clients at different brokers of a network whose brokers are killed."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from collections import Counter
from pathlib import Path

import pytest
from live_brokers import make_scot
from mqtt_device import Device

from children import CHILD_S, Children, line_of
from live_networks import make_network
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.listeners import ListenerEntry
from reefcast.network.sections import SessionsSection
from reefcast.server.supervisor import free_ports

EVENTS = 60
EDGES = [("a", "b"), ("b", "c")]


def network_of(kind: str) -> NetworkFile:
    if kind == "scot":
        return make_scot("path:2", 2, routing="idr")
    return make_network("abc", EDGES, routing={"tree": "acyclic", "mesh": "mesh"}[kind])


class Brokers:
    """The processes of a network's brokers."""

    def __init__(self, children: Children, network: NetworkFile, folder: Path) -> None:
        self._children = children
        self._file = folder / "net.toml"
        network.sessions = SessionsSection(directory=str(folder / "{broker}"), custody_after_s=0.3)
        taken = {network.address(name)[1] for name in network.names}
        free = (port for port in free_ports(2 * len(network.names)) if port not in taken)
        self.ports = dict(zip(network.names, free, strict=False))
        network.listener = [
            ListenerEntry(broker=name, protocol="mqtt", listen=f"127.0.0.1:{port}")
            for name, port in self.ports.items()
        ]
        self._file.write_text(dump_network(network.validate()))
        self._running: dict[str, Process] = {}

    async def start(self, *names: str) -> None:
        for name in names:
            self._running[name] = await self._children.start(
                "broker", self._file, name, "--json", stderr=None
            )
        for name in names:
            async with asyncio.timeout(CHILD_S):
                assert json.loads(await line_of(self._running[name].stdout))

    async def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        await process.wait()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["tree", pytest.param("scot", marks=pytest.mark.soak), "mesh"])
async def test_nothing_is_lost_and_qos_2_comes_once_whoever_dies(tmp_path: Path, kind: str) -> None:
    network = network_of(kind)
    names = network.names
    async with Children() as children:
        brokers = Brokers(children, network, tmp_path)
        await brokers.start(*names)
        near, far = brokers.ports[names[0]], brokers.ports[names[-1]]
        publisher = Device("publisher", [near])
        subscribers = [Device("far", [far], "plant/#"), Device("near", [near], "plant/#")]
        tasks = [asyncio.create_task(each.run()) for each in (publisher, *subscribers)]
        async with asyncio.timeout(CHILD_S):
            for each in subscribers:
                await each.subscribed.wait()
            for i in range(EVENTS):
                qos = 1 + i % 2
                await publisher.publish(f"plant/{i % 3}", b"%d %d" % (qos, i), qos)
                if i % 20 == 10:
                    victim = names[(i // 20) * (len(names) - 1) // 2]
                    await brokers.kill(victim)
                    await brokers.start(victim)
            await publisher.all_acknowledged()
            expected = {b"%d %d" % (1 + i % 2, i) for i in range(EVENTS)}
            for each in subscribers:
                while set(each.got) != expected:
                    assert set(each.got) <= expected
                    await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        for each in subscribers:
            twice = [payload for payload, count in Counter(each.got).items() if count > 1]
            assert not [payload for payload in twice if payload.startswith(b"2")], twice
        assert not any(each.lost_session for each in (publisher, *subscribers))
