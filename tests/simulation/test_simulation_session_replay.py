"""A durable session that begins in the past, while its home and the program that subscribes die at
random instants. In the end its queue has held each stored event that matches once, and then what
was published later; nothing is missing.

Live brokers, a live storage and live clients run in simulated time; the home loses what its disk
had not synced.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from simulation_wire_scenarios import nobody_reads_logs

from reefcast.client import history
from reefcast.client.client import Client
from reefcast.errors import DamagedError, ReefcastError, RefusedError
from reefcast.history.store import HistoryStore
from reefcast.model.filters import parse_filter
from reefcast.model.publication import PublicationId
from reefcast.model.wire import decode_publication
from reefcast.overlay.topology import path
from reefcast.simulation.faults import Crash
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.wire.faults import Sever, Wire
from reefcast.simulation.wire.machines import SimulatedMachine
from reefcast.simulation.world import Setup
from reefcast.storage_node.node import StorageNode
from reefcast_lab.torture import stores
from reefcast_lab.torture.live import DurableWorld
from reefcast_lab.torture.record import Record

EVENTS = 60
BEGINS_S = 12.0
"""When the session is subscribed; half of the events have been published by then."""
LASTS_S = 15.0
"""For how long events are published, and brokers and programs die; all are back by the end."""
ENDS_S = 90.0
"""When the run ends: longer than anybody waits for anything."""
PORTION, SYNC_S = 3, 0.1
"""The past events in one message to the home, and the seconds that its disk takes for them. They
leave many instants to die between two messages, and between the sync and the answer."""


class Run:
    """One run, which the seed determines: home - middle - last, where the publisher and the storage
    are, which do not die. `cut_short`: how often a program died or failed while it subscribed;
    `positions`: the place of each event in the queue."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.rng = rng = random.Random(f"replay/{seed}")
        self.home, middle, self.last = names = ("a", "b", "c")
        faults = [*self._crashes(self.home, 0.8), *self._crashes(middle, 0.2)]
        links = [(self.home, middle), (middle, self.last)]
        cuts = [
            Sever(links=(rng.choice(links),), at_s=BEGINS_S + rng.uniform(0, LASTS_S))
            for _ in range(rng.randint(0, 2))
        ]
        routing = rng.choice(("acyclic", "flooding"))
        setup = Setup(graph=path(names), routing=routing, seed=seed, faults=faults)
        wire = Wire(faults=cuts, client_link=LinkSpec(rng.choice((1e-4, 0.02))))
        self.world = DurableWorld(setup, wire, Record())
        self.store = HistoryStore(directory, self._damaged)
        self.filter = rng.choice(("topic = 'fx'", "topic = 'fx' AND n >= 20 AND third <> 1"))
        self.replay: datetime | bool = rng.random() < 0.7 or self._time(rng.uniform(2, BEGINS_S))
        self.unconfirmed = EVENTS
        self.done = 0
        self.cut_short = 0
        self.subscribing = False
        self.positions: dict[PublicationId, set[int]] = {}
        self.world.program("storage", self._store(), 0.1)
        self.world.program("publisher", self._publish(), 1.0)
        self._plan()

    def _damaged(self, error: DamagedError) -> None:
        raise error

    @staticmethod
    def _time(seconds: float) -> datetime:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)

    def _crashes(self, broker: str, probability: float) -> Iterator[Crash]:
        """Yield crashes of a broker, many of them while past events go into the queue."""
        at_s = BEGINS_S + self.rng.uniform(0.2, 1.5)
        while at_s < BEGINS_S + LASTS_S and self.rng.random() < probability:
            back_s = at_s + self.rng.choice((0.01, 0.2, 2.0))
            yield Crash(broker, at_s, back_s)
            at_s = back_s + self.rng.expovariate(1)

    def _plan(self) -> None:
        """Plan the lives of the program that subscribes, and of a consumer beside it. A program
        dies at any instant, and the next one begins a little later; the last one lives on."""
        at_s, rng = BEGINS_S, self.rng
        deaths = rng.choice((0, 0, 1, 2, 4))
        for life in range(deaths + 1):
            machine = self.world.program(f"c{life}", self._subscribe(f"c{life}"), at_s)
            if life < deaths:
                at_s += rng.expovariate(1)
                self.world.loop.call_at(at_s, self._kill, machine)
                at_s += rng.choice((0.0, 0.3, 3.0))
        for life in range(rng.randint(0, 2)):
            at_s = BEGINS_S + rng.uniform(0.5, LASTS_S)
            machine = self.world.program(f"t{life}", self._consume(f"t{life}"), at_s)
            self.world.loop.call_at(at_s + rng.uniform(0.1, 5), self.world.loop.kill, machine)

    def _kill(self, machine: SimulatedMachine) -> None:
        self.cut_short += self.subscribing
        self.subscribing = False
        self.world.loop.kill(machine)

    # --- programs ---------------------------------------------------------------------------------

    async def _store(self) -> None:
        client = self.world.connected("storage", self.last)
        await StorageNode(client, self.store, ("fx",), handover_s=0.5).run()

    async def _publish(self) -> None:
        client = self.world.connected("publisher", self.last)
        waits = []
        for n in range(EVENTS):
            mean_s = (BEGINS_S if 2 * n < EVENTS else LASTS_S) / (EVENTS / 2)
            await asyncio.sleep(self.rng.uniform(0, 2 * mean_s) if n else 0)
            waits.append(asyncio.create_task(self._confirm(client, n)))
        await asyncio.gather(*waits)

    async def _confirm(self, client: Client, n: int) -> None:
        await client.publish({"n": n, "third": n % 3}, topics=["fx"], confirm=True)
        self.unconfirmed -= 1

    async def _subscribe(self, name: str) -> None:
        """Open the session and subscribe it, and again if that fails."""
        client = self.world.connected(name, self.home)
        session = await client.session("s", expiry_s=0, ack_wait_s=5.0)
        while True:
            self.subscribing = True
            try:
                await session.subscribe(self.filter, replay=self.replay, handover_s=1.0)
            except ReefcastError:
                self.cut_short += 1
                await asyncio.sleep(self.rng.random())
                continue
            self.subscribing = False
            self.done += 1
            return

    async def _consume(self, name: str) -> None:
        """Take events as they come, and acknowledge most of them; none if there is no session
        yet."""
        client = self.world.connected(name, self.home)
        with suppress(RefusedError):
            async for event in client.session("s", prefetch=5):
                self.positions.setdefault(event.id, set()).add(event.position)
                if self.rng.random() < 0.7:
                    await event.ack()

    # --- what must hold ---------------------------------------------------------------------------

    def run(self) -> None:
        with closing(self.store):
            self.world.run(ENDS_S, 0, lambda now: None)
            wanted = self._wanted()
        assert self.unconfirmed == 0, "some publications were never confirmed"
        assert self.done, "the subscription never settled"
        contents = self.world.disks[self.home].load()
        [session] = contents.sessions.values()
        for position, owed in session.owed.items():
            self.positions.setdefault(contents.events[owed.event].id, set()).add(position)
        twice = {id: found for id, found in self.positions.items() if len(found) > 1}
        assert not twice, "an event is in the queue twice"
        assert self.positions.keys() == wanted

    def _wanted(self) -> set[PublicationId]:
        """Return what the session must have, from the storage, which never dies and has everything
        that was published."""
        bodies = [body for some in self.store.read(("#",), 0) for body in some]
        assert len(bodies) == EVENTS
        filter, since_us = parse_filter(self.filter), 0
        if isinstance(self.replay, datetime):
            since_us = round(self.replay.timestamp() * 1e6)
        stored = map(decode_publication, bodies)
        return {each.id for each in stored if each.time_us >= since_us and filter.matches(each)}


def run(seed: int) -> Run:
    with tempfile.TemporaryDirectory(prefix="reefcast-replay-") as directory:
        found = Run(seed, Path(directory))
        with nobody_reads_logs():
            found.run()
        return found


@pytest.fixture(autouse=True)
def small_portions_on_slow_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_DEPOSITED", PORTION)
    monkeypatch.setattr(stores, "SYNC_S", SYNC_S)


@pytest.mark.parametrize("count", [6, pytest.param(12, marks=pytest.mark.soak)])
def test_each_event_of_the_past_is_in_the_queue_once_whoever_dies(count: int) -> None:
    runs = [run(seed) for seed in range(count)]
    cut_short = sum(each.cut_short for each in runs)
    assert cut_short >= 5 * count // 12, "too few programs died while they subscribed"
    assert sum(each.world.kills for each in runs) >= 10 * count // 12, "the home died too rarely"


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_many_more_runs(block: int) -> None:
    for seed in range(100 + 60 * block, 160 + 60 * block):
        run(seed)
