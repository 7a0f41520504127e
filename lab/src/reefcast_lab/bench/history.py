"""What a storage's history costs: in, out, and the way to the first results of a selective request.

The baselines: plain SQLite with the same tables, and DuckDB over the sealed segments, where it is
installed. Neither decodes or checks what it stores and hands out. Messages are on `TOPICS` topics,
with a symbol of `SYMBOLS` and a price; a selective request asks for one topic and symbol.

Fairness: all read with one thread, and hand out bodies as objects of Python. All that an engine is
asked for it is asked for once before, so that what it reads is in the system's cache. SQLite finds
the few rows in its own way, and by the index that it should have taken: the better one is the
baseline. DuckDB keeps the footers of files (`parquet_metadata_cache`), as a store does; *unsorted*
it hands out in the order of the file, which is right only as long as there is one.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reefcast.errors import ReefcastError
from reefcast.history import schema
from reefcast.history.eras import ROWS
from reefcast.history.store import BATCH, DATABASE, SEGMENTS, HistoryStore, Incoming
from reefcast.matching import warm_up
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication, Value
from reefcast.model.values import Kind
from reefcast.model.wire import encode_publication

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TOPICS, SYMBOLS, PUBLISHERS = 100, 1000, 50
BATCH_IN = 5000
STEP_US = 100
INDEXED = {"price": Kind.NUMBER, "symbol": Kind.STRING}
REQUESTS = 100
MOST_REPLAYED = 500_000
NEW = 500_000
"""Messages that a new store and plain SQLite take in, to be compared."""
FIRST = (1, 64)
"""Results for which a selective request is timed."""


@dataclass(frozen=True, slots=True)
class HistoryTiming:
    """`per_s`: messages by the wall clock of a machine shared with others, `cpu_per_s`: for each
    second of CPU. `p50_ms`, `p99_ms`: of a request, to its first results (wall clock); `cpu_ms`:
    the median in CPU. `ratio`: to the baseline, by CPU; more is better."""

    what: str
    engine: str
    messages: int
    per_s: float | None = None
    cpu_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    cpu_ms: float | None = None
    ratio: float | None = None


def bench(
    messages: int, directory: Path | None, tell: Callable[[str], None]
) -> Iterator[HistoryTiming]:
    """Yield all rows. `directory`: where the history is kept, or is already with as many messages;
    None: it is not kept."""
    warm_up()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from _new(folder, min(messages, NEW), tell)
        place = directory or folder / "history"
        with closing(_open(place)) as store:
            if (stored := _rows(store)) < messages:
                tell(f"storing {messages - stored:,} messages in {place}")
                yield _ingest(store, "in, history", stored, messages, tell)
            yield from _replays(store, place)
            yield from _requests(store, place)
            yield from _sealed(store, folder, tell)


def duckdb_is_missing() -> bool:
    return find_spec("duckdb") is None


def _open(directory: Path) -> HistoryStore:
    return HistoryStore(directory, _complain, indexed=INDEXED)


def _complain(error: ReefcastError) -> None:
    raise error


def _compared(row: HistoryTiming, baseline: HistoryTiming) -> HistoryTiming:
    if row.cpu_per_s and baseline.cpu_per_s:
        return replace(row, ratio=round(row.cpu_per_s / baseline.cpu_per_s, 2))
    if row.cpu_ms and baseline.cpu_ms:
        return replace(row, ratio=round(baseline.cpu_ms / row.cpu_ms, 2))
    return row


class _Clock:
    """The wall and CPU seconds of the block."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def __exit__(self, *exception: object) -> None:
        self.wall += time.perf_counter() - self._start[0]
        self.cpu += time.process_time() - self._start[1]

    def row(self, what: str, engine: str, messages: int, done: int) -> HistoryTiming:
        return HistoryTiming(
            what, engine, messages, round(done / self.wall), round(done / self.cpu)
        )


# --- in ------------------------------------------------------------------------------------------


def publications(first: int, end: int) -> Iterator[Publication]:
    """Yield the publications from `first` on: message i is at `STEP_US * i`, whoever asks."""
    rng = random.Random(first)
    for i in range(first, end):
        attributes: dict[str, Value] = {
            "symbol": f"S{rng.randrange(SYMBOLS):03d}",
            "price": rng.random() * 100,
            "volume": rng.randrange(10_000),
        }
        topic = f"market/{rng.randrange(TOPICS)}"
        publisher = f"publisher-{i % PUBLISHERS:02d}-5c1f9a"
        yield Publication(publisher, i, i * STEP_US, attributes, (topic,), b"x" * 32)


def _new(folder: Path, messages: int, tell: Callable[[str], None]) -> Iterator[HistoryTiming]:
    with closing(_open(folder / "new")) as store:
        ours = _ingest(store, "in", 0, messages, tell)
    plain = _plain_ingest(folder / "plain", messages)
    yield _compared(ours, plain)
    yield plain


def _ingest(
    store: HistoryStore, what: str, first: int, end: int, tell: Callable[[str], None]
) -> HistoryTiming:
    clock = _Clock()
    for start in range(first, end, BATCH_IN):
        made = publications(start, min(end, start + BATCH_IN))
        batch = [Incoming(encode_publication(each)) for each in made]
        with clock:
            store.append(batch)
        if (done := start + len(batch) - first) % 1_000_000 == 0:
            tell(f"{done:,} messages, {done / clock.cpu:,.0f} for a second of CPU")
    return clock.row(what, "reefcast", end, end - first)


def _plain_ingest(directory: Path, messages: int) -> HistoryTiming:
    """Measure the insertion of the same rows, prepared in advance."""
    directory.mkdir()
    database = schema.connect(directory / DATABASE, writes=True)
    schema.prepare(database, directory / DATABASE, INDEXED)
    clock = _Clock()
    for start in range(0, messages, BATCH_IN):
        rows = [
            (
                *(int(p.topics[0].removeprefix("market/")), p.time_us, p.publisher.encode(), p.seq),
                *(None, 0, 0, encode_publication(p), p.seq // ROWS),
                *(p.attributes["price"], p.attributes["symbol"]),
            )
            for p in publications(start, min(messages, start + BATCH_IN))
        ]
        with clock:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(f"INSERT INTO message VALUES ({', '.join('?' * 11)})", rows)
            database.execute("COMMIT")
    database.close()
    return clock.row("in", "plain SQLite", messages, messages)


# --- out -----------------------------------------------------------------------------------------


def _replays(store: HistoryStore, place: Path) -> Iterator[HistoryTiming]:
    topics, messages = _some(store), _rows(store)
    with closing(schema.connect(place / DATABASE)) as database:
        for what, filter, condition in _FILTERS:
            ours = _replay(f"out, {what}", "reefcast", messages, topics, _reader(store, filter))
            plain = _replay(
                f"out, {what}", "plain SQLite", messages, topics, _plain_reader(database, condition)
            )
            yield _compared(ours, plain)
            yield plain


_FILTERS = (("all", "TRUE", "TRUE"), ("price > 50", "price > 50", "a0 > 50"))
"""The filters: their names; for a store; over columns."""
_ORDER = "ORDER BY time_us, publisher, seq"


def _rows(store: HistoryStore) -> int:
    return sum(counts.rows for counts in store.counts().values())


def _some(store: HistoryStore) -> list[str]:
    """Return topics with about `MOST_REPLAYED` messages."""
    topics = sorted(store.counts())
    return topics[: max(1, len(topics) * MOST_REPLAYED // max(1, _rows(store)))]


Reader = Callable[[str], Iterator[Sequence[bytes]]]
"""The bodies of a topic, in batches."""


def _replay(
    what: str, engine: str, messages: int, topics: Sequence[str], read: Reader
) -> HistoryTiming:
    for _ in ("to warm up", "to measure"):
        clock = _Clock()
        with clock:
            done = sum(len(batch) for topic in topics for batch in read(topic))
    return clock.row(what, engine, messages, done)


def _reader(store: HistoryStore, text: str) -> Reader:
    filter = parse_filter(text)
    return lambda topic: store.read([topic], 0, filter=filter)


def _plain_reader(database: sqlite3.Connection, condition: str) -> Reader:
    query = (
        "SELECT body FROM message WHERE topic = (SELECT id FROM topic WHERE name = ?) "
        f"AND {condition} {_ORDER}"
    )
    return lambda topic: _bodies(database.execute(query, (topic,)))


def _bodies(cursor: Any) -> Iterator[list[bytes]]:
    while batch := cursor.fetchmany(BATCH):
        yield [body for (body,) in batch]


# --- the first results ---------------------------------------------------------------------------


Ask = Callable[[str, str, int], list[bytes]]
"""The first so many bodies on a topic with a symbol."""


def _requests(store: HistoryStore, place: Path) -> Iterator[HistoryTiming]:
    messages = _rows(store)
    with closing(schema.connect(place / DATABASE)) as database:
        for first in FIRST:
            what = f"first {first}"
            ours = _latency(what, "reefcast", messages, first, _asking(store))
            plain = [
                _latency(what, engine, messages, first, _plain_asking(database, through))
                for engine, through in _PLANS
            ]
            yield _compared(ours, min(plain, key=lambda row: row.cpu_ms or 0))
            yield from plain


_PLANS = (("plain SQLite", ""), ("SQLite, by index", "INDEXED BY by_a1"))


def _plain_asking(database: sqlite3.Connection, through: str) -> Ask:
    query = (
        f"SELECT body FROM message {through} WHERE topic = (SELECT id FROM topic WHERE name = ?) "
        f"AND a1 = ? AND era IN (SELECT number FROM era) {_ORDER} LIMIT ?"
    )
    return lambda *asked: [body for (body,) in database.execute(query, asked)]


def _asking(store: HistoryStore) -> Ask:
    def ask(topic: str, symbol: str, first: int) -> list[bytes]:
        filter = parse_filter(f"topic = '{topic}' AND symbol = '{symbol}'")
        found = store.read([topic], 0, filter=filter, limit=first)
        return [body for batch in found for body in batch]

    return ask


def _latency(what: str, engine: str, messages: int, first: int, ask: Ask) -> HistoryTiming:
    rng = random.Random(7)
    requests = [
        (f"market/{rng.randrange(TOPICS)}", f"S{rng.randrange(SYMBOLS):03d}", first)
        for _ in range(REQUESTS)
    ]
    for request in requests:
        ask(*request)
    wall, cpu = [], []
    for request in requests:
        clock = _Clock()
        with clock:
            ask(*request)
        wall.append(clock.wall)
        cpu.append(clock.cpu)
    wall.sort()
    return HistoryTiming(
        what,
        engine,
        messages,
        p50_ms=round(1e3 * statistics.median(wall), 3),
        p99_ms=round(1e3 * wall[int(0.99 * len(wall))], 3),
        cpu_ms=round(1e3 * statistics.median(cpu), 3),
    )


# --- sealed --------------------------------------------------------------------------------------


def _sealed(
    store: HistoryStore, folder: Path, tell: Callable[[str], None]
) -> Iterator[HistoryTiming]:
    """Measure reading from Parquet: with a store without a database, and with DuckDB on the same
    files."""
    messages, topics, sealed = _rows(store), _some(store), folder / "sealed"
    tell("sealing")
    yield _seal(store, sealed, messages)
    with closing(_open(sealed)) as parquet:
        ours = [_replay(_OUT, "reefcast", messages, topics, _reader(parquet, "TRUE"))]
        ours += [
            _latency(_selective(first), "reefcast", messages, first, _asking(parquet))
            for first in FIRST
        ]
    if duckdb_is_missing():
        yield from ours
        return
    duck = list(_duckdb(sealed / SEGMENTS, messages, topics))
    for row in ours:
        same = [each for each in duck if each.what == row.what]
        yield _compared(row, same[0])
        yield from same


def _seal(store: HistoryStore, target: Path, messages: int) -> HistoryTiming:
    """Measure sealing into another directory; the history stays as it is."""
    clock = _Clock()
    with clock:
        segments = [store.export(since_us, 0) for since_us in store.closed(1 << 62)]
    for segment in segments:
        if segment is not None:
            path = target / SEGMENTS / segment.name
            path.parent.mkdir(parents=True)
            shutil.move(segment.path, path)
    return clock.row("sealing", "reefcast", messages, messages)


_OUT = "Parquet, out"


def _selective(first: int) -> str:
    return f"Parquet, first {first}"


def _duckdb(folder: Path, messages: int, topics: Sequence[str]) -> Iterator[HistoryTiming]:
    """Measure DuckDB, first with sorting: that promises what a store promises."""
    import duckdb

    with closing(duckdb.connect()) as database:
        database.execute("SET threads = 1")
        database.execute("SET parquet_metadata_cache = true")
        for engine, order in (("DuckDB", _ORDER), ("DuckDB, unsorted", "")):
            read = _duckdb_reader(database, folder, order)
            yield _replay(_OUT, engine, messages, topics, read)
            ask = _duckdb_asking(database, folder, order)
            for first in FIRST:
                yield _latency(_selective(first), engine, messages, first, ask)


def _duckdb_reader(database: DuckDBPyConnection, folder: Path, order: str) -> Reader:
    query = f"{_of_files(folder)} WHERE topic = ? {order}"
    return lambda topic: _bodies(database.execute(query, [topic]))


def _duckdb_asking(database: DuckDBPyConnection, folder: Path, order: str) -> Ask:
    query = f"{_of_files(folder)} WHERE topic = ? AND symbol = ? {order} LIMIT ?"
    return lambda *asked: [body for (body,) in database.execute(query, asked).fetchall()]


def _of_files(folder: Path) -> str:
    return f"SELECT body FROM read_parquet('{folder}/*/*.parquet')"
