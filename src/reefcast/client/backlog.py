"""The asyncio client below the synchronous one: it gets encoded events from other threads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Self

from reefcast.client.address import Address, parse_addresses
from reefcast.client.batches import Published
from reefcast.client.client import Client
from reefcast.client.settings import Options, complete

AT_ONCE = 1024
"""After this many events, check whether the connection still accepts more."""


class BackloggedClient(Client):
    """`backlog`: the next events, encoded; any thread may append to it. They are sent in this
    order, so `publish` is not for this client."""

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
            elif self.backlog:
                count = min(len(self.backlog), self._outbox.credit, AT_ONCE)
                self._publish_all([self.backlog.popleft() for _ in range(count)])

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (for convenience)
        async with asyncio.timeout(timeout):
            self._session.check()
            await self.send_backlog()
            await super().flush()
