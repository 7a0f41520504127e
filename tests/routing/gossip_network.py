"""The overlay of one topic in memory: between two nodes messages arrive in order, otherwise in any
order.

It does not model connections. When a node crashes, those that send to it notice, and (`crash`) so
do its neighbours, after its last messages. A node that runs but has left the overlay answers
messages of neighbours with `Left`, as a router does.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from statistics import mean

import networkx as nx

from reefcast.model.messages import Send
from reefcast.routing.gossip.messages import Left, Linked, TopicMessage, Walked, Wave
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.streams import NodeId
from reefcast.routing.gossip.topic import TopicOverlay
from reefcast.routing.gossip.views import View, Weights

Pair = tuple[NodeId, NodeId]
MESSAGES = 10
"""How many messages a node causes in a round, roughly."""
MOST_STEPS = 400_000
"""How many messages may travel before the test concludes that they never end."""


def names(count: int) -> list[NodeId]:
    return [f"n{number}" for number in range(count)]


def random_views(nodes: Sequence[NodeId], rng: random.Random) -> dict[NodeId, list[NodeId]]:
    """Return a strongly connected Erdos-Renyi graph of mean degree 2 ln n (the paper's start)."""
    likely = 2 * math.log(len(nodes)) / max(len(nodes) - 1, 1)
    while True:
        views = {node: [x for x in nodes if x != node and rng.random() < likely] for node in nodes}
        if is_connected(views):
            return views


def is_connected(views: dict[NodeId, Iterable[NodeId]]) -> bool:
    """Return whether the graph is strongly connected."""
    links = nx.DiGraph()
    links.add_nodes_from(views)
    links.add_edges_from((node, other) for node, view in views.items() for other in view)
    return bool(nx.is_strongly_connected(links))


class OverlayNetwork:
    """The nodes of one topic's overlay, and the messages between them (see the module). `told`: the
    probability that a neighbour notices a crash by itself.

    `sent`: all messages so far, with sender and receiver; `weights`: given weights, by node.
    """

    def __init__(
        self,
        rng: random.Random,
        contacts: Sequence[NodeId] = (),
        options: GossipOptions | None = None,
        topic: str = "a",
        told: float = 1.0,
        weights: dict[NodeId, Weights] | None = None,
    ) -> None:
        self.overlays: dict[NodeId, TopicOverlay] = {}
        self.sent: list[tuple[NodeId, NodeId, TopicMessage]] = []
        self._rng = rng
        self._contacts = contacts
        self._options = options or GossipOptions()
        self._topic = topic
        self._told = told
        self._weights = {} if weights is None else weights
        self._idle: set[NodeId] = set()
        self._lives: Counter[NodeId] = Counter()
        self._under_way: dict[Pair, deque[TopicMessage | None]] = defaultdict(deque)
        self._pairs: list[Pair] = []

    # --- what happens to nodes --------------------------------------------------------------------

    def add(self, node: NodeId) -> TopicOverlay:
        """Add a member that has not joined yet. If the node ran before, this is a restart, which
        the others notice."""
        if node not in self._weights:
            self._weights[node] = Weights(node, self._options.seed)
        restarts = self._lives[node] > 0 and node not in self._idle
        self._lives[node] += 1
        self._idle.discard(node)
        overlay = self.overlays[node] = TopicOverlay(
            self._topic, self._options, self._weights[node], self._contacts, self._lives[node]
        )
        if restarts:
            for other in self.overlays:
                self._break_off(node, other, 0)
                self._reconnect(other, node)
        return overlay

    def begin(self, views: dict[NodeId, list[NodeId]]) -> None:
        for node, view in views.items():
            self.add(node).begin(view, [x for x, theirs in views.items() if node in theirs])

    def join(self, node: NodeId) -> None:
        self.send(node, self.add(node).join())

    def leave(self, node: NodeId) -> None:
        """Let the node leave the overlay; it goes on running."""
        self._idle.add(node)
        self.send(node, self.overlays.pop(node).leave())

    def crash(self, *nodes: NodeId) -> None:
        """Crash these nodes at the same time. Their last messages may be lost."""
        gone = [(node, self.overlays.pop(node)) for node in nodes]
        for node, overlay in gone:
            for other in sorted({*overlay.view, *overlay.in_links, *self.pointing_to(node)}):
                self._break_off(node, other)
                if self._rng.random() < self._told:
                    self._put(node, other, None)

    def break_up(self, one: NodeId, other: NodeId) -> None:
        """Break the connection of two nodes, lose what is on it, and connect them again at once."""
        self._reconnect(one, other)
        self._reconnect(other, one)

    def _reconnect(self, node: NodeId, other: NodeId) -> None:
        self._break_off(node, other, 0)
        self.overlays[node].unlinked(other)
        self.send(node, self.overlays[node].links(other))

    def cut(self, one: NodeId, other: NodeId) -> None:
        """Let two nodes lose their connection; both notice, and cannot reach each other for now."""
        for a, b in [(one, other), (other, one)]:
            self._break_off(a, b, 0)
        for a, b in [(one, other), (other, one)]:
            self.send(a, self.overlays[a].lost(b))

    # --- messages ---------------------------------------------------------------------------------

    def send(self, sender: NodeId, sends: Iterable[Send]) -> None:
        for send in sends:
            assert isinstance(send.message, TopicMessage)
            self.sent.append((sender, send.link, send.message))
            self._put(sender, send.link, send.message)

    def _put(self, sender: NodeId, to: NodeId, message: TopicMessage | None) -> None:
        self._under_way[sender, to].append(message)
        self._pairs.append((sender, to))

    def _break_off(self, sender: NodeId, to: NodeId, kept: int | None = None) -> None:
        """Lose the messages under way from `sender` to `to`, except the first `kept`."""
        queue = self._under_way[sender, to]
        kept = self._rng.randint(0, len(queue)) if kept is None else kept
        while len(queue) > kept:
            queue.pop()

    def step(self) -> bool:
        """Deliver one message; return False if none is under way."""
        while self._pairs:
            number = self._rng.randrange(len(self._pairs))
            self._pairs[number], self._pairs[-1] = self._pairs[-1], self._pairs[number]
            pair = self._pairs.pop()
            if self._under_way[pair]:
                self._arrives(*pair, self._under_way[pair].popleft())
                return True
        return False

    def _arrives(self, sender: NodeId, to: NodeId, message: TopicMessage | None) -> None:
        receiver = self.overlays.get(to)
        if message is None:
            if receiver is not None and sender not in self.overlays:
                self.send(to, receiver.lost(sender))
        elif receiver is not None:
            self.send(to, receiver.handle(message, sender))
        elif to in self._idle:
            if not isinstance(message, Left | Walked | Wave) and message != self._unlinks():
                self.send(to, [Send(sender, Left(topic=self._topic))])
        elif sender in self.overlays:
            self.send(sender, self.overlays[sender].lost(to))

    def _unlinks(self) -> Linked:
        return Linked(topic=self._topic, linked=False)

    def settle(self) -> None:
        """Deliver messages until none is under way."""
        for _ in range(MOST_STEPS):
            if not self.step():
                return
        raise AssertionError("messages never ended")

    def round(self, settled: bool = False) -> None:
        """Run the tick of every node, with messages in between; `settled`: then deliver all that
        are left."""
        order = list(self.overlays)
        self._rng.shuffle(order)
        for node in order:
            if node in self.overlays:
                self.send(node, self.overlays[node].tick())
            for _ in range(self._rng.randrange(5 * MESSAGES)):
                self.step()
        if settled:
            self.settle()

    def rounds(self, number: int) -> None:
        for _ in range(number):
            self.round()
        self.settle()

    # --- what there is ----------------------------------------------------------------------------

    def views(self) -> dict[NodeId, View]:
        return {node: overlay.view for node, overlay in self.overlays.items()}

    def pointing_to(self, node: NodeId) -> set[NodeId]:
        return {other for other, overlay in self.overlays.items() if node in overlay.view}

    def connected(self) -> bool:
        """Return whether the overlay of the nodes that run is strongly connected."""
        live = {
            node: [x for x in view if x in self.overlays] for node, view in self.views().items()
        }
        return is_connected(live)

    def dead_links(self) -> list[Pair]:
        return [(a, b) for a, view in self.views().items() for b in view if b not in self.overlays]

    def wrong_in_links(self) -> list[tuple[NodeId, set[NodeId], set[NodeId]]]:
        """Return each node of a quiet network with a wrong account of its incoming links: the node,
        the nodes that it believes to point to it, and those that do."""
        accounts = [(x, o.in_links, self.pointing_to(x)) for x, o in self.overlays.items()]
        return [account for account in accounts if account[1] != account[2]]

    def mean_size(self) -> float:
        return mean(len(view) for view in self.views().values())
