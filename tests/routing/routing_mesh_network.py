"""A brute-force mesh: whole networks in memory, with links and strategies that change at random all
the time.

It knows the whole primary tree, and asks the algorithms under test only for anchors, maps and
paths. Filters are sets of topics: one covers another if it contains it.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from reefcast.overlay.topology import Graph, graph, hops_from, random_tree
from reefcast.routing.mesh.anchors import towards
from reefcast.routing.mesh.maps import Neighbourhood, Wom
from reefcast.routing.mesh.strategies import Paths, StrategyName, goes_direct

STRATEGIES: tuple[StrategyName, ...] = ("S0", "S1", "S2", "SH")
Topics = frozenset[int]


def tree_of(edges: str) -> Graph:
    """Return the graph of `"A-B B-C"`."""
    pairs = [(a, b) for a, b in (edge.split("-") for edge in edges.split())]
    return graph(sorted({node for pair in pairs for node in pair}), pairs)


def some_tree(rng: random.Random, most: int = 20) -> Graph:
    """Return a random tree of 1 to `most` brokers; one in three is long and thin, longer than
    Delta."""
    names = [f"b{i:02}" for i in range(rng.randint(1, most))]
    if rng.random() < 2 / 3:
        return random_tree(names, rng)
    near = [(names[rng.randrange(max(0, i - 3), i)], names[i]) for i in range(1, len(names))]
    return graph(names, near)


def primary_path(tree: Graph, start: str, end: str) -> list[str]:
    """Return the primary path from `start` (excluded) to `end`, found by walking down the distances
    to `end`."""
    hops, walked = hops_from(tree, end), [start]
    while walked[-1] != end:
        walked.append(min(tree[walked[-1]], key=hops.__getitem__))
    return walked[1:]


def neighbourhood(tree: Graph, me: str, delta: int) -> Neighbourhood:
    hops = hops_from(tree, me)
    return Neighbourhood(
        me,
        {x: min(tree[x], key=hops.__getitem__) for x, hop in hops.items() if 0 < hop <= delta},
    )


def some_links(mom: Neighbourhood, rng: random.Random) -> list[str]:
    return rng.sample(mom.brokers, rng.randint(0, len(mom.brokers)))


@dataclass(frozen=True)
class Sent:
    """A copy of publication `number` under way."""

    number: int
    to: str
    came_from: str | None


Suppresses = Callable[[tuple[Topics, str], tuple[Topics, str]], bool]
"""A function that says whether what a neighbour was told, as (topics, anchor), makes a further
subscription needless."""


def nothing_suppresses(sent: tuple[Topics, str], new: tuple[Topics, str]) -> bool:
    return False


def covers_with_the_same_anchor(sent: tuple[Topics, str], new: tuple[Topics, str]) -> bool:
    return sent[0] >= new[0] and sent[1] == new[1]


def covers_with_any_anchor(sent: tuple[Topics, str], new: tuple[Topics, str]) -> bool:
    return sent[0] >= new[0]


@dataclass
class MeshNetwork:
    """All brokers of a primary `tree`. `advertised`: the topics published at each broker;
    subscriptions go only towards those. `suppresses`: the covering rule. `forced_links`: soft links
    by broker, instead of random ones."""

    tree: Graph
    delta: int
    rng: random.Random
    advertised: dict[str, Topics]
    suppresses: Suppresses = nothing_suppresses
    forced_links: dict[str, list[str]] | None = None
    strategies: dict[str, StrategyName] = field(default_factory=dict)
    homes: defaultdict[str, list[Topics]] = field(default_factory=lambda: defaultdict(list))
    rows: defaultdict[str, list[tuple[Topics, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    received: Counter[tuple[int, str]] = field(default_factory=Counter)
    """How many copies each broker got, or published, by publication and broker."""

    def __post_init__(self) -> None:
        self.moms = {me: neighbourhood(self.tree, me, self.delta) for me in self.tree}
        for me in self.tree:
            self.strategies.setdefault(me, self.rng.choice(STRATEGIES))
        self._told: defaultdict[tuple[str, str], list[tuple[Topics, str]]] = defaultdict(list)
        self._published: list[tuple[str, int]] = []
        self._under_way: list[Sent] = []

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe_all(self, wishes: list[tuple[str, Topics]]) -> None:
        """Spread these subscriptions in any order; each link keeps the order of sending."""
        queues: dict[tuple[str, str], list[tuple[Topics, str]]] = {}
        waiting = list(wishes)
        while waiting or queues:
            if waiting and (not queues or self.rng.random() < 0.5):
                home, topics = waiting.pop()
                self.homes[home].append(topics)
                self._store(queues, home, topics, home, came_from=None)
            else:
                sender, me = link = self.rng.choice(sorted(queues))
                topics, anchor = queues[link].pop(0)
                if not queues[link]:
                    del queues[link]
                self._store(queues, me, topics, anchor, came_from=sender)

    def _store(
        self,
        queues: dict[tuple[str, str], list[tuple[Topics, str]]],
        me: str,
        topics: Topics,
        anchor: str,
        came_from: str | None,
    ) -> None:
        self.rows[me].append((topics, anchor))
        for other in self.tree[me]:
            if other == came_from or not self._is_wanted(me, other, topics):
                continue
            new = (topics, towards(self.moms[me], anchor, other, self.delta))
            told = self._told[me, other]
            if not any(self.suppresses(sent, new) for sent in told):
                told.append(new)
                queues.setdefault((me, other), []).append(new)

    def _is_wanted(self, me: str, other: str, topics: Topics) -> bool:
        """Return whether a publisher in the direction of `other` publishes one of these topics."""
        return any(
            publisher != me and primary_path(self.tree, me, publisher)[0] == other
            for publisher, published in self.advertised.items()
            if published & topics
        )

    # --- publications -----------------------------------------------------------------------------

    def publish(self, home: str, topic: int) -> None:
        self._under_way.append(Sent(len(self._published), home, None))
        self._published.append((home, topic))

    def step(self) -> bool:
        """Deliver any one copy; False where none is under way."""
        if not self._under_way:
            return False
        copy = self._under_way.pop(self.rng.randrange(len(self._under_way)))
        self.received[copy.number, copy.to] += 1
        assert self.received[copy.number, copy.to] < 3, f"{copy} runs in a loop"
        topic = self._published[copy.number][1]
        anchors = [anchor for topics, anchor in self.rows[copy.to] if topic in topics]
        for other in self._paths(copy.to).sends(anchors, copy.came_from):
            self._under_way.append(Sent(copy.number, other, copy.to))
        return True

    def _paths(self, me: str) -> Paths:
        """Return the paths from a broker with soft links drawn anew."""
        mom, strategy = self.moms[me], self.strategies[me]
        links = [] if strategy == "S0" else some_links(mom, self.rng)
        if self.forced_links is not None:
            links = self.forced_links.get(me, [])
        return Paths(Wom(mom, links), goes_direct(strategy, self.rng.random() * 1.6))

    def settle(self) -> None:
        while self.step():
            pass

    # --- the truth --------------------------------------------------------------------------------

    def interested(self, number: int) -> set[str]:
        """Return the brokers to which flooding would deliver a publication."""
        topic = self._published[number][1]
        return {
            me for me, wishes in self.homes.items() if any(topic in topics for topics in wishes)
        }

    def faults(self) -> list[str]:
        """Return the faults: interested brokers that did not get a publication exactly once, and
        others that got it twice."""
        found = []
        for number in range(len(self._published)):
            interested = self.interested(number)
            for me in self.tree:
                copies = self.received[number, me]
                if copies > 1 or (me in interested and copies == 0):
                    found.append(f"{me} got {copies} copies of {self._published[number]}")
        return found
