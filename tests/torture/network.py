"""A network of broker processes that reach each other through proxies."""

from __future__ import annotations

import asyncio
import copy
import os
import random
import resource
import secrets
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any

from reefcast.errors import LocalError
from reefcast.network.file import NetworkFile, dump_network, scot_network
from reefcast.network.sections import BrokerEntry, LimitsSection, LinkEntry, NetworkSection
from reefcast.network.tree_sources import tree_of
from reefcast.overlay.scot import scot
from reefcast.server.admin import ask_status
from reefcast.server.child import Child
from reefcast.server.supervisor import not_up, overlay_status

from .proxy import Proxy

TREE = [("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5"), ("b3", "b6"), ("b4", "b7")]
CYCLES = [("b2", "b6"), ("b1", "b7")]
ROUNDS = {"round_s": 1.0}
SETUPS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "flooding": ("flooding", "graph", {}),
    "acyclic": ("acyclic", "tree", {}),
    "acyclic-lazy": ("acyclic", "tree", {"covering": "lazy"}),
    "acyclic-active": ("acyclic", "tree", {"covering": "active"}),
    "acyclic-packing": ("acyclic", "tree", {"covering": "packing"}),
    "acyclic-incremental": ("acyclic", "tree", {"covering": "incremental"}),
    "spr": ("spr", "scot", {}),
    "idr": ("idr", "scot", {}),
    "tid-s": ("tid-s", "graph", {}),
    "tid-d": ("tid-d", "graph", {}),
    "mesh": ("mesh", "tree", ROUNDS),
    "spr-mesh": ("spr-mesh", "scot", ROUNDS),
    "idr-mesh": ("idr-mesh", "scot", ROUNDS),
    "gossip": (
        "gossip",
        "none",
        {"contacts": ["b1", "b4", "b6"], "repair": True, "kept_rounds": 20, **ROUNDS},
    ),
}
"""Routing, overlay and options, by the name of a setup."""
POLL_S = 0.1
PORTS = range(20_000, 32_000)
"""Ports below those that a system assigns by itself, so that nobody takes one while its broker is
away; connections come and go here all the time."""


def lasting_ports(count: int) -> list[int]:
    """Return ports of `PORTS` on which nobody listens now."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found


def make_file(setup: str, folder: Path, *, traced: bool = False, **limits: Any) -> NetworkFile:
    """Return a network of seven brokers, or eight if the overlay is a SCOT. `traced`: brokers have
    something to write to the disk. No two networks have the same name, so that brokers of one
    refuse those of another that took one of their ports."""
    name = f"torture-{secrets.token_hex(4)}"
    routing, overlay, options = SETUPS[setup]
    if overlay == "scot":
        made = scot(tree_of("path:4"), 2)
        listen = [f"127.0.0.1:{port}" for port in lasting_ports(len(made.graph))]
        file = scot_network(made, listen, name=name, routing=routing)
    else:
        names = [f"b{number}" for number in range(1, 8)]
        links = {"tree": TREE, "graph": TREE + CYCLES, "none": []}[overlay]
        ports = zip(names, lasting_ports(len(names)), strict=True)
        file = NetworkFile(
            network=NetworkSection(name=name, routing=routing),
            broker=[BrokerEntry(name=name, listen=f"127.0.0.1:{port}") for name, port in ports],
            link=[LinkEntry(between=link) for link in links],
        )
    file.routing = dict(options)
    file.limits = LimitsSection(**limits)
    file.statistics.directory = str(folder / "statistics")
    file.trace.directory = str(folder / "trace")
    file.trace.level = "full" if traced else "off"
    return file.validate()


async def eventually(condition: Callable[[], object], within_s: float) -> bool:
    """Return whether the condition becomes true in that time."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    while not condition():
        if loop.time() > until_s:
            return False
        await asyncio.sleep(0.01)
    return True


class Broken(Exception):
    """The network did not recover; the message says what is missing."""


class LiveNetwork:
    """The brokers of `file` as processes. `proxies`: by (dialling broker, dialled broker).
    `stopped`: the brokers that stand still."""

    def __init__(self, file: NetworkFile, folder: Path) -> None:
        self.file = file
        self.names = file.names
        self.graph = file.graph()
        self.proxies: dict[tuple[str, str], Proxy] = {}
        self.lines: list[str] = []
        self.stopped: set[str] = set()
        self._folder = folder
        self._children: dict[str, Child] = {}

    def url(self, name: str) -> str:
        host, port = self.file.address(name)
        return f"reefcast://{host}:{port}"

    # --- life -------------------------------------------------------------------------------------

    async def __aenter__(self) -> LiveNetwork:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _start(self) -> None:
        for dialler, dialled in permutations(self.names, 2):
            proxy = self.proxies[dialler, dialled] = Proxy(self.file.address(dialled))
            await proxy.start()
        for name in self.names:
            path = self._folder / f"{name}.toml"
            path.write_text(dump_network(self._as_seen_by(name)), encoding="utf-8")
            self._children[name] = Child(
                f"broker {name}",
                *("broker", str(path), name),
                restart=True,
                before_again=lambda told: None,
                report=self.lines.append,
            )
        await asyncio.gather(*(child.start() for child in self._children.values()))

    def _as_seen_by(self, name: str) -> NetworkFile:
        """Return a broker's own network file, in which the others listen where their proxies do."""
        seen = copy.deepcopy(self.file)
        for entry in seen.broker:
            if entry.name != name:
                entry.listen = f"127.0.0.1:{self.proxies[name, entry.name].port}"
        return seen

    async def stop(self) -> None:
        for name in list(self.stopped):
            self.go_on(name)
        await asyncio.gather(*(child.stop(1.0) for child in self._children.values()))
        await asyncio.gather(*(proxy.stop() for proxy in self.proxies.values()))

    # --- brokers ----------------------------------------------------------------------------------

    def pid(self, name: str) -> int:
        return self._children[name].pid

    async def kill(self, name: str) -> None:
        """Kill a broker as `kill -9` does; its supervisor restarts it."""
        await self._children[name].kill()

    async def back(self, pids: Mapping[str, int], within_s: float) -> None:
        """Wait until these brokers run as new processes. Raises `Broken`."""
        for name, pid in pids.items():
            child = self._children[name]
            if not await eventually(lambda c=child, p=pid: c.running and c.pid != p, within_s):
                raise Broken(f"broker {name} was not started again")

    async def restart(self, name: str, within_s: float) -> None:
        """Tell a broker to stop, as an operator does, and start it again when it has ended."""
        child = self._children[name]
        os.kill(child.pid, signal.SIGTERM)
        if not await eventually(lambda: not child.running, within_s):
            raise Broken(f"broker {name} does not end")
        with suppress(LocalError):  # it ended in another way, and is being started already
            await child.start()

    def stand_still(self, name: str) -> None:
        self.stopped.add(name)
        os.kill(self.pid(name), signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        self.stopped.discard(name)
        with suppress(ProcessLookupError):
            os.kill(self.pid(name), signal.SIGCONT)

    def limit(self, name: str, kind: int, soft: int) -> int:
        """Set a limit of the running process (`resource.RLIMIT_...`); return the old one."""
        before, hard = resource.prlimit(self.pid(name), kind)
        resource.prlimit(self.pid(name), kind, (soft, hard))
        return before

    def open_files(self, name: str) -> int:
        return len(list(Path(f"/proc/{self.pid(name)}/fd").iterdir()))

    def traces(self, name: str) -> int:
        """Return how many trace files a broker has written."""
        return len(list(Path(self.file.trace.directory).rglob(f"{name}-*.parquet")))

    # --- links ------------------------------------------------------------------------------------

    def between(self, one: Iterable[str], other: Iterable[str]) -> list[Proxy]:
        """Return all proxies from one of these to one of those, and back."""
        mine, theirs = set(one), set(other)
        return [
            proxy
            for (dialler, dialled), proxy in self.proxies.items()
            if (dialler in mine and dialled in theirs) or (dialler in theirs and dialled in mine)
        ]

    @property
    def carrying(self) -> list[Proxy]:
        """The proxies that have connections."""
        return [proxy for proxy in self.proxies.values() if proxy.pairs]

    # --- all of them ------------------------------------------------------------------------------

    async def whole(self, within_s: float) -> None:
        """Wait until all brokers run, all links are up, and nothing waits on any of them. Raises
        `Broken`."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while missing := not_up(await overlay_status(self.file)):
            if loop.time() > until_s:
                raise Broken(f"not up after {within_s:g} s: {', '.join(missing[:6])}")
            await asyncio.sleep(POLL_S)

    async def link_states(self, name: str) -> dict[str, set[str]]:
        """Return in what states the other running brokers have their links to this one."""
        others = [other for other in self.names if other not in self.stopped | {name}]
        answers = await asyncio.gather(
            *(ask_status(*self.file.address(other)) for other in others), return_exceptions=True
        )
        return {
            other: {link["state"] for link in status["links"] if link["link"] == name}
            for other, status in zip(others, answers, strict=True)
            if isinstance(status, dict)
        }
