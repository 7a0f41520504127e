"""What it takes to tell all brokers of the storages, by two rules; and who is left without one when
a storage goes.

- every storage: ours (`history.table`): a broker knows each storage, with the distance.
- nearest only: the paper's (section III-A): a nearer storage takes the place of the others and is
  told further, one equally near stands beside them, one farther away is passed over; neither of
  these two is told further. What is withdrawn is told further by those that knew it.

All links are equally fast. Storages come one after the other; then one of them goes.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Sequence

from reefcast.history.messages import Stored, Stores
from reefcast.history.service import HistoryService
from reefcast.model.messages import Send
from reefcast.network.plan_file import PlannedStorage
from reefcast.overlay.topology import Graph
from reefcast.pipeline.planning.placement.inputs import storages_of
from reefcast.pipeline.planning.placement.steps import place
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.storage.parameters import PAPER, section
from reefcast_lab.experiments.storage.placing import alike, inputs_of, tree_of

NAME = "advertisements"
EVERY_STORAGE, NEAREST_ONLY = "every storage", "nearest only"

Advertisement = tuple[str, str, int | None]
"""Topic, broker of the storage, hops to it from the sender; None: it is withdrawn."""


class Network(ABC):
    """Brokers, and what is under way between them, in order. `messages`: that were, so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.messages = 0

    @abstractmethod
    def store(self, broker: str, topics: Sequence[str]) -> None:
        """Let the storage of this broker keep these topics from now on, and no others; return when
        all is told."""

    @abstractmethod
    def knows(self, broker: str, topic: str) -> bool:
        """Return whether the broker knows a storage of the topic."""


class EveryStorage(Network):
    """The services of live brokers."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._services = {broker: HistoryService(broker) for broker in graph}
        for broker, service in self._services.items():
            service.link_up(_storage_at(broker), client=True)
            for other in graph[broker]:
                service.link_up(other, client=False)

    def store(self, broker: str, topics: Sequence[str]) -> None:
        stores, storage = Stores(topics=tuple(topics)), _storage_at(broker)
        told = self._services[broker].handle(stores, storage, client=True)
        under_way: deque[tuple[str, Send]] = deque((broker, send) for send in told)
        while under_way:
            sender, send = under_way.popleft()
            assert isinstance(send.message, Stored)
            self.messages += 1
            told = self._services[send.link].handle(send.message, sender, client=False)
            under_way.extend((send.link, further) for further in told)

    def knows(self, broker: str, topic: str) -> bool:
        return not self._services[broker].table.parts([topic])[1]


def _storage_at(broker: str) -> str:
    return f"storage at {broker}"


class NearestOnly(Network):
    """The paper's rule, written out."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._known: dict[str, dict[str, dict[str, int]]] = {broker: {} for broker in graph}
        self._stored: dict[str, set[str]] = {}

    def store(self, broker: str, topics: Sequence[str]) -> None:
        before = self._stored.get(broker, set())
        self._stored[broker] = set(topics)
        under_way: deque[tuple[str, str, Advertisement]] = deque()
        for topic in [*topics, *sorted(before - set(topics))]:
            hops = 0 if topic in topics else None
            under_way.append(("", broker, (topic, broker, hops)))
        while under_way:
            sender, receiver, (topic, storage, hops) = under_way.popleft()
            self.messages += sender != ""
            if self._heard(receiver, topic, storage, hops):
                further = None if hops is None else hops + 1
                under_way.extend(
                    (receiver, other, (topic, storage, further))
                    for other in self.graph[receiver]
                    if other != sender
                )

    def _heard(self, broker: str, topic: str, storage: str, hops: int | None) -> bool:
        """Handle an advertisement, or with hops None a withdrawal; return whether the broker passes
        it on."""
        known = self._known[broker].setdefault(topic, {})
        if hops is None:
            return known.pop(storage, None) is not None
        nearest = min(known.values(), default=None)
        if nearest is None or hops < nearest:
            known.clear()
            known[storage] = hops
            return True
        if hops == nearest:
            known[storage] = hops
        return False

    def knows(self, broker: str, topic: str) -> bool:
        return bool(self._known[broker].get(topic))


RULES: dict[str, type[Network]] = {EVERY_STORAGE: EveryStorage, NEAREST_ONLY: NearestOnly}


def runs(scale: str) -> list[Run]:
    entries = section("brokers", scale)
    return runs_of(PAPER, NAME, scale, RULES, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    """Measure `left_alone`: of the pairs of a broker and a topic of the removed storage, those that
    then know no storage, although there is another one; shares."""
    made = inputs_of(tree_of(int(run.x), run.seed), run.scale, run.seed, draw=alike)
    storages = list(storages_of(place(made).placement))
    network = RULES[run.routing](made.graph)
    rng = random.Random(f"{run.seed}/storage/advertisements")
    rng.shuffle(storages)
    for storage in storages:
        network.store(storage.broker, storage.topics)
    told = network.messages
    gone = rng.choice(storages)
    network.store(gone.broker, [])
    figures = {
        "messages_to_tell": float(told),
        "messages_to_withdraw": float(network.messages - told),
        "left_alone": _left_alone(network, gone),
    }
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def _left_alone(network: Network, gone: PlannedStorage) -> float:
    pairs = [(broker, topic) for broker in network.graph for topic in gone.topics]
    return sum(not network.knows(*pair) for pair in pairs) / len(pairs)


def _with_x(run: Run) -> Hashable:
    """Return what runs share a task: each takes some milliseconds."""
    return run.x


CAMPAIGN = Campaign(NAME, "brokers", runs, measure, _with_x)
