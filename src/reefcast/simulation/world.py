"""The shared part of both kernels: brokers, links, clients and faults of a run, and its record.

A kernel adds the queues and the clock; see `kernel` (fast) and `plain` (obvious).
"""

from __future__ import annotations

import heapq
import math
import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from reefcast.errors import ConfigurationError, InternalError
from reefcast.history.service import HistoryService
from reefcast.model.messages import (
    CloseLink,
    Deliver,
    Demote,
    Discard,
    Effect,
    Input,
    LinkDown,
    LinkKind,
    LinkName,
    LinkUp,
    MoveLink,
    OpenLink,
    Promote,
    Publish,
    Refused,
    Send,
    SetTimer,
    Settled,
)
from reefcast.model.publication import Publication, PublicationId
from reefcast.overlay.scot import Scot
from reefcast.overlay.topology import Edge, Graph, edges_of
from reefcast.routing.broker import Broker
from reefcast.routing.covering.statistics import MemoryStatistics, Window
from reefcast.routing.links import Overload
from reefcast.routing.registry import check_overlay, routing_named
from reefcast.routing.router import RoutingOptions
from reefcast.routing.tables import IndexFactory
from reefcast.simulation.clients import Scripted, SimClient
from reefcast.simulation.costs import CostModel
from reefcast.simulation.faults import Crash, Cut, Fault, Move, check_faults
from reefcast.simulation.kept import Kept
from reefcast.simulation.links import Link, LinkSpec
from reefcast.simulation.node import Comparisons, Node, Service
from reefcast.simulation.prices import Prices
from reefcast.simulation.recording import Recording, TraceOptions
from reefcast.simulation.senders import Sender, Senders, Sharing, check_senders
from reefcast.simulation.shared_index import SharedMatching
from reefcast.simulation.signs import SIGNS
from reefcast.simulation.sizes import message_size, publication_size
from reefcast.simulation.soft_links import Handling, SoftLinks
from reefcast.simulation.stage import Stage

TIMER_RANK, CLIENT_RANK, FIRST_LINK_RANK = 1, 2, 3
"""Ranks order what happens at the same instant: interventions 0, timers 1, clients 2, links."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Everything that determines a run except its scripts.

    `links`: specs of single links, by their two ends; `link`: of all others. `sender`: whose links
    share one transmitter (`senders`); `machines`: broker -> machine, for "machine". `index`: what
    each broker matches with; None for one matching of the whole network, the fastest.
    `keep_deliveries`: off for runs with tens of millions of them, which are then only counted.
    `scot`: the structure of the overlay, for the routings that need one; `graph` is then its graph.
    `overload`: when a link counts as overloaded. `options`: those of the routing; None: its
    defaults; `broker_options`: of single brokers, by name. `window`: which statistics count, for
    routings that keep some. `comparisons`: makes what counts a broker's comparisons of filters, if
    these have a price."""

    graph: Graph
    routing: str = "acyclic"
    seed: int = 0
    costs: CostModel = field(default_factory=CostModel)
    link: LinkSpec = field(default_factory=LinkSpec)
    links: Mapping[Edge, LinkSpec] = field(default_factory=dict)
    sender: Sharing = "link"
    machines: Mapping[str, str] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
    trace: TraceOptions | None = None
    keep_deliveries: bool = True
    index: IndexFactory | None = None
    scot: Scot | None = None
    overload: Overload = field(default_factory=Overload)
    options: RoutingOptions | None = None
    broker_options: Mapping[str, RoutingOptions] = field(default_factory=dict)
    window: Window = field(default_factory=Window)
    comparisons: Callable[[], Comparisons] | None = None

    def validate(self) -> Setup:
        """Return the setup itself. Raises `ConfigurationError` for what cannot be simulated."""
        if self.costs.validate().comparison_s and self.comparisons is None:
            raise ConfigurationError(
                "comparisons have a price, but nothing counts them: give `comparisons`, too"
            )
        for spec in (self.link, *self.links.values()):
            spec.validate()
        if self.trace:
            self.trace.validate()
        edges = edges_of(self.graph)
        if self.scot and self.scot.graph != self.graph:
            raise ConfigurationError("the graph is not that of the SCOT; give graph=scot.graph")
        check_overlay(self.routing, self.graph, self.scot)
        every = self.options or routing_named(self.routing).options()
        for options in (every, *self.broker_options.values()):
            options.check_brokers(list(self.graph), self.graph.__contains__)
        for a, b in self.links:
            if (a, b) not in edges and (b, a) not in edges:
                raise ConfigurationError(f"a link spec is for {a} - {b}, but there is no such link")
        check_faults(self.faults, list(self.graph), edges)
        check_senders(self.sender, self.machines, list(self.graph), self.faults)
        return self


class NoProgressError(InternalError):
    """The network does not become quiet: some message seems to travel for ever."""


class World(Stage):
    """Nodes, links, clients, interventions and what is recorded; kernels derive from it.

    Interventions are planned changes of the world: start, crash, restart, a link given up, a
    snapshot."""

    link_class: ClassVar[type[Link]] = Link
    sender_class: ClassVar[type[Sender]] = Sender

    def __init__(self, setup: Setup) -> None:
        self.setup = setup.validate()
        self.costs = setup.costs
        messages = routing_named(setup.routing).messages
        self.prices = Prices(setup.costs, messages, setup.comparisons)
        self._shared = SharedMatching()
        self.record = Recording(setup.trace, list(setup.graph), setup.keep_deliveries)
        self.nodes: dict[str, Node] = {name: Node(name, i) for i, name in enumerate(setup.graph)}
        self.clients: dict[str, SimClient] = {}
        self.scripts: dict[int, Scripted] = {}
        self.published: dict[PublicationId, tuple[int, Publication, str]] = {}
        self.now = 0.0
        self.interventions: list[tuple[float, int, Callable[[float], None]]] = []
        self._intervention_number = 0
        self._last_rank = FIRST_LINK_RANK - 1
        self._senders = Senders(setup.sender, setup.machines, self.sender_class)
        self.soft = SoftLinks(
            self,
            Handling(
                make=partial(self.make_link, soft=True),
                send=self._send_sign,
                when=self.when,
                empty=self.empty,
                lose=self.lose,
            ),
        )
        self.kept = Kept(self, self.soft.is_soft)
        self._build_links()
        self.add_intervention(0.0, self._start)
        for crash in sorted(
            (f for f in setup.faults if isinstance(f, Crash)), key=lambda c: (c.at_s, c.broker)
        ):
            self._plan(crash)
        for cut in (f for f in setup.faults if isinstance(f, Cut)):
            self.add_intervention(cut.at_s, partial(self.soft.cut_all, cut.links))
        for move in (f for f in setup.faults if isinstance(f, Move)):
            self.add_intervention(move.at_s, partial(self.move, move))
        if self.record.snapshots and setup.trace:
            self.add_intervention(setup.trace.snapshot_s, self._snapshot)

    def _build_links(self) -> None:
        for name, neighbours in self.setup.graph.items():
            node = self.nodes[name]
            node.neighbours = tuple(neighbours)
            for other in neighbours:
                node.links[other] = self.make_link(node, self.nodes[other])
        for node in self.nodes.values():
            node.judge()

    def add_intervention(self, at: float, action: Callable[[float], None]) -> None:
        """Call `action(at)` at that time; actions of one instant run in the order in which they
        were added."""
        heapq.heappush(self.interventions, (at, self._intervention_number, action))
        self._intervention_number += 1

    def make_link(self, node: Node, other: Node, *, soft: bool = False) -> Link:
        """Return a link from one node to another. Soft links rank behind all others, whenever they
        are made."""
        setup, ends = self.setup, (node.name, other.name)
        faults = [fault for fault in setup.faults if not isinstance(fault, Crash | Cut | Move)]
        spec = setup.links.get(ends) or setup.links.get(ends[::-1]) or setup.link
        if soft:
            rank = self._last_rank + 1 + node.index * len(self.nodes) + other.index
        else:
            rank = self._last_rank = self._last_rank + 1
        sender = self._senders.of(node.name)
        return self.link_class(*ends, spec, faults, rank, setup.seed, soft=soft, sender=sender)

    # --- interventions ----------------------------------------------------------------------------

    def _start(self, now: float) -> None:
        for node in self.nodes.values():
            self._fresh_core(node, now)
        for node in self.nodes.values():
            for other in node.neighbours:
                self._link_up(node, other, now)

    def _plan(self, crash: Crash) -> None:
        node = self.nodes[crash.broker]
        self.add_intervention(crash.at_s, lambda now: self._crash(node, now))
        given_up = crash.at_s + crash.link_patience_s
        if crash.restart_s > given_up:
            self.add_intervention(given_up, lambda now: self._give_up(node, now))
        if crash.restart_s < math.inf:
            self.add_intervention(crash.restart_s, lambda now: self._restart(node, now))

    def _fresh_core(self, node: Node, now: float) -> None:
        """Make a core, whose draws differ from those of its last life."""
        life = f"/{now}" if now else ""
        rng = random.Random(f"{self.setup.seed}/broker/{node.name}{life}")
        new_index = self.setup.index or self._shared.new_index
        options = self.setup.broker_options.get(node.name, self.setup.options)
        node.comparisons = self.prices.comparisons(options)
        if node.comparisons is not None:
            new_index = node.comparisons.watch(new_index)
        node.core = Broker(
            node.name,
            self.setup.routing,
            neighbours=node.neighbours,
            rng=rng,
            new_index=new_index,
            queues=node,
            overload=self.setup.overload,
            scot=self.setup.scot.neighbours(node.name) if self.setup.scot else None,
            options=options,
            statistics=MemoryStatistics(self.setup.window),
            services=(HistoryService(node.name),),
        )
        node.trace = self.record.details_of(node.name)
        node.up = True

    def _link_up(self, node: Node, other: LinkName, now: float) -> None:
        node.linked.add(other)
        node.urgent.append((now, other, LinkUp(LinkKind.BROKER)))

    def _crash(self, node: Node, now: float) -> None:
        unserved = self.kept.unserved(node)
        for _, link, item, _ in node.queue:
            if link not in unserved or type(item) is not Publish:
                self.lose(node, item, now)
        for other in list(node.kept):
            self.kept.give_up(node, other, now)
        if node.leaving:
            self.lose(node, node.leaving.item, now)
        for held in node.core.waiting():
            self.lose(node, held, now)
        node.leaving = None
        node.queue.clear()
        node.urgent.clear()
        node.timers.clear()
        node.background.clear()
        node.linked.clear()
        node.up = False
        for client in node.clients:
            client.lose_connection(now)
        self.soft.demote(node, now)
        for other in node.neighbours:
            self.kept.keep(self.nodes[other], node, unserved.get(other, ()), now)
            self._cut(node, self.nodes[other], now)
        self.soft.cut_all([(node.name, other) for other in node.links], now)

    def _restart(self, node: Node, now: float) -> None:
        self.soft.demote(node, now)
        self._fresh_core(node, now)
        node.busy_until = now
        for other in node.neighbours:
            neighbour = self.nodes[other]
            if neighbour.up:
                self.kept.keep(neighbour, node, (), now)
                self._begin_session(node, neighbour, now)
                self._link_up(node, other, now)
                self._link_up(neighbour, node.name, now)
        for client in node.clients:
            for item in client.connect(now):
                node.queue.append((now, client.name, item, 0))

    def _cut(self, a: Node, b: Node, now: float) -> None:
        """Cut the links between two nodes: all that is queued or on the wire is lost."""
        a.links[b.name].begin_session(now)
        b.links[a.name].begin_session(now)

    def _begin_session(self, node: Node, neighbour: Node, now: float) -> None:
        """Begin both directions anew; what the neighbour has not yet served is of the old one."""
        self._cut(node, neighbour, now)
        kept = [entry for entry in neighbour.queue if entry[1] != node.name]
        for entry in neighbour.queue:
            if entry[1] == node.name:
                self.lose(neighbour, entry[2], now)
        neighbour.queue.clear()
        neighbour.queue.extend(kept)

    def _give_up(self, node: Node, now: float) -> None:
        self.soft.demote(node, now)
        for other in node.neighbours:
            neighbour = self.nodes[other]
            if neighbour.up and node.name in neighbour.linked:
                self._begin_session(node, neighbour, now)
                neighbour.linked.remove(node.name)
                self.kept.give_up(neighbour, node.name, now)
                neighbour.urgent.append((now, node.name, LinkDown()))

    def move(self, move: Move, now: float) -> None:
        """Ask the broker, if it is up, to move a link as an operator would."""
        node = self.nodes[move.broker]
        if node.up:
            node.urgent.append((now, "", MoveLink(move.old, move.new)))

    def _snapshot(self, now: float) -> None:
        for node in self.nodes.values():
            if node.up:
                queues: dict[LinkName | None, int] = {None: self.input_queue_len(node, now)}
                queues |= {other: link.queue_len(now) for other, link in node.links.items()}
                self.record.snapshot(node.name, node.core, queues, now)
        if self.setup.trace and self.under_way():
            self.add_intervention(now + self.setup.trace.snapshot_s, self._snapshot)

    @abstractmethod
    def under_way(self) -> bool:
        """Return whether anything is still to happen but interventions."""

    def input_queue_len(self, node: Node, now: float) -> int:
        """Return how many inputs wait for the node's CPU or are being served by it."""
        return len(node.queue) + (node.busy_until > now)

    # --- clients ----------------------------------------------------------------------------------

    def _new_client(self, name: str, broker: str) -> SimClient:
        client = self.clients[name] = SimClient(name, broker)
        self.nodes[broker].clients.append(client)
        return client

    def act(self, script: Scripted, now: float) -> tuple[Node, list[tuple[Input, int]]]:
        """Have a client do what its script says; return what reaches its broker, with the sizes."""
        client = self.clients[script.client]
        node = self.nodes[client.broker]
        if script.kind == "publish" and not node.up:
            self.record.counters["not_published"] += 1
            return node, []
        inputs = client.connect(now) if node.up and not client.connected else []
        inputs += client.act(script, now)
        return node, [(item, self._input_size(script, item, node)) for item in inputs]

    def clients_hear(self) -> None:
        """Have clients handle what has reached them by now; otherwise they do when they act."""
        for client in self.clients.values():
            client.handle(self.now)

    def _input_size(self, script: Scripted, item: Input, node: Node) -> int:
        if not isinstance(item, Publish):
            return 0
        self.published[item.publication.id] = (script.handle, item.publication, node.name)
        return publication_size(item.publication)

    # --- the core ---------------------------------------------------------------------------------

    def handle(
        self, node: Node, link: LinkName, item: Input, size: int, start: float
    ) -> list[Effect]:
        """Give one input to the core; return its effects."""
        node.now = start
        if isinstance(item, Publish):
            if link not in node.links:
                self.record.published(node.trace, item, size, start)
            return node.core.handle_publications((item,), link, start)
        if isinstance(item, SIGNS):
            return self.soft.came(node, item, start)
        if isinstance(item, LinkUp) and item.kind is LinkKind.BROKER:
            item = LinkUp(item.kind, tuple(node.kept.pop(link, ())))
        return node.core.handle(item, link, start)

    def apply(self, node: Node, service: Service) -> None:
        """Apply the effects of one input."""
        item, at, sessions = service.item, service.at, service.sessions
        own = item.publication if isinstance(item, Publish) else None
        self.soft.served(node, service, came_up=False)
        for effect in service.effects:
            if isinstance(effect, Deliver):
                self.record.handed_out(node.trace, effect, at)
            elif isinstance(effect, Send):
                out = node.links.get(effect.link)
                if out is None:
                    self._answer_client(node, effect, at)
                elif not out.open:
                    self.soft.stranded(node, out, effect.message, at)
                else:
                    message = effect.message
                    known = isinstance(message, Publish) and message.publication is own
                    size = service.size if known else message_size(message)
                    session = sessions[effect.link] if sessions else out.session
                    self.send(node, out, message, size, at, session)
            elif isinstance(effect, SetTimer):
                if effect.background:
                    node.background.add(effect.key)
                self.set_timer(node, effect.key, max(effect.at_s, at))
            elif isinstance(effect, OpenLink):
                self.soft.open(node, effect.to, at)
            elif isinstance(effect, CloseLink):
                self.soft.close(node, effect.link, at)
            elif isinstance(effect, Promote | Demote):
                self.soft.change(node, effect.link, overlay=isinstance(effect, Promote))
            elif isinstance(effect, Discard):
                self._discard(node, effect, at)
        self.soft.served(node, service, came_up=True)

    def _answer_client(self, node: Node, effect: Send, at: float) -> None:
        message = effect.message
        if not isinstance(message, Settled | Refused):
            return
        self.record.answered(node.trace, effect.link, message, message_size(message), at)
        self.clients[effect.link].answered(message, at)

    def _discard(self, node: Node, effect: Discard, at: float) -> None:
        self.record.discarded(node.trace, effect.publish, None, effect.reason, at)

    def _send_sign(self, node: Node, out: Link, sign: Any, at: float) -> None:
        self.send(node, out, sign, message_size(sign), at, out.session)

    @abstractmethod
    def empty(self, link: Link, now: float) -> list[Publish]:
        """Clear a soft link that fails; return the publications that wait on it or are on its wire,
        in their order: nobody loses them yet."""

    @abstractmethod
    def when(self, node: Node, at: float, action: Callable[[], None]) -> None:
        """Run `action`, which adds to the node's queue, at `at`: when a service ends whose effects
        are applied now, maybe before their time."""

    @abstractmethod
    def send(self, node: Node, out: Link, message: Any, size: int, at: float, session: int) -> None:
        """Queue a message of `size` bytes on a link."""

    @abstractmethod
    def set_timer(self, node: Node, key: str, due: float) -> None:
        """Set or move a timer."""

    @abstractmethod
    def schedule(self, handle: int, at: float) -> None: ...

    @abstractmethod
    def run(self, until: float, limit: int, progress: Callable[[float], None]) -> bool: ...

    def lose(
        self,
        node: Node,
        item: Input,
        at: float,
        link: LinkName | None = None,
        reason: str = "link_lost",
    ) -> None:
        """Lose an input or a message to a fault; `node` records publications. `link`: the neighbour
        that it was on its way to; None if it was waiting at `node` itself."""
        self.record.counters["lost_messages"] += 1
        if type(item) is Publish:
            self.record.discarded(node.trace, item, link, reason, at)

    def unseed(self) -> int:
        """Return what every generator would draw next, in 64 bits: two runs that differ anywhere in
        what they drew differ here. Nothing is drawn, so that a run that goes on is the same,
        however often somebody asks."""
        drawn = 0
        for node in self.nodes.values():
            for _, link in sorted(node.links.items()):
                drawn = (drawn * 31 + _next_of(link.rng)) % 2**64
        return drawn


def _next_of(rng: random.Random) -> int:
    state = rng.getstate()
    drawn = rng.getrandbits(64)
    rng.setstate(state)
    return drawn
