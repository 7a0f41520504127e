"""A storage: a client that keeps what is published under its topics, and answers for it.

Rules
-----
- What it is sent is stored in batches; only what is committed counts. A batch that cannot be stored
  ends the storage: it must not answer for what it has not got.
- It says that it stores its topics (`Stores`) when its subscription has settled and it has caught
  up with another storage of them, if there is one: again after each reconnect.
- Each request is answered by a task of its own, which reads in a worker thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from reefcast.client.answering import Answering, decoded
from reefcast.client.client import Client, session_of
from reefcast.client.event import Event
from reefcast.client.handles import Subscription
from reefcast.client.history import History, question_about
from reefcast.errors import DamagedError, FilterSyntaxError, RefusedError
from reefcast.model.messages import ServiceMessage
from reefcast.storage.history.messages import Cancel, More, Request, RequestId, Stores
from reefcast.storage.history.store import HistoryStore, Incoming

log = logging.getLogger(__name__)

CLEAN_EVERY_S = 1.0
OVERLAP_S = 60.0
"""How far behind its last position a storage asks another one for what it lacks: publishers' clocks
differ, and ways take their time."""
CATCH_UP_PATIENCE_S = 10.0
THREADS = 8
"""One writes; the others read for that many answers at once."""
T = TypeVar("T")


def topic_filter(topics: Sequence[str]) -> str:
    """What a storage of these topics (names and patterns) subscribes to."""
    quoted = ["'" + topic.replace("'", "''") + "'" for topic in topics]
    return " OR ".join(f"topic MATCHES {text}" for text in quoted)


class StorageNode:
    """See the module's docstring. `topics`: names or patterns."""

    def __init__(self, client: Client, store: HistoryStore, topics: Sequence[str]) -> None:
        self._client = client
        self._session = session_of(client)
        self._store = store
        self.topics = tuple(topics)
        self.stored = 0
        self._threads = ThreadPoolExecutor(THREADS, "storage")
        self._answers: dict[RequestId, tuple[Answering, asyncio.Task[None]]] = {}
        self._writing = asyncio.Lock()
        self._connected = asyncio.Event()

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Until cancelled; raises why it cannot go on. `ready` is called whenever it has said what
        it stores."""
        self._session.serve(self)
        subscription = self._client.subscribe(topic_filter(self.topics))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep(subscription))
                tasks.create_task(self._clean())
                tasks.create_task(self._announce(subscription, ready))
        finally:
            self._session.serve(None)
            self.disconnected()
            # A thread that is at it goes on; who closes the store next would pull it away from it.
            await asyncio.to_thread(self._threads.shutdown)

    # --- what the session tells -------------------------------------------------------------------

    def connected(self) -> None:
        self._connected.set()

    def disconnected(self) -> None:
        """The paths of all requests are void."""
        for _, task in self._answers.values():
            task.cancel()
        self._answers.clear()

    def hear(self, message: ServiceMessage) -> None:
        """What clients ask."""
        if isinstance(message, Request):
            self._begin(message)
        elif isinstance(message, More | Cancel) and message.id in self._answers:
            answering, task = self._answers[message.id]
            if isinstance(message, More):
                answering.grant(message.count)
            else:
                task.cancel()

    # --- keeping ----------------------------------------------------------------------------------

    async def _keep(self, subscription: Subscription) -> None:
        while True:
            await self._append(await subscription.next_batch())

    async def _append(self, events: Sequence[Event]) -> None:
        batch = [Incoming(event.body) for event in events]
        async with self._writing:
            await self._in_thread(partial(self._store.append, batch))
        self.stored += len(batch)
        if not self._answers:
            return
        for event in events:
            publication = decoded(event.body)
            for answering, _ in self._answers.values():
                answering.came(publication, event.body)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(CLEAN_EVERY_S)
            async with self._writing:
                await self._in_thread(partial(self._store.clean, _now_us()))

    # --- saying what there is ---------------------------------------------------------------------

    async def _announce(self, subscription: Subscription, ready: Callable[[], None]) -> None:
        while True:
            self._connected.clear()
            await subscription.settled()
            await self._catch_up()
            if self._connected.is_set():
                continue  # it was lost meanwhile
            self._session.say([Stores(topics=self.topics)])
            ready()
            await self._connected.wait()

    async def _catch_up(self) -> None:
        """From another storage; there may be none, or one that is as new to this as we are."""
        for topic in self.topics:
            last = self._store.positions([topic])
            since_us = min((position[0] for position in last.values()), default=None)
            if since_us is not None:
                since_us -= int(OVERLAP_S * 1e6)
            question = question_about(topic_filter([topic]), since_us=since_us)
            history = History(self._session, question, CATCH_UP_PATIENCE_S)
            try:
                while True:
                    await self._append(await history.next_batch())
            except StopAsyncIteration:
                continue
            except RefusedError:
                log.info("nobody else stores %s", topic)
            finally:
                history.cancel()

    # --- answering --------------------------------------------------------------------------------

    def _begin(self, request: Request) -> None:
        try:
            answering = Answering(request, self._client.id, lambda m: self._session.say([m]))
        except FilterSyntaxError:
            log.warning("a request with a filter that is none, by %s", request.id[0])
            return
        task = asyncio.get_running_loop().create_task(self._answer(answering))
        self._answers[request.id] = (answering, task)

    async def _answer(self, answering: Answering) -> None:
        request = answering.request
        try:
            await answering.run(self._store, _now_us(), self._in_thread)
        except DamagedError as error:
            log.error("request %s: %s", request.id, error)
            answering.fail(f"the storage is damaged: {error}")
        finally:
            self._answers.pop(request.id, None)


def _now_us() -> int:
    return time.time_ns() // 1000
