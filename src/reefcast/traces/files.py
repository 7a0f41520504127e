"""Trace files: the vocabulary of `traces.vocabulary` as Parquet.

A run's directory holds a folder per kind; each flush adds a file `<broker>-<number>.parquet`, put
in place by a rename, so that flushed rows are readable whatever happens next. Rows are collected in
columns, never one object per row."""

from __future__ import annotations

import json
import shutil
from itertools import compress
from pathlib import Path
from typing import Any
from zlib import crc32

from reefcast.directories import make_directory
from reefcast.errors import ConfigurationError
from reefcast.model.publication import PublicationId
from reefcast.traces.vocabulary import KINDS, LEVELS

RUN_FILE = "run.json"
MOST_HASH = 2**32 - 1


def id_hash(id: PublicationId) -> int:
    """Return a number from 0 to `MOST_HASH` by which publications are sampled."""
    return crc32(f"{id[0]}#{id[1]}".encode())


class TraceRecorder:
    """Rows of one broker. `sample`: share of the publications at level "sampled" (0 to 1).

    The choice depends on the publication's id alone, so that all brokers choose the same ones: rows
    are wanted of those whose `id_hash` is below `wanted_below`.
    Raises `ConfigurationError` if nothing can be written to `directory`.
    """

    def __init__(
        self, directory: Path | str, broker: str, level: str = "full", sample: float = 1.0
    ) -> None:
        if level not in LEVELS:
            raise ConfigurationError(f"trace level {level!r} is none of {', '.join(LEVELS)}")
        self.directory = Path(directory)
        self.broker = broker
        self.level = level
        if self.snapshots:
            make_directory(self.directory, "trace")
        self.wanted_below = 0
        if self.details:
            self.wanted_below = MOST_HASH + 1 if level == "full" else int(sample * (MOST_HASH + 1))
        self._columns: dict[str, list[list[Any]]] = {
            kind: [[] for column in columns if column.name != "broker"]
            for kind, columns in KINDS.items()
        }
        self._number = self._first_free_number()

    def _first_free_number(self) -> int:
        """Return the number after the files of the broker's former life."""
        files = self.directory.glob(f"*/{self.broker}-*.parquet")
        numbers = (file.stem.removeprefix(f"{self.broker}-") for file in files)
        return max((int(number) for number in numbers if number.isdigit()), default=-1) + 1

    @property
    def snapshots(self) -> bool:
        """Whether `table`, `queue` and `counter` rows are wanted."""
        return self.level != "off"

    @property
    def details(self) -> bool:
        """Whether rows about single messages are wanted (for some publications at least)."""
        return self.level in ("sampled", "full")

    def wants(self, id: PublicationId) -> bool:
        """Return whether rows about this publication are wanted."""
        return self.wanted_below > MOST_HASH or id_hash(id) < self.wanted_below

    def row(self, kind: str, *values: object) -> None:
        """Add one row: the values of the kind's columns in their order, without `broker`."""
        for column, value in zip(self._columns[kind], values, strict=True):
            column.append(value)

    def columns(self, kind: str) -> list[list[Any]]:
        """Return the kind's buffers, for a hot loop that appends to them by itself."""
        return self._columns[kind]

    def flush(self) -> None:
        """Write what was collected: one new file for each kind that has rows."""
        self.write(self.drain())

    def drain(self) -> dict[str, list[list[Any]]]:
        """Return the rows collected so far, for the caller to `write` (in a thread, if it
        likes)."""
        taken = {
            kind: [list(column) for column in columns]
            for kind, columns in self._columns.items()
            if columns[0]
        }
        for kind in taken:
            for column in self._columns[kind]:
                column.clear()
        return taken

    def write(self, taken: dict[str, list[list[Any]]]) -> int:
        """Write what `drain` gave; not from two threads at once.

        Returns how many rows were left out, for they hold numbers that no column can hold: clients
        choose some of them."""
        number, self._number = self._number, self._number + 1
        return sum(self._write(kind, columns, number) for kind, columns in taken.items())

    def _write(self, kind: str, columns: list[list[Any]], number: int) -> int:
        try:
            self._write_file(kind, columns, number)
            return 0
        except OverflowError:
            fitting = _fitting_rows(columns)
            if fitting[0]:
                self._write_file(kind, fitting, number)
            return len(columns[0]) - len(fitting[0])

    def _write_file(self, kind: str, columns: list[list[Any]], number: int) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = [column.name for column in KINDS[kind]]
        rows = iter(columns)
        data = [
            [self.broker] * len(columns[0]) if name == "broker" else next(rows) for name in names
        ]
        schema = pa.schema([(c.name, getattr(pa, c.type)()) for c in KINDS[kind]])
        table = pa.table(data, schema=schema)
        folder = self.directory / kind
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{self.broker}-{number:06d}.parquet"
        hidden = folder / f".{target.name}"  # Spark passes over names that start with a dot
        pq.write_table(table, hidden)
        hidden.rename(target)


def _fitting_rows(columns: list[list[Any]]) -> list[list[Any]]:
    """Return the rows all of whose numbers fit into 64 bits."""
    keep = [all(map(_fits, row)) for row in zip(*columns, strict=True)]
    return [list(compress(column, keep)) for column in columns]


def _fits(value: object) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def remove_former_run(directory: Path | str) -> None:
    """Remove what a former run left in the directory, and nothing else: a directory holds one
    run."""
    if (Path(directory) / RUN_FILE).exists():
        for kind in KINDS:
            shutil.rmtree(Path(directory) / kind, ignore_errors=True)


def write_run(directory: Path | str, run: dict[str, Any]) -> None:
    """Write what the run was: `{"simulated", "routing", "brokers", "links", "seed", ...}`, for a
    SCOT `places`, each broker's region and cluster, and for a simulated one its `faults`. Raises
    `ConfigurationError` if nothing can be written there."""
    path = Path(directory) / RUN_FILE
    make_directory(path.parent, "trace")
    path.write_text(json.dumps(run, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_run(directory: Path | str) -> dict[str, Any]:
    """Read what the run was. Raises `ConfigurationError` if the directory holds no run."""
    path = Path(directory) / RUN_FILE
    try:
        run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigurationError(f"{directory} holds no trace: {RUN_FILE} is missing") from error
    except ValueError as error:  # neither text nor JSON
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    return run
