"""Custody: what a broker keeps on its own disk for neighbours that are away.

Rules
-----
- When a neighbour has been away for `after_s` (`away`), the confirmed publications that it has not
  answered are written to disk, the oldest first, and from then on also new ones. An answer that
  rests on that says `kept`; it waits for the sync like all answers (`on_disk`).
- What is in custody stays in memory, too, where `confirming` has it. It is sent again from there
  when the neighbour is back, in order and before anything new, and goes from the disk when the
  neighbour has answered it, not when it was sent.
- At most `most_bytes` are in custody, for all neighbours together. What has no room waits as it
  would without custody, and so do those behind it for the same neighbour: they keep their order.
- After a restart what was in custody is there again (`restored`). A row that cannot be read is said
  and moved to a table of its own (`SET_ASIDE`); it is never fatal.

Source: `delivery.md`, rule 6. Cost: one row on disk, written and removed, for each publication and
neighbour that is away; nothing where all are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from reefcast.errors import ReefcastError
from reefcast.model import wire
from reefcast.model.keeping import DropRow, PutRow
from reefcast.model.messages import Header, LinkName, Publish
from reefcast.model.publication import PublicationId
from reefcast.model.wire import Codec, FrameKind
from reefcast.routing.on_disk import OnDisk

CUSTODY = "custody"
SET_ASIDE = "custody set aside"
"""Tables of the broker's disk."""
AFTER_S = 2.0
MOST_BYTES = 256 << 20
ROOM = 7 / 8
"""What had no room is looked through again when only this share of the room is used."""

CopyId = tuple[PublicationId, int]
"""A publication and its attempt, 0 where attempts share their ways."""
_encode = msgspec.msgpack.Encoder().encode
_decode_key = msgspec.msgpack.Decoder(tuple[LinkName, int]).decode


class CustodyLimits(NamedTuple):
    """`after_s`: seconds after which custody begins for a neighbour that is away; `most_bytes`:
    what is in custody at most, as it stands on disk."""

    after_s: float = AFTER_S
    most_bytes: int = MOST_BYTES


LIMITS = CustodyLimits()


class Item(NamedTuple):
    """The row of a copy on disk: its key, and its bytes."""

    key: bytes
    size: int


class Stored(NamedTuple):
    """A copy that was in custody when the broker stopped."""

    position: int
    link: LinkName
    publish: Publish
    item: Item


class Custody:
    """The custody of one broker. `owed`: the neighbours for which it takes publications into
    custody now; `size`: bytes in custody; `set_aside`: what could not be read at the start, in
    words."""

    def __init__(self, disk: OnDisk, header: type[Header], most_bytes: int) -> None:
        self.owed: set[LinkName] = set()
        self.size = 0
        self.set_aside: list[str] = []
        self._disk = disk
        self._codec = Codec(header=header)
        self._most_bytes = most_bytes
        self._items: dict[LinkName, dict[CopyId, Item]] = {}
        self._without_room: set[LinkName] = set()
        self._last = 0

    # --- the start --------------------------------------------------------------------------------

    def stored(self, rows: Mapping[bytes, bytes]) -> list[Stored]:
        """Return what was in custody when the broker stopped, in order; `enter` has to follow for
        each."""
        found: list[Stored] = []
        for key, row in rows.items():
            try:
                link, position = _decode_key(key)
                found.append(Stored(position, link, self._decoded(row), Item(key, len(row))))
            except (ReefcastError, msgspec.DecodeError, ValueError, IndexError) as error:
                self.set_aside.append(f"a row of {len(row)} bytes in custody: {error}")
                self._disk.write(PutRow(SET_ASIDE, key, row))
                self._disk.write(DropRow(CUSTODY, key))
        found.sort(key=lambda each: each[:2])
        self._last = found[-1].position if found else 0
        return found

    def _decoded(self, frame: bytes) -> Publish:
        if frame[wire.KIND_AT] != FrameKind.PUBLISH_CONFIRM:
            raise ValueError("it is no publication that is to be confirmed")
        return self._codec.decode_publish(frame[wire.HEAD_BYTES :], FrameKind.PUBLISH_CONFIRM)

    def enter(self, link: LinkName, copy_id: CopyId, item: Item) -> None:
        """Note that a copy is in custody."""
        self._items.setdefault(link, {})[copy_id] = item
        self.size += item.size

    # --- taking and handing over ------------------------------------------------------------------

    def has(self, link: LinkName, copy_id: CopyId) -> bool:
        """Return whether this copy is in custody."""
        return copy_id in self._items.get(link, ())

    def take(self, link: LinkName, copy_id: CopyId, copy: Publish) -> bool:
        """Take a copy into custody, behind all before; return whether there is room for it."""
        if link in self._without_room:
            return False
        row = self._row(copy)
        if self.size + len(row) > self._most_bytes:
            self._without_room.add(link)
            return False
        self._put(link, copy_id, row)
        return True

    def put(self, link: LinkName, copy_id: CopyId, copy: Publish) -> None:
        """Take a copy into custody whether there is room or not, because another copy was there
        that it stands for."""
        self._put(link, copy_id, self._row(copy))

    def _put(self, link: LinkName, copy_id: CopyId, row: bytes) -> None:
        self._last += 1
        key = _encode((link, self._last))
        self._disk.write(PutRow(CUSTODY, key, row))
        self.enter(link, copy_id, Item(key, len(row)))

    @staticmethod
    def _row(copy: Publish) -> bytes:
        body = copy.body or wire.encode_publication(copy.publication)
        return wire.encode_publish(msgspec.structs.replace(copy, body=body, again=True))

    def drop(self, link: LinkName, copy_id: CopyId) -> None:
        """Drop a copy, if it is here: it is answered, or owed no longer."""
        item = self._items.get(link, {}).pop(copy_id, None)
        if item is not None:
            if not self._items[link]:
                del self._items[link]
            self.size -= item.size
            self._disk.write(DropRow(CUSTODY, item.key))

    def rename(self, link: LinkName, old: CopyId, new: CopyId) -> None:
        """Let a copy, if it is here, be the one with another attempt. Where that is here already,
        one of the two is enough."""
        if self.has(link, new):
            self.drop(link, old)
        elif self.has(link, old):
            items = self._items[link]
            items[new] = items.pop(old)

    def has_room_again(self) -> bool:
        """Return whether there is room by now for what had none; it is to be taken then."""
        if not self._without_room or self.size > self._most_bytes * ROOM:
            return False
        self._without_room.clear()
        return True

    # --- what can be seen -------------------------------------------------------------------------

    def of(self, link: LinkName) -> tuple[int, int]:
        """Return how many publications are in custody for a neighbour, and their bytes."""
        items = self._items.get(link, {}).values()
        return len(items), sum(item.size for item in items)

    def counts(self) -> dict[LinkName, int]:
        """Return how many publications are in custody for each neighbour."""
        return {link: len(items) for link, items in self._items.items()}

    def ids(self) -> set[PublicationId]:
        """Return the publications in custody, for any neighbour."""
        return {id for items in self._items.values() for id, _ in items}

    def is_full_for(self, link: LinkName) -> bool:
        """Return whether something for this neighbour waits for room."""
        return link in self._without_room
