"""What a client has to do with publications that are to be confirmed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from reefcast.client.session import Session
from reefcast.client.unconfirmed import Group


class ConfirmingClient:
    """The part of a client that waits for confirmations. `_session`: its state."""

    _session: Session

    @property
    def unconfirmed(self) -> int:
        """How many publications that were to be confirmed are not yet."""
        return len(self._session.unconfirmed)

    @asynccontextmanager
    async def confirming(self) -> AsyncIterator[None]:
        """Have everything confirmed that this client publishes inside the `async with` block, which
        ends when all of it is: then every durable session that had settled before has what is for
        it on disk.

        Inside, `publish` and `publish_many` return as ever. Raises `RefusedError`, which names all
        that were refused, and the reason if the client ends. If the block ends with an exception,
        nothing is waited for; what was published is confirmed all the same, or sent again.
        """
        group = await self._begin_group()
        try:
            yield
        except BaseException:
            self._session.unconfirmed.end(group)
            raise
        await self._end_group(group)

    async def all_done(self) -> None:
        """Wait until everything that this client has published so far, and that is confirmed, is
        on the disk of every durable session that is to have it: not only in the custody of a broker
        on the way, with which `publish(..., confirm=True)` and `confirming` return.

        With an outbox file that is all of it, and what a former life of the publisher left. What
        was not to be confirmed is not waited for (see `flush`). Raises `RefusedError`, which names
        what was refused meanwhile, and the reason if the client ends.
        """
        self._session.check()
        await self._until_confirmed(self._session.unconfirmed.everything(until_done=True))

    def _expect(self, seq: int, group: Group) -> None:
        """Have the publication with this number confirmed, which is about to be sent; any thread
        may."""
        group.open += 1
        self._session.unconfirmed.expected[seq] = group

    async def _begin_group(self) -> Group:
        return self._session.unconfirmed.begin()

    async def _end_group(self, group: Group) -> None:
        self._session.unconfirmed.end(group)
        await self._until_confirmed(group)

    async def _until_confirmed(self, group: Group) -> None:
        """Wait until all of a group are answered. Raises as `confirming`."""
        with self._session.awaiting_answer():
            while group.open and group.ended is None:
                await group.changed.wait()
        if group.open and group.ended is not None:
            raise group.ended
        if group.refusals:
            raise self._session.refused(sorted(group.refusals))

    async def _until_room_to_ask(self) -> None:
        session = self._session
        with session.awaiting_answer():
            while session.unconfirmed.full:
                session.check()
                await session.unconfirmed.room.wait()

    async def _until_all_confirmed(self) -> None:
        """Wait until everything is answered that was to be confirmed, whatever the answers."""
        group = self._session.unconfirmed.everything(until_done=False)
        with self._session.awaiting_answer():
            while group.open and group.ended is None:
                await group.changed.wait()
