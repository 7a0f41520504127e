"""The log of requests about the past: what clients ask for, by the broker that they are at.

A directory of Parquet files, for all brokers of a network: a row for each request and topic, with
the columns `time_us`, `broker` and `topic`. The placement of storages takes its rates from it
(`pipeline.planning.placement`). A file is put in place by a rename, so that readers of the
directory find only complete files, at any time and after any crash."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reefcast.directories import make_directory

MOST_ROWS = 1_000_000
"""Rows that may wait to be written; more are counted, not kept."""

Rows = tuple[list[int], list[str]]
"""Times and topics."""


class RequestLog:
    """The rows of one broker. Raises `ConfigurationError` if nothing can be written to
    `directory`."""

    def __init__(self, directory: Path | str, broker: str) -> None:
        self._directory = Path(directory)
        self._broker = broker
        self._rows: Rows = [], []
        self.lost = 0
        make_directory(self._directory, "log of requests")
        self._number = 1 + max(map(self._number_of, self._files()), default=-1)

    def _files(self) -> list[Path]:
        """Return this broker's files."""
        found = self._directory.glob("*.parquet")
        return [file for file in found if self._number_of(file) >= 0]

    def _number_of(self, file: Path) -> int:
        """Return the number of a file; -1 if it is not one of this broker's."""
        broker, _, number = file.stem.rpartition("-")
        return int(number) if broker == self._broker and number.isdigit() else -1

    def asked(self, time_us: int, topics: Sequence[str]) -> None:
        """Record a request of a client: a row for each of its topics."""
        times_us, names = self._rows
        if len(names) + len(topics) > MOST_ROWS:
            self.lost += len(topics)
            return
        times_us.extend([time_us] * len(topics))
        names.extend(topics)

    def drain(self) -> Rows:
        """Return the rows collected so far, for the caller to `write` (in a thread, if it
        likes)."""
        taken, self._rows = self._rows, ([], [])
        return taken

    def write(self, rows: Rows) -> None:
        """Write a file with the rows, unless there are none; not from two threads at once."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        times_us, topics = rows
        if not topics:
            return
        brokers = pa.array([self._broker] * len(topics), pa.string())
        columns = {"time_us": pa.array(times_us, pa.int64()), "broker": brokers}
        table = pa.table({**columns, "topic": pa.array(topics, pa.string())})
        target = self._directory / f"{self._broker}-{self._number:06d}.parquet"
        self._number += 1
        hidden = target.with_name(f".{target.name}")  # Spark ignores names that start with a dot
        pq.write_table(table, hidden)
        hidden.rename(target)

    def remove_old(self, before_s: float) -> None:
        """Remove this broker's files written before this time (seconds since 1970)."""
        for file in self._files():
            if file.stat().st_mtime < before_s:
                file.unlink(missing_ok=True)
