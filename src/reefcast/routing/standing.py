"""Advertisements of a broker's own clients that have settled: they stay settled over a restart.

Rules
-----
- When an advertisement of a client has settled, its host writes it to disk, before it says so.
- After a restart it is there again, and is told to neighbours under the same id, which still have
  it. A client that comes back and advertises the same text goes on with it: that settles at once,
  for all subscriptions of durable sessions that had settled are among the rows on disk.
- What its client has not taken up again after `patience_s` is withdrawn; and it goes from the disk
  when its client withdraws it or leaves.

Source: `delivery.md`, rule 5 (a). Cost: one row on disk for each advertisement of a client.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from reefcast.model.filters import Filter, parse_filter
from reefcast.model.keeping import DropRow, PutRow
from reefcast.model.messages import Advertise, EntityId, LinkName, Unadvertise
from reefcast.routing.on_disk import OnDisk
from reefcast.routing.router import Action, Router

STANDING = "standing"
"""The table of the broker's disk."""
STANDING_TIMER = "standing"
_encode = msgspec.msgpack.Encoder().encode
_decode_key = msgspec.msgpack.Decoder(tuple[LinkName, EntityId]).decode
_decode_text = msgspec.msgpack.Decoder(str).decode


class Standing:
    """The advertisements on disk of one broker's clients. `rows`: what was there at the start."""

    def __init__(self, router: Router, disk: OnDisk, rows: Mapping[bytes, bytes]) -> None:
        self._router = router
        self._disk = disk
        self._on_disk: dict[LinkName, dict[EntityId, str]] = {}
        self._untaken: dict[LinkName, dict[EntityId, str]] = {}
        self._known_as: dict[EntityId, EntityId] = {}
        for key, text in rows.items():
            client, id = _decode_key(key)
            filter = parse_filter(_decode_text(text))
            self._on_disk.setdefault(client, {})[id] = filter.text
            self._untaken.setdefault(client, {})[id] = filter.text
            router.change(Advertise(id, filter.text), filter, client, local=True)

    def __bool__(self) -> bool:
        """Return whether some advertisements have not been taken up again by their clients."""
        return bool(self._untaken)

    def take_up(self, client: LinkName, id: EntityId, filter: Filter) -> bool:
        """Return whether this advertisement of a client goes on with one that has settled."""
        untaken = self._untaken.get(client, {})
        known_as = next((id for id, text in untaken.items() if text == filter.text), None)
        if known_as is None:
            return False
        del untaken[known_as]
        self._known_as[id] = known_as
        return True

    def settled(self, client: LinkName, id: EntityId, filter: Filter) -> None:
        """Write an advertisement that has settled."""
        self._on_disk.setdefault(client, {})[id] = filter.text
        self._disk.write(PutRow(STANDING, _encode((client, id)), _encode(filter.text)))

    def known_as(self, client: LinkName, message: Unadvertise) -> Unadvertise:
        """Return the withdrawal with the id by which others know the advertisement; forget the
        advertisement."""
        id = self._known_as.pop(message.id, message.id)
        self._drop(client, id)
        return msgspec.structs.replace(message, id=id)

    def left(self, client: LinkName) -> None:
        """Forget a client that is gone; its rows are withdrawn with its link."""
        for id in list(self._on_disk.get(client, ())):
            self._drop(client, id)
        self._untaken.pop(client, None)

    def overdue(self) -> list[Action]:
        """Withdraw what no client has taken up again."""
        actions: list[Action] = []
        for client, ids in self._untaken.items():
            for id in ids:
                self._drop(client, id)
                actions += self._router.change(Unadvertise(id), None, client, local=True)
        self._untaken.clear()
        return actions

    def _drop(self, client: LinkName, id: EntityId) -> None:
        its = self._on_disk.get(client, {})
        if its.pop(id, None) is not None:
            self._disk.write(DropRow(STANDING, _encode((client, id))))
        if not its:
            self._on_disk.pop(client, None)
