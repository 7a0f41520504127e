"""Brokers of routing `gossip`, whose connections open, close and break at random. A partition keeps
brokers apart: no connection opens between them.

Each broker has one client, with the broker's name in capitals.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

import networkx as nx

from reefcast.matching.scan import ScanIndex
from reefcast.model.messages import (
    CloseLink,
    Deliver,
    Effect,
    Input,
    LinkDown,
    LinkKind,
    LinkUp,
    OpenLink,
    Publish,
    Send,
    Subscribe,
    Timer,
)
from reefcast.model.publication import Publication, PublicationId
from reefcast.routing.broker import Broker
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.router import Gossip

DONE = None
"""On a connection: nothing more comes in this direction."""
MOST_STEPS = 400_000
Pair = frozenset[str]


class Cores:
    """The brokers and their connections. `got`: what each client got; `apart`: the pairs of brokers
    that cannot reach each other."""

    def __init__(self, names: Sequence[str], options: GossipOptions, rng: random.Random) -> None:
        self.got: Counter[tuple[str, PublicationId]] = Counter()
        self.published: dict[PublicationId, tuple[str, ...]] = {}
        self.wanted: dict[str, list[str]] = {}
        self.apart: set[Pair] = set()
        self.dialled = 0
        self._rng = rng
        self._dials: list[tuple[str, str]] = []
        self._wires: dict[tuple[str, str], deque[Input | None]] = {}
        self._done: set[tuple[str, str]] = set()
        self._over: set[tuple[str, str]] = set()
        self.brokers = {
            name: Broker(name, "gossip", new_index=ScanIndex, options=options, rng=rng)
            for name in names
        }
        for name in names:
            self._tell(name, LinkUp(LinkKind.CLIENT), name.upper())

    # --- clients ----------------------------------------------------------------------------------

    def subscribe(self, name: str, topics: list[str]) -> None:
        self.wanted[name] = topics
        listed = ", ".join(f"'{topic}'" for topic in topics)
        self._tell(name, Subscribe((name.upper(), 1), f"topic IN ({listed})", 1), name.upper())

    def publish(self, name: str, *topics: str) -> None:
        publication = Publication(name.upper(), len(self.published) + 1, 0, {}, topics, b"")
        self.published[publication.id] = topics
        self._tell(name, Publish(publication), name.upper())

    def publish_some(self, count: int, some: Sequence[str] | None = None) -> None:
        """Publish `count` events, each at a random broker of `some` (default: all) and to some of
        its own topics, with a few steps of the network after each."""
        for _ in range(count):
            name = self._rng.choice(some or list(self.brokers))
            topics = self.wanted[name]
            self.publish(name, *self._rng.sample(topics, self._rng.randint(1, len(topics))))
            self.steps(self._rng.randrange(20))

    # --- connections ------------------------------------------------------------------------------

    def divide(self, half: Collection[str], told: bool) -> None:
        """Cut the network in two: no connection opens between `half` and the rest from now on.
        `told`: brokers learn which publications were lost on the way."""
        self.apart = {
            frozenset((one, other))
            for one, other in combinations(self.brokers, 2)
            if (one in half) is not (other in half)
        }
        self.break_up(self.apart, told)

    def heal(self) -> None:
        self.apart = set()

    def break_up(self, pairs: Iterable[Pair], told: bool) -> None:
        """Break the connections of these pairs, and lose what is on them."""
        ends: list[tuple[str, str, LinkDown]] = []
        for pair in sorted(map(sorted, pairs)):
            for one, other in (pair, pair[::-1]):
                wire = self._wires.get((one, other))
                if wire is not None:
                    lost = tuple(item for item in wire if isinstance(item, Publish) and told)
                    if lost or (other, one) not in self._over:
                        ends.append((one, other, LinkDown(lost)))
            self._remove(*pair)
        self._rng.shuffle(ends)
        for one, other, down in ends:
            self._tell(one, down, other)

    def _remove(self, *pair: str) -> None:
        for ends in (pair, pair[::-1]):
            self._wires.pop(ends, None)
            self._done.discard(ends)
            self._over.discard(ends)

    @property
    def connections(self) -> list[Pair]:
        return [frozenset(ends) for ends in self._wires]

    def _tell(self, name: str, item: Input, link: str) -> None:
        broker = self.brokers[name]
        if isinstance(item, LinkDown) and link not in broker.router.soft_links and not item.lost:
            return
        self._carry_out(name, broker.handle(item, link, 0.0))

    def _carry_out(self, name: str, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                for client in effect.to:
                    self.got[client, effect.publish.publication.id] += 1
            elif isinstance(effect, OpenLink):
                self._dials.append((name, effect.to))
                self.dialled += 1
            elif isinstance(effect, Send) and (name, effect.link) in self._wires:
                if (name, effect.link) not in self._done:
                    self._wires[name, effect.link].append(effect.message)
            elif isinstance(effect, CloseLink):
                self._say_done(name, effect.link)

    def _say_done(self, one: str, other: str) -> None:
        if (one, other) not in self._done:
            self._done.add((one, other))
            self._wires[one, other].append(DONE)

    # --- what happens -----------------------------------------------------------------------------

    def steps(self, count: int) -> bool:
        """Run `count` steps; return False as soon as nothing is under way."""
        for _ in range(count):
            busy = sorted(ends for ends, wire in self._wires.items() if wire)
            choice = (
                self._rng.randrange(len(busy) + len(self._dials)) if busy or self._dials else -1
            )
            if choice < 0:
                return False
            if choice < len(busy):
                self._arrive(*busy[choice])
            else:
                self._connect(*self._dials.pop(choice - len(busy)))
        return True

    def settle(self) -> None:
        assert not self.steps(MOST_STEPS), "messages never ended"

    def rounds(self, count: int) -> None:
        for _ in range(count):
            for name in self._rng.sample(list(self.brokers), len(self.brokers)):
                self._tell(name, Timer("round"), "")
                self.steps(self._rng.randrange(60))
        self.settle()

    def _arrive(self, sender: str, to: str) -> None:
        item = self._wires[sender, to].popleft()
        if item is not DONE:
            self._tell(to, item, sender)
            return
        self._over.add((sender, to))
        self._say_done(to, sender)
        if (to, sender) in self._over:
            self._remove(sender, to)
        self._tell(to, LinkDown(), sender)

    def _connect(self, dialler: str, to: str) -> None:
        """Open a connection, unless the other side has opened it already; wait for a former one to
        end."""
        state = self.brokers[dialler].router.soft_links.get(to)
        if state is None or state.up:
            return
        if (dialler, to) in self._wires:
            self._dials.append((dialler, to))
        elif frozenset((dialler, to)) in self.apart:
            self._tell(dialler, LinkDown(), to)
        else:
            self._wires[dialler, to], self._wires[to, dialler] = deque(), deque()
            self._tell(to, LinkUp(LinkKind.SOFT), dialler)
            self._tell(dialler, LinkUp(LinkKind.SOFT), to)

    # --- what there is ----------------------------------------------------------------------------

    def router(self, name: str) -> Gossip:
        router = self.brokers[name].router
        assert isinstance(router, Gossip)
        return router

    def graph(self, topic: str) -> nx.DiGraph:
        """Return the overlay of a topic: an edge from each broker to every neighbour in its
        view."""
        graph = nx.DiGraph()
        for name in self.brokers:
            known = self.router(name).memberships.get(topic)
            if known is not None:
                graph.add_node(name)
                graph.add_edges_from((name, other) for other in known.overlay.view)
        return graph

    def missing(self) -> list[tuple[str, PublicationId]]:
        """Return the deliveries that did not come. Raises `AssertionError` for those that came
        twice or to the wrong client."""
        due = Counter(
            (name.upper(), id)
            for id, topics in self.published.items()
            for name, wanted in self.wanted.items()
            if set(topics) & set(wanted)
        )
        assert not self.got - due
        return sorted(due - self.got)
