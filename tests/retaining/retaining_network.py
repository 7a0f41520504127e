"""The retaining services of several brokers, and the messages under way between them: in order on
each link, in any order across links. Some brokers have disks. `Twin` is the obvious twin."""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from collections.abc import Sequence

from reefcast.model import wire
from reefcast.model.keeping import Change, PutRow
from reefcast.model.messages import Send, ServiceMessage
from reefcast.model.publication import Publication, Value
from reefcast.overlay.topology import Graph
from reefcast.retaining.messages import Clear, NotRetained, Retain, Retained, Spread
from reefcast.retaining.service import RetainingService
from reefcast.retaining.values import TABLE, Limits

START_US = 1_700_000_000_000_000
LIMITS = Limits()


def publication(
    publisher: str, seq: int, time_us: int, topic: str = "", **attributes: Value
) -> Publication:
    return Publication(publisher, seq, time_us, attributes, (topic,) if topic else ())


def body(*args: object, **named: object) -> bytes:
    made = publication(*args, **named)  # type: ignore[arg-type]  # passed on
    return wire.encode_publication(made)


class Twin:
    """The values that there must be: of each topic the latest publication, or that it was
    cleared."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[tuple[int, str, int], float, bytes]] = {}

    def put(self, topic: str, version: tuple[int, str, int], ends_s: float, body: bytes) -> None:
        if topic not in self.last or self.last[topic][0] < version:
            self.last[topic] = (version, ends_s, body)

    def values(self, utc_s: float) -> set[bytes]:
        return {body for _, ends_s, body in self.last.values() if body and utc_s < ends_s}


class Network:
    """Several brokers. `disks`: broker -> table -> key -> row, of brokers that have one. `clients`:
    the clients of a broker, with the answers that they got; `spread`: how often a link carried
    what, of what had just come."""

    def __init__(
        self,
        graph: Graph,
        rng: random.Random,
        *,
        on_disk: Sequence[str] = (),
        limits: Limits = LIMITS,
    ) -> None:
        self.rng = rng
        self.now = 0.0
        self.limits = limits
        self.disks: dict[str, dict[str, dict[bytes, bytes]]] = {n: {TABLE: {}} for n in on_disk}
        self.services: dict[str, RetainingService] = {}
        self.up: set[frozenset[str]] = set()
        self.answers: dict[str, deque[ServiceMessage]] = defaultdict(deque)
        self.spread: Counter[tuple[str, str, bytes, tuple[int, str, int]]] = Counter()
        self.messages = 0
        self._tokens = 0
        self._under_way: dict[tuple[str, str], deque[ServiceMessage]] = defaultdict(deque)
        for name in graph:
            self._start(name)
        for a, others in graph.items():
            for b in others:
                if a < b:
                    self.connect(a, b)

    @property
    def utc_s(self) -> float:
        return START_US / 1e6 + self.now

    def _start(self, name: str) -> None:
        service = RetainingService(self.limits, epoch_s=START_US / 1e6)
        service.pass_time(self.now)
        if name in self.disks:
            service.keep(self.disks[name], lambda change: self._write(name, change))
        self.services[name] = service

    def _write(self, name: str, change: Change) -> None:
        if isinstance(change, PutRow):
            self.disks[name][change.table][change.key] = change.row
        else:
            self.disks[name][change.table].pop(change.key, None)

    # --- what happens -----------------------------------------------------------------------------

    def connect(self, a: str, b: str) -> None:
        self.up.add(frozenset((a, b)))
        for one, other in self._either(a, b):
            self._send(one, self.services[one].link_up(other, client=False))
            for _ in range(self.rng.choice((0, 0, 3))):  # one end is up first
                self.step()

    def disconnect(self, a: str, b: str) -> None:
        """Break a link, and lose what is under way."""
        self.up.discard(frozenset((a, b)))
        for one, other in self._either(a, b):
            self._under_way.pop((one, other), None)
        for one, other in self._either(a, b):
            self._send(one, self.services[one].link_down(other, client=False))

    def _either(self, a: str, b: str) -> list[tuple[str, str]]:
        pairs = [(a, b), (b, a)]
        self.rng.shuffle(pairs)
        return pairs

    def neighbours(self, name: str) -> list[str]:
        return [n for n in self.services if frozenset((name, n)) in self.up]

    def restart(self, name: str, *, noticed: bool) -> None:
        """Restart a broker without memory. `noticed`: its neighbours learn that it is gone before
        they learn that it is back."""
        neighbours = self.neighbours(name)
        for other in neighbours:
            self._under_way.pop((name, other), None)
            self._under_way.pop((other, name), None)
            if noticed:
                self._send(other, self.services[other].link_down(name, client=False))
        self._start(name)
        for other in neighbours:
            self.connect(name, other)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for service in self.services.values():
            service.pass_time(self.now)

    def say(self, client: str, home: str, message: ServiceMessage) -> ServiceMessage | None:
        """Send a client's message; return the answer, if it comes at once."""
        self._send(home, self.services[home].handle(message, client, client=True))
        return self.answers[client].popleft() if self.answers[client] else None

    def retain(self, home: str, encoded: bytes, by: tuple[str, ...] = ()) -> Retained | NotRetained:
        publisher = wire.decode_publication(encoded).publisher
        said = self.say(publisher, home, Retain(token=self.token(), body=encoded, by=by))
        assert isinstance(said, Retained | NotRetained)
        return said

    def clear(self, client: str, home: str, topic: str, time_us: int) -> int:
        """Clear a topic; return the token of the request."""
        token = self.token()
        said = self.say(client, home, Clear(token=token, topic=topic, time_us=time_us))
        assert isinstance(said, Retained), said
        return token

    def token(self) -> int:
        self._tokens += 1
        return self._tokens

    def _send(self, sender: str, sends: Sequence[Send]) -> None:
        for send in sends:
            assert isinstance(send.message, ServiceMessage)
            if send.link not in self.services:
                self.answers[send.link].append(send.message)
                continue
            if frozenset((sender, send.link)) not in self.up:
                continue  # the other end is not up yet, or no more
            if isinstance(send.message, Spread) and not send.message.exchange:
                for entry in send.message.entries:
                    self.spread[sender, send.link, entry.key, entry.version] += 1
            self._under_way[sender, send.link].append(send.message)

    def step(self) -> bool:
        """Deliver one message; return whether there was one."""
        waiting = [key for key, queue in self._under_way.items() if queue]
        if not waiting:
            return False
        sender, receiver = self.rng.choice(waiting)
        message = self._under_way[sender, receiver].popleft()
        self.messages += 1
        self._send(receiver, self.services[receiver].handle(message, sender, client=False))
        return True

    def run(self, limit: int = 100_000) -> None:
        """Deliver messages until none is under way."""
        for _ in range(limit):
            if not self.step():
                return
        raise AssertionError("messages never ended")

    # --- what is ----------------------------------------------------------------------------------

    def values(self, name: str) -> set[bytes]:
        return {entry.body for entry in self.services[name].values if entry.body}

    def stored(self, name: str) -> dict[bytes, bytes]:
        return self.disks[name][TABLE]
