"""Whole live nodes and clients under torture: `server.node.Node` with a disk that loses what is not
synced, and `client.Client` with durable sessions and confirmed publications, in simulated time and
on connections that break at any byte.

A run is shorter than one of bare cores, and has fewer kinds of faults; it tries what lies between
the cores: links, the keeper, the client library."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Iterator
from typing import Any

from reefcast.client.address import Address
from reefcast.client.client import Client
from reefcast.client.durable import DurableSession
from reefcast.client.settings import complete
from reefcast.errors import RefusedError
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication, PublicationId, Value
from reefcast.network.file import NetworkFile
from reefcast.network.sections import LimitsSection
from reefcast.overlay.topology import edges_of, graph
from reefcast.protocol.client_ids import Identity
from reefcast.routing.relaying import CANNOT_BE_ASKED
from reefcast.server.keeper import Keeping
from reefcast.simulation.faults import Crash, fault_text
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.wire.brokers import Observer, WireBroker
from reefcast.simulation.wire.faults import Pieces, Sever, Vanish, Wire, WireFault
from reefcast.simulation.wire.loop import SimulatedLoop
from reefcast.simulation.wire.machines import SimulatedMachine
from reefcast.simulation.wire.world import WireWorld
from reefcast.simulation.world import Setup
from reefcast_lab.torture.disks import Disk
from reefcast_lab.torture.having import is_in_custody
from reefcast_lab.torture.record import Record, described
from reefcast_lab.torture.run import overlay_of
from reefcast_lab.torture.stores import SimulatedKeeper

FAULTS_S = 20.0
"""How long publishers go on, and faults happen."""
ENDS_S = 200.0
"""By when all is to have come to rest: longer than anybody waits for anything."""
FOR_EVER_S = 1e6
PUBLICATIONS = 12


class DurableBroker(WireBroker):
    """A live broker with a disk, which outlives it. `kills`: how often it was killed."""

    def __init__(
        self,
        disk: Disk,
        rng: random.Random,
        name: str,
        network: NetworkFile,
        seed: str,
        loop: SimulatedLoop,
        observer: Observer,
    ) -> None:
        super().__init__(name, network, seed, loop, observer)
        self.disk = disk
        self.kills = 0
        self._rng = rng

    def new_keeper(self) -> Keeping:
        """Return a keeper on this broker's disk."""
        return SimulatedKeeper(self.disk, random.Random(self._rng.random()))

    def kill(self, *, for_good: bool = False) -> None:
        """Kill the broker; its process dies, or the power fails."""
        if self.up:
            self.kills += 1
            self.disk.kill(self._rng if self._rng.random() < 0.5 else None)
        super().kill(for_good=for_good)


class DurableWorld(WireWorld):
    """Live brokers with disks. `disks`: by broker; `steps`: every message between brokers."""

    def __init__(self, setup: Setup, wire: Wire, record: Record) -> None:
        self.disks = {name: Disk() for name in setup.graph}
        self.steps = record
        super().__init__(setup, wire)

    def _make_broker(self, name: str) -> WireBroker:
        seed = str(self.setup.seed)
        rng = random.Random(f"{seed}/disk/{name}")
        return DurableBroker(self.disks[name], rng, name, self._network, seed, self.loop, self)

    def sent(self, link: str, message: Any) -> None:
        self.steps.step(f"{self.loop.time():.6f} to {link}: {described(message)}")

    @property
    def kills(self) -> int:
        """How often brokers were killed."""
        brokers = self.nodes.values()
        return sum(each.kills for each in brokers if isinstance(each, DurableBroker))

    def program(self, name: str, work: Coroutine[Any, Any, None], at_s: float) -> SimulatedMachine:
        """Run a program from this time on, on a machine of its own, which is returned."""
        machine = SimulatedMachine(name, f"{self.setup.seed}/{name}", self.loop)
        self.loop.call_at(at_s, machine.context.run, self._begin_program, work)
        return machine

    def _begin_program(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.create_task(work).add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            message = f"a program failed: {error!r}"
            self._failed(self.loop, {"message": message, "exception": error})

    def connected(self, name: str, broker: str) -> Client:
        """Return a client that never gives up; to be called by a program."""
        settings = complete(
            {
                "connect_timeout_s": FOR_EVER_S,
                "reconnect_timeout_s": FOR_EVER_S,
                "silence_s": self.wire.silence_s,
            }
        )
        return Client([Address(*self._network.address(broker))], settings, Identity(name))


class LiveTorture:
    """One run, of which everything follows from the seed. `settled`: session -> its subscription,
    once it has settled; `got`: session -> the events that its consumer got."""

    def __init__(self, seed: int, routing: str, *, text: bool = False) -> None:
        self.routing = routing
        self.record = Record(text=text)
        self.problems: list[str] = []
        self.confirmed: dict[PublicationId, list[str]] = {}
        self.published = self.refused = 0
        self.homes: dict[str, str] = {}
        self.settled: dict[str, str] = {}
        self.got: dict[str, dict[PublicationId, int]] = {}
        self._rng = rng = random.Random(f"live/{seed}")
        edges, product = overlay_of(rng, routing, most=4)
        names = sorted({name for edge in edges for name in edge})
        network = product.graph if product else graph(names, edges)
        faults = self._crashes(names)
        setup = Setup(graph=network, routing=routing, seed=seed, scot=product, faults=faults)
        wire = Wire(
            faults=self._breaks(list(edges_of(network))),
            client_link=LinkSpec(rng.choice((1e-4, 0.02))),
            limits=LimitsSection(silence_s=rng.choice((1.0, 5.0))),
        )
        self.world = DurableWorld(setup, wire, self.record)
        for number in range(rng.randint(1, 3)):
            self._add_session(f"s{number}", rng.choice(names))
        for number in range(2):
            self.world.program(f"p{number}", self._publish(number, rng.choice(names)), 1.0)

    # --- what happens -----------------------------------------------------------------------------

    def _crashes(self, names: list[str]) -> list[Crash]:
        """Return crashes of brokers, each down for a while and up again before it crashes anew."""
        crashes = []
        for name in names:
            at_s = self._rng.uniform(0.5, FAULTS_S)
            while at_s < FAULTS_S and self._rng.random() < 0.7:
                back_s = at_s + self._rng.choice((0.01, 0.5, 3.0, 8.0))
                crashes.append(Crash(name, at_s, back_s))
                at_s = back_s + self._rng.uniform(0.01, 8.0)
        return crashes

    def _breaks(self, edges: list[tuple[str, str]]) -> list[WireFault]:
        rng = self._rng
        faults: list[WireFault] = []
        for _ in range(rng.randint(0, 8)):
            at_s, links = rng.uniform(0.5, FAULTS_S), rng.choice(((), (rng.choice(edges),)))
            if rng.random() < 0.8:
                end = rng.choice(links[0]) if links else ""
                after = rng.randint(1, 400) if end else 0
                faults.append(Sever(links=links, at_s=at_s, after_bytes=after, at=end))
            else:
                faults.append(Vanish(links=links, at_s=at_s))
        if rng.random() < 0.3:
            faults.append(Pieces(links=(rng.choice(edges),), most=rng.choice((1, 7))))
        return faults

    def _add_session(self, name: str, home: str) -> None:
        rng = random.Random(self._rng.random())
        self.homes[name], self.got[name] = home, {}
        filter = f"x >= {rng.randrange(8)}"
        self.world.program(name, self._consume(name, home, filter, rng), rng.choice((0.2, 4.0)))

    async def _publish(self, number: int, broker: str) -> None:
        rng = random.Random(self._rng.random())
        client = self.world.connected(f"p{number}", broker)
        waiting = []
        for _ in range(PUBLICATIONS):
            await asyncio.sleep(rng.expovariate(PUBLICATIONS / FAULTS_S))
            attributes: dict[str, Value] = {"x": rng.randrange(10)}
            matched = [
                name
                for name, text in self.settled.items()
                if parse_filter(text).matches(Publication("", 1, 0, attributes))
            ]
            waiting.append(asyncio.create_task(self._confirm(client, attributes, matched)))
            self.published += 1
        await asyncio.gather(*waiting)

    async def _confirm(self, client: Client, attributes: dict[str, Value], to: list[str]) -> None:
        try:
            id = await client.publish(attributes, confirm=True)
        except RefusedError as error:
            self.problems.append(f"P4: a publication was refused: {error}")
            return
        self.record.step(f"{self.world.loop.time():.6f} {id} is confirmed")
        self.confirmed[id] = to
        self.problems += self._missing(id)

    async def _consume(self, name: str, home: str, filter: str, rng: random.Random) -> None:
        client = self.world.connected(f"{name}-owner", home)
        session = await client.session(name, ack_wait_s=5.0, expiry_s=0, here=True)
        await session.subscribe(filter)
        self.settled[name] = filter
        if rng.random() < 0.5:
            brokers = sorted(self.world.disks)
            client = self.world.connected(f"{name}-consumer", rng.choice(brokers))
            session = client.session(name)
        while True:
            try:
                return await self._take(session, rng)
            except RefusedError as error:
                if CANNOT_BE_ASKED not in str(error):
                    raise
                await session.detach()
                await asyncio.sleep(1.0)

    async def _take(self, session: DurableSession, rng: random.Random) -> None:
        async for event in session:
            self._check_event(session.name, event.id, event.deliveries)
            roll = rng.random()
            if roll < 0.6:
                await event.ack()
            elif roll < 0.8:
                await event.reject(delay_s=rng.choice((0.0, 1.0)))
            elif roll < 0.9:
                await session.ack_up_to(event)

    # --- what must hold ---------------------------------------------------------------------------

    def _check_event(self, name: str, id: PublicationId, deliveries: int) -> None:
        self.record.step(
            f"{self.world.loop.time():.6f} {name} gets {id} for the {deliveries}. time"
        )
        if deliveries <= self.got[name].get(id, 0):
            self.problems.append(f"P2: session {name} had {id} for the {deliveries}. time before")
        self.got[name][id] = deliveries

    def _missing(self, id: PublicationId) -> Iterator[str]:
        if is_in_custody(self.world.disks.values(), self.routing, id):
            return
        for name in self.confirmed[id]:
            disk = self.world.disks[self.homes[name]]
            links = [
                each.record.link
                for each in disk.synced.sessions.values()
                if each.record.name == name
            ]
            if not any(id in disk.had.get(link, {}) for link in links):
                yield f"P1: {id} is confirmed, and session {name} does not have it"

    def run(self) -> list[str]:
        """Run it, and return what was wrong."""
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)  # connections break all the time here
        try:
            self.world.run(ENDS_S, 0, lambda now: None)
            self.problems += self._judge()
        except Exception as error:
            self.problems.append(f"crash: {type(error).__name__}: {error}")
        finally:
            logging.disable(before)
        return self.problems

    @property
    def handed(self) -> int:
        """How many events consumers got, each counted once for each session."""
        return sum(map(len, self.got.values()))

    def described(self) -> Iterator[str]:
        """Yield what network it is, in lines."""
        links = ", ".join(f"{one}-{other}" for one, other in edges_of(self.world.setup.graph))
        yield f"live brokers, routing {self.routing}: {links}"
        yield from (fault_text(fault) for fault in self.world.setup.faults)
        yield from (repr(fault) for fault in self.world.wire.faults)

    def _judge(self) -> Iterator[str]:
        if len(self.confirmed) < self.published:
            yield f"P4: {self.published - len(self.confirmed)} publications are not confirmed"
        if missing := self.homes.keys() - self.settled.keys():
            yield f"P4: the subscriptions of {sorted(missing)} have not settled"
        for id, names in self.confirmed.items():
            yield from self._missing(id)
            for name in names:
                if id not in self.got[name]:
                    yield f"P4: nobody got {id} of session {name}"
        for name, broker in self.homes.items():
            sessions = self.world.disks[broker].synced.sessions.values()
            left = [each for each in sessions if each.record.name == name and each.owed]
            if left:
                yield f"P4: session {name} still owes {len(left[0].owed)} events"
