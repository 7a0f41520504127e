"""What stores of sessions can do: group commits, a backlog that is filled and drained, idle
sessions; SQLite, which brokers use, and LMDB beside it in the same run.

Each store is driven by what a broker's sessions write: an event with its body of `BODY_BYTES`, what
one session is owed, and the ids that it has had; acknowledged events go in runs. Every commit is
synced. As times of a disk differ from one minute to the next, the stores take turns, and the time
of a bare sync (a page appended to a file) is measured with each.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from reefcast.errors import InternalError
from reefcast.keeping.interface import Store
from reefcast.keeping.store import SqliteStore
from reefcast.model.keeping import (
    CHUNK,
    Change,
    DropEvents,
    DropOwed,
    PutEvent,
    PutMark,
    PutOwed,
    PutSeen,
    PutSession,
    SessionRecord,
)

BODY_BYTES = 300
GROUPS = (1, 10, 100, 1000)
"""Events in a commit."""
ROUNDS = 3
COMMITS = 50
"""In each round."""
BACKLOG_GROUP = 1000
IDLE = 10_000
SYNCS = 50

Open = Callable[[Path], Store]


@dataclass(frozen=True, slots=True)
class KeepingRow:
    """`work`: "commit" (of `group` events, while as many are acknowledged), "fill" and "drain" (a
    backlog, in groups), "load" (what a start reads of it), "idle" (sessions without events: written
    together, and loaded). By the wall clock events (sessions) a second; microseconds of processor
    time for each; `syncs_per_s`: bare syncs of the disk then; MB on disk afterwards."""

    store: str
    work: str
    group: int
    events: int
    events_per_s: float
    cpu_us_per_event: float
    syncs_per_s: float
    disk_mb: float


def stores(tell: Callable[[str], None]) -> dict[str, Open]:
    """Return the stores that can be measured here."""
    found: dict[str, Open] = {"sqlite": lambda path: SqliteStore(path / "b.sqlite", _complain)}
    try:
        from reefcast_lab.bench.keeping.lmdb_store import LmdbStore
    except ModuleNotFoundError:
        tell("lmdb is left out, for it is not installed: pip install 'reefcast-lab[baselines]'")
    else:
        found["lmdb"] = LmdbStore
    return found


def _complain(sentence: str) -> None:
    raise InternalError(f"a new file is sound: {sentence}")


def bench(backlog: int, tell: Callable[[str], None]) -> Iterator[KeepingRow]:
    """Measure all stores; `backlog`: events that are drained."""
    measured = stores(tell)
    for group in GROUPS:
        tell(f"commits of {group} events")
        rounds = [(name, _commits(name, measured[name], group)) for _ in range(ROUNDS)
                  for name in measured]  # fmt: skip  # taking turns stands in one line
        for name in measured:
            yield _middle([row for other, row in rounds if other == name])
    for name, opened in measured.items():
        tell(f"{name}: a backlog of {backlog:,} events")
        yield from _backlog(name, opened, backlog)
        yield _idle(name, opened)


def _middle(rows: Sequence[KeepingRow]) -> KeepingRow:
    """Return the row with the median speed, with the median processor time."""
    speed = median(row.events_per_s for row in rows)
    cpu = median(row.cpu_us_per_event for row in rows)
    row = min(rows, key=lambda each: abs(each.events_per_s - speed))
    return KeepingRow(
        row.store, row.work, row.group, row.events, row.events_per_s, cpu, row.syncs_per_s,
        row.disk_mb,
    )  # fmt: skip  # a line for each would hide that they are those of the row


# --- what is written -----------------------------------------------------------------------------

_RECORD = SessionRecord(name="s", owner="", link="$s", created_s=0.0)


def _begin(store: Store) -> None:
    store.load()
    store.commit([PutSession(1, _RECORD), PutMark(1, 1000)])


def _added(first: int, count: int) -> list[Change]:
    """Return events with the numbers from `first` on, owed to session 1 at the same positions."""
    changes: list[Change] = []
    for number in range(first, first + count):
        body = number.to_bytes(8, "big") + bytes(BODY_BYTES - 8)
        changes.append(PutEvent(number, ("publisher", number), 0.0, body))
        changes.append(PutOwed(1, number, number, 1e9, (1,)))
    for chunk in range(first // CHUNK, (first + count - 1) // CHUNK + 1):
        changes.append(PutSeen(1, "publisher", chunk, b"\xff" * (CHUNK // 8), 1e9))
    return changes


def _acknowledged(first: int, count: int) -> list[Change]:
    last = first + count - 1
    return [DropOwed(1, first, last), DropEvents(first, last)] if count else []


# --- what is measured ----------------------------------------------------------------------------


class _Clock:
    """The time since it was made."""

    def __init__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def row(
        self, store: str, work: str, group: int, events: int, syncs_per_s: float, folder: Path
    ) -> KeepingRow:
        wall_s = time.perf_counter() - self._started[0]
        cpu_s = time.process_time() - self._started[1]
        size = sum(each.stat().st_blocks * 512 for each in folder.rglob("*") if each.is_file())
        return KeepingRow(
            store, work, group, events, round(events / wall_s, 1), round(1e6 * cpu_s / events, 2),
            round(syncs_per_s, 1), round(size / 1e6, 1),
        )  # fmt: skip  # a line for each would hide that they are those of the row


def _syncs_per_s(folder: Path) -> float:
    path = folder / "bare"
    with path.open("wb") as file:
        started = time.perf_counter()
        for _ in range(SYNCS):
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())
        taken = time.perf_counter() - started
    path.unlink()
    return SYNCS / taken


def _commits(name: str, opened: Open, group: int) -> KeepingRow:
    with tempfile.TemporaryDirectory(dir=".") as made:
        folder = Path(made)
        syncs = _syncs_per_s(folder)
        store = opened(folder)
        _begin(store)
        batches = [
            _added(number * group + 1, group)
            + (_acknowledged((number - 1) * group + 1, group) if number else [])
            for number in range(COMMITS)
        ]
        clock = _Clock()
        for batch in batches:
            store.commit(batch)
        row = clock.row(name, "commit", group, COMMITS * group, syncs, folder)
        store.close()
        return row


def _backlog(name: str, opened: Open, events: int) -> Iterator[KeepingRow]:
    group = BACKLOG_GROUP
    with tempfile.TemporaryDirectory(dir=".") as made:
        folder = Path(made)
        store = opened(folder)
        _begin(store)
        syncs, clock = _syncs_per_s(folder), _Clock()
        for first in range(1, events + 1, group):
            store.commit(_added(first, min(group, events + 1 - first)))
        yield clock.row(name, "fill", group, events, syncs, folder)
        store.close()
        clock = _Clock()
        store = opened(folder)
        contents = store.load()
        yield clock.row(name, "load", 0, len(contents.events), syncs, folder)
        syncs, clock = _syncs_per_s(folder), _Clock()
        for first in range(1, events + 1, group):
            count = min(group, events + 1 - first)
            if len(store.bodies(range(first, first + count)).found) != count:
                raise InternalError(f"{name} has lost bodies from {first} on")
            store.commit(_acknowledged(first, count))
        store.close()
        yield clock.row(name, "drain", group, events, syncs, folder)


def _idle(name: str, opened: Open) -> KeepingRow:
    with tempfile.TemporaryDirectory(dir=".") as made:
        folder = Path(made)
        store = opened(folder)
        store.load()
        syncs, clock = _syncs_per_s(folder), _Clock()
        store.commit([PutSession(number, _RECORD) for number in range(1, IDLE + 1)])
        store.close()
        store = opened(folder)
        if len(store.load().sessions) != IDLE:
            raise InternalError(f"{name} has lost sessions")
        row = clock.row(name, "idle", IDLE, IDLE, syncs, folder)
        store.close()
        return row
