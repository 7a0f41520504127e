"""Each fault as a script: what is done to a network while events are published.

A script returns when the fault is over; it does not wait for the network to recover.
`Stage.may_lose` says what a fault may cost. Times are those of the long runs; `Stage.scale`
shortens them. `"kill+churn"` names several faults that happen together.
"""

from __future__ import annotations

import asyncio
import random
import resource
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import permutations
from typing import NamedTuple

from .ledger import Excuse, Ledger
from .network import Broken, LiveNetwork, eventually
from .proxy import Proxy
from .workload import AT_ONCE, Churner, Subscriber, Workload

BEFORE_DEATH_S, LONGEST_BEFORE_S = 1.0, 5.0
"""How old an event may be that a killed broker had in its memory only. Where events take long it
may be older, but never older than the second value."""
HEARS_S = 0.1
"""The time from the decision to kill a broker to its death."""
NOTICED = "noticed after s"
AS_WRITTEN_S = 0.3
"""The time that a file which was written needs to get its name."""
MOST_LOST = 300
"""How many different events may be lost with a broker: those of a second."""


class Stage:
    """The network and workload that scripts play on. `victims`: brokers whose clients may lose
    their connection. `facts`: what was observed, by name, in seconds."""

    def __init__(
        self,
        network: LiveNetwork,
        workload: Workload,
        rng: random.Random,
        *,
        scale: float,
        within_s: float,
    ) -> None:
        self.network, self.workload, self.rng = network, workload, rng
        self.ledger: Ledger = workload.ledger
        self.scale, self.within_s = scale, within_s
        self.clock = workload.clock
        self.excuses: list[Excuse] = []
        self.victims: set[str] = set()
        self._taken: set[str] = set()
        self.facts: dict[str, float] = {}

    def seeded(self) -> random.Random:
        """Return a generator for whoever draws in its own time."""
        return random.Random(self.rng.random())

    # --- time -------------------------------------------------------------------------------------

    async def last(self, long_s: float) -> None:
        """Let the fault last for a time, and until some more events have been published."""
        wanted = self.ledger.count + 30
        await asyncio.sleep(long_s * self.scale)
        if self.workload.may_publish.is_set():
            await eventually(lambda: self.ledger.count >= wanted, 5.0)

    # --- who --------------------------------------------------------------------------------------

    def victim(self) -> str:
        """Return an inner broker that has no other fault."""
        return self._take(self._inner() or [(name,) for name in self._free()])[0]

    def two_victims(self) -> tuple[str, str]:
        """Return two such brokers that are neighbours; any two if there are none."""
        inner = {name for (name,) in self._inner()}
        links = [(a, b) for a in inner for b in self.network.graph[a] if b in inner]
        one, other = self._take(sorted(links) or list(permutations(self._free(), 2)))
        return one, other

    def _inner(self) -> list[tuple[str, ...]]:
        graph = self.network.graph
        return [(name,) for name in self._free() if len(graph[name]) > 1]

    def _free(self) -> list[str]:
        return [name for name in self.network.names if name not in self._taken]

    def _take(self, choices: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        chosen = self.rng.choice(choices)
        self._taken.update(chosen)
        return chosen

    def halves(self) -> tuple[list[str], list[str]]:
        """Return the brokers nearer to one end of an inner link, and the others."""
        names, graph = self.network.names, self.network.graph
        links = [(a, b) for a in names for b in graph[a] if len(graph[a]) > 1 and len(graph[b]) > 1]
        if not links:
            mixed = self.rng.sample(names, len(names))
            return mixed[: len(names) // 2], mixed[len(names) // 2 :]
        one, other = self.rng.choice(links)
        side = {one: True, other: False}
        ring = [one, other]
        while ring:
            new = {b: side[a] for a in ring for b in graph[a] if b not in side}
            side |= new
            ring = list(new)
        return [n for n in names if side[n]], [n for n in names if not side[n]]

    # --- what it may cost -------------------------------------------------------------------------

    def may_lose(self, name: str) -> None:
        """Excuse what may be lost with broker `name`, which is being killed, or told to stop. What
        it has in its memory only may be lost. On a slow machine, events are there for longer, and
        the broker dies later."""
        self.victims.add(name)
        now_s = self.clock()
        took_s = self.ledger.longest_since(now_s - 5.0)
        before_s = min(max(BEFORE_DEATH_S, 2 * took_s), LONGEST_BEFORE_S)
        hears_s = now_s + max(HEARS_S, took_s)
        self.excuses.append(Excuse(now_s - before_s, hears_s, MOST_LOST))


Script = Callable[[Stage], Awaitable[None]]


class Fault(NamedTuple):
    """A fault. `says`: its description on the page."""

    name: str
    says: str
    play: Script


FAULTS: dict[str, Fault] = {}


def fault(name: str, says: str) -> Callable[[Script], Script]:
    def add(play: Script) -> Script:
        FAULTS[name] = Fault(name, says, play)
        return play

    return add


async def play(name: str, stage: Stage) -> None:
    """Play one fault, or several together; an error of one is raised when all are over."""
    scripts = [FAULTS[part].play(stage) for part in name.split("+")]
    ended = await asyncio.gather(*scripts, return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException):
            raise error


# --- links ----------------------------------------------------------------------------------------


@fault("none", "nothing, for comparison")
async def none(stage: Stage) -> None:
    await stage.last(5)


@fault("partition", "nothing passes between two halves for 30 s, without a word")
async def partition(stage: Stage) -> None:
    await _parted(stage, _hang, 30)


@fault("partition-reset", "connections between two halves are reset, and refused for 10 s")
async def partition_reset(stage: Stage) -> None:
    await _parted(stage, _refuse, 10)


async def _parted(stage: Stage, part: Callable[[Proxy, bool], None], long_s: float) -> None:
    between = stage.network.between(*stage.halves())
    began_s = stage.clock()
    for proxy in between:
        part(proxy, True)
    try:
        await stage.last(long_s)
    finally:
        for proxy in between:
            part(proxy, False)
    _gossip_keeps(stage, began_s)


def _gossip_keeps(stage: Stage, began_s: float) -> None:
    """Excuse events older than gossip keeps: within 5 s after both halves have found each other, it
    brings what they still have."""
    routing = stage.network.file.routing
    if "kept_rounds" in routing:
        kept_s = routing["kept_rounds"] * routing["round_s"] - 5.0
        stage.excuses.append(Excuse(began_s - 1.0, stage.clock() - kept_s))


def _hang(proxy: Proxy, held: bool) -> None:
    proxy.hang(held)


def _refuse(proxy: Proxy, held: bool) -> None:
    proxy.refuses = held
    if held:
        proxy.reset()


@fault("reset", "all links are reset at once, three times")
async def reset(stage: Stage) -> None:
    for _ in range(3):
        for proxy in stage.network.carrying:
            proxy.reset()
        await stage.last(2)


@fault("cut", "connections end at any byte of a frame, forty times")
async def cut(stage: Stage) -> None:
    count = max(6, round(40 * stage.scale))
    for _ in range(count):
        await eventually(lambda: stage.network.carrying, stage.within_s)
        proxy = stage.rng.choice(stage.network.carrying)
        before = proxy.cuts
        proxy.cut_after(stage.rng.randrange(1, 2000), forward=stage.rng.random() < 0.5)
        await eventually(lambda p=proxy, b=before: p.cuts > b or not p.pairs, 1.0)
        await eventually(lambda p=proxy: p.pairs, 1.0)


@fault("half-close", "one end of each link hears that the other one has done")
async def half_close(stage: Stage) -> None:
    for proxy in stage.network.carrying:
        proxy.half_close(forward=stage.rng.random() < 0.5)
        await asyncio.sleep(0.1 * stage.scale)
    await stage.last(3)


@fault("delay", "every link takes 200 ms for 10 s")
async def delay(stage: Stage) -> None:
    proxies = stage.network.proxies.values()
    for proxy in proxies:
        proxy.delay_s = 0.2
    await stage.last(10)
    for proxy in proxies:
        proxy.delay_s = 0.0


# --- clients --------------------------------------------------------------------------------------


@fault("churn", "200 subscriptions a second come and go for 10 s")
async def churn(stage: Stage) -> None:
    brokers = stage.rng.sample(stage.network.names, 2)
    churners = [Churner(stage.workload, name, stage.seeded()) for name in brokers]
    tasks = [
        asyncio.create_task(each.run(100.0, stage.network.url(name)))
        for each, name in zip(churners, brokers, strict=True)
    ]
    await stage.last(10)
    await eventually(lambda: all(each.made >= AT_ONCE for each in churners), stage.within_s)
    for task in tasks:
        task.cancel()
    stage.facts["subscriptions"] = sum(each.made for each in churners)
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(ended, asyncio.CancelledError):
            raise Broken(f"a client whose subscriptions come and go ended: {ended!r}")


@fault("replace", "filters of a third of the subscribers are replaced in place, again and again")
async def replace(stage: Stage) -> None:
    over = asyncio.Event()
    rng = stage.seeded()

    async def go_on(subscriber: Subscriber) -> None:
        while not over.is_set():
            await subscriber.replace(stage.workload.draw_filter(rng))
            await asyncio.sleep(0.1)

    tasks = [asyncio.create_task(go_on(each)) for each in stage.workload.subscribers[::3]]
    await stage.last(10)
    over.set()
    done, late = await asyncio.wait(tasks, timeout=stage.within_s)
    for task in late:
        task.cancel()
    for task in done:
        task.result()
    if late:
        raise Broken(f"{len(late)} replacements of filters never settled")


@fault("slow", "a third of the subscribers read nothing for 10 s")
async def slow(stage: Stage) -> None:
    chosen = stage.workload.subscribers[::3]
    for each in chosen:
        each.sleep()
    await stage.last(10)
    for each in chosen:
        each.wake()


# --- brokers --------------------------------------------------------------------------------------


@fault("kill", "an inner broker is killed (`kill -9`), and started again by its supervisor")
async def kill(stage: Stage) -> None:
    await _kill(stage, (stage.victim(),))


@fault("kill-two", "two adjacent brokers are killed")
async def kill_two(stage: Stage) -> None:
    await _kill(stage, stage.two_victims())


async def _kill(stage: Stage, names: tuple[str, ...]) -> None:
    network = stage.network
    pids = {name: network.pid(name) for name in names}
    for name in names:
        stage.may_lose(name)
    await asyncio.gather(*(network.kill(name) for name in names))
    await network.back(pids, stage.within_s)
    await stage.last(2)


@fault("stop", "an inner broker is told to stop (SIGTERM), and started again")
async def stop(stage: Stage) -> None:
    await _restart(stage, (stage.victim(),))


@fault("stop-two", "two adjacent brokers are told to stop, and started again")
async def stop_two(stage: Stage) -> None:
    """Stop two brokers. What one holds for the other, before it learns that it must stop itself, is
    lost."""
    names = stage.two_victims()
    for name in names:
        stage.may_lose(name)
    await _restart(stage, names)


async def _restart(stage: Stage, names: tuple[str, ...]) -> None:
    stage.victims.update(names)
    restarting = (stage.network.restart(name, stage.within_s) for name in names)
    await asyncio.gather(*restarting)
    await stage.last(2)


@fault("freeze", "an inner broker stands still (SIGSTOP) for 25 s")
async def freeze(stage: Stage) -> None:
    name = stage.victim()
    stage.victims.add(name)
    began_s = stage.clock()
    stage.network.stand_still(name)
    try:
        noticing = asyncio.create_task(_noticed(stage, name))
        await stage.last(25)
        await asyncio.wait((noticing,), timeout=stage.within_s)
    finally:
        noticing.cancel()
        stage.network.go_on(name)
    _gossip_keeps(stage, began_s)
    if noticing.cancelled() or not noticing.done():
        raise Broken(f"nobody noticed that broker {name} stands still")
    stage.facts[NOTICED] = noticing.result() - began_s


async def _noticed(stage: Stage, name: str) -> float:
    """Return when no neighbour of the broker has its link to it up any more."""
    while True:
        states = await stage.network.link_states(name)
        if not any("up" in of for of in states.values()):
            return stage.clock()
        await asyncio.sleep(0.1)


# --- what is scarce -------------------------------------------------------------------------------


@fault("descriptors", "an inner broker may open 64 files, and a hundred connect to it")
async def descriptors(stage: Stage) -> None:
    network, name = stage.network, stage.victim()
    before = network.limit(name, resource.RLIMIT_NOFILE, 64)
    with ExitStack() as stack:
        for _ in range(100):
            idle = stack.enter_context(socket.socket())
            idle.setblocking(False)
            with suppress(BlockingIOError):
                idle.connect(network.file.address(name))
        full = await eventually(lambda: network.open_files(name) >= 64, stage.within_s)
        await stage.last(5)
    network.limit(name, resource.RLIMIT_NOFILE, before)
    if not full:
        raise Broken(f"broker {name} had descriptors left")


@fault("disk", "no broker can write to its disk for 5 s")
async def disk(stage: Stage) -> None:
    """Fill the disk. Brokers that trace write a file each second: now none of them does, and later
    they do again."""
    network = stage.network
    pids = {name: network.pid(name) for name in network.names}
    before: dict[str, int] = {}
    for name in network.names:
        with suppress(ProcessLookupError):  # another fault has killed it
            before[name] = network.limit(name, resource.RLIMIT_FSIZE, 0)
    await asyncio.sleep(AS_WRITTEN_S)
    written = {name: network.traces(name) for name in before}
    await stage.last(5)
    await asyncio.sleep(3 * network.file.trace.flush_s)
    same = [name for name in before if network.pid(name) == pids[name]]
    wrote = [name for name in same if network.traces(name) != written[name]]
    for name in same:
        with suppress(ProcessLookupError):
            network.limit(name, resource.RLIMIT_FSIZE, before[name])
    if wrote:
        raise Broken(f"the disk was not full for {', '.join(wrote)}")

    def again() -> bool:
        return any(network.traces(name) != written[name] for name in same)

    if not await eventually(again, stage.within_s):
        raise Broken("no broker writes its trace any more")
