"""One run of the demonstration of covering: real brokers, each a process, and their clients here.

Publisher, engines and monitor are clients in this one process, so that one clock says when an event
was published and when it came. A few hundred events a second leave it idle most of the time; how
late its publisher was is written down all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from reefcast.client import Client, Subscription, connect
from reefcast.client.event import decode_delivery
from reefcast.client.signal import Signal
from reefcast.errors import PeerError
from reefcast.network.file import NetworkFile
from reefcast.server.supervisor import Overlay
from reefcast.timing import now_us
from reefcast_lab.demos.burst_script import (
    ENGINES,
    EVERYTHING,
    MONITOR,
    PUBLISHER,
    BurstOptions,
    Script,
    Step,
)
from reefcast_lab.demos.harness import PATIENCE_S, Tell, url_of
from reefcast_lab.demos.program import END_MARK, Pace

TOGETHER = 100
"""Filters of one subscription; each still has a number of its own."""

Status = dict[str, dict[str, Any]]
"""What each broker says of itself."""

CONTROL = ("subscribe", "unsubscribe", "replace")
"""Messages between brokers that say who wants what; `replace` is both in one."""


@dataclass(slots=True)
class Visit:
    """The monitor's: when it asked for everything, when every broker knew, when it took that back,
    and when every broker had forgotten (microseconds UTC). It got every event from number `first`
    to number `last`, or events were lost; some before and after it may have got, too. `watched`:
    what the brokers said while it was there."""

    came_us: int
    settled_us: int
    left_us: int
    gone_us: int
    first: int
    last: int
    got: Counter[int]
    watched: Status


@dataclass(slots=True)
class Run:
    """What came of one run. `published_us` and `steps`: of the events, the first is number 1;
    `engines`: (number of the event, narrow subscription, when it was published, when it came), a
    row a delivery; `settling_s`: until all narrow subscriptions were known; `late_s`: how late the
    publisher was at most; `started`, `ended`: what the brokers said before the first event and
    after the last; `control`: when which broker told another one who wants what, in between."""

    covering: str
    published_us: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    engines: list[tuple[int, int, int, int]] = field(default_factory=list)
    visits: list[Visit] = field(default_factory=list)
    settling_s: float = 0.0
    late_s: float = 0.0
    started: Status = field(default_factory=dict)
    ended: Status = field(default_factory=dict)
    ended_us: int = 0
    control: list[tuple[int, str]] = field(default_factory=list)


class Engines:
    """The clients at one broker: what they get goes into `rows`."""

    def __init__(self, rows: list[tuple[int, int, int, int]]) -> None:
        self._rows = rows
        self._narrow: dict[int, int] = {}
        self._end_mark = -1
        self._standing: list[Subscription] = []  # one that nobody refers to is cancelled
        self.complete = asyncio.Event()

    async def subscribe(self, client: Client, wanted: dict[int, str]) -> None:
        """Subscribe to `wanted`: narrow subscriptions, by their places in the script."""
        mark = client.subscribe(f"{END_MARK} IS NOT NULL")
        (self._end_mark,) = mark.numbers
        self._standing.append(mark)
        places = list(wanted)
        for some in (places[i : i + TOGETHER] for i in range(0, len(places), TOGETHER)):
            made = client.subscribe(*(wanted[place] for place in some))
            self._narrow |= zip(made.numbers, some, strict=True)
            self._standing.append(made)
            await asyncio.sleep(0)  # to be written meanwhile
        for each in self._standing:
            await each.settled()

    def count(self, deliveries: list[bytes]) -> None:
        came_us = now_us()
        for delivery in deliveries:
            numbers, event = decode_delivery(delivery)
            if self._end_mark in numbers:
                self.complete.set()
                continue
            seq, published_us = event.seq, event.time_us
            for number in numbers:
                self._rows.append((seq, self._narrow[number], published_us, came_us))


class Monitor:
    """One that comes and goes."""

    def __init__(self) -> None:
        self._got: Counter[int] = Counter()
        self._came = Signal()

    def count(self, deliveries: list[bytes]) -> None:
        for delivery in deliveries:
            self._got[decode_delivery(delivery)[1].seq] += 1
        self._came.fire()

    async def visit(self, client: Client, scene: Scene, stay_s: float) -> Visit:
        """Come, stay, and leave when everything published meanwhile has arrived."""
        got: Counter[int] = Counter()
        self._got = got
        came_us = now_us()
        everything = await client.subscribe(EVERYTHING)
        settled_us, first = now_us(), len(scene.run.steps) + 1
        await asyncio.sleep(stay_s / 2)
        watched = await scene.status()
        await asyncio.sleep(stay_s / 2)
        last = len(scene.run.steps)
        with contextlib.suppress(TimeoutError):  # what is missing is for the verdict to say
            async with asyncio.timeout(PATIENCE_S):
                while last >= first and last not in got:
                    await self._came.wait()
        left_us = now_us()
        await everything.cancel()
        return Visit(came_us, settled_us, left_us, now_us(), first, last, got, watched)


class Scene:
    """The brokers and clients of one run, and what is noted of them."""

    def __init__(self, overlay: Overlay, stack: AsyncExitStack, run: Run) -> None:
        self._overlay = overlay
        self._stack = stack
        self.run = run

    async def status(self) -> Status:
        """Return the status of the brokers. Raises `PeerError` if a broker does not answer."""
        answers = await self._overlay.status()
        silent = [name for name, answer in answers.items() if answer is None]
        if silent:
            raise PeerError(f"brokers do not answer any more: {', '.join(silent)}")
        return {name: answer for name, answer in answers.items() if answer is not None}

    async def client(
        self, broker: str, name: str, take: Callable[[list[bytes]], None] | None = None
    ) -> Client:
        url = url_of(self._overlay.network, broker)
        return await self._stack.enter_async_context(
            connect(url, name=name, on_deliveries=take, queue_policy="block")
        )

    async def settle(self, script: Script) -> list[Engines]:
        """Wait until all narrow subscriptions have settled."""
        engines = [(broker, Engines(self.run.engines)) for broker in ENGINES]
        await asyncio.gather(*(self._subscribe(each, broker, script) for broker, each in engines))
        return [each for _, each in engines]

    async def _subscribe(self, engines: Engines, broker: str, script: Script) -> None:
        client = await self.client(broker, "engines", engines.count)
        wanted = {
            place: narrow.filter
            for place, narrow in enumerate(script.narrow)
            if narrow.broker == broker
        }
        await engines.subscribe(client, wanted)

    async def publish(self, client: Client, script: Script, rate_per_s: float) -> None:
        """Publish each event when it is due, until cancelled, without drift."""
        run, pace = self.run, Pace(rate_per_s)
        for number, step in zip(count(), script.steps()):
            run.late_s = max(run.late_s, await pace.wait(number))
            at_us = now_us()
            await client.publish(process=step.process, instance=step.instance)
            run.steps.append(step)
            run.published_us.append(at_us)


async def run_live(options: BurstOptions, network: NetworkFile, script: Script, tell: Tell) -> Run:
    """Run the whole script with the covering of `network`; end everything in order. What must be
    read from the traces afterwards: `Run.control`."""
    run = Run(network.routing["covering"])
    loop = asyncio.get_running_loop()
    async with Overlay(network, restart=False) as overlay, AsyncExitStack() as stack:
        scene = Scene(overlay, stack, run)
        publisher = await scene.client(PUBLISHER, "publisher")
        await publisher.advertise(EVERYTHING)
        await publisher.advertise(f"{END_MARK} IS NOT NULL")
        tell(f"{len(script.narrow)} subscriptions settle")
        started_s = loop.time()
        engines = await scene.settle(script)
        run.settling_s = loop.time() - started_s
        run.started = await scene.status()
        publishing = asyncio.create_task(scene.publish(publisher, script, options.rate_per_s))
        try:
            await _visits(options, scene, tell)
        finally:
            publishing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await publishing  # raises what ended it before
        await _end(publisher, engines)
        run.ended = await scene.status()
        run.ended_us = now_us()
    return run


async def _visits(options: BurstOptions, scene: Scene, tell: Tell) -> None:
    monitor = Monitor()
    client = await scene.client(MONITOR, "monitor", monitor.count)
    for number in range(1, options.visits + 1):
        await asyncio.sleep(options.stay_s)
        tell(f"visit {number} of {options.visits}")
        scene.run.visits.append(await monitor.visit(client, scene, options.stay_s))
    await asyncio.sleep(options.stay_s)


async def _end(publisher: Client, engines: list[Engines]) -> None:
    """Wait until everything published has come, which the end mark shows because this routing keeps
    the order; or give up: the verdict then says what is missing."""
    await publisher.publish({END_MARK: "all"})
    await publisher.flush()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            for each in engines:
                await each.complete.wait()


def read_control(
    trace: Path, brokers: list[str], from_us: int, until_us: int
) -> list[tuple[int, str]]:
    """Read from a trace when which broker sent another one a message of `CONTROL`, in this span of
    time (microseconds UTC)."""
    import pyarrow.parquet as pq

    chosen = [
        ("message", "in", CONTROL),
        ("link", "in", brokers),
        ("time_us", ">=", from_us),
        ("time_us", "<=", until_us),
    ]
    rows = pq.read_table(trace / "message", columns=["time_us", "broker"], filters=chosen)
    return sorted(zip(*(rows[name].to_pylist() for name in ("time_us", "broker")), strict=True))
