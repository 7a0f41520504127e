"""The history services of several brokers, and the messages under way between them: in order on
each link, in any order across links."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from reefcast.history.messages import Stores
from reefcast.history.service import HistoryService
from reefcast.model.messages import Send, ServiceMessage
from reefcast.overlay.topology import Graph, hops_from


class Network:
    """Several brokers. `graph`: the links that are up; `beside`: connections that are no links;
    `storages`: broker and topics of those that are connected, by name; `homes`: the brokers of all
    clients; `got`: what clients were sent."""

    def __init__(self, graph: Graph, rng: random.Random) -> None:
        self.rng = rng
        self.services = {name: HistoryService(name) for name in graph}
        self.up: set[frozenset[str]] = set()
        self.beside: set[frozenset[str]] = set()
        self.storages: dict[str, tuple[str, frozenset[str]]] = {}
        self.homes: dict[str, str] = {}
        self.got: dict[str, list[ServiceMessage]] = defaultdict(list)
        self._under_way: dict[tuple[str, str], deque[ServiceMessage]] = defaultdict(deque)
        for a, others in graph.items():
            for b in others:
                if a < b:
                    self.connect(a, b)

    @property
    def graph(self) -> Graph:
        return {
            name: [other for other in self.services if frozenset((name, other)) in self.up]
            for name in self.services
        }

    # --- what happens -----------------------------------------------------------------------------

    def connect(self, a: str, b: str) -> None:
        self.up.add(frozenset((a, b)))
        for one, other in ((a, b), (b, a)):
            self._send(one, self.services[one].link_up(other, client=False))

    def change(self, a: str, b: str, *, overlay: bool) -> None:
        """Turn an open connection into a link of the overlay, or back; one end does so first."""
        pair = frozenset((a, b))
        (self.up if overlay else self.beside).add(pair)
        (self.beside if overlay else self.up).discard(pair)
        for one, other in ((a, b), (b, a)):
            service = self.services[one]
            told = service.link_up if overlay else service.link_down
            self._send(one, told(other, client=False))
            for _ in range(self.rng.choice((0, 1, 20))):
                self.step()

    def disconnect(self, a: str, b: str) -> None:
        self.up.discard(frozenset((a, b)))
        self.beside.discard(frozenset((a, b)))
        for one, other in ((a, b), (b, a)):
            self._under_way.pop((one, other), None)
        for one, other in ((a, b), (b, a)):
            self._send(one, self.services[one].link_down(other, client=False))

    def restart(self, name: str, *, noticed: bool) -> None:
        """Restart a broker without memory; its clients come again. `noticed`: its neighbours learn
        that it is gone before they learn that it is back."""
        for pair in sorted((p for p in self.beside if name in p), key=sorted):
            self.disconnect(*sorted(pair))
        neighbours = self.graph[name]
        for other in neighbours:
            self._under_way.pop((name, other), None)
            self._under_way.pop((other, name), None)
        self.services[name] = HistoryService(name)
        for other in neighbours if noticed else ():
            self._send(other, self.services[other].link_down(name, client=False))
        for other in neighbours:
            self.connect(name, other)
        for client, home in self.homes.items():
            if home == name:
                self._under_way.pop((name, client), None)
                self._send(name, self.services[name].link_up(client, client=True))
                if client in self.storages:
                    self.say(client, Stores(topics=tuple(self.storages[client][1])))

    def join(self, client: str, home: str) -> None:
        self.homes[client] = home
        self._send(home, self.services[home].link_up(client, client=True))

    def leave(self, client: str) -> None:
        home = self.homes.pop(client)
        self.storages.pop(client, None)
        self._under_way.pop((home, client), None)
        self._send(home, self.services[home].link_down(client, client=True))

    def store(self, client: str, topics: Iterable[str]) -> None:
        self.storages[client] = (self.homes[client], frozenset(topics))
        self.say(client, Stores(topics=tuple(topics)))

    def say(self, client: str, message: ServiceMessage) -> None:
        home = self.homes[client]
        self._send(home, self.services[home].handle(message, client, client=True))

    def _send(self, sender: str, sends: Sequence[Send]) -> None:
        for send in sends:
            assert isinstance(send.message, ServiceMessage)
            self._under_way[sender, send.link].append(send.message)

    def step(self) -> bool:
        """Deliver one message; return whether there was one."""
        waiting = [key for key, queue in self._under_way.items() if queue]
        if not waiting:
            return False
        sender, receiver = self.rng.choice(waiting)
        message = self._under_way[sender, receiver].popleft()
        if receiver in self.services:
            service = self.services[receiver]
            self._send(receiver, service.handle(message, sender, client=False))
        else:
            self.got[receiver].append(message)
        return True

    def run(self, limit: int = 100_000) -> int:
        """Deliver messages until none is under way; return how many there were."""
        for count in range(limit):
            if not self.step():
                return count
        raise AssertionError("messages never ended")

    # --- what should be ---------------------------------------------------------------------------

    def expected(self, broker: str) -> dict[tuple[str, str], int]:
        """Return the hops to each (topic, storage) that can be reached."""
        hops = hops_from(self.graph, broker)
        return {
            (topic, storage): hops[home]
            for storage, (home, topics) in self.storages.items()
            if home in hops
            for topic in topics
        }

    def known(self, broker: str) -> dict[tuple[str, str], int]:
        routes = self.services[broker].table.routes
        return {key: route.distance for key, route in routes.items() if route.open}
