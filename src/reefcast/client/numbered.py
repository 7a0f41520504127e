"""A client whose program numbers its events itself, and always has the same id.

It is for a program that may return, in another process, and publish the same events again. A broker
that remembers the id passes on only events with higher numbers than the last one (see
`server.clients`), and storages keep one of each. So the same event must have the same number and
the same time, and the numbers go up by one.

Events that are to be confirmed always go to the durable sessions that they are for, which keep one
of each. They are marked as sent before, since they may have been: so that subscribers drop those
that they have had, also where the broker does not remember the id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from reefcast.client.address import parse_addresses
from reefcast.client.client import Client
from reefcast.client.settings import Options, complete
from reefcast.client.unconfirmed import Group
from reefcast.protocol.client_ids import Identity
from reefcast.timing import MACHINE

ATTEMPTS = 2**31
"""Attempts are numbered from a random number below this, which no other life is likely to draw."""


class NumberedClient(Client):
    """A client for events that are encoded already (`encoding.encode_event`); it has no
    `publish`."""

    _asked: Group | None = None

    @classmethod
    async def connected_to(
        cls,
        urls: str | Sequence[str],
        identity: Identity,
        options: Options,
        *,
        first: int = 1,
        confirm: bool = False,
    ) -> Self:
        """Connect as `reefcast.connect` does. `first`: the number of the first event; `confirm`:
        have all events confirmed."""
        client = cls(parse_addresses(urls), complete(options), identity)
        client._session.outbox.number_from(first)
        if confirm:
            unconfirmed = client._session.unconfirmed
            unconfirmed.former_attempts = MACHINE.get().generator().randrange(1, ATTEMPTS)
            client._asked = unconfirmed.begin()
        return await client._open()

    async def send(self, frames: Iterable[bytes]) -> None:
        """Publish frames in their order. Raises what `Client.publish` raises."""
        if self._session.unconfirmed.full:
            await self._until_room_to_ask()
        if self._session.refusals or not self._has_room():
            await self._until_room()
        self._publish_all([*frames])
        await self._until_sent(self._outbox.seq)

    async def until_all_taken(self) -> None:
        """Wait until the broker has acknowledged all events, and every durable session that they
        are for has them on disk, if they are to be confirmed. Raises what `Client.flush` and
        `Client.confirming` raise."""
        if self._asked is not None:
            await self._until_confirmed(self._asked)
        await self.flush()
