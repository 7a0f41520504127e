"""`reefcast storage` as users run it, killed and damaged while clients publish and ask."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import reefcast
from children import CHILD_S, Children, ended, line_of
from live_networks import path_network, running, until
from reefcast.client import Client
from reefcast.history.store import HistoryStore, Incoming
from reefcast.model.publication import Publication
from reefcast.model.wire import StatusRequest, encode_publication
from reefcast.server.admin import ask_status


@pytest.fixture
async def urls() -> AsyncIterator[list[str]]:
    async with running(path_network(2)) as urls:
        yield urls


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


async def store(children: Children, url: str, directory: Path) -> Process:
    """Start a storage; return it when it answers."""
    process = await children.start("storage", url, "fx", "--directory", directory, "--json")
    await until_answering(process)
    return process


async def until_answering(process: Process) -> None:
    while True:
        line = await line_of(process.stdout)
        assert line, await ended(process)
        if json.loads(line)["topics"] == ["fx"]:
            return


async def kill(process: Process) -> None:
    process.kill()
    await process.wait()


async def asked(client: Client) -> list[int]:
    """Return everything that is stored."""
    while True:
        try:
            return [event["n"] async for event in client.history("topic = 'fx'")]
        except (reefcast.RefusedError, reefcast.ConnectionLostError):
            await asyncio.sleep(0.05)  # the word of a storage that has just come up is on its way


async def until_asked(client: Client, everything: list[int]) -> None:
    """Ask until everything is stored: the last events are stored a moment after they were
    published."""
    found: list[int] = []
    async with asyncio.timeout(CHILD_S):
        while len(found) < len(everything):
            found = await asked(client)
    assert found == everything


@asynccontextmanager
async def publishing(url: str) -> AsyncIterator[list[int]]:
    """Publish some hundred events a second all the time; yield the list of what was published."""
    published: list[int] = []
    stop = asyncio.Event()

    async def publish() -> None:
        async with reefcast.connect(url) as client:
            for n in itertools.count():
                if stop.is_set():
                    return
                await client.publish(n=n, topics=["fx"])
                published.append(n)
                if n % 10 == 9:
                    await asyncio.sleep(0.01)

    task = asyncio.create_task(publish())
    try:
        yield published
    finally:
        stop.set()
        await task


async def one_is_killed(
    children: Children, url: str, directory: Path, lives: int, rng: random.Random
) -> None:
    """Kill a storage in each of its lives; what it has answered with once, it must always answer
    with."""
    async with reefcast.connect(url) as client, publishing(url):
        seen: list[int] = []
        for _ in range(lives):
            process = await store(children, url, directory)
            found = await asked(client)
            assert set(seen) <= set(found) and found == sorted(set(found))
            await asyncio.sleep(rng.uniform(0.0, 0.3))
            seen = await asked(client)
            assert set(found) <= set(seen)
            await kill(process)


async def one_of_two_is_killed(
    children: Children, urls: list[str], directory: Path, lives: int, rng: random.Random
) -> None:
    """Kill one of two storages at a time, at random instants. While one is there, nothing that was
    published is lost: in the end both have all of it."""
    places = [(url, directory / str(number)) for number, url in enumerate(urls)]
    processes = [await store(children, *place) for place in places]
    async with publishing(urls[0]) as published:
        for _ in range(lives):
            which = rng.randrange(2)
            await kill(processes[which])
            for _ in range(rng.choice((0, 0, 1))):  # also while it catches up
                early = await children.start(
                    "storage", places[which][0], "fx", "--directory", places[which][1]
                )
                await asyncio.sleep(rng.uniform(0.5, 3.0))
                await kill(early)
            processes[which] = await store(children, *places[which])
            await asyncio.sleep(rng.uniform(0.0, 0.3))
    for one, other in ((0, 1), (1, 0)):
        async with reefcast.connect(urls[one]) as client:
            await until_asked(client, published)
        await kill(processes[other])
        async with reefcast.connect(urls[other]) as client:
            await until_asked(client, published)
        processes[other] = await store(children, *places[other])
    for process in processes:
        await kill(process)


async def test_what_was_answered_survives_kills(
    urls: list[str], children: Children, tmp_path: Path
) -> None:
    await one_is_killed(children, urls[0], tmp_path, 3, random.Random(1))


async def test_nothing_is_lost_where_there_are_two(
    urls: list[str], children: Children, tmp_path: Path
) -> None:
    await one_of_two_is_killed(children, urls, tmp_path, 2, random.Random(4))


async def replayed_while_one_is_killed(
    children: Children, urls: list[str], directory: Path, rng: random.Random
) -> None:
    """Replay from the past into the present while the storage that answers is killed."""
    past = 20_000
    places = [(url, directory / str(number)) for number, url in enumerate(urls)]
    end_us = time.time_ns() // 1000 - 86_400_000_000  # a replica has an event with the same time
    for _, place in places:
        prefill(place, past, end_us)
    processes = [await store(children, *place) for place in places]
    async with reefcast.connect(urls[0]) as client:
        async with publishing(urls[1]) as published:
            events = client.subscribe("topic = 'fx'", replay=True, handover_s=1.0)
            found = [event["n"] async for event in first(events, rng.choice((1, 100, past - 100)))]
            await kill(processes[0])
            found += [event["n"] async for event in first(events, past + 500 - len(found))]
        async with asyncio.timeout(CHILD_S):
            more = past + len(published) - len(found)
            found += [event["n"] async for event in first(events, more)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                found += [event["n"] for event in await events.next_batch()]
    assert sorted(found) == sorted([*range(-past, 0), *published])
    assert found[:past] == list(range(-past, 0))
    await kill(processes[1])


def prefill(directory: Path, count: int, end_us: int) -> None:
    """Store `count` events of the microseconds before `end_us`."""
    store = HistoryStore(directory, fail)
    made = [
        Publication("p", n, end_us - count + n, {"n": n - count}, ("fx",)) for n in range(count)
    ]
    store.append([Incoming(encode_publication(each)) for each in made])
    store.close()


def fail(error: Exception) -> None:
    raise error


async def first(events: AsyncIterator[reefcast.Event], count: int) -> AsyncIterator[reefcast.Event]:
    for _ in range(count):
        async with asyncio.timeout(CHILD_S):
            event = await anext(events)
        yield event


async def test_a_replay_survives_a_kill_in_mid_answer(
    urls: list[str], children: Children, tmp_path: Path
) -> None:
    await replayed_while_one_is_killed(children, urls, tmp_path, random.Random(2))


@pytest.mark.soak
async def test_replays_survive_kills(urls: list[str], children: Children, tmp_path: Path) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        await replayed_while_one_is_killed(children, urls, tmp_path / str(seed), rng)


@pytest.mark.soak
async def test_hundreds_of_kills(urls: list[str], children: Children, tmp_path: Path) -> None:
    for seed in range(10):
        rng = random.Random(seed)
        await one_is_killed(children, urls[0], tmp_path / f"{seed}-one", 10, rng)
        await one_of_two_is_killed(children, urls, tmp_path / f"{seed}-two", 10, rng)


async def test_damage_is_repaired_from_the_other_storage(
    urls: list[str], children: Children, tmp_path: Path
) -> None:
    places = [(url, tmp_path / str(number)) for number, url in enumerate(urls)]
    processes = [await store(children, *place) for place in places]
    everything = list(range(4000))
    async with reefcast.connect(urls[0]) as client:
        for n in everything:
            await client.publish(n=n, topics=["fx"])
        await until_asked(client, everything)
        processes[0].terminate()
        assert (await ended(processes[0]))[0] == 0
        garble(places[0][1] / "history.sqlite")
        processes[0] = await store(children, *places[0])
        assert await asked(client) == everything, "the other storage did not answer instead"
        await until_repaired(places[0][1], urls[0])
        await kill(processes[1])
        await until_asked(client, everything)
    processes[0].terminate()
    code, _, errors = await ended(processes[0])
    assert code == 0
    assert "opened again, and repaired" in errors and "its rows were saved" in errors


async def test_a_storage_that_stood_still_for_too_long_connects_again(
    children: Children, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The storage asks publishers to wait for it; they wait no longer than `block_s`."""
    everything = list(range(1500))
    async with (
        running(path_network(1, queue_limit=50, block_s=0.2)) as [url],
        reefcast.connect(url) as client,
    ):
        process = await store(children, url, tmp_path)
        os.kill(process.pid, signal.SIGSTOP)
        for n in everything:  # more than fits into the sockets' buffers
            await client.publish(n=n, topics=["fx"], payload=b"x" * 20_000)
        await client.flush(CHILD_S)
        await until(lambda: "was disconnected" in caplog.text)
        os.kill(process.pid, signal.SIGCONT)
        await until_answering(process)
        await client.publish(n=len(everything), topics=["fx"])
        found: list[int] = []
        async with asyncio.timeout(CHILD_S):
            while len(everything) not in found:
                found = await asked(client)
        process.terminate()
        code, _, errors = await ended(process)
        assert code == 0
        assert "It connects again" in errors


async def until_repaired(directory: Path, url: str) -> None:
    """Wait until the storage has found the damage, and answers again."""
    host, port = url.removeprefix("reefcast://").split(":")
    request = StatusRequest(tables=("storages",))
    async with asyncio.timeout(CHILD_S):
        while True:
            rows = (await ask_status(host, int(port), request))["rows"]["storages"]["rows"]
            answers = any(row[0] == "fx" and row[2] == 0 for row in rows)
            if answers and (directory / "history.sqlite.damaged").exists():
                return
            await asyncio.sleep(0.05)


def garble(database: Path) -> None:
    """Write garbage into every eighth page."""
    data = bytearray(database.read_bytes())
    for start in range(20 * 4096, len(data), 8 * 4096):
        data[start : start + 4096] = bytes(4096)
    database.write_bytes(data)
