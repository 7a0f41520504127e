"""The asyncio client under the synchronous one: events come encoded, from other threads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import Self

from reefcast.client.address import Address, parse_addresses
from reefcast.client.batches import Published
from reefcast.client.client import Client
from reefcast.client.durable import DurableSession, SessionChoices
from reefcast.client.handles import Advertisement
from reefcast.client.history import History
from reefcast.client.settings import Options, complete
from reefcast.client.unconfirmed import Group

AT_ONCE = 1024
"""Events after which it is looked whether the connection still takes more."""


class BackloggedClient(Client):
    """`backlog`: its next events, encoded; any thread may append to it. What is sent is what stands
    there, in this order: `publish` is not for this client."""

    def __init__(self, addresses: Sequence[Address], settings: Options) -> None:
        super().__init__(addresses, settings)
        self.backlog: deque[bytes] = deque()

    @classmethod
    async def connected_to(cls, urls: str | Sequence[str] | None, options: Options) -> Self:
        """Connect as `reefcast.connect` does."""
        return await cls(parse_addresses(urls), complete(options))._open()

    @property
    def unacknowledged(self) -> int:
        return len(self.backlog) + super().unacknowledged

    def note_batch(self, batch: Published) -> None:
        """Call `Session.note_batch`; any thread may."""
        self._session.note_batch(batch)

    async def advertise_next(self, filter: str) -> Advertisement:
        """Advertise after sending what was published before, which must not be judged by the
        advertisement."""
        await self.send_backlog()
        return self.advertise(filter)

    async def begin_history(
        self, filter: str, since: datetime | None, until: datetime | None, limit: int
    ) -> History:
        """Call `history` in the client's thread."""
        return self.history(filter, since=since, until=until, limit=limit)

    async def open_session(
        self, name: str, prefetch: int, filter: str, owner: str, choices: SessionChoices
    ) -> DurableSession:
        """Call `session` in the client's thread, and wait until it is there."""
        return await self.session(name, prefetch=prefetch, filter=filter, owner=owner, **choices)

    def expect(self, seq: int, group: Group) -> None:
        """Have the publication with this number confirmed, which is about to come to the backlog;
        any thread may."""
        group.open += 1
        self._session.unconfirmed.expected[seq] = group

    async def sent_and_confirmed(self, group: Group) -> None:
        """Wait until all of a group, some of which may be in the backlog, are answered. Raises as
        `confirming`."""
        await self.send_backlog()
        await self._until_confirmed(group)

    async def _begin_group(self) -> Group:
        await self.send_backlog()
        return await super()._begin_group()

    async def _end_group(self, group: Group) -> None:
        await self.send_backlog()
        await super()._end_group(group)

    def _has_room(self) -> bool:
        """Return whether there is room; a call that waits for room stops when another call has sent
        everything."""
        return not self.backlog or super()._has_room()

    async def send_backlog(self) -> None:
        """Publish the frames in `backlog`. Two calls share the work without changing the order,
        because nothing else runs between removing a frame and sending it."""
        while self.backlog:
            if self._session.refusals or not self._has_room():
                await self._until_room()
            elif self._session.unconfirmed.full:
                await self._until_room_to_ask()
            elif self.backlog:
                count = min(len(self.backlog), self._outbox.credit, AT_ONCE)
                self._publish_all([self.backlog.popleft() for _ in range(count)])

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (for convenience)
        async with asyncio.timeout(timeout):
            self._session.check()
            await self.send_backlog()
            await super().flush()
