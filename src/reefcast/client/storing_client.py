"""What a client has to do with publications that are sent, or in its outbox file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from reefcast.client.confirming import ConfirmingClient
from reefcast.client.outbox import Outbox
from reefcast.client.storing import Storing
from reefcast.client.unconfirmed import Group


class StoringClient(ConfirmingClient):
    """The part of a client that waits for the outbox file. `_stored`: the file, if there is one."""

    _outbox: Outbox
    _stored: Storing | None

    @abstractmethod
    def _publish_all(self, frames: Sequence[bytes]) -> None: ...

    @property
    @abstractmethod
    def _is_writable(self) -> bool: ...

    async def _publish_stored(self, seq: int, frame: bytes, *, confirm: bool) -> None:
        """Publish a frame; return when it is in the outbox file, or confirmed."""
        group = Group()
        if confirm:
            self._expect(seq, group)
        self._publish_all([frame])
        await self._until_written(seq)
        if confirm:
            await self._until_confirmed(group)

    def _written(self, count: int) -> None:
        """Handle that the next `count` publications are in the outbox file."""
        if not self._session.ended:
            self._outbox.written(count)
            self._session.room.fire()

    async def _until_written(self, seq: int) -> None:
        """Wait until no publication up to this one has to wait for the disk."""
        while self._outbox.written_seq < seq:
            if self._session.ended:
                raise self._session.ending()
            await self._session.room.wait()

    async def _until_taken(self, seq: int) -> None:
        """Wait until this client has seen to all publications up to this one: they are in the
        outbox file, or sent where there is none."""
        if self._stored is None:
            await self._until_sent(seq)
        await self._until_written(seq)

    async def _until_sent(self, seq: int) -> None:
        """Wait until no publication up to this one waits for credit."""
        session, outbox = self._session, self._outbox
        if outbox.sent_seq >= seq and self._is_writable:
            return
        with session.awaiting_answer():
            while outbox.sent_seq < seq or not self._is_writable:
                if session.ended:
                    raise session.ending()
                await session.room.wait()
