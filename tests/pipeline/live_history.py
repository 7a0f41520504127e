"""Two brokers with a storage of all topics, for tests that do not run in an event loop."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import reefcast
from children import Children, line_of
from live_networks import path_network, running
from reefcast.network.sections import RoleEntry, SessionsSection
from reefcast.server.greeting import Anonymous

READY_S, WITHIN_S = 60.0, 300.0
SAID_CHARS = 8000


class Network:
    """Two brokers and a storage. `urls`: those of the brokers; the storage is at the last one."""

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls

    @property
    def url(self) -> str:
        return self.urls[0]

    def publish(self, topic: str, *events: dict[str, object], payload: bytes = b"") -> str:
        """Publish events; return the publisher's id when all of them are stored."""
        before = self.count(topic)
        with reefcast.sync.connect(self.url, name="test") as client:
            for event in events:
                client.publish(event, topics=[topic], payload=payload)
            client.flush(READY_S)
        self.wait(topic, before + len(events))
        return client.id

    def events(self, topic: str) -> list[reefcast.Event]:
        with reefcast.sync.connect(self.url) as client:
            return list(client.history(f"topic = '{topic}'"))

    def count(self, topic: str) -> int:
        return len(self.events(topic))

    def wait(self, topic: str, count: int) -> list[reefcast.Event]:
        """Wait until `count` events are stored, and return them; there must not be more."""
        give_up_at_s = time.monotonic() + READY_S
        while len(found := self.events(topic)) < count and time.monotonic() < give_up_at_s:
            time.sleep(0.05)
        assert len(found) == count, f"{len(found)} instead of {count} events of {topic}"
        return found


@contextmanager
def live_history(directory: Path) -> Iterator[Network]:
    """Run two brokers in a thread, and the storage as a command. Nobody has the role `ibm`."""

    @asynccontextmanager
    async def network() -> AsyncIterator[list[str]]:
        brokers = path_network(2, session_s=600)
        brokers.sessions = SessionsSection(directory=str(directory / "sessions"))
        brokers.role = [RoleEntry(name="ibm", publish="price < 200", subscribe="symbol = 'IBM'")]
        async with running(brokers, Anonymous()) as urls, Children() as children:
            storage = await children.start(
                "storage", urls[-1], "#", "--directory", directory / "history"
            )
            line = await line_of(storage.stdout)
            assert b"answers" in line, line
            await _known(urls[0])
            yield urls

    with _in_thread(network()) as urls:
        yield Network(urls)


@contextmanager
def live_home(directory: Path) -> Iterator[str]:
    """Run a broker with durable sessions in a thread; yield its URL."""
    network = path_network(1)
    network.sessions = SessionsSection(directory=str(directory))
    with _in_thread(running(network)) as [url]:
        yield url


@contextmanager
def _in_thread(network: AbstractAsyncContextManager[list[str]]) -> Iterator[list[str]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ready: Future[list[str]] = Future()
    over = asyncio.Event()
    task = asyncio.run_coroutine_threadsafe(_serve(network, ready, over), loop)
    try:
        yield ready.result(READY_S)
    finally:
        loop.call_soon_threadsafe(over.set)
        task.result(READY_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _serve(
    network: AbstractAsyncContextManager[list[str]],
    ready: Future[list[str]],
    over: asyncio.Event,
) -> None:
    try:
        async with network as urls:
            ready.set_result(urls)
            await over.wait()
    except BaseException as error:
        if not ready.done():
            ready.set_exception(error)
        raise


async def _known(url: str) -> None:
    """Wait until this broker knows the storage."""
    async with asyncio.timeout(READY_S), reefcast.connect(url) as client:
        while True:
            try:
                async for _ in client.history("topic = 'nothing'", limit=1):
                    pass
                return
            except reefcast.RefusedError:
                await asyncio.sleep(0.02)


class Sender(NamedTuple):
    """A program, whose output goes to the file `log`."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        """Return the end of what it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-SAID_CHARS:]


class Listener:
    """A live subscriber to a topic, in a thread."""

    def __init__(self, url: str, topic: str) -> None:
        self.ids: Counter[tuple[str, int]] = Counter()
        self._client = reefcast.sync.connect(url, name="listener")
        self._events = self._client.subscribe(f"topic = '{topic}'")
        self._events.settled(READY_S)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        for event in self._events:
            self.ids[event.id] += 1

    def wait(self, count: int, sender: Sender) -> int:
        """Wait until at least `count` events have come; return how many have. Fails, with what the
        sender has said, if it ends or is too slow."""
        give_up_at_s = time.monotonic() + WITHIN_S
        while len(self.ids) < count:
            code = sender.process.poll()
            assert code is None, f"the sender has ended with {code}: {sender.said()}"
            late = time.monotonic() > give_up_at_s
            assert not late, f"{len(self.ids)} came instead of {count}: {sender.said()}"
            time.sleep(0.01)
        return len(self.ids)

    def close(self) -> Counter[tuple[str, int]]:
        """Stop; return how often each id came."""
        self._client.close()
        self._thread.join()
        return self.ids
