"""What a storage's history costs: in, out, and the way to the first result of a selective request.

The baselines: plain SQLite with the same tables, which neither decodes nor checks what it stores
and hands out; and DuckDB over the sealed segments, where it is installed. Messages are on `TOPICS`
topics, with a symbol of `SYMBOLS` and a price; a selective request asks for one topic and symbol.
"""

from __future__ import annotations

import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reefcast.errors import ReefcastError
from reefcast.matching import warm_up
from reefcast.model.filters import TRUE, Filter, parse_filter
from reefcast.model.publication import Publication, Value
from reefcast.model.values import Kind
from reefcast.model.wire import encode_publication
from reefcast.storage.history import schema
from reefcast.storage.history.eras import ROWS
from reefcast.storage.history.store import DATABASE, SEGMENTS, HistoryStore, Incoming

TOPICS, SYMBOLS, PUBLISHERS = 100, 1000, 50
BATCH = 5000
STEP_US = 100
INDEXED = {"price": Kind.NUMBER, "symbol": Kind.STRING}
REQUESTS = 100
MOST_REPLAYED = 500_000
BASELINE = 200_000
"""Messages that plain SQLite takes in: a database of its own is made for it."""


@dataclass(frozen=True, slots=True)
class Row:
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


def bench(messages: int, directory: Path | None, tell: Callable[[str], None]) -> Iterator[Row]:
    """`directory`: where the history stays, or is already with as many messages; None: nowhere."""
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        plain = _plain_ingest(Path(folder) / "plain", min(messages, BASELINE))
        place = directory or Path(folder) / "history"
        with closing(_open(place)) as store:
            stored = sum(counts.rows for counts in store.counts().values())
            if stored < messages:
                tell(f"storing {messages - stored:,} messages in {place}")
                row = _ingest(store, stored, messages, tell)
                yield _compared(row, plain)
            yield plain
            yield from _replays(store, place)
            yield from _requests("selective request", store, place, messages)
            yield from _sealed(store, Path(folder), messages, tell)


def duckdb_is_missing() -> bool:
    return find_spec("duckdb") is None


def _open(directory: Path) -> HistoryStore:
    return HistoryStore(directory, _complain, indexed=INDEXED)


def _complain(error: ReefcastError) -> None:
    raise error


def _compared(row: Row, baseline: Row) -> Row:
    if row.cpu_per_s and baseline.cpu_per_s:
        return replace(row, ratio=round(row.cpu_per_s / baseline.cpu_per_s, 2))
    if row.cpu_ms and baseline.cpu_ms:
        return replace(row, ratio=round(baseline.cpu_ms / row.cpu_ms, 2))
    return row


class _Clock:
    """Wall and CPU seconds of what is done within."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def __exit__(self, *exception: object) -> None:
        self.wall += time.perf_counter() - self._start[0]
        self.cpu += time.process_time() - self._start[1]

    def row(self, what: str, engine: str, messages: int, done: int) -> Row:
        return Row(what, engine, messages, round(done / self.wall), round(done / self.cpu))


# --- in ------------------------------------------------------------------------------------------


def publications(first: int, end: int) -> Iterator[Publication]:
    """Message i is at `STEP_US * i`, whoever asks."""
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


def _ingest(store: HistoryStore, first: int, end: int, tell: Callable[[str], None]) -> Row:
    clock = _Clock()
    for start in range(first, end, BATCH):
        made = publications(start, min(end, start + BATCH))
        batch = [Incoming(encode_publication(each)) for each in made]
        with clock:
            store.append(batch)
        if start and start % 1_000_000 == 0:
            tell(f"{start:,} messages, {start / max(clock.cpu, 1e-9):,.0f} for a second of CPU")
    return clock.row("in", "reefcast", end, end - first)


def _plain_ingest(directory: Path, messages: int) -> Row:
    """The same rows, made before."""
    directory.mkdir()
    database = schema.connect(directory / DATABASE, writes=True)
    schema.prepare(database, directory / DATABASE, INDEXED)
    clock = _Clock()
    for start in range(0, messages, BATCH):
        rows = [
            (
                *(int(p.topics[0].removeprefix("market/")), p.time_us, p.publisher.encode(), p.seq),
                *(None, 0, 0, encode_publication(p), p.seq // ROWS),
                *(p.attributes["price"], p.attributes["symbol"]),
            )
            for p in publications(start, min(messages, start + BATCH))
        ]
        with clock:
            database.execute("BEGIN IMMEDIATE")
            database.executemany(f"INSERT INTO message VALUES ({', '.join('?' * 11)})", rows)
            database.execute("COMMIT")
    database.close()
    return clock.row("in", "plain SQLite", messages, messages)


# --- out -----------------------------------------------------------------------------------------


def _replays(store: HistoryStore, place: Path) -> Iterator[Row]:
    topics = sorted(store.counts())
    some = topics[: max(1, len(topics) * MOST_REPLAYED // max(1, _rows(store)))]
    rows = [_replay(store, f"out, {what}", some, parse_filter(text)) for what, text in _FILTERS]
    plain = _plain_replay(place, some, _rows(store))
    for row in rows:
        yield _compared(row, plain)
    yield plain


_FILTERS = (("all of a topic", "TRUE"), ("price > 50", "price > 50"))


def _rows(store: HistoryStore) -> int:
    return sum(counts.rows for counts in store.counts().values())


def _replay(store: HistoryStore, what: str, topics: list[str], filter: Filter) -> Row:
    clock, done = _Clock(), 0
    for topic in topics:
        with clock:
            for batch in store.read([topic], 0, filter=filter):
                done += len(batch)
    return clock.row(what, "reefcast", _rows(store), done)


def _plain_replay(place: Path, topics: list[str], messages: int) -> Row:
    clock, done = _Clock(), 0
    query = (
        "SELECT body FROM message WHERE topic = (SELECT id FROM topic WHERE name = ?) "
        "ORDER BY time_us, publisher, seq"
    )
    with closing(schema.connect(place / DATABASE)) as database:
        for topic in topics:
            with clock:
                found = database.execute(query, (topic,))
                while batch := found.fetchmany(1024):
                    done += len([body for (body,) in batch])
    return clock.row("out, all of a topic", "plain SQLite", messages, done)


# --- the first result ----------------------------------------------------------------------------


def _requests(what: str, store: HistoryStore, place: Path, messages: int) -> Iterator[Row]:
    ours = _latency(what, "reefcast", messages, lambda topic, symbol: _first(store, topic, symbol))
    with closing(schema.connect(place / DATABASE)) as database:
        query = (
            "SELECT body FROM message WHERE topic = (SELECT id FROM topic WHERE name = ?) "
            "AND a1 = ? AND era IN (SELECT number FROM era) "
            "ORDER BY time_us, publisher, seq LIMIT 64"
        )
        plain = _latency(
            what, "plain SQLite", messages, lambda *asked: database.execute(query, asked).fetchall()
        )
    yield _compared(ours, plain)
    yield plain


def _first(store: HistoryStore, topic: str, symbol: str) -> list[bytes]:
    wanted = _filter_of(topic, symbol)
    return next(store.read([topic], 0, filter=wanted), [])


def _filter_of(topic: str, symbol: str) -> Filter:
    return parse_filter(f"topic = '{topic}' AND symbol = '{symbol}'")


def _latency(what: str, engine: str, messages: int, ask: Callable[[str, str], Any]) -> Row:
    rng = random.Random(7)
    wall, cpu = [], []
    for _ in range(REQUESTS):
        asked = f"market/{rng.randrange(TOPICS)}", f"S{rng.randrange(SYMBOLS):03d}"
        clock = _Clock()
        with clock:
            ask(*asked)
        wall.append(clock.wall)
        cpu.append(clock.cpu)
    wall.sort()
    return Row(
        what,
        engine,
        messages,
        p50_ms=round(1e3 * statistics.median(wall), 3),
        p99_ms=round(1e3 * wall[int(0.99 * len(wall))], 3),
        cpu_ms=round(1e3 * statistics.median(cpu), 3),
    )


# --- sealed --------------------------------------------------------------------------------------


def _sealed(
    store: HistoryStore, folder: Path, messages: int, tell: Callable[[str], None]
) -> Iterator[Row]:
    """Over Parquet: everything, in a store without a database, and DuckDB over the same files."""
    clock = _Clock()
    tell("sealing")
    with clock:
        segments = [store.export(since_us, 0) for since_us in store.closed(1 << 62)]
    yield clock.row("sealing", "reefcast", messages, messages)
    sealed = folder / "sealed"
    for segment in segments:
        if segment is not None:
            target = sealed / SEGMENTS / segment.name
            target.parent.mkdir(parents=True)
            shutil.move(segment.path, target)
    what = "selective request, Parquet"
    with closing(_open(sealed)) as parquet:
        ours = _latency(
            what, "reefcast", messages, lambda topic, symbol: _first(parquet, topic, symbol)
        )
        replay = _replay(parquet, "out, Parquet", ["market/0"], TRUE)
    duck = None if duckdb_is_missing() else _duckdb(sealed / SEGMENTS, what, messages)
    yield replace(replay, messages=messages)
    yield ours if duck is None else _compared(ours, duck)
    if duck is not None:
        yield duck


def _duckdb(folder: Path, what: str, messages: int) -> Row:
    duckdb = import_module("duckdb")

    query = (
        f"SELECT body FROM read_parquet('{folder}/*/*.parquet') WHERE topic = ? AND symbol = ? "
        "ORDER BY time_us, publisher, seq LIMIT 64"
    )
    with closing(duckdb.connect()) as database:
        database.execute("SET threads = 1")
        return _latency(
            what, "DuckDB", messages, lambda *asked: database.execute(query, asked).fetchall()
        )
