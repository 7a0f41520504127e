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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from reefcast.model import wire
from reefcast.model.filters import parse_filter
from reefcast.model.messages import (
    Advertise,
    Confirmed,
    Fetch,
    Fetched,
    Keep,
    Kept,
    LinkDown,
    LinkKind,
    LinkUp,
    Publish,
    Refused,
    Send,
    SetTimer,
    Subscribe,
    Timer,
)
from reefcast.model.publication import Publication, PublicationId
from reefcast.overlay.scot import Scot, scot
from reefcast.overlay.topology import edges_of, graph
from reefcast.routing.broker import Broker
from reefcast.routing.registry import routing_named
from reefcast.sessions.home import Home
from reefcast.sessions.messages import AddFilter, Done, Failed, OpenSession
from reefcast.simulation.stores import SimulatedStore

Directed = tuple[str, str]
KEEPS_ORDER = ("acyclic", "spr")


class Queues:
    """Queues of links as a broker sees them: any length, so that routings with another way take
    it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def queue_len(self, link: str) -> int:
        return self._rng.choice((0, 0, 1000))


class Link:
    """One direction between two brokers: what its sender keeps. `had`: frames that the receiver has
    taken over, of which the sender has not heard yet."""

    def __init__(self) -> None:
        self.frames: deque[Any] = deque()
        self.had: list[Any] = []

    def kept(self) -> tuple[Publish, ...]:
        return tuple(
            msgspec.structs.replace(each, again=True)
            for each in (*self.had, *self.frames)
            if isinstance(each, Publish)
        )


class Publisher:
    """A client that publishes, and sends again what is not confirmed. `made`: seq -> the sessions
    with matching subscriptions that had settled by then."""

    def __init__(self, name: str, broker: str) -> None:
        self.name, self.broker = name, broker
        self.seq = self.number = 0
        self.life = 0
        self.open: dict[int, tuple[Publication, int]] = {}
        self.made: dict[int, list[str]] = {}
        self.confirmed: set[int] = set()
        self.refused: dict[int, str] = {}
        self.advertises = ""


class Wanted:
    """A durable session: where it is, its filters, and which of them have settled."""

    def __init__(self, name: str, home: str) -> None:
        self.name, self.home = name, home
        self.asked: dict[str, int] = {}
        self.settled: set[str] = set()


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
        self.passing = 0
        self.here: dict[str, str] = {}
        self.problems: list[str] = []
        self.kills = self.lives = self.confirmations = 0
        for name in self.names:
            self.start(name)

    # --- brokers ----------------------------------------------------------------------------------

    def neighbours(self, name: str) -> list[str]:
        return sorted({b if a == name else a for a, b in self.edges if name in (a, b)})

    def start(self, name: str) -> None:
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
        for publisher in self.publishers.values():
            if publisher.broker == name:
                self.attach(publisher)
        for wanted in self.sessions.values():
            if wanted.home == name:
                self.ask_again(wanted)

    def connect(self, one: str, other: str) -> None:
        """A link begins anew: one of its ends has no memory of it."""
        kept = {
            (a, b): self.links.get((a, b), Link()).kept() for a, b in ((one, other), (other, one))
        }
        for a, b in kept:
            self.links[a, b] = Link()
        for (a, b), publications in kept.items():
            self.put(a, LinkUp(LinkKind.BROKER, publications), b)

    def kill(self, name: str) -> None:
        self.kills += 1
        del self.cores[name]
        self.written.pop(name, None)
        self.here.pop(name, None)
        self.disks[name].kill(self.rng if self.rng.random() < 0.5 else None)
        for other in self.neighbours(name):
            self.links.pop((name, other), None)

    def give_up(self, name: str) -> None:
        """The patience of a neighbour with this broker, which is down, is over."""
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
        if (name, send.link) in self.links:
            self.links[name, send.link].frames.append(send.message)
        elif send.link in self.publishers:
            self.told(self.publishers[send.link], name, send.message)
        elif send.link in self.sessions:
            self.told_session(self.sessions[send.link], send.message)

    # --- publishers -------------------------------------------------------------------------------

    def attach(self, publisher: Publisher) -> None:
        """A publisher's client begins anew at its broker; it sends again what is not confirmed."""
        self.put(publisher.broker, LinkUp(LinkKind.CLIENT), publisher.name)
        if publisher.advertises:
            self.advertise(publisher)
        for seq in sorted(publisher.open):
            publication, attempt = publisher.open[seq]
            publisher.open[seq] = (publication, attempt + 1)
            self.send(publisher, publication, attempt + 1, again=True)

    def advertise(self, publisher: Publisher) -> None:
        publisher.number += 1
        id = (publisher.name, publisher.number)
        self.put(publisher.broker, Advertise(id, publisher.advertises, 1), publisher.name)

    def move(self, publisher: Publisher, broker: str) -> None:
        """The publisher goes to another broker; the old one notices at once."""
        if publisher.broker in self.cores:
            self.put(publisher.broker, LinkDown(), publisher.name)
        publisher.broker = broker
        if broker in self.cores:
            self.attach(publisher)

    def publish(
        self, publisher: Publisher, attributes: Mapping[str, Any], *, confirm: bool
    ) -> None:
        publisher.seq += 1
        publication = Publication(publisher.name, publisher.seq, 0, dict(attributes))
        publisher.made[publisher.seq] = [
            wanted.name
            for wanted in self.sessions.values()
            if any(parse_filter(text).matches(publication) for text in wanted.settled)
        ]
        if confirm:
            publisher.open[publisher.seq] = (publication, 1)
        if publisher.broker in self.cores:
            self.send(publisher, publication, int(confirm), again=False)

    def send(self, publisher: Publisher, what: Publication, attempt: int, *, again: bool) -> None:
        body = wire.encode_publication(what)
        publish = Publish(what, body=body, again=again, confirm=attempt)
        self.put(publisher.broker, publish, publisher.name)

    def told(self, publisher: Publisher, broker: str, message: Any) -> None:
        if isinstance(message, Confirmed) and message.more:
            for each in message.each():
                self.told(publisher, broker, each)
        elif isinstance(message, Confirmed):
            if message.refused:
                publisher.refused[message.seq] = message.refused
            else:
                self.check_loss(publisher, message.seq)
            if publisher.open.pop(message.seq, None) is not None:
                self.confirmations += 1
            publisher.confirmed.add(message.seq)
        elif isinstance(message, Refused) and message.publication is not None:
            publisher.refused[message.publication[1]] = message.reason
            publisher.open.pop(message.publication[1], None)

    # --- sessions ---------------------------------------------------------------------------------

    def want(self, name: str, home: str, filter: str) -> None:
        wanted = self.sessions.setdefault(name, Wanted(name, home))
        wanted.asked[filter] = len(wanted.asked) + 2
        if wanted.home in self.cores:
            if len(wanted.asked) == 1:
                self.put(wanted.home, LinkUp(LinkKind.CLIENT), name)
            self.ask(wanted, filter)

    def ask_again(self, wanted: Wanted) -> None:
        self.put(wanted.home, LinkUp(LinkKind.CLIENT), wanted.name)
        for filter in wanted.asked.keys() - wanted.settled:
            self.ask(wanted, filter)

    def ask(self, wanted: Wanted, filter: str) -> None:
        open_session = OpenSession(token=1, session=wanted.name)
        self.put(wanted.home, open_session, wanted.name)
        token = wanted.asked[filter]
        add = AddFilter(token=token, session=wanted.name, filter=filter)
        self.put(wanted.home, add, wanted.name)

    def pass_by(self, broker: str, filter: str) -> None:
        """A client that is no session subscribes; the one before it at this broker leaves."""
        if broker in self.cores:
            self.passing += 1
            name = f"c{self.passing}"
            if before := self.here.pop(broker, ""):
                self.put(broker, LinkDown(), before)
            self.put(broker, LinkUp(LinkKind.CLIENT), name)
            self.put(broker, Subscribe((name, 1), filter, 1), name)
            self.here[broker] = name

    def told_session(self, wanted: Wanted, message: Any) -> None:
        if isinstance(message, Failed):
            self.problems.append(f"session {wanted.name}: {message.reason}")
        if isinstance(message, Done) and message.token > 1:
            wanted.settled |= {
                text for text, token in wanted.asked.items() if token == message.token
            }

    def queue(self, wanted: Wanted) -> list[PublicationId]:
        """The events that a session owes, as its home's disk has them after a power cut now."""
        contents = self.disks[wanted.home]._state.contents
        for stored in contents.sessions.values():
            if stored.record.name == wanted.name:
                return [contents.events[owed.event].id for owed in stored.owed.values()]
        return []

    # --- promises ---------------------------------------------------------------------------------

    def check_loss(self, publisher: Publisher, seq: int) -> None:
        """P1, when a confirmation arrives."""
        for name in publisher.made[seq]:
            if (publisher.name, seq) not in self.queue(self.sessions[name]):
                self.problems.append(
                    f"P1: {publisher.name}#{seq} is confirmed, and session {name} does not have it"
                )

    def check_queues(self) -> None:
        """P2 and P3, in all queues."""
        for wanted in self.sessions.values():
            queue = self.queue(wanted)
            if len(set(queue)) < len(queue):
                self.problems.append(f"P2: session {wanted.name} has events twice: {queue}")
            for publisher in self.publishers.values():
                made = publisher.made
                its = [s for name, s in queue if name == publisher.name and wanted.name in made[s]]
                late = [
                    s
                    for at, s in enumerate(its)
                    if s in publisher.confirmed and s < max(its[: at + 1])
                ]
                if self.ordered and late:
                    self.problems.append(f"P3: session {wanted.name} of {publisher.name}: {its}")

    def check_progress(self) -> None:
        """P4, when nothing is left to do."""
        for publisher in self.publishers.values():
            if publisher.open:
                where = {
                    name: core._then.confirming.waits_for() for name, core in self.cores.items()
                }
                self.problems.append(
                    f"P4: {publisher.name} waits for {sorted(publisher.open)}: {where}"
                )
        for wanted in self.sessions.values():
            if wanted.asked.keys() != wanted.settled:
                self.problems.append(f"P4: subscriptions of {wanted.name} do not settle")

    # --- steps ------------------------------------------------------------------------------------

    def steps(self) -> Iterator[tuple[str, Any]]:
        """What may happen next by itself: a frame arrives, a disk writes or reads."""
        for (one, other), link in self.links.items():
            ends = (min(one, other), max(one, other))
            if link.frames and one in self.cores and other in self.cores and ends not in self.cut:
                yield "frame", (one, other)
        for name in self.cores:
            if self.writes[name] or self.reads[name] or name in self.written:
                yield "disk", name

    def step(self, what: str, where: Any) -> None:
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
        """A disk syncs what it has written, or writes some of what it is given, or reads."""
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
        """All brokers start, all links work, and everything that is to happen does."""
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

    def judge(self) -> list[str]:
        """Return what is wrong when all has come to an end."""
        self.settle()
        self.check_queues()
        self.check_progress()
        return self.problems


class Torture:
    """A run of a network in which everything happens that may; its generator chooses."""

    def __init__(self, network: Network, publications: int) -> None:
        self.network, self.rng = network, network.rng
        self.left = publications
        self.wants = 0

    def run(self, rounds: int = 60) -> list[str]:
        """Let it happen, then let all come to an end; return what is wrong."""
        network, rng = self.network, self.rng
        for name in rng.sample(network.names, min(2, len(network.names))):
            self._new_publisher(name)
        self._want()
        if rng.random() < 0.7:
            network.settle()
        for _ in range(rounds):
            network.run(rng.choice((0, 1, 2, 5, 20)))
            self._something()
            if network.problems:
                return network.problems
        return network.judge()

    def _new_publisher(self, broker: str) -> None:
        network = self.network
        publisher = Publisher(f"p{len(network.publishers)}", broker)
        publisher.advertises = self.rng.choice(("", "x >= 0", "x >= 0 AND x < 10"))
        network.publishers[publisher.name] = publisher
        if broker in network.cores:
            network.attach(publisher)

    def _want(self) -> None:
        network, rng = self.network, self.rng
        if self.wants < 6:
            self.wants += 1
            name = f"s{rng.randrange(3)}"
            wanted = network.sessions.get(name)
            home = rng.choice(network.names) if wanted is None else wanted.home
            filter = f"x >= {rng.randrange(8)}"
            if wanted is None or filter not in wanted.asked:
                network.want(name, home, filter)

    def _something(self) -> None:
        network, rng = self.network, self.rng
        down = [name for name in network.names if name not in network.cores]
        roll = rng.random()
        if roll < 0.45 and self.left:
            publisher = rng.choice(sorted(network.publishers.values(), key=lambda p: p.name))
            for _ in range(rng.choice((1, 1, 3))):
                if publisher.broker in network.cores and self.left:
                    self.left -= 1
                    network.publish(publisher, {"x": rng.randrange(10)}, confirm=rng.random() < 0.8)
        elif roll < 0.60 and network.cores:
            network.kill(rng.choice(sorted(network.cores)))
        elif roll < 0.78 and down:
            network.start(rng.choice(down))
        elif roll < 0.84:
            edge = rng.choice(network.edges)
            network.cut ^= {(min(edge), max(edge))}
        elif roll < 0.90:
            network.pass_time(rng.choice((0.5, 3.0, 6.0, 30.0)))
        elif roll < 0.93 and down:
            network.give_up(rng.choice(down))
        elif roll < 0.95:
            self._want()
        elif roll < 0.98:
            network.pass_by(rng.choice(network.names), f"x >= {rng.randrange(8)}")
        else:
            publisher = rng.choice(sorted(network.publishers.values(), key=lambda p: p.name))
            network.move(publisher, rng.choice(network.names))


def torture(seed: int, routing: str = "acyclic") -> tuple[Network, list[str]]:
    """Run a random network under this routing."""
    rng = random.Random(seed)
    names = "abcde"[: rng.randint(2, 5)]
    edges = [(names[rng.randrange(at)], names[at]) for at in range(1, len(names))]
    product, options = None, {}
    if routing in ("spr", "idr"):
        labels = sorted({name for edge in edges[:2] for name in edge})
        product = scot(graph(labels, edges[:2]), rng.choice((1, 2, 3)))
        edges = list(edges_of(product.graph))
        options["covering"] = rng.choice(("none", "lazy", "active", "packing"))
    elif routing == "acyclic":
        options["covering"] = rng.choice(("none", "lazy", "active", "packing", "incremental"))
    network = Network(
        edges,
        seed,
        routing,
        scot=product,
        ordered=routing in KEEPS_ORDER,
        **options,
    )
    return network, Torture(network, 25).run()
