"""Brokers with disks, publishers that ask for confirmation, and durable sessions, in one process:
every message, every write, every sync and every kill is a step, and a generator chooses which comes
next.

The cores are the real ones, with their `Home`; what lies between them is modelled plainly: links
keep what is not acknowledged over a cut, and begin anew when one end was killed. A disk loses at a
kill what was not written, and at a power failure what was not synced. The promises (`delivery.md`)
are checked where they can be broken: when a broker writes (`watch`), when a confirmation arrives
(`publishers`), when a consumer is handed something (`handing`), and in the end (`judging`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reefcast.model.keeping import StoredSession
from reefcast.model.messages import (
    Away,
    Back,
    CloseLink,
    Demote,
    Effect,
    Fetch,
    Keep,
    LinkDown,
    LinkKind,
    LinkUp,
    OpenLink,
    Promote,
    Publish,
    Send,
    SessionNews,
    SetTimer,
    Timer,
)
from reefcast.model.publication import PublicationId
from reefcast.overlay.scot import Scot
from reefcast.routing.broker import Broker
from reefcast.routing.custody import CustodyLimits
from reefcast.routing.gate import HOLD_TIMER
from reefcast.routing.registry import routing_named
from reefcast.simulation.signs import SoftDown, SoftUp
from reefcast_lab.torture.clients import Client
from reefcast_lab.torture.consumers import Consumer
from reefcast_lab.torture.disks import Disk
from reefcast_lab.torture.durable import Options, Wanted
from reefcast_lab.torture.having import newer_in
from reefcast_lab.torture.links import Directed, Link, Queues
from reefcast_lab.torture.lives import Life
from reefcast_lab.torture.moves import Moves
from reefcast_lab.torture.passing import Passing
from reefcast_lab.torture.publishers import Publisher
from reefcast_lab.torture.record import Record, described
from reefcast_lab.torture.soft import ANSWERS, SoftLinks
from reefcast_lab.torture.travellers import Traveller
from reefcast_lab.torture.turning_away import NotingHome, TurnedAway
from reefcast_lab.torture.watch import Watch

PATIENCE_S = 20.0
NOTES_EVERY = 8
"""With the last of so many seeds, consumers leave notes with their sessions."""
MOST_STEPS = 20_000
"""A network that takes more steps than that, or timers at once, never comes to rest."""


class NeverQuietError(Exception):
    """The network does not come to rest."""


class Network:
    """`edges`: of the overlay; `scot`: what it is if it is one. `seed`: chooses everything;
    `dedup_s`: see `Home`; `custody_bytes`: see `CustodyLimits`; `advisories`: see `Broker`.
    `text`: whether the record of the run keeps the text of the steps.

    `disturbed`: a broker was killed, or a link cut; `let_go`: publications that nobody confirms and
    that did not wait any longer for their advertisement to settle; `turned_away`: what sessions
    have refused."""

    def __init__(
        self,
        edges: Sequence[Directed],
        seed: int,
        routing: str = "acyclic",
        *,
        scot: Scot | None = None,
        dedup_s: float = 3600.0,
        custody_bytes: int = 1 << 20,
        advisories: bool = False,
        text: bool = False,
        **options: Any,
    ) -> None:
        self.rng = random.Random(seed)
        self.record = Record(text=text)
        self.routing, self.scot = routing, scot
        self.notes = seed % NOTES_EVERY == NOTES_EVERY - 1
        self._options = routing_named(routing).options(**options)
        self._dedup_s = dedup_s
        self._advisories = advisories
        self._custody = CustodyLimits(most_bytes=custody_bytes)
        self.edges = list(edges)
        self.names = sorted({name for edge in edges for name in edge})
        self.now = 1.0
        self.disks = {name: Disk() for name in self.names}
        self.watches: dict[str, Watch] = {}
        self.cores: dict[str, Broker] = {}
        self.links: dict[Directed, Link] = {}
        self.soft = SoftLinks(self, self.put)
        self.moves = Moves(self, {name: self.linked(name) for name in self.names})
        self.cut: set[Directed] = set()
        self.timers: dict[str, dict[str, float]] = {}
        self.publishers: dict[str, Publisher] = {}
        self.sessions: dict[str, Wanted] = {}
        self.all_sessions: list[Wanted] = []
        self.consumers: dict[str, Consumer] = {}
        self.travellers: dict[str, Traveller] = {}
        self.clients: dict[str, Client] = {}
        self.here: dict[str, Passing] = {}
        self.problems: list[str] = []
        self.disturbed = False
        self.let_go: set[PublicationId] = set()
        self.turned_away: TurnedAway = set()
        self.kills = self.lives = self._passing = self._said = 0
        self._lives: dict[str, tuple[Wanted, Life]] = {}
        for name in self.names:
            self.start(name)

    @property
    def ordered(self) -> bool:
        """Whether the order of a publisher is kept here: on a cycle, flooding keeps it only until a
        broker loses its memory."""
        kind = routing_named(self.routing)
        is_tree = len(self.edges) < len(self.names)
        return kind.keeps_order and (is_tree or not kind.floods or not self.kills)

    @property
    def movable(self) -> bool:
        """Whether brokers may move links."""
        return bool(getattr(self._options, "coordinator", ""))

    @property
    def confirmations(self) -> int:
        """How many publications were confirmed, or refused by a session."""
        return sum(publisher.confirmations for publisher in self.publishers.values())

    @property
    def published(self) -> int:
        """How many events were published."""
        return sum(publisher.seq for publisher in self.publishers.values())

    @property
    def handed(self) -> int:
        """How many events consumers were handed, each counted once for each session."""
        return sum(len(life.tries) for _, life in self._lives.values())

    def described(self) -> Iterator[str]:
        """Yield what network it is, in lines."""
        links = ", ".join(f"{one}-{other}" for one, other in self.edges)
        yield f"routing {self.routing}: {links}"
        yield f"options {self._options}, ids remembered for {self._dedup_s:g} s"
        yield f"custody of {self._custody.most_bytes} bytes"
        yield f"advisory events: {'yes' if self._advisories else 'no'}"

    # --- brokers ----------------------------------------------------------------------------------

    def linked(self, name: str) -> list[str]:
        """Return the names of the brokers to which a broker has a link of the overlay."""
        return sorted({b if a == name else a for a, b in self.edges if name in (a, b)})

    def start(self, name: str) -> None:
        """Start a broker with what is on its disk."""
        self.record.step(f"start {name}")
        self.lives += 1
        contents = self.disks[name].load()
        for stored in contents.sessions.values():
            if stored.record.link in self._lives:
                life = self._lives[stored.record.link][1]
                self.problems += life.restarted(stored.notes, self.now)
        self.watches[name] = Watch(self.disks[name], self)
        self.cores[name] = Broker(
            name,
            self.routing,
            neighbours=self.moves.neighbours(name),
            rng=random.Random(f"{self.lives}"),
            queues=Queues(self.rng),
            options=self._options,
            scot=self.scot.neighbours(name) if self.scot else None,
            patience_s=PATIENCE_S,
            home=NotingHome(
                contents, now=self.now, dedup_s=self._dedup_s, turned_away=self.turned_away
            ),
            rows=contents.rows,
            custody=self._custody,
            advisories=self._advisories,
        )
        self.timers[name] = {}
        if self.movable:
            self.moves.relink(name)
        for other in self.linked(name):
            if other in self.cores:
                self.connect(name, other)
        for client in list(self.clients.values()):
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
        if self._is_cut(one, other):
            self._tell_ends(one, other, Away())

    def _is_cut(self, one: str, other: str) -> bool:
        return (min(one, other), max(one, other)) in self.cut

    def _tell_ends(self, one: str, other: str, item: Away | Back) -> None:
        """Tell both ends of a link that its connection is gone, or back."""
        for a, b in ((one, other), (other, one)):
            if (a, b) in self.links and {a, b} <= self.cores.keys():
                self.put(a, item, b)

    def kill(self, name: str, *, power: bool | None = None) -> None:
        """Kill a broker: its process dies, or (`power`) what is not synced is lost; by default the
        generator chooses."""
        power = self.rng.random() < 0.5 if power is None else power
        self.record.step(f"kill {name}{', power failure' if power else ''}")
        self.kills += 1
        self.disturbed = True
        self.moves.killed(name)
        del self.cores[name]
        self.disks[name].kill(self.rng if power else None)
        for other in self.linked(name):
            self.links.pop((name, other), None)
            here = (other, name) in self.links and other in self.cores
            if here and not self._is_cut(name, other):
                self.put(other, Away(), name)
        self.soft.killed(name)
        self.moves.tell_lost()
        for client in self.clients.values():
            client.killed(name)

    def give_up(self, name: str) -> None:
        """Tell a broker's neighbours that it is away for longer than their patience."""
        self.record.step(f"give up {name}")
        for other in self.linked(name):
            if other in self.cores and name in self.cores[other].router.brokers:
                self.links.pop((other, name), None)
                self.put(other, LinkDown(), name)

    def put(self, name: str, item: Any, link: str) -> list[Effect]:
        """Hand an input to a broker, and carry its effects out; return them."""
        core = self.cores[name]
        self.now += 1e-4
        self.record.step(f"{self.now:.4f} {link or '-'} > {name}: {described(item)}")
        effects = self._handled(core, item, link)
        told = Counter[tuple[str, str]]()
        for effect in effects:
            if isinstance(effect, SessionNews):
                told[effect.kind, effect.session] += effect.count
        for effect in effects:
            if isinstance(effect, Send):
                self.carry(name, effect)
            elif isinstance(effect, Keep):
                self.problems += self.watches[name].judge(effect.changes, told, self.now)
                self.disks[name].take(effect)
            elif isinstance(effect, Fetch):
                self.disks[name].take(effect)
            elif isinstance(effect, SetTimer):
                self.timers[name][effect.key] = effect.at_s
            elif isinstance(effect, OpenLink | CloseLink):
                self.soft.carry_out(name, effect)
            elif isinstance(effect, Promote | Demote):
                self.moves.change(name, effect)
        for problem in self.problems[self._said :]:
            self.record.step(f"BROKEN {problem}")
        self._said = len(self.problems)
        self.soft.tell_refused()
        self.moves.tell_lost()
        return effects

    def _handled(self, core: Broker, item: Any, link: str) -> list[Effect]:
        if not isinstance(item, Publish):
            return core.handle(item, link, self.now)
        client = core.clients.get(link)
        if client is not None and client.unsettled and not (client.holding or item.confirm):
            self.let_go.add(item.publication.id)
        return core.handle_publications([item], link, self.now)

    def carry(self, name: str, send: Send) -> None:
        """Put a message on its link."""
        if (name, send.link) in self.links:
            self.links[name, send.link].frames.append(send.message)
        elif send.link in self.clients:
            self.clients[send.link].told(name, send.message)

    # --- clients ----------------------------------------------------------------------------------

    def publisher(self, name: str, broker: str, advertises: str = "") -> Publisher:
        """Add a publisher at a broker, up or not. `advertises`: nothing, if that is empty."""
        publisher = Publisher(self, lambda: self.all_sessions, name, broker)
        publisher.advertises = advertises
        self.clients[name] = self.publishers[name] = publisher
        if broker in self.cores:
            publisher.attach()
        return publisher

    def want(self, name: str, home: str, filter: str, options: Options | None = None) -> None:
        """Add a subscription to a durable session, which is at this home, or new there if there is
        none, or it has ended. `options`: of a new one."""
        before = self.sessions.get(name)
        if before is None or before.is_over:
            if before is not None:
                before.leave()
            wanted = Wanted(self, name, home, options)
            self.clients[name] = self.sessions[name] = wanted
            self.all_sessions.append(wanted)
        self.sessions[name].want(filter)

    def consumer(self, name: str, window: int, filter: str = "") -> Consumer:
        """Add a consumer to the session of this name."""
        number = len(self.consumers)
        consumer = Consumer(self, self.sessions[name], f"{name}/{number}", window, filter)
        self.clients[consumer.name] = self.consumers[consumer.name] = consumer
        consumer.attach()
        return consumer

    def traveller(self, name: str, entry: str, window: int, filter: str = "") -> Traveller:
        """Add a consumer to the session of this name, at any broker, up or not."""
        at = f"{name}:{len(self.travellers)}"
        traveller = Traveller(self, self.sessions[name], at, entry, window, filter)
        self.clients[at] = self.travellers[at] = traveller
        return traveller

    def pass_by(self, broker: str, filter: str) -> None:
        """Subscribe a client that is no session; the one before it at this broker leaves."""
        if broker in self.cores:
            self._passing += 1
            if before := self.here.pop(broker, None):
                before.leave()
            passing = Passing(self, f"c{self._passing}", broker, filter)
            self.clients[passing.name] = self.here[broker] = passing
            passing.subscribe()

    # --- what the judge of a disk asks ------------------------------------------------------------

    def life_of(self, stored: StoredSession) -> Life:
        """Return the life of a session that is stored so."""
        link = stored.record.link
        if link not in self._lives:
            wanted = self.sessions[stored.record.name]
            wanted.life = Life(link, stored.record.options, self.now)
            self._lives[link] = (wanted, wanted.life)
        return self._lives[link][1]

    def arrives(self, life: Life, id: PublicationId, had: Iterable[PublicationId]) -> Iterator[str]:
        """Check P3 for an event that enters a queue by a subscription that had settled before."""
        its = self.publishers[id[0]]
        if self.ordered and its.is_sure_of(id[1]) and (life.link, id) not in self.turned_away:
            yield from newer_in(had, id, self._lives[life.link][0], its.made)

    def may_end(self, life: Life) -> bool:
        """Return whether a session may end: its owner wants that, or it was alone for too long."""
        wanted = self._lives[life.link][0]
        alone_s = 0.0 if life.alone_since_s is None else self.now - life.alone_since_s
        expired = 0 < life.options.expiry_s <= alone_s
        is_to_end = wanted.ended or expired
        if expired:
            wanted.expire()
        return is_to_end

    # --- steps ------------------------------------------------------------------------------------

    def steps(self) -> Iterator[tuple[str, Any]]:
        """Yield what may happen next by itself: a frame arrives, a disk writes, syncs or reads, a
        greedy consumer acknowledges, a traveller speaks."""
        for (one, other), link in self.links.items():
            up = one in self.cores and other in self.cores and (other, one) in self.links
            if link.frames and up and not self._is_cut(one, other):
                yield "frame", (one, other)
        for name in self.cores:
            if self.disks[name].busy:
                yield "disk", name
        for consumer in self.consumers.values():
            if consumer.greedy and consumer.has:
                yield "consumer", consumer
        for traveller in self.travellers.values():
            if traveller.may_act:
                yield "traveller", traveller

    def step(self, what: str, where: Any) -> None:
        """Let one step happen."""
        if what == "frame":
            link = self.links[where]
            frame = link.frames.popleft()
            link.had.append(frame)
            if self.rng.random() < 0.7:
                link.had.clear()
            if isinstance(frame, SoftUp | SoftDown):
                self.soft.came(frame, where[1])
            elif isinstance(frame, ANSWERS) and self.soft.is_over(*where):
                self.record.step(f"{where} is over: nobody waits for {described(frame)}")
            else:
                self.put(where[1], frame, where[0])
        elif what == "disk":
            report = self.disks[where].step(self.rng)
            self.record.step(f"disk of {where} {self.disks[where].did}")
            if report is not None:
                self.put(where, report, "")
        else:
            where.step()

    def pass_time(self, seconds: float) -> None:
        """Let time pass; timers come due."""
        until, timers = self.now + seconds, 0
        while due := [
            (at, name, key)
            for name in self.cores
            for key, at in self.timers[name].items()
            if at <= until
        ]:
            at, name, key = min(due)
            timers += 1
            if timers > MOST_STEPS:
                raise NeverQuietError(f"P4: timer {key!r} of {name} comes again and again")
            self.now = max(self.now, at)
            del self.timers[name][key]
            if key.startswith(HOLD_TIMER):
                self._lets_go(name, key.removeprefix(HOLD_TIMER))
            self.put(name, Timer(key), "")
        self.now = max(self.now, until)
        for traveller in self.travellers.values():
            traveller.pause_is_over()
        for wanted in self.sessions.values():
            wanted.pause_is_over()

    def _lets_go(self, name: str, client: str) -> None:
        """Note what a broker may send before its publisher's advertisement has settled."""
        state = self.cores[name].clients.get(client)
        if state is not None and state.holding:
            self.let_go.update(each.publication.id for each in state.held if not each.confirm)

    def break_link(self, edge: Directed) -> None:
        """Let nothing pass between the two ends of a link, until it is repaired."""
        self.record.step(f"cut {edge}")
        self.disturbed = True
        self.cut.add(edge)
        self._tell_ends(*edge, Away())

    def part(self, edge: Directed, ends: Iterable[str]) -> None:
        """Have these ends of a link that is cut give the other one up: it begins anew then."""
        for name in ends:
            other = edge[0] if name == edge[1] else edge[1]
            if edge not in self.cut or self.moves.part(edge):
                return
            if name in self.cores and self.links.pop((name, other), None) is not None:
                self.put(name, LinkDown(), other)

    def repair(self, edge: Directed) -> None:
        """Let a link work again that was cut; if an end has given it up, it begins anew."""
        if edge not in self.cut:  # it has left the overlay since
            return
        self.record.step(f"repair {edge}")
        self.cut.discard(edge)
        one, other = edge
        if {one, other} <= self.cores.keys():
            if {edge, (other, one)} <= self.links.keys():
                self._tell_ends(one, other, Back())
            else:
                self.connect(one, other)

    def settle(self, limit: int = MOST_STEPS) -> None:
        """Start all brokers, repair all links and disks, and let everything happen that is to
        happen. Raises `NeverQuietError`."""
        for edge in sorted(self.cut):
            self.repair(edge)
        for name in self.names:
            self.disks[name].fails = False
            if name not in self.cores:
                self.start(name)
        for _ in range(20):
            while enabled := list(self.steps()):
                self.step(*self.rng.choice(enabled))
                limit -= 1
                if not limit:
                    raise NeverQuietError("P4: the network does not come to rest")
            self.pass_time(5.0)

    def run(self, some: int) -> None:
        """Let some steps happen."""
        for _ in range(some):
            enabled = list(self.steps())
            if not enabled:
                return
            self.step(*self.rng.choice(enabled))
