"""Events into Spark and out of it, against the same rows in Parquet: in one session and one run.

A broker and a storage run as commands. The storage has `events` events of a topic in sealed
segments, and as many, published within the last minutes, in its database. Each reading sums up the
same columns; a stream reads what came last, and each of its events twice (once to plan, see the
connector's reference). The sink publishes the rows of the Parquet file, confirmed and not; nobody
subscribes to them.

`cpu_s` counts every process that takes part: Spark's Java and Pythons, broker and storage.
`per_task_cpu_s`: how many rows a task reads in a second of its processor time, in this process and
without Spark. `python`: how much of that time is spent outside of compiled functions, by a
profile."""

from __future__ import annotations

import cProfile
import pstats
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reefcast
import reefcast.spark
from reefcast.errors import InternalError
from reefcast.history.store import HistoryStore, Incoming
from reefcast.model import wire
from reefcast.model.publication import Publication
from reefcast.pipeline.session import spark_session
from reefcast.server.supervisor import free_ports
from reefcast.timing import now_us
from reefcast_lab.bench.live.brokers import OURS, wait_until_open
from reefcast_lab.bench.spark import cpu_of_family_s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEALED, RECENT = "sealed", "recent"
PARQUET, LIVE, SINK, TO_PARQUET = "Parquet", "live", "sink", "Parquet, written"
UNCONFIRMED = "sink, not confirmed"
SCHEMA = "symbol STRING, price DOUBLE, volume BIGINT"
SYMBOLS = ("IBM", "SAP", "MSFT", "ORCL", "TSM")
PUBLISHERS, CHUNK = 4, 5000
DAY_US = 86_400_000_000
LATE_S = 3600
WARM = 2
_LOOP = "_serve"
"""The function in which a compiled event loop runs, whose functions no profile shows."""


@dataclass(frozen=True, slots=True)
class EventsTiming:
    """`way`: where the rows come from, or go to; `bytes`: of the encoded events, or of the file.
    `per_s`, `per_cpu_s`: rows; `ratio`: its processor time to that of the same rows in Parquet, so
    less is better; `per_task_cpu_s`, `python`: see the module."""

    way: str
    rows: int
    bytes: int
    seconds: float
    cpu_s: float
    per_s: float
    per_cpu_s: float
    ratio: float | None = None
    per_task_cpu_s: float | None = None
    python: float | None = None


def bench(events: int, master: str, tell: Callable[[str], None]) -> Iterator[EventsTiming]:
    """Yield a row for each way."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="reefcast-bench-")))
        tell("storing events")
        size = stored(folder / "history", events)
        url = opened.enter_context(_network(folder / "history"))
        spark = opened.enter_context(spark_session("reefcast-lab bench spark", master))
        reefcast.spark.register(spark)
        run = _Run(spark, url, events, size, folder, tell)
        run.prepare()
        yield from _beside(run.reading(), PARQUET)
        yield from _beside(run.writing(), TO_PARQUET)


def _beside(rows: Iterator[EventsTiming], baseline: str) -> Iterator[EventsTiming]:
    """Yield rows with the ratios to the first one, the baseline."""
    first: EventsTiming | None = None
    for row in rows:
        first = first or row
        assert first.way == baseline
        yield replace(row, ratio=row.cpu_s / first.cpu_s if first.cpu_s else None)


# --- what there is to read ------------------------------------------------------------------------


def stored(directory: Path, events: int) -> int:
    """Store the events of both topics; return how many bytes those of one have."""
    store = HistoryStore(directory, _raise)
    try:
        now = now_us()
        size = _store(store, SEALED, events, now // DAY_US * DAY_US - DAY_US)
        for since_us in store.closed(now):
            segment = store.export(since_us, now)
            if segment is None:
                raise InternalError("nothing was sealed")
            store.seal(segment)
        while store.clean(now).more:
            pass
        _store(store, RECENT, events, now - events)
    finally:
        store.close()
    return size


def _raise(error: Exception) -> None:
    raise error


def _store(store: HistoryStore, topic: str, events: int, first_us: int) -> int:
    size = 0
    for start in range(0, events, CHUNK):
        numbers = range(start, min(start + CHUNK, events))
        bodies = [_body(topic, number, first_us + number) for number in numbers]
        store.append([Incoming(body) for body in bodies])
        size += sum(map(len, bodies))
    return size


def _body(topic: str, number: int, time_us: int) -> bytes:
    attributes: dict[str, Any] = {
        "symbol": SYMBOLS[number % len(SYMBOLS)],
        "price": 100 + number % 9973 / 7,
        "volume": number % 5000,
    }
    publisher = f"quotes-{number % PUBLISHERS}-0a1b2c3d4e5f"
    return wire.encode_publication(Publication(publisher, number, time_us, attributes, (topic,)))


@contextmanager
def _network(directory: Path) -> Iterator[str]:
    (port,) = free_ports(1)
    url = f"reefcast://127.0.0.1:{port}"
    with ExitStack() as started:
        file = directory.with_name("net.toml")
        file.write_text(f'[[broker]]\nname = "b1"\nlisten = "127.0.0.1:{port}"\n')
        broker = _command("broker", str(file), "b1")
        started.callback(_end, broker)
        wait_until_open(OURS, port, broker)
        storage = _command("storage", url, SEALED, RECENT, "--directory", str(directory))
        started.callback(_end, storage)
        _until_it_answers(url)
        yield url


def _command(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "reefcast", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _until_it_answers(url: str) -> None:
    with reefcast.sync.connect(url) as client:
        while True:
            try:
                client.history(f"topic = '{RECENT}'", limit=1).next()
                return
            except reefcast.RefusedError:
                time.sleep(0.05)


# --- the run --------------------------------------------------------------------------------------


class _Run:
    """`size`: bytes of the events of one topic."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        events: int,
        size: int,
        folder: Path,
        tell: Callable[[str], None],
    ) -> None:
        self._spark, self._url, self._events, self._size = spark, url, events, size
        self._folder, self._tell = folder, tell
        self._file = str(folder / "events.parquet")

    def prepare(self) -> None:
        """Write the Parquet file, and run each way once, so that all is compiled."""
        self._tell("warming up")
        self._history(SEALED).write.parquet(self._file)
        for frame in (self._parquet(), self._history(SEALED), self._history(RECENT)):
            self._sum(frame)

    def reading(self) -> Iterator[EventsTiming]:
        size = sum(path.stat().st_size for path in Path(self._file).glob("*.parquet"))
        row = self._timed(PARQUET, size, lambda: self._sum(self._parquet()))
        yield replace(row, per_task_cpu_s=self._per_cpu_s(self._file_in_a_task))
        for topic in (SEALED, RECENT):
            row = self._timed(topic, self._size, partial(self._read, topic))
            task = self._task(topic)
            speed = self._per_cpu_s(task)
            share = python_share(task, self._events / speed)
            yield replace(row, per_task_cpu_s=speed, python=share)
        yield self._timed(LIVE, self._size, self._stream)

    def writing(self) -> Iterator[EventsTiming]:
        def to_parquet() -> None:
            self._outgoing().write.mode("overwrite").parquet(str(self._folder / "copy"))

        def publish(confirm: bool) -> None:
            sink = self._outgoing().write.format("reefcast").mode("append")
            sink.options(url=self._url, topic="copies", confirm=confirm).save()

        yield self._timed(TO_PARQUET, self._size, to_parquet)
        yield self._timed(SINK, self._size, partial(publish, True))
        yield self._timed(UNCONFIRMED, self._size, partial(publish, False))

    def _timed(self, way: str, size: int, work: Callable[[], None]) -> EventsTiming:
        self._tell(way)
        begun_s, cpu_s = time.perf_counter(), cpu_of_family_s()
        work()
        seconds, cpu_s = time.perf_counter() - begun_s, cpu_of_family_s() - cpu_s
        rows = self._events
        per_cpu_s = rows / cpu_s if cpu_s else 0.0
        return EventsTiming(way, rows, size, seconds, cpu_s, rows / seconds, per_cpu_s)

    # --- ways -------------------------------------------------------------------------------------

    def _parquet(self) -> DataFrame:
        return self._spark.read.parquet(self._file)

    def _options(self, topic: str) -> dict[str, str]:
        return {"url": self._url, "subscribe": topic, "schema": SCHEMA}

    def _history(self, topic: str) -> DataFrame:
        return self._spark.read.format("reefcast").options(**self._options(topic)).load()

    def _read(self, topic: str) -> None:
        self._sum(self._history(topic))

    def _sum(self, frame: DataFrame) -> None:
        from pyspark.sql import functions as F

        row = frame.agg(
            F.count("symbol"), F.sum("price"), F.sum("volume"), F.max("timestamp"), F.max("seq")
        ).collect()[0]
        if row[0] != self._events:
            raise InternalError(f"{row[0]} events were read, not {self._events}")

    def _stream(self) -> None:
        source = self._spark.readStream.format("reefcast").options(**self._options(RECENT))
        frame = source.options(
            startingOffsets="earliest", settleSeconds=0, lateSeconds=LATE_S
        ).load()
        sink = frame.writeStream.format("noop").trigger(availableNow=True)
        query = sink.option("checkpointLocation", str(self._folder / "checkpoint")).start()
        query.awaitTermination()
        read = sum(batch["numInputRows"] for batch in query.recentProgress)
        if read != self._events:
            raise InternalError(f"{read} events were streamed, not {self._events}")

    def _outgoing(self) -> DataFrame:
        return self._parquet().select("symbol", "price", "volume")

    # --- a task -----------------------------------------------------------------------------------

    def _per_cpu_s(self, task: Callable[[], object]) -> float:
        begun_s = time.process_time()
        task()
        return self._events / (time.process_time() - begun_s)

    def _file_in_a_task(self) -> None:
        import pyarrow.parquet as pq

        for path in Path(self._file).glob("*.parquet"):
            pq.read_table(path, use_threads=False)

    def _task(self, topic: str) -> Callable[[], object]:
        """Return what reads a topic as one task does, in this process."""
        from pyspark.sql.types import StructType

        from reefcast.pipeline.connector.batch import BatchReader
        from reefcast.pipeline.connector.columns import schema_of
        from reefcast.pipeline.connector.options import read_options

        options = read_options({**self._options(topic), "minPartitions": "1"})
        schema = StructType.fromDDL(schema_of(SCHEMA))
        assert isinstance(schema, StructType)  # a schema, not one type
        reader = BatchReader(schema, options)
        parts = reader.partitions()

        def read() -> None:
            rows = sum(batch.num_rows for part in parts for batch in reader.read(part))
            if rows != self._events:
                raise InternalError(f"{rows} events were read, not {self._events}")

        return read


def python_share(work: Callable[[], object], cpu_s: float) -> float:
    """Return which part of the processor time of `work`, in all threads that it starts, is spent
    outside of compiled functions, as a profile sees them: in Python's own, and in operators of
    numpy. `cpu_s`: what it takes without a profile, which costs a multiple of a call in Python."""
    profiles: list[cProfile.Profile] = []

    def begin(*_: object) -> None:
        profile = cProfile.Profile(time.thread_time)
        profiles.append(profile)
        profile.enable()

    threading.setprofile(begin)
    try:
        begin()
        work()
        profiles[0].disable()
    finally:
        threading.setprofile(None)
    return max(1 - sum(map(_compiled_s, profiles)) / cpu_s, 0.0)


def _compiled_s(profile: cProfile.Profile) -> float:
    """Return the seconds that a profile has of compiled functions."""
    seen: Any = pstats.Stats(profile)  # whose types lack its only useful attribute
    stats: dict[tuple[str, int, str], Any] = seen.stats
    compiled_s = 0.0
    for (file, _, name), (_, _, own_s, *_) in stats.items():
        if file == "~" or name == _LOOP:
            compiled_s += own_s
    return compiled_s
