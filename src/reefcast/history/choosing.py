"""Choosing the rows to return, among those that were read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reefcast.errors import DamagedError
from reefcast.history.merging import Source, Whole
from reefcast.history.rows import Row
from reefcast.matching.columnar.choosing import BodyFilter
from reefcast.model.filters import Filter


class Chooser:
    """`filter`: None for everything. `limit`: bodies, 0 for all. `report`: None if damage ends the
    reading."""

    def __init__(
        self, filter: Filter | None, limit: int, report: Callable[[DamagedError], None] | None
    ) -> None:
        self._filter = None if filter is None else BodyFilter(filter)
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

    def choose(self, block: list[Row] | Whole, sources: Sequence[Source]) -> list[bytes]:
        """Return the bodies of a block that are wanted."""
        bodies = block if isinstance(block, Whole) else self._sound(block, sources)
        if self._filter is not None and bodies:
            bodies = self._filter.choose(bodies)
        if self._left >= 0:
            bodies = bodies[: self._left]
            self._left -= len(bodies)
        return bodies

    def _sound(self, block: list[Row], sources: Sequence[Source]) -> list[bytes]:
        bodies = [row[4] for row in block if row[4] is not None]
        if len(bodies) == len(block):
            return bodies
        bodies = []
        for row in block:
            if row[4] is not None:
                bodies.append(row[4])
                continue
            error = _damage(row, sources[row[3]])
            if self._report is None:
                self._damage = error
                break
            self._report(error)
        return bodies


def _damage(row: Row, source: Source) -> DamagedError:
    time_us, publisher, seq = row[:3]
    return DamagedError(
        f"history: {source.where()}: what follows (time {time_us}, publisher "
        f"{publisher.decode(errors='replace')!r}, seq {seq}) is damaged and was left out; append "
        "it again, from a replica, or rebuild the database"
    )
