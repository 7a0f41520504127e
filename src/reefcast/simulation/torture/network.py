"""Brokers with disks, publishers that ask for confirmation, and durable sessions, in one process:
every message, every sync and every kill is a step, and a generator chooses which comes next.

The cores are the real ones, with their `Home`; what lies between them is modelled plainly: links
keep what is not acknowledged over a cut, and begin anew when one end was killed. A disk loses at a
kill what was not synced. The promises (`delivery.md`) are checked where they can be broken: P1 when
a confirmation arrives, P2 and P3 in all queues on disk, P4 when all brokers are up and nothing is
left to do.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from reefcast.model.keeping import Contents
from reefcast.model.messages import (
    Fetch,
    Fetched,
    Keep,
    Kept,
    LinkDown,
    LinkKind,
    LinkUp,
    Publish,
    Send,
    SetTimer,
    Subscribe,
    Timer,
)
from reefcast.overlay.scot import Scot
from reefcast.routing.broker import Broker
from reefcast.routing.registry import routing_named
from reefcast.sessions.home import Home
from reefcast.simulation.stores import SimulatedStore
from reefcast.simulation.torture.clients import Client
from reefcast.simulation.torture.durable import Wanted
from reefcast.simulation.torture.links import Directed, Link, Queues
from reefcast.simulation.torture.publishers import Publisher


class Network:
    """`edges`: of the overlay; `scot`: what it is if it is one. `seed`: chooses everything;
    `ordered`: the routing keeps the order of a publisher there."""

    def __init__(
        self,
        edges: Sequence[Directed],
        seed: int,
        routing: str = "acyclic",
        *,
        scot: Scot | None = None,
        ordered: bool = True,
        **options: Any,
    ) -> None:
        self.ordered = ordered
        self.rng = random.Random(seed)
        self.routing, self.options, self.scot = routing, options, scot
        self.edges = list(edges)
        self.names = sorted({name for edge in edges for name in edge})
        self.now = 1.0
        self.disks = {name: SimulatedStore() for name in self.names}
        self.cores: dict[str, Broker] = {}
        self.links: dict[Directed, Link] = {}
        self.cut: set[Directed] = set()
        self.writes: dict[str, deque[Keep]] = {}
        self.reads: dict[str, deque[Fetch]] = {}
        self.written: dict[str, int] = {}
        self.timers: dict[str, dict[str, float]] = {}
        self.publishers: dict[str, Publisher] = {}
        self.sessions: dict[str, Wanted] = {}
        self.clients: dict[str, Client] = {}
        self.passing = 0
        self.here: dict[str, str] = {}
        self.problems: list[str] = []
        self.kills = self.lives = 0
        for name in self.names:
            self.start(name)

    @property
    def confirmations(self) -> int:
        """How many publications were confirmed, or refused by a session."""
        return sum(publisher.confirmations for publisher in self.publishers.values())

    # --- brokers ----------------------------------------------------------------------------------

    def neighbours(self, name: str) -> list[str]:
        """Return the names of a broker's neighbours."""
        return sorted({b if a == name else a for a, b in self.edges if name in (a, b)})

    def on_disk(self, name: str) -> Contents:
        """Return what a broker's disk has after a power cut now; it is not to be changed."""
        return self.disks[name].synced

    def start(self, name: str) -> None:
        """Start a broker with what is on its disk."""
        self.lives += 1
        contents = self.disks[name].load()
        kind = routing_named(self.routing)
        self.cores[name] = Broker(
            name,
            self.routing,
            neighbours=self.neighbours(name),
            rng=random.Random(f"{self.lives}"),
            queues=Queues(self.rng),
            options=kind.options(**self.options),
            scot=self.scot.neighbours(name) if self.scot else None,
            patience_s=20.0,
            home=Home(contents, now=self.now),
            rows=contents.rows,
        )
        self.writes[name], self.reads[name], self.timers[name] = deque(), deque(), {}
        for other in self.neighbours(name):
            if other in self.cores:
                self.connect(name, other)
        for client in self.clients.values():
            client.started(name)

    def connect(self, one: str, other: str) -> None:
        """Begin a link anew: one of its ends has no memory of it."""
        kept = {
            (a, b): self.links.get((a, b), Link()).kept() for a, b in ((one, other), (other, one))
        }
        for a, b in kept:
            self.links[a, b] = Link()
        for (a, b), publications in kept.items():
            self.put(a, LinkUp(LinkKind.BROKER, publications), b)

    def kill(self, name: str) -> None:
        """Kill a broker: its process dies, or the power fails."""
        self.kills += 1
        del self.cores[name]
        self.written.pop(name, None)
        self.here.pop(name, None)
        self.disks[name].kill(self.rng if self.rng.random() < 0.5 else None)
        for other in self.neighbours(name):
            self.links.pop((name, other), None)

    def give_up(self, name: str) -> None:
        """Tell a broker's neighbours that it is away for longer than their patience."""
        for other in self.neighbours(name):
            if other in self.cores and name in self.cores[other].router.brokers:
                self.links.pop((other, name), None)
                self.put(other, LinkDown(), name)

    def put(self, name: str, item: Any, link: str) -> None:
        """Hand an input to a broker, and carry its effects out."""
        core = self.cores[name]
        self.now += 1e-4
        if isinstance(item, Publish):
            effects = core.handle_publications([item], link, self.now)
        else:
            effects = core.handle(item, link, self.now)
        for effect in effects:
            if isinstance(effect, Send):
                self.carry(name, effect)
            elif isinstance(effect, Keep):
                self.writes[name].append(effect)
            elif isinstance(effect, Fetch):
                self.reads[name].append(effect)
            elif isinstance(effect, SetTimer):
                self.timers[name][effect.key] = effect.at_s

    def carry(self, name: str, send: Send) -> None:
        """Put a message on its link."""
        if (name, send.link) in self.links:
            self.links[name, send.link].frames.append(send.message)
        elif send.link in self.clients:
            self.clients[send.link].told(name, send.message)

    # --- clients ----------------------------------------------------------------------------------

    def publisher(self, name: str, broker: str, advertises: str = "") -> Publisher:
        """Add a publisher at a broker, up or not. `advertises`: nothing, if that is empty."""
        publisher = Publisher(self, self.sessions, name, broker)
        publisher.advertises = advertises
        self.clients[name] = self.publishers[name] = publisher
        if broker in self.cores:
            publisher.attach()
        return publisher

    def want(self, name: str, home: str, filter: str) -> None:
        """Add a subscription to a durable session, which is new or at this home."""
        if name not in self.sessions:
            self.clients[name] = self.sessions[name] = Wanted(self, name, home)
        self.sessions[name].want(filter)

    def pass_by(self, broker: str, filter: str) -> None:
        """Subscribe a client that is no session; the one before it at this broker leaves."""
        if broker in self.cores:
            self.passing += 1
            name = f"c{self.passing}"
            if before := self.here.pop(broker, ""):
                self.put(broker, LinkDown(), before)
            self.put(broker, LinkUp(LinkKind.CLIENT), name)
            self.put(broker, Subscribe((name, 1), filter, 1), name)
            self.here[broker] = name

    # --- steps ------------------------------------------------------------------------------------

    def steps(self) -> Iterator[tuple[str, Any]]:
        """Yield what may happen next by itself: a frame arrives, a disk writes or reads."""
        for (one, other), link in self.links.items():
            ends = (min(one, other), max(one, other))
            if link.frames and one in self.cores and other in self.cores and ends not in self.cut:
                yield "frame", (one, other)
        for name in self.cores:
            if self.writes[name] or self.reads[name] or name in self.written:
                yield "disk", name

    def step(self, what: str, where: Any) -> None:
        """Let one step happen."""
        if what == "frame":
            link = self.links[where]
            frame = link.frames.popleft()
            link.had.append(frame)
            if self.rng.random() < 0.7:
                link.had.clear()
            self.put(where[1], frame, where[0])
        else:
            self.write(where)

    def write(self, name: str) -> None:
        """Let a disk sync what it has written, or write some of what it is given, or read."""
        disk, writes = self.disks[name], self.writes[name]
        if token := self.written.pop(name, 0):
            disk.sync()
            self.put(name, Kept(token), "")
        elif writes:
            some = [writes.popleft() for _ in range(self.rng.randint(1, len(writes)))]
            disk.write([change for keep in some for change in keep.changes])
            self.written[name] = some[-1].token
        elif self.reads[name]:
            bodies = disk.bodies(self.reads[name].popleft().events)
            self.put(name, Fetched(bodies.found, bodies.missing), "")

    def pass_time(self, seconds: float) -> None:
        """Let time pass; timers come due."""
        until = self.now + seconds
        while due := [
            (at, name, key)
            for name in self.cores
            for key, at in self.timers[name].items()
            if at <= until
        ]:
            at, name, key = min(due)
            self.now = max(self.now, at)
            del self.timers[name][key]
            self.put(name, Timer(key), "")
        self.now = max(self.now, until)

    def settle(self, limit: int = 50_000) -> None:
        """Start all brokers, mend all links, and let everything happen that is to happen."""
        self.cut.clear()
        for name in self.names:
            if name not in self.cores:
                self.start(name)
        for _ in range(20):
            while enabled := list(self.steps()):
                self.step(*self.rng.choice(enabled))
                limit -= 1
                assert limit, "it does not come to an end"
            self.pass_time(5.0)

    def run(self, some: int) -> None:
        """Let some steps happen."""
        for _ in range(some):
            enabled = list(self.steps())
            if not enabled:
                return
            self.step(*self.rng.choice(enabled))
