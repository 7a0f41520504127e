"""From source to sink, everything is killed at random instants: driver, executors, brokers and
storages. A long run, for `make soak`.

A publisher publishes under the topic `in`, whose storage is at one end of a path of three brokers.
A query with default settings, on a standalone cluster with two workers, copies the events to the
topic `out`, whose storage is at the other end; a durable session in the middle is subscribed to
them. In each round something is killed with SIGKILL while events flow, and started again; then
events must come through again. At the end each event is in the storage once, and was in the queue
of the session once.

A round is drawn from its seed, which is named if it fails: `REEFCAST_KILLS=17` runs that round
alone, `REEFCAST_KILLS=17-30` some of them. Rounds up to `LOCAL` run in threads of the driver, whose
Java is the executor then, and takes half of the time; the others on the cluster.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import reefcast
from children import Children, line_of
from live_networks import path_network, url_of
from reefcast.client import Options
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.sections import SessionsSection, StorageEntry
from spark_cluster import Cluster, standalone_cluster

PROGRAM = Path(__file__).with_name("spark_relay.py")
SEEDS = os.environ.get("REEFCAST_KILLS", "1-50")
EVERY_S = 0.1
"""Seconds between two events."""
WITHIN_S = 1200.0
"""How long it may take until events come through again: a query begins with a Python process that
Spark waits for, ten seconds, which on a busy machine takes many attempts."""
REST_S = 600.0
"""How long late events may take at the end: the query looks for them after two minutes."""
LATEST_S = 4.0
"""The latest instant of a kill, in seconds after events have come through."""
PATIENT: Options = {
    "backoff_first_s": 0.02,
    "backoff_max_s": 0.3,
    "connect_timeout_s": 86_400.0,
    "reconnect_timeout_s": 86_400.0,
}
FAILED = "the query failed"
LOCAL = 36
"""Rounds that need no cluster."""
WORDS = {
    "planner": "python_streaming_source_runner",
    "executor": "CoarseGrainedExecutorBackend",
    "worker": "pyspark.daemon pyspark.worker",
}
"""What the commands of Spark's processes have."""
BROKERS, STORAGES = ("b1", "b2", "b3"), ("source", "target")
KINDS = ("driver", "planner", "executor", "worker", "broker", "storage")
"""What is killed: the driver with its Java; the Python of the driver in which the connector plans;
an executor's Java; the Python of an executor; a broker; a storage."""


class Round(NamedTuple):
    """The plan of one round: what is killed (`which` of them, from 0 to 1), and when."""

    seed: int
    kind: str
    which: float
    after_s: float

    def __str__(self) -> str:
        return f"round {self.seed} ({self.kind} after {self.after_s:.2f} s)"


def round_of(seed: int) -> Round:
    rng = random.Random(seed)
    kinds = [kind for kind in KINDS if kind != "executor" or seed > LOCAL]
    return Round(seed, rng.choice(kinds), rng.random(), rng.uniform(0, LATEST_S))


def rounds() -> dict[str, list[Round]]:
    """Return the rounds of each place where tasks run."""
    first, _, last = SEEDS.partition("-")
    every = [round_of(seed) for seed in range(int(first), int(last or first) + 1)]
    return {
        "local": [plan for plan in every if plan.seed <= LOCAL],
        "cluster": [plan for plan in every if plan.seed > LOCAL],
    }


# --- processes ------------------------------------------------------------------------------------


class Running:
    """All processes. `cluster`: where the tasks run; None: in threads of the driver."""

    def __init__(
        self, children: Children, folder: Path, file: NetworkFile, cluster: Cluster | None
    ) -> None:
        self._children = children
        self._folder = folder
        self._master = cluster.master if cluster else "local[2,4]"
        self._environment = cluster.environment if cluster else dict(os.environ)
        self._work = [*(cluster.work if cluster else ()), folder / "driver"]
        self._processes: dict[str, Process] = {}
        self._log = folder / "relay.log"
        self.url = ",".join(url_of(file, name) for name in BROKERS)
        (folder / "net.toml").write_text(dump_network(file), encoding="utf-8")
        (folder / "driver").mkdir()

    async def start(self, name: str) -> None:
        if name == "driver":
            await self._start_driver()
            return
        what = "broker" if name in BROKERS else "storage"
        command = (what, self._folder / "net.toml", name)
        process = await self._children.start(*command, stderr=None)
        await line_of(process.stdout)
        self._processes[name] = process

    async def _start_driver(self) -> None:
        command = (PROGRAM, self.url, self._folder / "checkpoint", self._master)
        with self._log.open("ab") as log:
            self._processes["driver"] = await asyncio.create_subprocess_exec(
                *(sys.executable, *map(str, command)),
                stdin=PIPE,
                stdout=log,
                stderr=log,
                cwd=self._folder / "driver",
                env=self._environment | {"PYSPARK_PYTHON": sys.executable},
                start_new_session=True,
            )

    async def keep_driver(self) -> None:
        """Start the program again whenever it ends, as an operator would."""
        while True:
            await self._processes["driver"].wait()
            self.kill_driver()
            await self._start_driver()

    def failures(self) -> list[str]:
        """Return why queries failed. Fails if events were lost to one."""
        said = self._log.read_text(encoding="utf-8", errors="replace")
        assert "failOnDataLoss" not in said, said[-4000:]
        return [line for line in said.splitlines() if line.startswith(FAILED)]

    def kill_driver(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._processes["driver"].pid, signal.SIGKILL)

    async def kill(self, plan: Round) -> str:
        """Kill what the plan says, once it is there, and start it again; return its name."""
        if plan.kind == "driver":
            self.kill_driver()
            return "driver"
        if plan.kind in ("broker", "storage"):
            names = BROKERS if plan.kind == "broker" else STORAGES
            name = names[int(plan.which * len(names))]
            self._processes[name].kill()
            await self._processes[name].wait()
            await self.start(name)
            return name
        while not (found := self._found(plan.kind)):  # noqa: ASYNC110 (of processes)
            await asyncio.sleep(0.05)
        pid = found[int(plan.which * len(found))]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return f"{plan.kind} {pid}"

    def _found(self, kind: str) -> list[int]:
        """Return the processes of a kind; those of Spark work in folders of this test."""
        word = WORDS[kind]
        found = [
            pid for pid, cwd, command in processes() if word in command and cwd.is_in(self._work)
        ]
        return sorted(found)

    def close(self) -> None:
        self.kill_driver()


class WorkingFolder(NamedTuple):
    path: Path

    def is_in(self, folders: list[Path]) -> bool:
        return any(self.path.is_relative_to(folder) for folder in folders)


def processes() -> Iterator[tuple[int, WorkingFolder, str]]:
    """Yield all processes: number, working folder, command."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            yield int(entry.name), WorkingFolder((entry / "cwd").readlink()), command


# --- events ---------------------------------------------------------------------------------------


class Flow:
    """What is published, and what comes. `published`: by number, the round in which that was;
    `arrived`: the numbers, by position in the session's queue."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.arrived: dict[int, int] = {}
        self.now = "the beginning"
        self.stopped = False
        self._changed = asyncio.Event()

    async def publish(self, client: reefcast.Client) -> None:
        while not self.stopped:
            self.published.append(self.now)
            await client.publish(n=len(self.published) - 1, topics=["in"], confirm=True)
            await asyncio.sleep(EVERY_S)

    async def consume(self, session: reefcast.DurableSession) -> None:
        async for event in session:
            n = event["n"]
            assert isinstance(n, int)
            self.arrived[event.position] = n
            await event.ack()
            self._changed.set()

    async def until(self, condition: Callable[[], bool], within_s: float, what: str) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pytest.fail(f"{self.now}: {what}; {len(self.arrived)} of {len(self.published)} came")

    def check_no_doubles(self) -> None:
        twice = [n for n, times in Counter(self.arrived.values()).items() if times > 1]
        assert not twice, f"{self.now}: {twice[:20]} were in the session's queue twice"

    def lacking(self, found: Counter[int]) -> str:
        """Describe which events are not there exactly once, and when they were published."""
        wrong = {n: found[n] for n in range(len(self.published)) if found[n] != 1}
        when = Counter(f"{found[n]} times, of {self.published[n]}" for n in wrong)
        return f"{len(wrong)} of {len(self.published)} events: {dict(when)}"


def network(folder: Path) -> NetworkFile:
    made = path_network(len(BROKERS))
    made.sessions = SessionsSection(directory=str(folder / "sessions"))
    made.storage = [
        StorageEntry(
            name, broker, [topic], str(folder / "history" / name), session=f"storage-{name}"
        )
        for name, broker, topic in (("source", "b1", "in"), ("target", "b3", "out"))
    ]
    return made.validate()


@asynccontextmanager
async def everything(
    folder: Path, *, clustered: bool
) -> AsyncIterator[tuple[Running, NetworkFile]]:
    file = network(folder)
    with standalone_cluster(folder / "cluster") if clustered else nullcontext() as cluster:
        async with Children() as children:
            running = Running(children, folder, file, cluster)
            try:
                for name in (*BROKERS, *STORAGES):
                    await running.start(name)
                yield running, file
            finally:
                running.close()


async def play(plan: Round, running: Running, flow: Flow) -> str:
    """Play one round; return what was killed."""
    flow.now = str(plan)
    come = len(flow.arrived)
    await flow.until(lambda: len(flow.arrived) > come, WITHIN_S, "nothing came before the kill")
    await asyncio.sleep(plan.after_s)  # the random instant
    async with asyncio.timeout(WITHIN_S):
        killed = await running.kill(plan)
    later = len(flow.published)
    await flow.until(
        lambda: max(flow.arrived.values()) >= later, WITHIN_S, f"nothing comes since {killed} died"
    )
    flow.check_no_doubles()
    running.failures()
    return killed


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize(("where", "plans"), rounds().items())
async def test_each_event_is_once_in_the_storage_and_once_at_a_session_whatever_is_killed(
    java: None, tmp_path: Path, where: str, plans: list[Round]
) -> None:
    flow, kinds = Flow(), Counter[str]()
    async with (
        everything(tmp_path, clustered=where == "cluster") as (running, file),
        reefcast.connect([url_of(file, "b2"), url_of(file, "b1")], **PATIENT) as publisher,
        reefcast.connect(url_of(file, "b2"), **PATIENT) as consumer,
        asyncio.TaskGroup() as tasks,
    ):
        session = await consumer.session("billing")
        await session.subscribe("topic = 'out'")
        await running.start("driver")
        beside = [
            tasks.create_task(work)
            for work in (flow.publish(publisher), flow.consume(session), running.keep_driver())
        ]
        await flow.until(lambda: bool(flow.arrived), REST_S, "the query does not begin")
        begun = time.monotonic()
        for plan in plans:
            killed = await play(plan, running, flow)
            kinds[plan.kind] += 1
            print(f"{plan}: {killed} at {time.monotonic() - begun:.0f} s, {len(flow.arrived)} came")
        flow.now, flow.stopped = "the end", True
        await beside[0]
        count = len(flow.published)
        await flow.until(
            lambda: set(flow.arrived.values()) >= set(range(count)),
            REST_S,
            "events are lost: " + flow.lacking(Counter(flow.arrived.values())),
        )
        flow.check_no_doubles()
        stored: Counter[int] = Counter()
        async for event in consumer.history("topic = 'out'"):
            n = event["n"]
            assert isinstance(n, int)
            stored[n] += 1
        assert stored == Counter(range(count)), flow.lacking(stored)
        print(f"{count} events, {dict(kinds)}; the query failed {len(running.failures())} times")
        for task in beside[1:]:
            task.cancel()
