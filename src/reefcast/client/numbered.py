"""A client whose program numbers its events itself, and always has the same id.

It is for a program that may return, in another process, and publish the same events again. A broker
that remembers the id passes on only events with higher numbers than the last one (see
`server.clients`), and storages keep one of each. So the numbers must go up, and the same event must
have the same number and the same time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from reefcast.client.address import parse_addresses
from reefcast.client.client import Client
from reefcast.client.settings import Options, complete
from reefcast.protocol.client_ids import Identity


class NumberedClient(Client):
    """A client for events that are encoded already (`encoding.encode_event`); it has no
    `publish`."""

    @classmethod
    async def connected_to(
        cls, urls: str | Sequence[str], identity: Identity, options: Options
    ) -> Self:
        """Connect as `reefcast.connect` does."""
        return await cls(parse_addresses(urls), complete(options), identity)._open()

    async def send(self, frames: Iterable[bytes]) -> None:
        """Publish frames in their order. Raises what `Client.publish` raises."""
        if self._session.refusals or not self._has_room():
            await self._until_room()
        self._publish_all([*frames])
        await self._until_sent(self._outbox.seq)
