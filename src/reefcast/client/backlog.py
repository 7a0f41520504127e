"""The asyncio client below the synchronous one: it gets encoded events from other threads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Self

import msgspec

from reefcast.client.address import Address, parse_addresses
from reefcast.client.batches import Published
from reefcast.client.client import Client
from reefcast.client.encoding import merge_attributes
from reefcast.client.event import Event, Replier
from reefcast.client.handles import Advertisement
from reefcast.client.history import History
from reefcast.client.recalling import Order
from reefcast.client.retaining import Retain as RetainAs
from reefcast.client.retaining import order_of
from reefcast.client.settings import Options, complete
from reefcast.client.unconfirmed import Group
from reefcast.model.flat import Attributes
from reefcast.model.publication import PublicationId
from reefcast.retaining.messages import Retain

Enqueue = Callable[[Mapping[str, object], Iterable[str], bytes], PublicationId]
AT_ONCE = 1024
"""After this many events, check whether the connection still accepts more."""


class BackloggedClient(Client):
    """`backlog`: the next events, encoded; any thread may append to it. They are sent in this
    order."""

    def __init__(self, addresses: Sequence[Address], settings: Options) -> None:
        super().__init__(addresses, settings)
        self.backlog: deque[bytes] = deque()
        self._to_retain: dict[int, Retain] = {}
        self._orders: dict[int, Order] = {}
        self._enqueue: Enqueue

    def serve(self, enqueue: Enqueue, replier: Replier, event_type: type[Event]) -> None:
        """Serve a synchronous client. `enqueue` publishes an event behind all others, under the
        next number; `replier` publishes replies to received events, which are of type
        `event_type`."""
        self._enqueue = enqueue
        self._session.replier, self._session.event_type = replier, event_type

    @classmethod
    async def connected_to(cls, urls: str | Sequence[str] | None, options: Options) -> Self:
        """Connect as `reefcast.connect` does."""
        return await cls(parse_addresses(urls), complete(options))._open()

    @property
    def unacknowledged(self) -> int:
        return len(self.backlog) + super().unacknowledged

    async def publish(
        self,
        attributes: Attributes | None = None,
        /,
        *,
        payload: bytes = b"",
        topics: Iterable[str] = (),
        **named: object,
    ) -> PublicationId:
        """Publish one event behind all that wait here, as calls do that run in this thread."""
        await self.send_backlog()
        return self._enqueue(merge_attributes(attributes, named), topics, payload)

    def note_batch(self, batch: Published) -> None:
        """Call `Session.note_batch`; any thread may."""
        self._session.note_batch(batch)

    async def advertise_next(self, filter: str) -> Advertisement:
        """Advertise after sending what was published before, which must not be judged by the
        advertisement."""
        await self.send_backlog()
        return self.advertise(filter)

    async def begin_history(
        self,
        filter: str,
        since: datetime | None,
        until: datetime | None,
        limit: int,
        attributes: Iterable[str] | None,
        payload: bool,
    ) -> History:
        """Call `history` in the client's thread."""
        return self.history(
            filter,
            since=since,
            until=until,
            limit=limit,
            attributes=attributes,
            payload=payload,
        )

    def expect(self, seq: int, group: Group) -> None:
        """Have the publication with this number confirmed, which is about to come to the backlog;
        any thread may."""
        self._expect(seq, group)

    async def taken(self, seq: int) -> None:
        """Wait until the publication with this number, which may be in the backlog, is in the
        outbox file."""
        await self.send_backlog()
        await self._until_taken(seq)

    @property
    def last_seq(self) -> int:
        """The number of the last publication, also of a former life."""
        return self._outbox.seq

    @property
    def stores(self) -> bool:
        """Whether there is an outbox file."""
        return self._stored is not None

    def expect_retained(self, seq: int, frame: bytes, retain: RetainAs) -> None:
        """Have the publication with this number retained, whose frame is about to come to the
        backlog; any thread may. Raises `ConfigurationError`."""
        self._to_retain[seq] = order_of(frame, retain, 1)  # the token follows when it is sent

    async def sent_and_retained(self, seq: int) -> None:
        """Wait until the broker has retained the publication with this number. Raises why it has
        not."""
        try:
            await self.send_backlog()
            order = self._orders.get(seq)
            if order is not None:
                await self._until_retained(order, seq)
        finally:
            self._orders.pop(seq, None)

    async def clear_behind(self, topic: str, attributes: Attributes | None) -> None:
        """Call `clear_retained` behind all that waits here."""
        await self.send_backlog()
        await self.clear_retained(topic=topic, attributes=attributes)

    def _say_retain(self, count: int) -> None:
        """Have those of the next frames retained that are to be."""
        retaining, first = self._session.retaining, self._outbox.seq + 1
        for seq in range(first, first + count):
            message = self._to_retain.pop(seq, None)
            if message is not None:
                token = retaining.next_token()
                asked = msgspec.structs.replace(message, token=token)
                self._orders[seq] = self._order(asked, seq)

    async def sent_and_confirmed(self, group: Group) -> None:
        """Wait until all of a group, some of which may be in the backlog, are answered. Raises as
        `confirming`."""
        await self.send_backlog()
        await self._until_confirmed(group)

    async def all_done(self) -> None:
        await self.send_backlog()
        await super().all_done()

    async def _begin_group(self) -> Group:
        await self.send_backlog()
        return await super()._begin_group()

    async def _end_group(self, group: Group) -> None:
        await self.send_backlog()
        await super()._end_group(group)

    def _has_room(self) -> bool:
        """Return whether there is room. A call that waits for it stops when another call has sent
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
                most = AT_ONCE if self._stored is not None else self._outbox.credit
                count = min(len(self.backlog), most, AT_ONCE)
                if self._to_retain:
                    self._say_retain(count)
                self._publish_all([self.backlog.popleft() for _ in range(count)])

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (for convenience)
        async with asyncio.timeout(timeout):
            self._session.check()
            await self.send_backlog()
            await super().flush()
