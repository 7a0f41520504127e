"""One run of the demonstration of gossip: peers in a few processes, of which one is killed.

All processes are of one machine, so that one clock says when an event was published and when it
came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reefcast.server.supervisor import free_ports
from reefcast.timing import now_us
from reefcast_lab.demos.gossip_protocol import (
    JOIN,
    LISTEN,
    LOADED,
    LOOK,
    QUIET,
    PeersTask,
    Published,
    Report,
    Views,
)
from reefcast_lab.demos.gossip_script import Cast
from reefcast_lab.demos.harness import Program, Tell, each, kill
from reefcast_lab.demos.program import FINISH

SOCKETS, ESTABLISHED = Path("/proc/net/tcp"), "01"
START_S = 300.0
"""Until a program has loaded, or all of its peers have joined."""
LAST_ROUNDS, LAST_S = 3, 60.0
"""After the last publication, for what is still to be repaired: so many rounds, and longer on a
machine that is too busy for its rounds, but no longer than so many seconds."""


@dataclass(slots=True)
class Seen:
    """What the peers said of themselves at one moment. `connections`: counted by them; `sockets`:
    counted by the operating system, if it tells."""

    at_us: int
    connections: float
    sockets: int | None
    views: Views


@dataclass(slots=True)
class Run:
    """What came of one run. `joined_us`: by peer, when its subscription had settled; `published`
    and `came_us`, by (publisher, number, peer): all that was told in time; `twice`: what came more
    than once; `connections`: (when, how many) over time; `settled`, `aligned`, `ended`: looks at
    the peers when all had joined, before some were killed, and at the end."""

    joined_us: dict[int, int] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)
    came_us: dict[tuple[int, int, int], int] = field(default_factory=dict)
    twice: int = 0
    connections: list[tuple[int, float]] = field(default_factory=list)
    started_us: int = 0
    killed_us: int = 0
    ended_us: int = 0
    settled: Seen | None = None
    aligned: Seen | None = None
    ended: Seen | None = None


class Scene:
    """The programs of one run, and what is noted of them. `lacks`: whether something that was
    published is still to come."""

    def __init__(self, cast: Cast, lacks: Callable[[Run], bool], tell: Tell) -> None:
        self.run = Run()
        self._lacks = lacks
        self.programs: list[Program[Report]] = []
        self._views: dict[Program[Report], Views] = {}
        self._cast = cast
        self._tell = tell
        self._addresses = [f"127.0.0.1:{port}" for port in free_ports(cast.plan.peers)]

    # --- the script -------------------------------------------------------------------------------

    async def play(self) -> Run:
        """Run the script from the first peer to the last; end all programs in any case."""
        try:
            await self._begin()
            await self._join()
            await self._flow("peers align", self._cast.plan.rounds)
            self.run.aligned = await self._look()
            if self._cast.plan.kill:
                await self._kill()
            await self._flow("after the kill", self._cast.plan.rounds)
            await self._end()
        finally:
            await kill(self.programs)
        return self.run

    async def _begin(self) -> None:
        """Load all programs at the same time; then start the peer that begins the network, and then
        the others."""
        plan = self._cast.plan
        self._tell(f"{plan.processes} processes start")
        for task in self._tasks():
            program = await Program.start("gossip_peers", task, Report, self._take)
            self.programs.append(program)
        *others, first = self.programs
        await asyncio.gather(*(program.until(LOADED, START_S) for program in self.programs))
        await each([first], LISTEN, LISTEN, START_S)
        await each(others, LISTEN, LISTEN, START_S)

    def _tasks(self) -> list[PeersTask]:
        """Return the tasks of the processes. The first peer of the last process, which survives,
        begins the network."""
        cast = self._cast
        beginner = self._addresses[cast.hosted[-1][0]]
        options = {
            "contacts": [self._addresses[number] for number in cast.contacts],
            "round_s": cast.plan.round_s,
            "repair": True,
            "seed": cast.plan.seed,
        }
        return [
            PeersTask(
                self._addresses,
                {number: cast.wants[number] for number in hosted},
                "" if hosted is cast.hosted[-1] else beginner,
                options,
                cast.plan.rate_per_s * len(hosted) / cast.plan.peers,
                cast.plan.seed,
            )
            for hosted in cast.hosted
        ]

    async def _join(self) -> None:
        self._tell(f"{self._cast.plan.peers} peers join, and publish")
        self.run.started_us = now_us()
        await each(self.programs, JOIN, JOIN, START_S)
        self.run.settled = await self._look()

    async def _flow(self, what: str, rounds: int) -> None:
        for number in range(rounds):
            self._tell(
                f"{what}: round {number + 1} of {rounds}, {self.connections:.0f} connections"
            )
            await asyncio.sleep(self._cast.plan.round_s)

    async def _kill(self) -> None:
        victim = self.programs.pop(0)
        self._tell(f"{self._cast.plan.kill} peers are killed")
        self.run.killed_us = now_us()
        await victim.kill()

    async def _end(self) -> None:
        self._tell("publishing ends")
        await each(self.programs, QUIET, QUIET, START_S)
        self.run.ended_us = now_us()
        await self._come_last()
        self.run.ended = await self._look()
        for program in self.programs:
            program.tell(FINISH)
        await asyncio.gather(*(program.end() for program in self.programs))

    async def _come_last(self) -> None:
        """Wait for what is still on its way."""
        round_s = self._cast.plan.round_s
        for number in range(LAST_ROUNDS + round(LAST_S / round_s)):
            if number >= LAST_ROUNDS and not self._lacks(self.run):
                break
            await asyncio.sleep(round_s)

    # --- what is noted ----------------------------------------------------------------------------

    @property
    def connections(self) -> float:
        """By the peers' own count; one that one end does not know of yet is half of one."""
        running = (program.last for program in self.programs if program.running)
        return sum(report.ends for report in running if report is not None) / 2

    async def _look(self) -> Seen:
        views: Views = {}
        for told in await asyncio.gather(*map(self._views_of, self.programs)):
            views |= told
        ports = [int(self._addresses[number].rpartition(":")[2]) for number in views]
        taken = established(ports)
        sockets = None if taken is None else taken - len(views)  # each has a client
        return Seen(now_us(), self.connections, sockets, views)

    async def _views_of(self, program: Program[Report]) -> Views:
        """Return the views of a program's peers."""
        self._views.pop(program, None)
        program.tell(LOOK)
        await program.until_done(lambda: program in self._views, "looked at", START_S)
        return self._views[program]

    def _take(self, program: Program[Report], report: Report) -> None:
        run = self.run
        if report.views is not None:
            self._views[program] = report.views
        run.joined_us |= dict(report.joined)
        run.published += report.published
        for publisher, seq, peer, came_us in report.delivered:
            key = (publisher, seq, peer)
            run.twice += key in run.came_us
            run.came_us.setdefault(key, came_us)
        if run.started_us:
            run.connections.append((report.at_us, self.connections))


def established(ports: Sequence[int]) -> int | None:
    """Return how many TCP connections were made to these ports of this machine, by its own account;
    None where that cannot be read (anywhere but on Linux)."""
    chosen = {f"{port:04X}" for port in ports}
    try:
        table = SOCKETS.read_text(encoding="ascii")
    except OSError:
        return None
    rows = (line.split()[1:4] for line in table.splitlines())
    return sum(
        state == ESTABLISHED and local.rpartition(":")[2] in chosen for local, _, state in rows
    )


async def run_live(cast: Cast, lacks: Callable[[Run], bool], tell: Tell) -> Run:
    """Run the whole script; `lacks` as of `Scene`. Raises `PeerError` if a program does not do its
    part."""
    return await Scene(cast, lacks, tell).play()
