"""The client measured: what publishing and receiving cost a Python program, way by way.

A broker runs in a process of its own. To measure a way of publishing, this process publishes, and
nobody subscribes. To measure a way of receiving, another process publishes everything before this
one reads it, all attributes of every event: a program that has fallen behind gets as much with each
read as there can be. What counts is the CPU time of this process, the client's thread included: it
repeats on a machine that has much else to do, rates do not. The baseline of each way is the loop
over single events in the same run.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Event as Gate
from typing import Any, NamedTuple

import pyarrow as pa

import reefcast
from reefcast.client.loop import new_event_loop
from reefcast.errors import InternalError
from reefcast.server.supervisor import free_ports
from reefcast_lab.bench import quotes

BATCH = 10_000
"""Events of one call of `publish_many`."""
LOCAL_QUEUE = 4_096
"""Events that may wait in the client: what is read at once is about as many."""
START_S = 60.0
REPEATS = 3
Rows = list[dict[str, Any]]
Publishing = Callable[[reefcast.Client, Rows], Awaitable[None]]
Reading = Callable[[reefcast.Subscription], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Row:
    """CPU microseconds of the client for each event, the best of several runs. `ratio`: how many
    times as much the loop over single events takes, that of the same client."""

    what: str
    way: str
    events: int
    cpu_us_per_event: float
    per_s: float
    ratio: float = 1.0


def bench(events: int, tell: Callable[[str], None]) -> Iterator[Row]:
    """Yield a row for every way to publish, then for every way to receive, of the asyncio client
    and of the synchronous one."""
    rows = quotes.events(events)
    with _broker() as url:
        for ways in (_PUBLISHING, _SYNC_PUBLISHING, _RECEIVING, _SYNC_RECEIVING):
            baseline: Row | None = None
            for way, measure in ways.items():
                tell(way)
                best = min(
                    (measure(url, rows) for _ in range(REPEATS)),
                    key=lambda row: row.cpu_us_per_event,
                )
                row = replace(best, way=way)
                baseline = baseline or row
                ratio = baseline.cpu_us_per_event / row.cpu_us_per_event
                yield replace(row, ratio=round(ratio, 2))


@contextmanager
def _broker() -> Iterator[str]:
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "reefcast", "broker", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"reefcast://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


class _Stopwatch:
    """The CPU time of this process and the wall time since it was made."""

    def __init__(self) -> None:
        self._cpu_s, self._wall_s = time.process_time(), time.perf_counter()

    def row(self, what: str, events: int) -> Row:
        cpu_s = time.process_time() - self._cpu_s
        wall_s = time.perf_counter() - self._wall_s
        return Row(what, "", events, round(cpu_s / events * 1e6, 3), round(events / wall_s))


def _run(work: Callable[[], Awaitable[Row]]) -> Row:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:

        async def main() -> Row:
            return await work()

        return runner.run(main())


# --- publishing -----------------------------------------------------------------------------------


def _publishing(way: Publishing, prepare: Callable[[Rows], Any]) -> Callable[[str, Rows], Row]:
    def measure(url: str, rows: Rows) -> Row:
        given = prepare(rows)

        async def work() -> Row:
            async with reefcast.connect(url, connect_timeout_s=START_S) as client:
                watch = _Stopwatch()
                await way(client, given)
                await client.flush()
                return watch.row("publish", len(rows))

        return _run(work)

    return measure


async def _one_by_one(client: reefcast.Client, rows: Rows) -> None:
    for row in rows:
        await client.publish(row)


async def _in_batches(client: reefcast.Client, batches: list[Any]) -> None:
    for batch in batches:
        await client.publish_many(batch)


def _lists(rows: Rows) -> list[Rows]:
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]


def _tables(rows: Rows) -> list[pa.Table]:
    return [pa.Table.from_pylist(some) for some in _lists(rows)]


def _frames(rows: Rows) -> list[Any]:
    return [table.to_pandas() for table in _tables(rows)]


_PUBLISHING = {
    "publish": _publishing(_one_by_one, list),
    "publish_many of mappings": _publishing(_in_batches, _lists),
    "publish_many of a table": _publishing(_in_batches, _tables),
    "publish_many of a data frame": _publishing(_in_batches, _frames),
}


def _sync_publishing(
    way: Callable[[reefcast.sync.Client, Any], None], prepare: Callable[[Rows], Any]
) -> Callable[[str, Rows], Row]:
    def measure(url: str, rows: Rows) -> Row:
        given = prepare(rows)
        with reefcast.sync.connect(url, connect_timeout_s=START_S) as client:
            watch = _Stopwatch()
            way(client, given)
            client.flush()
            return watch.row("publish", len(rows))

    return measure


def _sync_one_by_one(client: reefcast.sync.Client, rows: Rows) -> None:
    for row in rows:
        client.publish(row)


def _sync_in_batches(client: reefcast.sync.Client, batches: list[Any]) -> None:
    for batch in batches:
        client.publish_many(batch)


_SYNC_PUBLISHING = {
    "sync: publish": _sync_publishing(_sync_one_by_one, list),
    "sync: publish_many of mappings": _sync_publishing(_sync_in_batches, _lists),
    "sync: publish_many of a table": _sync_publishing(_sync_in_batches, _tables),
}


# --- receiving ------------------------------------------------------------------------------------


class _Publisher(NamedTuple):
    """Another process, which publishes when it is told `go`, and says `done`."""

    go: Gate
    done: Gate

    def publish_all(self) -> None:
        """Wait until everything is published. This blocks, so that nothing is read meanwhile."""
        self.go.set()
        if not self.done.wait(START_S):
            raise InternalError("the publishing process has not done its work")


@contextmanager
def _publisher(url: str, rows: Rows) -> Iterator[_Publisher]:
    spawn = multiprocessing.get_context("spawn")
    publisher = _Publisher(spawn.Event(), spawn.Event())
    process = spawn.Process(target=_publish, args=(url, len(rows), *publisher), daemon=True)
    process.start()
    try:
        yield publisher
    finally:
        process.kill()
        process.join()


def _publish(url: str, events: int, go: Gate, done: Gate) -> None:
    rows = quotes.events(events)
    with reefcast.sync.connect(url, connect_timeout_s=START_S) as client:
        go.wait()
        for batch in _lists(rows):
            client.publish_many(batch)
        client.flush()
        done.set()


def _options(rows: Rows) -> reefcast.Options:
    """Return options with which all events may wait at the broker."""
    return {
        "connect_timeout_s": START_S,
        "queue_limit": 2 * len(rows),
        "local_queue_limit": LOCAL_QUEUE,
    }


def _receiving(way: Reading) -> Callable[[str, Rows], Row]:
    def measure(url: str, rows: Rows) -> Row:
        async def work() -> Row:
            async with reefcast.connect(url, **_options(rows)) as client:
                subscription = await client.subscribe(quotes.EVERYTHING)
                watch = _Stopwatch()
                publisher.publish_all()
                seen = 0
                while seen < len(rows):
                    seen += await way(subscription)
                return watch.row("receive", len(rows))

        with _publisher(url, rows) as publisher:
            return _run(work)

    return measure


async def _next_event(subscription: reefcast.Subscription) -> int:
    async for event in subscription:
        dict(event)
        return 1
    return 0


async def _next_batch(subscription: reefcast.Subscription) -> int:
    events = await subscription.next_batch()
    for event in events:
        dict(event)
    return len(events)


async def _next_table(subscription: reefcast.Subscription) -> int:
    table = await subscription.next_table()
    return int(table.num_rows)


_RECEIVING = {
    "async for": _receiving(_next_event),
    "next_batch": _receiving(_next_batch),
    "next_table": _receiving(_next_table),
}


def _sync_receiving(
    way: Callable[[reefcast.sync.Subscription], int],
) -> Callable[[str, Rows], Row]:
    def measure(url: str, rows: Rows) -> Row:
        options = _options(rows)
        with _publisher(url, rows) as publisher, reefcast.sync.connect(url, **options) as client:
            subscription = client.subscribe(quotes.EVERYTHING)
            subscription.settled()
            watch = _Stopwatch()
            publisher.publish_all()
            seen = 0
            while seen < len(rows):
                seen += way(subscription)
            return watch.row("receive", len(rows))

    return measure


def _sync_next_event(subscription: reefcast.sync.Subscription) -> int:
    event = subscription.next()
    return 0 if event is None else len(dict(event)) and 1


def _sync_next_table(subscription: reefcast.sync.Subscription) -> int:
    table = subscription.next_table()
    return 0 if table is None else int(table.num_rows)


_SYNC_RECEIVING = {
    "sync: for": _sync_receiving(_sync_next_event),
    "sync: next_table": _sync_receiving(_sync_next_table),
}
