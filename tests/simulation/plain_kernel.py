"""The plain kernel: an event for every step, obviously right, and slow.

It is the twin of `kernel.Kernel`: arrival, start of service, end of service, start and end of each
transmission and every change of bandwidth are events of their own, and nothing is computed before
its time. A property test demands the same trace of both.

What happens at one instant happens in the order of the constants below.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from reefcast.model.messages import Input, LinkName, Publish, Timer
from reefcast.simulation.links import DROPPED, Link
from reefcast.simulation.node import Node, Service
from reefcast.simulation.senders import Sender
from reefcast.simulation.sizes import framed_size
from reefcast.simulation.world import NoProgressError, Setup, World

TRANSMITTED, SERVED, INTERVENTION, TIMER, CLIENT, ARRIVAL, START = range(7)


class Waiting(NamedTuple):
    """A message in an output queue; `extra` is its time on the wire beyond the latency."""

    message: Any
    size: int
    extra: float


class PlainSender(Sender):
    """A transmitter. `turns`: the links whose messages it sends, a link for each message; the first
    message of the first one is under transmission: `left` bytes at `since`. `change` numbers the
    plans for its end, so that an outdated plan is recognised."""

    __slots__ = ("change", "left", "since", "turns")

    def __init__(self) -> None:
        super().__init__()
        self.turns: deque[PlainLink] = deque()
        self.left = 0.0
        self.since = 0.0
        self.change = 0


class PlainLink(Link):
    """A link. `waiting`: what is not transmitted; `on_wire`: what is, and has not arrived."""

    __slots__ = ("on_wire", "waiting")

    def __init__(self, *args: Any, soft: bool, sender: Sender) -> None:
        super().__init__(*args, soft=soft, sender=sender)
        self.waiting: deque[Waiting] = deque()
        self.on_wire: deque[Waiting] = deque()

    @property
    def transmitter(self) -> PlainSender:
        assert isinstance(self.sender, PlainSender)
        return self.sender

    def clear(self) -> None:
        """Forget what is queued or on the wire. The sender is the link's own: faults that need this
        are refused where links share one."""
        self.waiting.clear()
        self.on_wire.clear()
        self.transmitter.turns.clear()
        self.transmitter.change += 1

    def queue_len(self, now: float) -> int:
        return sum(type(waiting.message) is Publish for waiting in self.waiting)

    def rate(self, now: float) -> float:
        """Return the bytes per second from `now` on."""
        return [rate for since, rate in self.rates if since <= now][-1]


class PlainKernel(World):
    """The simulator's kernel, with an event for every step."""

    link_class = PlainLink
    sender_class = PlainSender

    def __init__(self, setup: Setup) -> None:
        self._events: list[tuple[float, int, int, int, Callable[[], None]]] = []
        self._event_number = 0
        self._background = 0
        super().__init__(setup)

    def make_link(self, node: Node, other: Node, *, soft: bool = False) -> Link:
        link = super().make_link(node, other, soft=soft)
        assert isinstance(link, PlainLink)
        for at, _ in link.rates[1:]:
            if at >= self.now:
                self._at(at, INTERVENTION, 0, partial(self._new_rate, link))
        return link

    def _at(self, at: float, priority: int, rank: int, action: Callable[[], None]) -> None:
        self._event_number += 1
        heapq.heappush(self._events, (at, priority, rank, self._event_number, action))

    def under_way(self) -> bool:
        return len(self._events) > self._background

    def schedule(self, handle: int, at: float) -> None:
        self._at(at, CLIENT, handle, lambda: self._act(handle))

    def add_intervention(self, at: float, action: Callable[[float], None]) -> None:
        def intervene() -> None:
            action(self.now)
            for node in self.nodes.values():
                self._wake(node)

        self._at(at, INTERVENTION, 1, intervene)

    def run(self, until: float, limit: int, progress: Callable[[float], None]) -> bool:
        last = self.record.messages_sent + limit
        while self._events and self._events[0][0] < until:
            if until == math.inf and not self.under_way():
                break
            self.now, _, _, _, action = heapq.heappop(self._events)
            action()
            progress(self.now)
            if self.record.messages_sent > last:
                raise NoProgressError(f"more than {limit} messages passed between brokers")
        self.now = max(self.now, until) if until < math.inf else self.now
        self.clients_hear()
        return not self.under_way()

    # --- a broker's CPU ---------------------------------------------------------------------------

    def _act(self, handle: int) -> None:
        node, inputs = self.act(self.scripts[handle], self.now)
        for item, size in inputs:
            node.queue.append((self.now, self.scripts[handle].client, item, size))
        self._wake(node)

    def set_timer(self, node: Node, key: str, due: float) -> None:
        node.timers[key] = due
        background = key in node.background
        self._background += background

        def wake() -> None:
            self._background -= background
            self._wake(node)

        self._at(due, TIMER, node.index, wake)

    def _wake(self, node: Node) -> None:
        self._at(self.now, START, node.index, lambda: self._start_service(node))

    def _start_service(self, node: Node) -> None:
        if not node.up or node.leaving:
            return
        due, key = node.first_timer()
        if node.urgent:
            _, link, item = node.urgent.popleft()
            self._serve(node, link, item, 0)
        elif due <= self.now:
            del node.timers[key]
            self._serve(node, "", Timer(key), 0)
        elif node.queue:
            _, link, item, size = node.queue.popleft()
            self._serve(node, link, item, size)

    def _serve(self, node: Node, link: LinkName, item: Input, size: int) -> None:
        effects = self.handle(node, link, item, size, self.now)
        cost = self.prices.of(node, item, effects, self.now)
        sessions = {name: link.session for name, link in node.links.items()}
        service = Service(self.now + cost, item, size, effects, sessions)
        node.leaving = service
        node.busy_until = service.at
        self._at(service.at, SERVED, node.index, lambda: self._served(node, service))

    def _served(self, node: Node, service: Service) -> None:
        if node.leaving is service:
            node.leaving = None
            self.apply(node, service)
            self._wake(node)

    # --- links ------------------------------------------------------------------------------------

    def when(self, node: Node, at: float, action: Callable[[], None]) -> None:
        action()  # it is that time

    def send(self, node: Node, out: Link, message: Any, size: int, at: float, session: int) -> None:
        assert isinstance(out, PlainLink)
        if session != out.session:
            if not out.soft:
                self.kept.missed(node, out, message, out.ended[session])
            return
        extra = out.extra_s(at, message)
        if extra == DROPPED:
            self.lose(node, message, at, out.target, "fault")
            return
        out.waiting.append(Waiting(message, size, extra))
        framed = framed_size(message, size)
        self.record.sent(node.trace, out.target, message, framed, out.queue_len(at), at)
        out.transmitter.turns.append(out)
        if len(out.transmitter.turns) == 1:
            self._start_transmission(out.transmitter)

    def _start_transmission(self, sender: PlainSender) -> None:
        first = sender.turns[0].waiting[0]
        sender.left = framed_size(first.message, first.size)
        sender.since = self.now
        self._plan_end(sender)

    def _plan_end(self, sender: PlainSender) -> None:
        sender.change += 1
        link, change = sender.turns[0], sender.change
        rate = link.rate(self.now)
        if rate:
            end = self.now + sender.left / rate
            self._at(end, TRANSMITTED, link.rank, lambda: self._transmitted(sender, change))

    def _new_rate(self, link: PlainLink) -> None:
        sender = link.transmitter
        if link.waiting:
            old = [rate for since, rate in link.rates if since < self.now][-1]
            sender.left -= old * (self.now - sender.since)
            sender.since = self.now
            self._plan_end(sender)

    def _transmitted(self, sender: PlainSender, change: int) -> None:
        if change != sender.change:
            return
        link = sender.turns.popleft()
        sent, session = link.waiting.popleft(), link.session
        link.on_wire.append(sent)
        arrival = link.arrives_at(self.now, sent.extra)
        self._at(arrival, ARRIVAL, link.rank, lambda: self._arrived(link, sent, session))
        sender.change += 1
        if sender.turns:
            self._start_transmission(sender)

    def _arrived(self, link: PlainLink, sent: Waiting, session: int) -> None:
        source, target = self.nodes[link.source], self.nodes[link.target]
        if session != link.session:
            if not link.soft and session not in link.emptied:
                self.lose(source, sent.message, link.ended[session], link.target)
            return
        link.on_wire.popleft()
        if not target.up:
            self.kept.missed(source, link, sent.message, self.now)
        else:
            target.queue.append((self.now, link.source, sent.message, sent.size))
            self._wake(target)

    # --- faults -----------------------------------------------------------------------------------

    def empty(self, link: Link, now: float) -> list[Publish]:
        assert isinstance(link, PlainLink)
        under_way = [sent.message for sent in (*link.on_wire, *link.waiting)]
        link.clear()
        link.emptied.add(link.session)
        link.begin_session(now)
        return [message for message in under_way if type(message) is Publish]

    def _cut(self, a: Node, b: Node, now: float) -> None:
        self._empty(a.links[b.name], now)
        self._empty(b.links[a.name], now)
        super()._cut(a, b, now)

    def _empty(self, link: Link, now: float) -> None:
        """Lose what waits in an output queue."""
        assert isinstance(link, PlainLink)
        for waiting in link.waiting:
            self.lose(self.nodes[link.source], waiting.message, now, link.target)
        link.clear()
