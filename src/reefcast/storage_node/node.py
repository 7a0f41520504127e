"""A storage: a client that keeps what is published under its topics, and answers for it.

Rules
-----
- Events are stored in batches; only committed ones count. A batch that cannot be stored ends the
  storage, which must not answer for events that it does not have. So does damage (`DamagedError`):
  open the store with `repair`, and start again.
- It answers for a topic (`Stores`) when its subscription has settled and all others that answer for
  it have sent what is missing here (`CatchUp`): again after each reconnect. If no other answers, it
  begins without, unless the topic is *joining*, that is, others certainly have it; in any case it
  asks again later.
- It no longer answers for a topic that is removed. Answers about the topic may continue for a
  while; then they are ended with a reason, and clients continue elsewhere. Only then is the topic
  unsubscribed.
- A request for a topic that it does not answer for (the asker's information is out of date) is
  ended with a reason, at once.
- Each request is answered by a task of its own, which reads in a worker thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from reefcast.client.client import Client, session_of
from reefcast.client.event import Event
from reefcast.client.signal import Signal
from reefcast.errors import (
    ConfigurationError,
    DamagedError,
    FilterSyntaxError,
    LocalError,
)
from reefcast.history.messages import Cancel, More, Request, RequestId, Stores
from reefcast.history.store import HistoryStore, Incoming
from reefcast.logs import part
from reefcast.model.messages import ServiceMessage
from reefcast.model.patterns import check_topic_pattern, topic_pattern_covers, topic_patterns_meet
from reefcast.model.topics import topic_filter
from reefcast.storage_node.answering import Answering, decoded
from reefcast.storage_node.catching_up import CatchUp
from reefcast.storage_node.feeds import feed_of
from reefcast.storage_node.upkeep import Upkeep
from reefcast.timing import now_us

log = part("storage")

AGAIN_S = 5.0
"""Seconds after which a storage checks again whether another storage of a topic has come up."""
JOINING_AGAIN_S = 1.0
ANSWERS_S = 60.0
"""How long answers about a removed topic may go on."""
TOGETHER_S = 0.05
"""Topics that become ready within this time are announced together."""
SEAL_AFTER_S = 3600.0
HANDOVER_S = 2.0
"""The `handover_s` of the requests by which a storage catches up; see
`reefcast.Client.subscribe`."""
QUEUE = 10_000
"""Events that may wait to be stored."""
THREADS = 8
"""One writes; the others read for that many answers at once."""
NOTHING = "FALSE"
GONE = "the storage does not answer for it (any more)"
T = TypeVar("T")


class StorageNode:
    """See the module's docstring.

    `topics`: names or patterns; `joining`: those of them that other storages have; `forget`: see
    `HistoryStore.keep`; `seal_after_s`: seconds from the end of a day until it is sealed, None:
    never; `name`: that of its entry in a network file; `session`: the durable session from which it
    gets new events, "": a subscription (see `feeds`). `id`: the id of its client; `answers`: the
    topics that it answers for now; `counters`: what it has done. Raises `ConfigurationError` for
    a malformed pattern."""

    def __init__(
        self,
        client: Client,
        store: HistoryStore,
        topics: Sequence[str],
        joining: Iterable[str] = (),
        *,
        forget: bool = False,
        seal_after_s: float | None = SEAL_AFTER_S,
        handover_s: float = HANDOVER_S,
        name: str = "",
        session: str = "",
    ) -> None:
        self._client = client
        self._name = name
        self._session = session_of(client)
        self._store = store
        self._forget = forget
        self._handover_s = handover_s
        self.id = client.id
        self.counters: Counter[str] = Counter()
        self.topics: tuple[str, ...] = ()
        self.answers: tuple[str, ...] = ()
        self._threads = ThreadPoolExecutor(THREADS, "storage")
        self._upkeep = Upkeep(store, self._change_store, self._in_thread, seal_after_s)
        self._catch_up = CatchUp(self._session, store, self._append_lacking, handover_s)
        self._answering: dict[RequestId, tuple[Answering, asyncio.Task[None]]] = {}
        self._writing = asyncio.Lock()
        self._changed = Signal()
        self._answered = Signal()
        self._connections = 0
        self._ready: set[str] = set()
        self._whole: set[str] = set()
        self._tended: dict[str, asyncio.Task[None]] = {}
        self._running = True
        self._joining: frozenset[str] = frozenset()
        self._damage: DamagedError | None = None
        self.change(topics, joining)
        initial = [topic_filter([topic]) for topic in dict.fromkeys(topics)] or [NOTHING]
        self._feed = feed_of(client, session, tuple(initial), QUEUE)

    # --- from outside -----------------------------------------------------------------------------

    @property
    def stored(self) -> int:
        """How many events it has stored, those that it had already included."""
        return self.counters["events_of_subscription"] + self.counters["events_of_storages"]

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to its broker now."""
        return self._running and self._client.connected

    @property
    def joining(self) -> frozenset[str]:
        """The topics that it takes over from other storages."""
        return self._joining

    @property
    def waiting(self) -> int:
        """How many events have come, and are not stored yet."""
        return self._feed.waiting

    @property
    def running(self) -> int:
        """How many requests it answers now."""
        return len(self._answering)

    def change(self, topics: Sequence[str], joining: Iterable[str] = ()) -> None:
        """Store these topics from now on, in any state of the storage; raises what the constructor
        raises. See `until_ready`."""
        for topic in topics:
            try:
                check_topic_pattern(topic)
            except ValueError as error:
                raise ConfigurationError(f"topic {topic!r} of a storage: {error}") from error
        self.topics = tuple(dict.fromkeys(topics))
        self._joining = frozenset(joining)
        self._changed.fire()

    async def until_ready(self) -> None:
        """Wait until the storage answers for all of its topics and no others, and has unsubscribed
        from the former ones. Raises `LocalError` if `run` has ended."""
        while set(self.answers) != set(self.topics) or self._tended.keys() != set(self.topics):
            if not self._running:
                raise LocalError("the storage has ended")
            await self._changed.wait()

    async def give_up_feed(self) -> None:
        """End what gets new events for it, for ever: the storage is no longer part of the
        network."""
        await self._feed.end()

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Run the storage until cancelled, and then until all that has arrived is stored. Raises
        the reason if it cannot go on.

        `ready` is called whenever it has said anew what it answers for (`answers`), which is
        nothing at first where that takes its time.
        """
        self._session.serve(self)
        try:
            await self._keep_topics(self.topics)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep())
                tasks.create_task(self._upkeep.clean())
                tasks.create_task(self._upkeep.seal())
                tasks.create_task(self._note_whole())
                tasks.create_task(self._tend_all(tasks))
                tasks.create_task(self._announce(ready))
                tasks.create_task(self._fail_when_damaged())
        except asyncio.CancelledError:
            self._serve_no_more()
            await asyncio.to_thread(self._store_rest)
            raise
        except BaseExceptionGroup as group:
            await self._give_up()
            raise group.exceptions[0] from None
        except Exception:
            await self._give_up()
            raise

    async def _give_up(self) -> None:
        self._serve_no_more()
        # A running thread goes on, and the store must not be closed under it.
        await asyncio.to_thread(self._threads.shutdown)

    def _serve_no_more(self) -> None:
        self._running = False
        self._session.serve(None)
        self._withdraw()

    # --- what the session tells -------------------------------------------------------------------

    def connected(self) -> None:
        self._connections += 1
        self._changed.fire()

    def disconnected(self) -> None:
        """Cancel all answers, since the paths of their requests are void; others are asked until
        this storage says again what it has."""
        for _, task in self._answering.values():
            task.cancel()
        self._answering.clear()
        self._answered.fire()
        self._ready.clear()
        self._whole.clear()
        self.answers = ()
        self._changed.fire()

    def _withdraw(self) -> None:
        """Withdraw as a storage, though the client may continue."""
        self._session.say([Stores(topics=(), name=self._name)])
        for answering, _ in self._answering.values():
            answering.fail(GONE)
        self.disconnected()

    def handle(self, message: ServiceMessage) -> None:
        """Handle a message of a client that asks."""
        if isinstance(message, Request):
            self._begin(message)
        elif isinstance(message, More | Cancel) and message.id in self._answering:
            answering, task = self._answering[message.id]
            if isinstance(message, More):
                answering.grant(message.count)
            else:
                task.cancel()

    # --- keeping ----------------------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            bodies = await self._feed.next_batch()
            await self._append([Incoming(body) for body in bodies], "subscription")
            await self._feed.stored()

    async def _append(self, batch: list[Incoming], source: str) -> None:
        await self._change_store(partial(self._store.append, batch))
        self.counters[f"events_of_{source}"] += len(batch)
        self.counters["event_bytes"] += sum([len(incoming.body) for incoming in batch])
        open_ones = [one for one, _ in self._answering.values() if one.request.handover_s]
        if not open_ones:
            return
        for incoming in batch:
            publication = decoded(incoming.body)
            for answering in open_ones:
                answering.came(publication, incoming.body)

    async def _append_lacking(self, events: Sequence[Event]) -> None:
        """Append the missing events of another storage."""
        bodies = [event.body for event in events]
        batch = await self._in_thread(partial(self._store.lacking, bodies))
        await self._append(batch, "storages")

    def _store_rest(self) -> None:
        """Store what had arrived when the storage was told to end; in a thread, after all
        others."""
        self._threads.shutdown()
        bodies = self._feed.rest()
        if bodies:
            self._store.append([Incoming(body) for body in bodies])

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _change_store(self, work: Callable[[], T]) -> T:
        async with self._writing:
            return await self._in_thread(work)

    async def _fail_when_damaged(self) -> None:
        while self._damage is None:
            await self._changed.wait()
        raise self._damage

    # --- topics -----------------------------------------------------------------------------------

    async def _tend_all(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            for topic in self.topics:
                if topic not in self._tended:
                    self._tended[topic] = tasks.create_task(self._tend(topic))
            await self._changed.wait()

    async def _tend(self, topic: str) -> None:
        """Serve one topic, from when it is wanted until it is not."""
        while topic in self.topics:
            await self._take_in(topic)
            while topic in self.topics:
                await self._get_ready(topic)
            await self._let_go(topic)
        del self._tended[topic]
        self._changed.fire()

    async def _take_in(self, topic: str) -> None:
        await self._keep_topics(self._tended)
        if topic_filter([topic]) not in self._feed.filters:
            await self._feed.add(topic_filter([topic]))

    async def _get_ready(self, topic: str) -> None:
        """Prepare a topic once for each connection, and again until nothing is missing; then
        wait."""
        await self._feed.settled()
        connection = self._connections
        whole = topic in self._whole or await self._catch_up.of(topic, self._is_topic)
        lost = connection != self._connections or not self._client.connected
        if lost or topic not in self.topics:
            return
        if whole:
            self._whole.add(topic)
        if whole or topic not in self._joining:
            self._ready.add(topic)
        self._changed.fire()
        again_s = JOINING_AGAIN_S if topic in self._joining else AGAIN_S
        with suppress(TimeoutError):
            async with asyncio.timeout(None if whole else again_s):
                while connection == self._connections and topic in self.topics:
                    await self._changed.wait()

    def _is_topic(self, topic: str) -> bool:
        return topic in self.topics

    async def _let_go(self, topic: str) -> None:
        """Stop answering for a topic, end the answers about it, then unsubscribe."""
        self._ready.discard(topic)
        self._whole.discard(topic)
        self._changed.fire()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWERS_S):
                while topic in self.answers:
                    await self._changed.wait()
                while self._orphans(topic):
                    await self._answered.wait()
        for answering, task in self._orphans(topic):
            answering.fail(GONE)
            task.cancel()
        if topic not in self.topics:
            await self._feed.remove(topic_filter([topic]))
            await self._keep_topics([other for other in self._tended if other != topic])

    def _orphans(self, topic: str) -> list[tuple[Answering, asyncio.Task[None]]]:
        """Return the answers about this topic that it would not begin now."""
        return [
            (answering, task)
            for answering, task in self._answering.values()
            if any(topic_patterns_meet(topic, asked) for asked in answering.request.topics)
            and not self._answers_for(answering.request.topics)
        ]

    def _answers_for(self, topics: Iterable[str]) -> bool:
        return all(
            any(topic_pattern_covers(own, topic) for own in self.answers) for topic in topics
        )

    async def _keep_topics(self, topics: Iterable[str]) -> None:
        keep = partial(self._store.keep, tuple(topics), forget=self._forget)
        await self._change_store(keep)

    async def _note_whole(self) -> None:
        """Record now and then that everything up to the last event is stored: events are stored in
        their order."""
        await self._upkeep.note_whole(lambda: self._whole)

    # --- saying what there is ---------------------------------------------------------------------

    async def _announce(self, ready: Callable[[], None]) -> None:
        said: tuple[int, tuple[str, ...]] | None = None
        while True:
            await asyncio.sleep(TOGETHER_S)
            topics = tuple(sorted(self._ready))
            if self._client.connected and (self._connections, topics) != said:
                said = self._connections, topics
                self._session.say([Stores(topics=topics, name=self._name)])
                self.answers = topics
                self._changed.fire()
                ready()
            await self._changed.wait()

    # --- answering --------------------------------------------------------------------------------

    def _begin(self, request: Request) -> None:
        try:
            answering = Answering(request, self._client.id, self._session.say)
        except FilterSyntaxError:
            log.warning("a request with a filter that is none, by %s", request.id[0])
            self.counters["requests_refused"] += 1
            return
        if not self._answers_for(request.topics):
            answering.fail(GONE)
            self.counters["requests_refused"] += 1
            return
        task = asyncio.get_running_loop().create_task(self._answer(answering))
        self._answering[request.id] = (answering, task)

    async def _answer(self, answering: Answering) -> None:
        request, outcome = answering.request, "failed"
        try:
            await answering.run(self._store, now_us(), self._in_thread)
            outcome = "answered"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except DamagedError as error:
            answering.fail(f"the storage is damaged: {error}")
            self._damage = error
            self._changed.fire()
        finally:
            self.counters[f"requests_{outcome}"] += 1
            self._answering.pop(request.id, None)
            self._answered.fire()
