"""Eras: rows that were stored at about the same time.

An index over an attribute scatters new rows over all of its pages, and a page that is touched is
written as a whole. So the indexes begin with the *era*, a number that goes up after `ROWS` rows:
new rows touch only the few pages of the latest era. A request reads one era after the other, in the
order of time, and only eras with rows of the time that it asks for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from reefcast.history.schema import index

ROWS = 100_000
"""Rows of an era: 1 to 2 MB of each index."""


@dataclass(slots=True)
class Era:
    """An era. `first_us`, `last_us`: the times of its rows, both inclusive."""

    number: int
    first_us: int
    last_us: int
    rows: int


class Eras:
    """The eras of a database. The writer changes them; readers look at them at any time."""

    def __init__(self) -> None:
        self.all: dict[int, Era] = {}
        self._latest: Era | None = None

    def load(self, database: sqlite3.Connection) -> None:
        self.all = {row[0]: Era(*row) for row in database.execute("SELECT * FROM era")}
        self._latest = self.all[max(self.all)] if self.all else None

    def next(self, database: sqlite3.Connection, times_us: Iterable[int]) -> int:
        """Return the number of the era for a batch with these times, in the open transaction."""
        times = list(times_us)
        era = self._latest
        if era is None or era.rows >= ROWS:
            self._forget_empty(database)
            era = Era(1 + max(self.all, default=0), min(times), max(times), 0)
            self.all[era.number] = self._latest = era
        era.first_us, era.last_us = min(era.first_us, *times), max(era.last_us, *times)
        era.rows += len(times)
        database.execute(
            "INSERT OR REPLACE INTO era VALUES (?, ?, ?, ?)",
            (era.number, era.first_us, era.last_us, era.rows),
        )
        return era.number

    def _forget_empty(self, database: sqlite3.Connection) -> None:
        """Forget empty eras but the latest, whose number must not be given again."""
        query = f"SELECT 1 FROM message INDEXED BY {index(0)} WHERE era = ? LIMIT 1"
        for number in sorted(self.all)[:-1]:
            if database.execute(query, (number,)).fetchone() is None:
                database.execute("DELETE FROM era WHERE number = ?", (number,))
                del self.all[number]

    def between(self, first_us: int, last_us: int) -> list[Era]:
        """Return the eras with rows in this span (both ends inclusive), by time."""
        found = [
            era
            for era in list(self.all.values())
            if era.last_us >= first_us and era.first_us <= last_us
        ]
        return sorted(found, key=lambda era: (era.first_us, era.number))
