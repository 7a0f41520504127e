"""Which storages answer, as far as brokers know; and storages under a supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

import reefcast
from live_networks import make_network, running, until, url_of
from reefcast.client.client import session_of
from reefcast.errors import LocalError
from reefcast.history.messages import Stores
from reefcast.model.messages import ServiceMessage
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.rewriting import replace_text
from reefcast.network.sections import StorageEntry
from reefcast.server.storages import still_answered, storages_known, unanswered
from reefcast.server.supervisor import Overlay

CHAIN = [("a", "b"), ("b", "c")]


def entry(name: str, broker: str, *topics: str, folder: Path = Path("h")) -> StorageEntry:
    directory = str(folder / name)
    return StorageEntry(name=name, broker=broker, topics=list(topics), directory=directory)


# --- what brokers know ----------------------------------------------------------------------------


def test_what_is_missing_is_said() -> None:
    network = make_network("abc", CHAIN)
    s1, s2 = entry("s", "a", "x", "y"), entry("t-1", "c", "x")
    all_of_it = frozenset({("x", "s"), ("y", "s"), ("x", "t-1")})
    assert unanswered(network, [s1, s2], dict.fromkeys("abc", all_of_it)) == []
    others = frozenset({("x", "s-1"), ("x", "s1"), ("z", "s"), ("y", "os")})
    assert unanswered(network, [s1], {"a": others, "b": None, "c": all_of_it}) == [
        "storage s does not answer for x, y yet",
        "broker b does not answer",
    ]
    known = {"a": all_of_it, "b": all_of_it - {("y", "s")}, "c": None}
    assert unanswered(network, [s1, s2], known) == [
        "broker c does not answer",
        "broker b does not know yet that storage s answers for y",
    ]
    joining = replace(s1, joining=["y"])
    assert unanswered(network, [joining], dict.fromkeys("abc", known["b"])) == []


def test_where_brokers_know_only_their_own() -> None:
    network = make_network("abc", routing="gossip", options={"contacts": ["a"]})
    s = entry("s", "a", "x")
    rows = frozenset({("x", "s")})
    assert unanswered(network, [s], {"a": rows, "b": frozenset(), "c": None}) == []


def test_what_is_answered_still() -> None:
    before, then = [entry("s", "a", "x", "y"), entry("t", "b", "x")], [entry("s", "a", "x")]
    rows = frozenset({("x", "s"), ("y", "s"), ("x", "t")})
    assert still_answered(before, then, {"a": rows, "b": None}) == [
        "broker a still knows storage s for y",
        "broker a still knows storage t for x",
    ]
    assert still_answered(before, before, {"a": rows}) == []


class Silent:
    """A storage that answers nobody."""

    def connected(self) -> None: ...
    def disconnected(self) -> None: ...
    def handle(self, message: ServiceMessage) -> None: ...


async def test_brokers_tell_all_that_they_know() -> None:
    """There are more rows than a broker tells at once, so that they come in parts."""
    topics = tuple(f"topic {n:04}" for n in range(2345))
    network = make_network("ab", [("a", "b")])
    async with running(network) as urls, reefcast.connect(urls[0]) as client:
        session_of(client).serve(Silent())
        session_of(client).say([Stores(topics=topics, name="s")])
        rows = {(topic, "s") for topic in topics}
        while (await storages_known(network))["b"] != rows:
            pass
        assert unanswered(network, [entry("s", "a", *topics)], await storages_known(network)) == []
    assert await storages_known(network) == {"a": None, "b": None}


# --- under a supervisor ---------------------------------------------------------------------------


def with_storages(folder: Path, *storages: StorageEntry) -> tuple[NetworkFile, Path]:
    network = replace(make_network("ab", [("a", "b")]), storage=list(storages)).validate()
    file = folder / "net.toml"
    file.write_text(dump_network(network))
    return network, file


async def found(network: NetworkFile, broker: str, filter: str = "topic = 'x'") -> list[object]:
    async with reefcast.connect(url_of(network, broker)) as client:
        return [event["n"] async for event in client.history(filter)]


async def until_found(network: NetworkFile, numbers: list[object]) -> None:
    for broker in network.names:
        while True:
            try:
                if await found(network, broker) == numbers:
                    break
            except reefcast.RefusedError:
                await asyncio.sleep(0.05)


async def publish(network: NetworkFile, *numbers: int) -> None:
    async with reefcast.connect(url_of(network, "b")) as client:
        for n in numbers:
            await client.publish(n=n, topics=["x"])
        await client.flush()


async def test_storages_are_run_and_started_again(tmp_path: Path) -> None:
    s = entry("s", "a", "x", folder=tmp_path)
    network, _ = with_storages(tmp_path, s)
    lines: list[str] = []
    async with Overlay(network, report=lines.append) as overlay:
        await publish(network, 1, 2)
        await until_found(network, [1, 2])
        pid = overlay.storage("s").pid
        os.kill(pid, signal.SIGKILL)
        await until(lambda: "storage s died (signal SIGKILL)" in lines)
        await until_found(network, [1, 2])
        assert overlay.storage("s").pid != pid
        await publish(network, 3)  # is stored although all is told to stop at once
        assert await overlay.stop() == {"a": 0, "b": 0, "storage s": 0}
    async with Overlay(network) as overlay:
        await until_found(network, [1, 2, 3])


async def test_storages_are_those_of_the_file(tmp_path: Path) -> None:
    s, t = entry("s", "a", "x", folder=tmp_path), entry("t", "b", "x", folder=tmp_path)
    network, file = with_storages(tmp_path, s)
    lines: list[str] = []

    def write(*storages: StorageEntry) -> None:
        replace_text(file, dump_network(replace(network, storage=list(storages))))

    async def until_told(*known: StorageEntry) -> None:
        expected = {(topic, each.name) for each in known for topic in each.topics}
        while True:
            rows = (await storages_known(network))["b"] or ()
            if rows == expected:
                return
            await asyncio.sleep(0.05)

    async with Overlay(network, file=file, report=lines.append) as overlay:
        pid = overlay.storage("s").pid
        await publish(network, 1)
        await until_found(network, [1])
        write(s, t)
        await until_told(s, t)
        changed = replace(s, topics=["x", "y/#"])
        write(changed, t)
        await until_told(changed, t)
        assert overlay.storage("s").pid == pid
        limited = replace(changed, lifetime_s=1e6)
        write(limited, t)
        await until(lambda: lines.count("storage s has ended") == 1)
        await until_told(limited, t)
        assert overlay.storage("s").pid != pid
        file.write_text(file.read_text() + "[[storage]]\n")
        await until(lambda: any("are taken as they were before" in line for line in lines))
        write(t)
        await until_told(t)
        await until(lambda: lines.count("storage s has ended") == 2)
        assert await found(network, "a") == [1]
        assert (await overlay.stop()).keys() == {"a", "b", "storage t"}


async def test_a_storage_that_cannot_run(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("no directory")
    s = entry("s", "a", "x", folder=tmp_path)
    network, file = with_storages(tmp_path, s)
    overlay = Overlay(network)
    with pytest.raises(LocalError, match="broker a was never started"):
        overlay.pid("a")
    with pytest.raises(LocalError, match="storage s exited with code 2 before it was ready"):
        await overlay.__aenter__()
    # one that comes later is tried again and again, and the network goes on
    lines: list[str] = []
    replace_text(file, dump_network(replace(network, storage=[])))
    async with Overlay(replace(network, storage=[]), file=file, report=lines.append):
        replace_text(file, dump_network(network))
        await until(lambda: "storage s died (exit code 2)" in lines)
        (tmp_path / "s").unlink()
        await until(lambda: any(line.startswith("storage s runs") for line in lines))
