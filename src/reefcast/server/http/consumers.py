"""The consumers of durable sessions behind HTTP requests.

Rules
-----
- A stream of a session is a consumer as long as it lasts. Fetching has one for each user and
  session, which stays for `LEASE_S` after the last request about it: so what was fetched is not
  handed to others before its `ack_wait_s` is over.
- A fetching consumer has room for events only while somebody fetches. So no event waits here that
  another consumer could process.
- An acknowledgement goes to the consumer that has the event. Nobody need have it: a position may be
  acknowledged at any broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from reefcast.client.durable import DurableSession
from reefcast.client.owed import OwedEvent
from reefcast.http.problems import refused
from reefcast.protocol.principal import Principal
from reefcast.protocol.privacy import Shown
from reefcast.server.http.front import HttpFront, key_of
from reefcast.server.http.inner import InnerClient
from reefcast.sessions.messages import MOST_WINDOW

LEASE_S = 60.0
LEAST_S = 0.2
"""How long a fetch waits at least: an answer of the session's home takes that long at most, unless
it is far away."""
TOGETHER_S = 0.02
"""How long a fetch that has an event waits for each further one."""
Key = tuple[bytes, str]


class Fetcher:
    """The consumer by which a user fetches from a session. `until_s`: how long it stays, in seconds
    of the loop, if nobody uses it."""

    def __init__(self, client: InnerClient, name: str) -> None:
        self.client = client
        self.durable = client.session(name, prefetch=0)
        self.until_s = 0.0
        self._turn = asyncio.Lock()

    @property
    def over(self) -> bool:
        """Whether nobody can fetch by it any more."""
        return self.client.ended is not None or self.durable.ended

    async def fetch(self, most: int, wait_s: float) -> list[OwedEvent]:
        """Return at most so many events; wait for the first one. One fetch waits for another."""
        durable = self.durable
        # The last event may come at the end of the wait; it stays its fetcher's as long as others.
        self.until_s = asyncio.get_running_loop().time() + wait_s + LEASE_S
        found: list[OwedEvent] = []
        try:
            async with asyncio.timeout(max(wait_s, LEAST_S)), self._turn:
                durable.resize(min(MOST_WINDOW, len(durable.in_hand) + most))
                try:
                    found.append(await anext(durable))
                    await self._fill(found, most)
                finally:
                    self.make_room(0)
        except (TimeoutError, StopAsyncIteration):
            pass
        return found

    async def _fill(self, found: list[OwedEvent], most: int) -> None:
        """Add what comes together with the first event."""
        with suppress(TimeoutError):
            while len(found) < most:
                async with asyncio.timeout(TOGETHER_S):
                    found.append(await anext(self.durable))

    def make_room(self, gone: int) -> None:
        """Take no more events until somebody fetches; `gone`: how many of those in hand are about
        to be acknowledged."""
        durable = self.durable
        durable.resize(min(MOST_WINDOW, len(durable.in_hand) - gone + durable.waiting))


class Consumers:
    """All consumers of one broker's HTTP clients."""

    def __init__(self, front: HttpFront) -> None:
        self._front = front
        self._streams: dict[Key, list[DurableSession]] = {}
        self._fetchers: dict[Key, Fetcher] = {}
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def streaming(self, principal: Principal, durable: DurableSession) -> Iterator[None]:
        """Note a stream of a session, as long as the block lasts."""
        key = (key_of(principal), durable.name)
        streams = self._streams.setdefault(key, [])
        streams.append(durable)
        try:
            yield
        finally:
            streams.remove(durable)
            if not streams:
                self._streams.pop(key, None)

    async def fetcher(self, principal: Principal, shown: Shown, name: str) -> Fetcher:
        """Return the consumer by which this user fetches from a session."""
        key = (key_of(principal), name)
        found = self._fetchers.get(key)
        if found is None or found.over:
            self.forget(principal, name)
            lasting = principal._replace(expires_at_s=float("inf"))
            client = await self._front.open_client(lasting, shown)
            other = self._fetchers.get(key)
            if other is not None and not other.over:  # made meanwhile
                self._front.leave(client)
                found = other
            else:
                found = self._fetchers[key] = Fetcher(client, name)
        found.until_s = self._loop.time() + LEASE_S
        return found

    def forget(self, principal: Principal, name: str) -> None:
        """Have the fetching consumer of a session leave, if there is one."""
        fetcher = self._fetchers.pop((key_of(principal), name), None)
        if fetcher is not None:
            self._front.leave(fetcher.client)

    # --- acknowledgements -------------------------------------------------------------------------

    async def acknowledge(
        self, principal: Principal, shown: Shown, name: str, positions: Sequence[int], up_to: int
    ) -> int:
        """Acknowledge events of a session, and wait until its home has that on disk. `up_to`: 0, or
        a position: this one, and all that its consumer got before it. Return how many events."""
        fetcher = await self.fetcher(principal, shown, name)
        left = dict.fromkeys(positions)
        for each in self._of(principal, name, fetcher):
            in_hand = each.in_hand
            if up_to in in_hand:
                left |= dict.fromkeys(in_hand[: in_hand.index(up_to) + 1])
        if up_to:
            left[up_to] = None
        count = len(left)
        for each in self._of(principal, name, fetcher):
            own = [position for position in each.in_hand if position in left]
            for position in own:
                del left[position]
            if own:
                if each is fetcher.durable:  # first, or what is free would be filled at once
                    fetcher.make_room(len(own))
                await each.ack_positions(own, wait=True)
        if left:
            await fetcher.durable.ack_positions(list(left), wait=True)
        return count

    async def reject(
        self, principal: Principal, shown: Shown, name: str, position: int, delay_s: float
    ) -> None:
        """Give an event back. Raises `HttpError` if no consumer of this user has it here."""
        fetcher = await self.fetcher(principal, shown, name)
        for each in self._of(principal, name, fetcher):
            if position in each.in_hand:
                each.reject_position(position, delay_s)
                return
        raise refused(
            409,
            "not-in-hand",
            f"no request to this broker has fetched position {position}, or it was acknowledged, "
            "given back, or handed out again since",
            where="reject",
        )

    def _of(self, principal: Principal, name: str, fetcher: Fetcher) -> list[DurableSession]:
        return [fetcher.durable, *self._streams.get((key_of(principal), name), ())]

    # --- life -------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Detach consumers whose programs stopped fetching; `now`: seconds of the loop."""
        for key, fetcher in list(self._fetchers.items()):
            if now > fetcher.until_s or fetcher.over:
                del self._fetchers[key]
                self._front.leave(fetcher.client)

    def close(self) -> None:
        """Have all consumers leave."""
        for fetcher in self._fetchers.values():
            self._front.leave(fetcher.client)
        self._fetchers.clear()
