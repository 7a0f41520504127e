"""Clients that publish and subscribe, and record what they do and see."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any

import reefcast

from .judge import Wanted, draw_event, draw_filter
from .ledger import Account, Interest, Ledger, Published
from .network import LiveNetwork, eventually

Clock = Callable[[], float]
CONNECT_S = 120.0
"""How long connecting may take, on a busy machine, and while brokers are away."""
AT_ONCE, HELD = 8, 24
"""How many subscriptions come together, and for how many seconds they stay, where they come and
go."""


class Subscriber:
    """One subscription, with a client of its own. `disconnects`: how often its connection broke;
    `renewals`: how often its broker had not kept the session."""

    def __init__(self, account: Account, wanted: Sequence[Wanted], clock: Clock) -> None:
        self.account = account
        self.disconnects = self.renewals = 0
        self._before: tuple[tuple[int, ...], float] = ((), 0.0)
        self._wanted = list(wanted)
        self._clock = clock
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self, url: str) -> Subscriber:
        self._client = await reefcast.connect(
            url,
            name=self.account.name,
            connect_timeout_s=CONNECT_S,
            reconnect_timeout_s=CONNECT_S,
            on_disconnect=self._lost,
            on_reconnect=self._back,
        )
        interests = [self.account.ask(wanted, self._clock()) for wanted in self._wanted]
        self._subscription = self._client.subscribe(*(wanted.text for wanted in self._wanted))
        self._later(self._read())
        await self._settle(interests)
        return self

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, interests: Sequence[Interest]) -> None:
        await self._subscription.settled()
        now_s = self._clock()
        for interest in interests:
            if interest.ended_s > now_s:
                interest.settled_s = now_s

    # --- reading ----------------------------------------------------------------------------------

    async def _read(self) -> None:
        came, clock = self.account.came, self._clock
        while True:
            await self._may_read.wait()
            try:
                batch = await self._subscription.next_batch()
            except (StopAsyncIteration, reefcast.ReefcastError):
                return
            now_s = clock()
            came.extend((event.id, now_s) for event in batch)

    def sleep(self) -> None:
        """Read nothing for a while."""
        self._may_read.clear()

    def wake(self) -> None:
        self._may_read.set()

    # --- connections ------------------------------------------------------------------------------

    def _lost(self) -> None:
        self.disconnects += 1
        self._before = self._subscription.numbers, self._clock()

    def _back(self) -> None:
        """Handle a new connection. Filters that kept their numbers stand; otherwise all are
        requested again."""
        numbers, lost_s = self._before
        if set(numbers) <= set(self._subscription.numbers):
            return
        self.renewals += 1
        self._wanted = self.account.broken(lost_s)
        interests = [self.account.ask(wanted, self._clock()) for wanted in self._wanted]
        self._later(self._settle(interests))

    @property
    def settled(self) -> bool:
        """Whether every broker that must know the filters does."""
        standing = [each for each in self.account.interests if each.ended_s == inf]
        return bool(standing) and all(each.settled_s < inf for each in standing)

    # --- changes ----------------------------------------------------------------------------------

    async def replace(self, new: Wanted) -> None:
        """Replace the first filter by another one, unless the session is lost meanwhile."""
        before = self.renewals
        standing = [each for each in self.account.interests if each.end_asked_s == inf]
        if not standing:
            return
        old = standing[0]
        interest = self.account.ask(new, self._clock())
        await self._subscription.add(new.text)
        if self.renewals != before:
            return
        interest.settled_s = old.end_asked_s = self._clock()
        await self._subscription.remove(old.wanted.text)
        old.ended_s = min(old.ended_s, self._clock())

    async def cancel(self) -> None:
        """Cancel the subscription; what comes until that is answered may still be read."""
        now_s = self._clock()
        for interest in self.account.interests:
            interest.end_asked_s = min(interest.end_asked_s, now_s)
        await self._subscription.cancel()
        now_s = self._clock()
        for interest in self.account.interests:
            interest.ended_s = min(interest.ended_s, now_s)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(self._client.close(), return_exceptions=True)


class Churner:
    """A client at one broker whose subscriptions come and go."""

    def __init__(self, workload: Workload, broker: str, rng: random.Random) -> None:
        self._workload, self._broker, self._rng = workload, broker, rng
        self._held: deque[tuple[reefcast.Subscription, Account]] = deque()
        self.made = 0

    async def run(self, rate: float, url: str) -> None:
        """Make and cancel `rate` subscriptions a second, in step with the answers, until
        cancelled."""
        clock = self._workload.clock
        async with reefcast.connect(
            url, name="churn", connect_timeout_s=CONNECT_S, on_disconnect=self._lost
        ) as client:
            try:
                while True:
                    began_s = clock()
                    await asyncio.gather(*(self._begin(client) for _ in range(AT_ONCE)))
                    old = list(self._held)[:-HELD]
                    await asyncio.gather(*(self._end(*each) for each in old))
                    for _ in old:  # not before: who is cancelled in between gives up all
                        self._held.popleft()
                    await asyncio.sleep(max(0.0, AT_ONCE / rate - (clock() - began_s)))
            finally:
                for _, account in self._held:
                    account.broken(clock())

    async def _begin(self, client: reefcast.Client) -> None:
        clock = self._workload.clock
        self.made += 1
        account = self._workload.ledger.account(f"churn{self.made}", self._broker)
        interest = account.ask(self._workload.draw_filter(self._rng), clock())
        subscription = client.subscribe(interest.wanted.text)
        self._held.append((subscription, account))
        await subscription.settled()
        if interest.ended_s == inf:
            interest.settled_s = clock()

    async def _end(self, subscription: reefcast.Subscription, account: Account) -> None:
        clock = self._workload.clock
        if subscription.waiting:
            now_s = clock()
            account.came.extend((event.id, now_s) for event in await subscription.next_batch())
        for interest in account.interests:
            interest.end_asked_s = min(interest.end_asked_s, clock())
        await subscription.cancel()
        for interest in account.interests:
            interest.ended_s = min(interest.ended_s, clock())

    def _lost(self) -> None:
        """Handle a lost session: nothing is settled any more; the client requests its filters
        again, and does not wait."""
        now_s = self._workload.clock()
        for _, account in self._held:
            for wanted in account.broken(now_s):
                account.ask(wanted, now_s)


class Publisher:
    """A client that publishes `rate` events a second while it may."""

    def __init__(self, workload: Workload, name: str, broker: str, rng: random.Random) -> None:
        self.name, self.broker = name, broker
        self._workload, self._rng = workload, rng

    async def start(self, url: str) -> Publisher:
        self.client = await reefcast.connect(
            url,
            name=self.name,
            connect_timeout_s=CONNECT_S,
            reconnect_timeout_s=CONNECT_S,
        )
        await self.client.advertise(self._workload.advertised)
        return self

    async def run(self, rate: float) -> None:
        """Publish until cancelled. What could not be published in time is not made up for."""
        workload, clock = self._workload, self._workload.clock
        next_s = clock()
        while True:
            await workload.may_publish.wait()
            event = draw_event(self._rng)
            attributes = {name: value for name, value in event.items() if name != "topic"}
            called_s = clock()
            id = await self.client.publish(attributes, topics=[str(event["topic"])])
            workload.ledger.published(Published(id, event, called_s, clock()))
            next_s = max(next_s + 1 / rate, clock() - 0.1)
            await asyncio.sleep(max(0.0, next_s - clock()))

    async def close(self) -> None:
        await asyncio.gather(self.client.close(), return_exceptions=True)


class Workload:
    """Subscribers and publishers at all brokers, with `rate` events a second in all."""

    def __init__(
        self, network: LiveNetwork, ledger: Ledger, rng: random.Random, *, by_topic: bool
    ) -> None:
        self.ledger = ledger
        self.clock: Clock = asyncio.get_running_loop().time
        self.may_publish = asyncio.Event()
        self.advertised = "topic LIKE 't%'"
        if by_topic:
            self.advertised = "topic IN ('t0', 't1', 't2', 't3', 't4', 't5', 't6', 't7')"
        self.subscribers: list[Subscriber] = []
        self.publishers: list[Publisher] = []
        self._network, self._rng, self._by_topic = network, rng, by_topic
        self._running: list[asyncio.Task[None]] = []

    def draw_filter(self, rng: random.Random) -> Wanted:
        return draw_filter(rng, names_topics=self._by_topic)

    async def start(self, subscribers: int, publishers: int, rate: float) -> None:
        names, rng = self._network.names, self._rng
        for number in range(publishers):
            broker = names[number % len(names)]
            seeded = random.Random(rng.random())
            self.publishers.append(Publisher(self, f"p{number}", broker, seeded))
        await asyncio.gather(*(each.start(self._url(each.broker)) for each in self.publishers))
        for number in range(subscribers):
            account = self.ledger.account(f"s{number}", names[number % len(names)])
            wanted = [self.draw_filter(rng) for _ in range(rng.choice((1, 1, 2)))]
            self.subscribers.append(Subscriber(account, wanted, self.clock))
        starting = [each.start(self._url(each.account.broker)) for each in self.subscribers]
        await asyncio.gather(*starting)
        each_rate = rate / publishers
        self._running = [
            asyncio.create_task(publisher.run(each_rate)) for publisher in self.publishers
        ]

    def _url(self, broker: str) -> str:
        return self._network.url(broker)

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        clients = [*self.publishers, *self.subscribers]
        await asyncio.gather(*(each.close() for each in clients))

    async def flush(self, within_s: float) -> list[str]:
        """Wait until all publications are acknowledged and all filters settled; say what is
        missing."""

        def wanting() -> list[str]:
            late = [p.name for p in self.publishers if p.client.unacknowledged]
            return late + [s.account.name for s in self.subscribers if not s.settled]

        await eventually(lambda: not wanting(), within_s)
        failed = [f"a publisher ended: {t.exception()!r}" for t in self._running if t.done()]
        missing = wanting()
        return failed + ([f"not settled or flushed: {', '.join(missing)}"] if missing else [])
