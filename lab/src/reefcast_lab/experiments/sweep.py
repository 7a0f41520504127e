"""Runs spread over Spark: a job of one task for each run, many jobs at a time.

A run for each job, so that one whose process dies again and again costs only itself: Spark gives up
a job, with all its tasks, when one of them has failed too often. Only runs that are prepared
together (`groups`) share a job. What a task measured comes back to the driver, which
writes it at once, so that workers need no folder of ours, and Spark Connect will do as well as a
cluster.

Only what is missing is run, so a sweep that was interrupted goes on where it stopped. A task
measures only if its code, parameters and data are those that the file's name was made from.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from reefcast.errors import LocalError
from reefcast_lab.experiments import store
from reefcast_lab.experiments.campaign import RUN_S, Measure, Paper, Run
from reefcast_lab.experiments.store import Store, Version

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ATTEMPTS = 3
"""How often a run is tried whose Python process dies, or that cannot read or write."""

INTERRUPTED_S = 30.0
"""For jobs to end when the sweep is."""
WAITING = 2
"""Jobs that Spark has at a time, for each of its cores: none is ever idle, and runs begin about in
their order."""


class Ended(NamedTuple):
    """How a run ended: `error` is "" or what went wrong, and where."""

    run: Run
    seconds: float
    error: str


def patient(master: str) -> str:
    """Return the master with retries: Spark's local mode gives up at the first lost task."""
    one = "local[1]" if master == "local" else master
    return re.sub(r"^local\[([^,\]]+)\]$", rf"local[\1,{ATTEMPTS}]", one)


def sweep(
    spark: SparkSession, results: Store, runs: Sequence[Run], tell: Callable[[Ended], None]
) -> list[Ended]:
    """Measure the runs that have no file yet; `tell` is called with each that ended. Return those
    that failed."""
    failed = []
    with closing(_as_they_end(spark, results, results.missing(runs))) as ends:
        for ended in ends:
            if ended.error:
                failed.append(ended)
            tell(ended)
    return failed


# --- the driver's side ---------------------------------------------------------------------------


def _as_they_end(spark: SparkSession, results: Store, runs: Sequence[Run]) -> Generator[Ended]:
    if not runs:
        return
    threads = ThreadPoolExecutor(WAITING * cores(spark))
    jobs = [threads.submit(_job, spark, results, some) for some in groups(results.paper, runs)]
    try:
        for job in as_completed(jobs):
            yield from job.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        _interrupt(spark, jobs)


def groups(paper: Paper, runs: Iterable[Run]) -> list[list[Run]]:
    """Return the runs by the task that measures them, in the order of the first of each. What runs
    have in common (`Campaign.together`) says so within a campaign; if it is a text, across
    campaigns."""
    found: dict[Hashable, list[Run]] = {}
    for run in runs:
        together = paper.campaign(run.campaign).together
        common = together(run) if together else run
        key = common if isinstance(common, str) else (run.campaign, common)
        found.setdefault(key, []).append(run)
    return list(found.values())


def _interrupt(spark: SparkSession, jobs: Sequence[Future[list[Ended]]]) -> None:
    """Interrupt the jobs after Ctrl-C. Repeat it, because a thread that had just begun may not have
    had its Spark job yet."""
    until_s = time.monotonic() + INTERRUPTED_S
    while not all(job.done() for job in jobs) and time.monotonic() < until_s:
        spark.interruptAll()
        time.sleep(0.1)


def cores(spark: SparkSession) -> int:
    """Return how many tasks run at a time: Spark cuts a range into so many parts, unless
    `spark.default.parallelism` says otherwise."""
    return spark.range(2**20).select(F.spark_partition_id()).distinct().count()


def _job(spark: SparkSession, results: Store, runs: Sequence[Run]) -> list[Ended]:
    """Run these in one task, and keep what they measured."""
    started = time.perf_counter()
    # What is said of results stays here.
    paper = replace(results.paper, claims=(), plots=(), evidence=None, outline=list)
    work = Work(tuple((run, results.versions[run.campaign]) for run in runs))
    task = _task(work, paper)
    try:
        told = spark.range(0, 1, 1, 1).mapInArrow(task, _TOLD).toArrow().to_pylist()
    except (PySparkException, Py4JError) as failure:
        error = f"Spark gave up on it: {_reason(failure)}"
        return [Ended(run, time.perf_counter() - started, error) for run in runs]
    by_run: list[list[dict[str, Any]]] = [[] for _ in runs]
    for row in told:
        by_run[row["run"]].append(row)
    return [_kept(results, run, rows) for run, rows in zip(runs, by_run, strict=True)]


def _kept(results: Store, run: Run, told: Sequence[dict[str, Any]]) -> Ended:
    """Keep what was told of a run."""
    measures = [Measure(row["metric"], row["at"], row["value"]) for row in told]
    error = told[-1]["error"]
    try:
        if not error:
            store.write(results.file(run), run, measures)
    except (LocalError, OSError) as failure:
        error = _in_words(failure)
    return Ended(run, measures[-1].value, error)


_ABORTED = "Job aborted"


def _reason(failure: Exception) -> str:
    """Return the line that gives the reason, from a text with the stacks of two languages."""
    lines = [line.strip() for line in str(failure).splitlines()]
    told = [line for line in lines if line and not line.startswith("at ")]
    given_up = [line[line.index(_ABORTED) :] for line in told if _ABORTED in line]
    return (given_up[:1] or told[-1:] or [type(failure).__name__])[0]


# --- the tasks' side -----------------------------------------------------------------------------

_TOLD = "run INT, metric STRING, at DOUBLE, value DOUBLE, error STRING"
"""The columns that come back: of each run (its place among those of the task) the measures, `RUN_S`
last; `RUN_S` alone, with an error, if the run failed."""


class Work(NamedTuple):
    """A task: runs, each with what it has to be measured with."""

    runs: tuple[tuple[Run, Version], ...]


def _task(
    work: Work, paper: Paper
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in rows:  # Spark has a Python process work again only if it read all
            pass
        types = {"metric": pa.string(), "at": pa.float64(), "value": pa.float64()}
        schema = pa.schema({"run": pa.int32(), **types, "error": pa.string()})
        for number, (run, version) in enumerate(work.runs):
            told = [{"run": number} | row for row in _told(run, version, paper)]
            yield pa.RecordBatch.from_pylist(told, schema)

    return task


def _told(run: Run, version: Version, paper: Paper) -> list[dict[str, Any]]:
    campaign = paper.campaign(run.campaign)
    started = time.perf_counter()
    measures: list[Measure] = []
    error = ""
    try:
        store.check_version(paper, campaign, version)
        measures = campaign.measure(run)
    except (OSError, MemoryError) as failure:  # of the machine; may go better elsewhere
        if _attempts_left():
            raise
        error = _in_words(failure)
    except Exception as failure:  # a run is deterministic: it would fail again
        error = _in_words(failure)
    took = Measure(RUN_S, 0.0, time.perf_counter() - started)
    return [measure._asdict() | {"error": error} for measure in (*measures, took)]


def _attempts_left() -> bool:
    context = TaskContext.get()
    return context is not None and context.attemptNumber() + 1 < ATTEMPTS


def _in_words(failure: BaseException) -> str:
    place = traceback.extract_tb(failure.__traceback__)[-1]
    text = f"{type(failure).__name__}: {failure}"
    return f"{text} ({Path(place.filename).name}, line {place.lineno}, in {place.name})"
