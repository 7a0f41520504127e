"""Runs spread over Spark tasks: one task a run, each writes its own file.

Only what is missing is run, so a sweep that was interrupted goes on where it stopped. The driver
sees of each run how it ended, never its rows. A run that raises does not stop the others. A task
measures only if its code, parameters and data are those that the file's name was made from.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark import AccumulatorParam, TaskContext

from reefcast.experiments import store
from reefcast.experiments.campaign import RUN_S, Measure, Paper, Run
from reefcast.experiments.store import Store, Version

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

ATTEMPTS = 3
"""How often a run is tried whose Python process dies, or that cannot read or write."""

_POLL_S = 0.1


class Ended(NamedTuple):
    """How a run ended: `error` is "" or what went wrong, and where."""

    run: Run
    seconds: float
    error: str


def patient(master: str) -> str:
    """The same master with retries: Spark's local mode gives up at the first lost task."""
    return re.sub(r"^local\[([^,\]]+)\]$", rf"local[\1,{ATTEMPTS}]", master)


def sweep(
    spark: SparkSession, results: Store, runs: Sequence[Run], tell: Callable[[Ended], None]
) -> list[Ended]:
    """Measures the runs that have no file yet; `tell` hears of each that ended, as it ends.

    Returns those that failed. The store's folder has to be one that all workers share.
    """
    missing = results.missing(runs)
    work = [
        Work(run, results.file(run).absolute(), results.versions[run.campaign]) for run in missing
    ]
    failed = []
    for told in _as_they_end(spark.sparkContext, work, results.paper) if work else ():
        ended = _arrived(told, results)
        if ended.error:
            failed.append(ended)
        tell(ended)
    return failed


def _arrived(ended: Ended, results: Store) -> Ended:
    if ended.error or store.is_whole(results.file(ended.run)):
        return ended
    where = results.folder
    return ended._replace(error=f"its file is not in {where}: workers have to share that folder")


# --- the driver's side ---------------------------------------------------------------------------


class Work(NamedTuple):
    """A task: the run, where its results go, and what they have to be measured with."""

    run: Run
    file: Path
    version: Version


class _Concatenated(AccumulatorParam["list[Ended]"]):
    def zero(self, value: list[Ended]) -> list[Ended]:
        return []

    def addInPlace(self, value1: list[Ended], value2: list[Ended]) -> list[Ended]:
        return value1 + value2


def _as_they_end(context: SparkContext, work: Sequence[Work], paper: Paper) -> Iterator[Ended]:
    """One job with a task for each run. An accumulator tells of a task's end at once, where the
    result of the job would come with the last."""
    ends = context.accumulator([], _Concatenated())
    tasks = context.parallelize(work, len(work))
    told = 0
    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(tasks.foreach, partial(_task, paper=paper, ends=ends))
        try:
            over = False
            while not over:
                over = job.done()
                news = ends.value[told:]
                yield from news
                told += len(news)
                time.sleep(0 if over or news else _POLL_S)
        finally:
            context.cancelAllJobs()  # Ctrl-C: nobody waits for them any more
    yield from _given_up(job.exception(), work, {ended.run for ended in ends.value})


def _given_up(
    error: BaseException | None, work: Sequence[Work], ended: set[Run]
) -> Iterator[Ended]:
    """Runs that have not ended, as a task's process died too often."""
    if error is None:
        return
    if not isinstance(error, Py4JJavaError):
        raise error
    reason = str(error.java_exception.getMessage()).split("\n", 1)[0]
    for each in work:
        if each.run not in ended:
            yield Ended(
                each.run, 0.0, f"Spark gave up on it, or on another one before it: {reason}"
            )


# --- the tasks' side -----------------------------------------------------------------------------


def _task(work: Work, paper: Paper, ends: Accumulator[list[Ended]]) -> None:
    run, campaign = work.run, paper.campaign(work.run.campaign)
    started = time.perf_counter()
    error = ""
    try:
        store.check_version(paper, campaign, work.version)
        measures = campaign.measure(run)
        took = Measure(RUN_S, 0.0, time.perf_counter() - started)
        store.write(work.file, run, [*measures, took])
    except (OSError, MemoryError) as failure:  # of the machine; may go better elsewhere
        if _attempts_left():
            raise
        error = _in_words(failure)
    except Exception as failure:  # a run is deterministic: it would fail again
        error = _in_words(failure)
    ends.add([Ended(run, time.perf_counter() - started, error)])


def _attempts_left() -> bool:
    context = TaskContext.get()
    return context is not None and context.attemptNumber() + 1 < ATTEMPTS


def _in_words(failure: BaseException) -> str:
    place = traceback.extract_tb(failure.__traceback__)[-1]
    text = f"{type(failure).__name__}: {failure}"
    return f"{text} ({Path(place.filename).name}, line {place.lineno}, in {place.name})"
