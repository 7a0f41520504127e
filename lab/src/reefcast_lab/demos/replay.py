"""The live part of the demo: publishers and subscribers of an overlay, each a process of its own.

The demo waits for words and states, never for time to pass: for `ready` (everything settled), for
`complete` (all publishers are through; all subscribers have all end marks), then until no broker
has anything to pass on: where routing is dynamic, an end mark may overtake other events.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reefcast.network.file import NetworkFile
from reefcast.server.supervisor import Overlay
from reefcast_lab.demos.harness import PATIENCE_S, Program, each, kill, url_of
from reefcast_lab.demos.program import FINISH
from reefcast_lab.demos.replay_protocol import (
    COMPLETE,
    GO,
    READY,
    START,
    Progress,
    PublisherTask,
    SubscriberTask,
)

SUBSCRIBER_PROGRAMS = 2
LOOKS = "connected"
"""The counter that each look at a broker raises."""

Tell = Callable[[int, int], None]
"""Called with the events published and delivered so far."""
Clients = list[Program[Progress]]


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


class Programs:
    """The client programs of a replay, for the time of a context: they start and load what they
    need at once, and touch neither files nor brokers before `run_replay` tells them to."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.publishers: Clients = []
        self.subscribers: Clients = []

    @property
    def all(self) -> Clients:
        return self.publishers + self.subscribers

    async def __aenter__(self) -> Programs:
        shutil.rmtree(self._replay.folder, ignore_errors=True)
        try:
            for task in publisher_tasks(self._replay):
                program = await Program.start("replay_publisher", task, Progress)
                self.publishers.append(program)
            for each_task in subscriber_tasks(self._replay):
                program = await Program.start("replay_subscriber", each_task, Progress)
                self.subscribers.append(program)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await kill(self.all)


async def run_replay(overlay: Overlay, programs: Programs, tell: Tell) -> Timing:
    """Replay over an overlay that runs, and end the programs in good order. Their logs are in the
    folder."""
    await each(programs.all, START, READY)
    timing = await _play(programs.publishers, programs.subscribers, tell)
    await until_quiet(overlay)
    for program in programs.all:
        program.tell(FINISH)
    await asyncio.gather(*(program.end() for program in programs.all))
    return timing


async def _play(publishers: Clients, subscribers: Clients, tell: Tell) -> Timing:
    loop = asyncio.get_running_loop()
    telling = asyncio.create_task(_keep_telling(publishers, subscribers, tell))
    started_s = loop.time()
    try:
        for program in publishers:
            program.tell(GO)
        await asyncio.gather(*(program.until(COMPLETE) for program in publishers))
        published_s = loop.time()
        await _until_all_arrived(subscribers)
    finally:
        telling.cancel()
    tell(_done(publishers), _done(subscribers))
    return Timing(published_s - started_s, loop.time() - started_s)


async def until_quiet(overlay: Overlay) -> None:
    """Wait until no publication is under way between brokers. One look at many brokers is no
    snapshot: so all links must be empty in between two looks that show the same counts, but for
    the connections that looking takes."""
    before: object = None
    while True:
        answers = await overlay.status()
        now = {
            name: answer and {**answer["counters"], LOOKS: 0} for name, answer in answers.items()
        }
        if now == before:
            return
        before = now
        await overlay.linked()


async def _until_all_arrived(subscribers: Clients) -> None:
    """Wait until all deliveries have come, or nothing comes any more: the check then says what is
    missing."""
    complete = asyncio.gather(*(program.until(COMPLETE) for program in subscribers))
    arrived = -1
    while not complete.done() and _done(subscribers) > arrived:
        arrived = _done(subscribers)
        await asyncio.wait((complete,), timeout=PATIENCE_S)
    if not complete.done():
        complete.cancel()
        return
    complete.result()


async def _keep_telling(publishers: Clients, subscribers: Clients, tell: Tell) -> None:
    while True:
        tell(_done(publishers), _done(subscribers))
        await asyncio.sleep(0.2)


def _done(programs: Clients) -> int:
    return sum(program.last.done for program in programs if program.last is not None)


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
    """Divide the brokers' clients among the programs, broker by broker."""
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
