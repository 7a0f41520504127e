"""The slowest and most obvious driver of the broker core: queues of messages, delivered one at a
time. The given generator chooses the link; each link keeps its order.

The test decides which queue lengths a broker sees: `lengths` gives them by broker and link. With
`congestion` they are drawn anew before each input, and some time passes.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from reefcast.matching.scan import ScanIndex
from reefcast.model.messages import (
    Advertise,
    Deliver,
    Discard,
    Effect,
    Header,
    Input,
    LinkDown,
    LinkKind,
    LinkUp,
    Publish,
    Refused,
    Relearned,
    Send,
    SetTimer,
    Settled,
    Subscribe,
    Timer,
    Unadvertise,
    Unsubscribe,
)
from reefcast.model.publication import Publication, Value
from reefcast.overlay.scot import Scot
from reefcast.overlay.topology import Graph
from reefcast.routing.broker import Broker
from reefcast.routing.router import RoutingOptions

LENGTHS = (0, 0, 1, 3, 11, 40)
STEPS_S = (0.0, 0.0, 0.004, 0.03, 0.3)


def link_up(broker: Broker, link: str, now: float = 0.0) -> list[Effect]:
    """Bring up a neighbour that has relearned and answers at once; return the effects of the link
    coming up."""
    effects = broker.handle(LinkUp(LinkKind.BROKER), link, now)
    for effect in effects:
        if isinstance(effect, Send) and getattr(effect.message, "token", 0):
            broker.handle(Settled(effect.message.token), link, now)
    broker.handle(Relearned(), link, now)
    return effects


def rows_of(broker: Broker, table: str) -> list[dict[str, object]]:
    """Return the rows of one table, by column, as an operator sees them."""
    told = broker.status(broker.links.now, [table])["rows"][table]
    return [dict(zip(told["columns"], row, strict=True)) for row in told["rows"]]


class Copy(NamedTuple):
    """A publication that one broker sent to another."""

    id: tuple[str, int]
    source: str
    target: str
    header: Header


class Queues:
    """The lengths of one broker's output queues, as the test sets them."""

    def __init__(self, lengths: dict[tuple[str, str], int], broker: str) -> None:
        self._lengths = lengths
        self._broker = broker

    def queue_len(self, link: str) -> int:
        return self._lengths.get((self._broker, link), 0)


class Harness:
    """Brokers over `overlay`; `rng` orders what happens on different links."""

    def __init__(
        self,
        overlay: Graph | Scot,
        routing: str = "acyclic",
        rng: random.Random | None = None,
        congestion: random.Random | None = None,
        options: Callable[[str], RoutingOptions] | None = None,
    ):
        self.options = options
        self.scot = overlay if isinstance(overlay, Scot) else None
        self.overlay = overlay.graph if isinstance(overlay, Scot) else overlay
        self.routing = routing
        self.rng = rng or random.Random(0)
        self.congestion = congestion
        self.lengths: dict[tuple[str, str], int] = {}
        self.copies: list[Copy] = []
        self.down: set[frozenset[str]] = set()
        self.slow: set[tuple[str, str]] = set()
        """The links whose queues do not move, as (source, target)."""
        self.now = 0.0
        self.brokers: dict[str, Broker] = {}
        self.queues: dict[tuple[str, str], deque[Input]] = {}
        self.home: dict[str, str] = {}
        self.delivered: list[tuple[str, tuple[str, int], tuple[int, ...]]] = []
        self.refused: list[tuple[str, Refused]] = []
        self.settled: set[tuple[str, int]] = set()
        self.discarded: Counter[str] = Counter()
        self.timers: dict[tuple[str, str], float] = {}
        self.log: list[str] = []
        self.sent: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()
        self._seqs: Counter[str] = Counter()
        self._had: set[tuple[str, tuple[str, int]]] = set()
        for name in self.overlay:
            self.start(name)

    # --- brokers ----------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start a broker without memory; its links to running brokers come up on both sides."""
        self.brokers[name] = Broker(
            name,
            self.routing,
            neighbours=self.overlay[name],
            new_index=ScanIndex,
            queues=Queues(self.lengths, name),
            scot=self.scot.neighbours(name) if self.scot else None,
            options=self.options(name) if self.options else None,
        )
        for other in self.overlay[name]:
            if other in self.brokers and {name, other} not in self.down:
                self.link_up(name, other)

    def link_up(self, a: str, b: str) -> None:
        """Bring the link between two running brokers up again, without memory; both ends are
        told."""
        self.down.discard(frozenset((a, b)))
        for ends in ((a, b), (b, a)):
            self.queues[ends] = deque([LinkUp(LinkKind.BROKER)])

    def give_up(self, a: str, b: str) -> None:
        """Let both ends, if they run, give the link up; what was on it is lost."""
        self.down.add(frozenset((a, b)))
        for ends in ((a, b), (b, a)):
            if ends[1] in self.brokers:
                self.queues[ends] = deque([LinkDown()])

    def kill(self, name: str) -> None:
        """Kill the broker, with its queues and its clients."""
        del self.brokers[name]
        for ends in [ends for ends in self.queues if name in ends]:
            del self.queues[ends]
        for client in [client for client, home in self.home.items() if home == name]:
            del self.home[client]
        self.timers = {key: at for key, at in self.timers.items() if key[0] != name}

    # --- clients ----------------------------------------------------------------------------------

    def connect(self, client: str, broker: str) -> None:
        self.home[client] = broker
        self.queues[client, broker] = deque([LinkUp(LinkKind.CLIENT)])

    def disconnect(self, client: str) -> None:
        broker = self.home.pop(client)
        self.queues[client, broker].append(LinkDown())

    def _say(self, client: str, message: Input) -> None:
        self.queues[client, self.home[client]].append(message)

    def _number(self, client: str) -> int:
        self._numbers[client] += 1
        return self._numbers[client]

    def subscribe(self, client: str, filter: str) -> int:
        number = self._number(client)
        self._say(client, Subscribe((client, number), filter, number))
        return number

    def unsubscribe(self, client: str, number: int) -> None:
        self._say(client, Unsubscribe((client, number)))

    def advertise(self, client: str, filter: str) -> int:
        number = self._number(client)
        self._say(client, Advertise((client, number), filter, number))
        return number

    def unadvertise(self, client: str, number: int) -> None:
        self._say(client, Unadvertise((client, number)))

    def publish(self, client: str, topics: tuple[str, ...] = (), **attributes: Value) -> int:
        self._seqs[client] += 1
        seq = self._seqs[client]
        self._say(client, Publish(Publication(client, seq, 0, attributes, topics)))
        return seq

    # --- running ----------------------------------------------------------------------------------

    def step(self) -> bool:
        """Deliver one message of one link; return False when all queues are empty."""
        ready = [ends for ends, queue in self.queues.items() if queue and ends not in self.slow]
        if not ready:
            return False
        source, target = self.rng.choice(ready)
        item = self.queues[source, target].popleft()
        broker = self.brokers[target]
        known = source in broker.clients or source in broker.router.brokers
        if self.congestion:
            self._congest(self.congestion, target)
        if known or isinstance(item, LinkUp):
            self._apply(target, broker.handle(item, source, self.now))
        return True

    def _congest(self, rng: random.Random, broker: str) -> None:
        self.now += rng.choice(STEPS_S)
        for other in self.overlay[broker]:
            self.lengths[broker, other] = rng.choice(LENGTHS)

    def run(self, steps: int = 200_000) -> None:
        """Deliver messages until none is left; fail if they never end."""
        for _ in range(steps):
            if not self.step():
                return
        raise AssertionError("the network did not become quiet: some message travels for ever")

    def fire_timers(self) -> None:
        """Fire all timers that are set, in the order of their times."""
        due = sorted(self.timers.items(), key=lambda timer: (timer[1], timer[0]))
        self.timers = {}
        for (name, key), at in due:
            self.now = max(self.now, at)
            self._apply(name, self.brokers[name].handle(Timer(key), "", self.now))

    def _apply(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SetTimer):
                self.timers[name, effect.key] = effect.at_s
            elif isinstance(effect, Discard):
                self.discarded[effect.reason] += 1
            elif isinstance(effect, Deliver):
                publication = effect.publish.publication
                for client, numbers in effect.to.items():
                    if effect.publish.again and (client, publication.id) in self._had:
                        continue  # a real client drops it, too
                    self._had.add((client, publication.id))
                    self.delivered.append((client, publication.id, tuple(numbers)))
                    self._write(f"{name} => {client}: {publication.seq} for {tuple(numbers)}")
            else:
                self._send(name, effect)

    def _send(self, name: str, send: Send) -> None:
        message = send.message
        if send.link in self.overlay:
            assert send.link in self.brokers[name].router.brokers, "sent on a link that is down"
            if self._works(name, send.link):
                self.queues[name, send.link].append(message)
                self.sent[type(message).__name__] += 1
                if isinstance(message, Publish):
                    self.copies.append(
                        Copy(message.publication.id, name, send.link, message.header)
                    )
        elif isinstance(message, Settled):
            self.settled.add((send.link, message.token))
        elif isinstance(message, Refused):
            self.refused.append((send.link, message))
        self._write(f"{name} -> {send.link}: {describe(message)}")

    def _works(self, source: str, target: str) -> bool:
        """Return whether a message sent now arrives. It does not if the link came up again and
        `source` has not been told yet: it still means the link's former life."""
        back = self.queues.get((target, source))
        new = bool(back) and isinstance(back[0], LinkUp)
        return (source, target) in self.queues and {source, target} not in self.down and not new

    def _write(self, line: str) -> None:
        self.log.append(line)


def describe(message: Input) -> str:
    """Return a message as a short phrase, for golden traces."""
    kind = type(message).__name__
    if isinstance(message, Publish):
        return f"{kind} {message.publication.seq}"
    if isinstance(message, (Advertise, Subscribe)):
        return f"{kind} {message.id[0]}#{message.id[1]} {message.filter}"
    if isinstance(message, (Unadvertise, Unsubscribe)):
        return f"{kind} {message.id[0]}#{message.id[1]}"
    return kind
