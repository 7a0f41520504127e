"""The live part of the demo: publishers and subscribers of an overlay, each a process of its own.

The demo waits for words and states, never for time to pass: for `ready` (everything settled), for
`complete` (all publishers are through; all subscribers have all end marks), then until no broker
has anything to pass on: where routing is dynamic, an end mark may overtake other events.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from reefcast.errors import PeerError
from reefcast.network.file import NetworkFile
from reefcast.server.supervisor import Overlay
from reefcast_lab.demos.replay_protocol import (
    FINISH,
    GO,
    READY,
    START,
    Progress,
    PublisherTask,
    SubscriberTask,
)

SUBSCRIBER_PROGRAMS = 2
PATIENCE_S = 60.0
"""How long nothing may arrive, once all is published, until the rest is taken for lost."""

Tell = Callable[[int, int], None]
"""Called with the events published and delivered so far."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What to replay. `publishers`: airport -> broker; `folder`: where the logs go."""

    network: NetworkFile
    events: Path
    count: int
    rate_per_s: float
    publishers: dict[str, str]
    workload: Path
    folder: Path

    @property
    def publications(self) -> Path:
        return self.folder / "publications"

    @property
    def deliveries(self) -> Path:
        return self.folder / "deliveries"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds from the first to the last publication, and until the last delivery was there."""

    publishing_s: float
    until_quiet_s: float


class Program:
    """A client program: a process that is told what to do and tells how far it is."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process = process
        self._name = name
        self.done = 0
        self._states: set[str] = set()
        self._changed = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, module: str, task: PublisherTask | SubscriberTask) -> Program:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"reefcast_lab.demos.{module}"),
            msgspec.json.encode(task).decode(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(process, module)

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())

    async def until(self, state: str) -> None:
        """Returns when the program has said `state`; raises `PeerError` if it ends before."""
        while state not in self._states:
            if self._listening.done():
                raise PeerError(
                    f"{self._name} ended before it was {state}; its own words are above"
                )
            self._changed.clear()
            await self._changed.wait()

    async def end(self) -> None:
        """Returns when the program has ended as it should; raises `PeerError` otherwise."""
        code = await self._process.wait()
        if code:
            raise PeerError(f"{self._name} ended with exit code {code}; its own words are above")

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._listening.cancel()

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            progress = msgspec.json.decode(line, type=Progress)
            self.done = progress.done
            self._states.add(progress.state)
            self._changed.set()
        self._changed.set()


class Programs:
    """The client programs of a replay, for the time of a context: they start and load what they
    need at once, and touch neither files nor brokers before `run_replay` tells them to."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.publishers: list[Program] = []
        self.subscribers: list[Program] = []

    @property
    def all(self) -> list[Program]:
        return self.publishers + self.subscribers

    async def __aenter__(self) -> Programs:
        shutil.rmtree(self._replay.folder, ignore_errors=True)
        try:
            for task in publisher_tasks(self._replay):
                self.publishers.append(await Program.start("replay_publisher", task))
            for each in subscriber_tasks(self._replay):
                self.subscribers.append(await Program.start("replay_subscriber", each))
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(program.kill() for program in self.all))

    async def each(self, word: str, state: str) -> None:
        """Tell all programs `word`, and return when each has said `state`."""
        for program in self.all:
            program.tell(word)
        await asyncio.gather(*(program.until(state) for program in self.all))


async def run_replay(overlay: Overlay, programs: Programs, tell: Tell) -> Timing:
    """Replay over an overlay that runs, and end the programs in good order. Their logs are in the
    folder."""
    await programs.each(START, READY)
    timing = await _play(programs.publishers, programs.subscribers, tell)
    await until_quiet(overlay)
    for program in programs.all:
        program.tell(FINISH)
    await asyncio.gather(*(program.end() for program in programs.all))
    return timing


async def _play(publishers: list[Program], subscribers: list[Program], tell: Tell) -> Timing:
    loop = asyncio.get_running_loop()
    telling = asyncio.create_task(_keep_telling(publishers, subscribers, tell))
    started_s = loop.time()
    try:
        for program in publishers:
            program.tell(GO)
        await asyncio.gather(*(program.until("complete") for program in publishers))
        published_s = loop.time()
        await _until_all_arrived(subscribers)
    finally:
        telling.cancel()
    tell(_done(publishers), _done(subscribers))
    return Timing(published_s - started_s, loop.time() - started_s)


async def until_quiet(overlay: Overlay) -> None:
    """Returns when no publication is under way between brokers. One look at many brokers is no
    snapshot: so all links must be empty in between two looks that show the same counts."""
    before: object = None
    while True:
        answers = await overlay.status()
        now = {name: answer and answer["counters"] for name, answer in answers.items()}
        if now == before:
            return
        before = now
        await overlay.linked()


async def _until_all_arrived(subscribers: list[Program]) -> None:
    """Gives up when nothing comes any more: what is missing then is the check's business."""
    complete = asyncio.gather(*(program.until("complete") for program in subscribers))
    arrived = -1
    while not complete.done() and _done(subscribers) > arrived:
        arrived = _done(subscribers)
        await asyncio.wait((complete,), timeout=PATIENCE_S)
    if not complete.done():
        complete.cancel()
        return
    complete.result()


async def _keep_telling(publishers: list[Program], subscribers: list[Program], tell: Tell) -> None:
    while True:
        tell(_done(publishers), _done(subscribers))
        await asyncio.sleep(0.2)


def _done(programs: list[Program]) -> int:
    return sum(program.done for program in programs)


def publisher_tasks(replay: Replay) -> list[PublisherTask]:
    return [
        PublisherTask(
            url=url_of(replay.network, broker),
            origin=origin,
            events=str(replay.events),
            count=replay.count,
            rate_per_s=replay.rate_per_s,
            log=str(replay.publications / f"{origin}.parquet"),
        )
        for origin, broker in sorted(replay.publishers.items())
    ]


def subscriber_tasks(replay: Replay) -> list[SubscriberTask]:
    """The brokers' clients shared out among the programs, broker by broker."""
    names = replay.network.names
    return [
        SubscriberTask(
            urls={name: url_of(replay.network, name) for name in names[i::SUBSCRIBER_PROGRAMS]},
            workload=str(replay.workload),
            publishers=len(replay.publishers),
            log=str(replay.deliveries / f"{i + 1}.parquet"),
        )
        for i in range(min(SUBSCRIBER_PROGRAMS, len(names)))
    ]


def url_of(network: NetworkFile, broker: str) -> str:
    host, port = network.address(broker)
    return f"reefcast://{host}:{port}"
