"""Choosing the rows to return, among those that were read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reefcast.errors import DamagedError
from reefcast.history.merging import Source
from reefcast.history.rows import Row
from reefcast.matching import new_index
from reefcast.matching.interface import MatchIndex
from reefcast.model.filters import Filter
from reefcast.model.wire import decode_publication


class Chooser:
    """`filter`: None for everything. `limit`: bodies, 0 for all. `report`: None if damage ends the
    reading."""

    def __init__(
        self, filter: Filter | None, limit: int, report: Callable[[DamagedError], None] | None
    ) -> None:
        self._index: MatchIndex[int] | None = None
        if filter is not None:
            self._index = new_index()
            self._index.add(0, filter)
        self._left = limit or -1
        self._report = report
        self._damage: DamagedError | None = None

    @property
    def full(self) -> bool:
        return self._left == 0

    def raise_damage(self) -> None:
        """Raise the error if the rows behind the last chosen ones are damaged."""
        if self._damage is not None:
            raise self._damage

    def choose(self, block: list[Row], sources: Sequence[Source]) -> list[bytes]:
        """Return the bodies of a block that are wanted."""
        bodies: list[bytes] = []
        for row in block:
            if row[4] is not None:
                bodies.append(row[4])
                continue
            error = _damage(row, sources[row[3]])
            if self._report is None:
                self._damage = error
                break
            self._report(error)
        if self._index is not None and bodies:
            hits = self._index.match_many([decode_publication(body) for body in bodies])
            bodies = [body for body, hit in zip(bodies, hits, strict=True) if hit]
        if self._left >= 0:
            bodies = bodies[: self._left]
            self._left -= len(bodies)
        return bodies


def _damage(row: Row, source: Source) -> DamagedError:
    time_us, publisher, seq = row[:3]
    return DamagedError(
        f"history: {source.where()}: what follows (time {time_us}, publisher "
        f"{publisher.decode(errors='replace')!r}, seq {seq}) is damaged and was left out; append "
        "it again, from a replica, or rebuild the database"
    )
