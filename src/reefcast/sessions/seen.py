"""The ids of the events that a session has had, remembered for a while.

A publisher counts its events, so its numbers lie close together: a bit for each, in chunks of
`CHUNK`. A chunk is forgotten when its latest event is old enough; so some ids are remembered for
longer than they must, none for less.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from reefcast.model.keeping import CHUNK, DropSeen, PutSeen, SessionNumber
from reefcast.model.publication import PublicationId
from reefcast.sessions.collecting import Collected

_BYTES = CHUNK // 8


class Seen:
    """The ids that one session has had; `keep_s`: for how many seconds each is remembered."""

    __slots__ = (
        "_chunks",
        "_keep_s",
        "_session",
    )

    def __init__(
        self,
        session: SessionNumber,
        keep_s: float,
        stored: Mapping[tuple[str, int], tuple[bytes, float]],
    ) -> None:
        self._session = session
        self._keep_s = keep_s
        self._chunks = OrderedDict(
            (key, (int.from_bytes(bits, "little"), at_s))
            for key, (bits, at_s) in sorted(stored.items(), key=lambda item: item[1][1])
        )

    def __contains__(self, id: PublicationId) -> bool:
        publisher, seq = id
        chunk = self._chunks.get((publisher, seq // CHUNK))
        return chunk is not None and bool(chunk[0] >> seq % CHUNK & 1)

    def add(self, id: PublicationId, utc_s: float, collected: Collected) -> None:
        """Remember an id from now on."""
        publisher, seq = id
        key = publisher, seq // CHUNK
        bits, _ = self._chunks.get(key, (0, 0.0))
        self._chunks[key] = bits | 1 << seq % CHUNK, utc_s
        self._chunks.move_to_end(key)
        collected.seen_changed(self._session, key, self)

    def forget(self, utc_s: float, collected: Collected) -> None:
        """Forget what is old enough."""
        while self._chunks and self.due_s <= utc_s:
            key = self._chunks.popitem(last=False)[0]
            collected.seen_changed(self._session, key, self)

    def change(self, key: tuple[str, int]) -> PutSeen | DropSeen:
        """Return what writes how a chunk, (publisher, number), stands now."""
        publisher, number = key
        chunk = self._chunks.get(key)
        if chunk is None:
            return DropSeen(self._session, publisher, number)
        bits, at_s = chunk
        packed = bits.to_bytes(_BYTES, "little")
        return PutSeen(self._session, publisher, number, packed, at_s)

    @property
    def due_s(self) -> float:
        """When the next ids are to be forgotten, in seconds UTC; inf: never."""
        for _, at_s in self._chunks.values():
            return at_s + self._keep_s
        return float("inf")
