"""The simulator's kernel with the instruments of these experiments; columns, no object per row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from reefcast.model.messages import (
    Advertise,
    EntityId,
    Input,
    LinkName,
    Publish,
    Subscribe,
)
from reefcast.model.publication import Publication, PublicationId
from reefcast.overlay.scot import Scot, evaluation_tree, scot
from reefcast.routing.tid_tables import Bind
from reefcast.simulation.clients import Claim
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import Link
from reefcast.simulation.node import Node
from reefcast.simulation.shared_index import Answer
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.columns import Columns
from reefcast_lab.experiments.octopia.parameters import Wires, costs, overload, section, wires


class MeasuringKernel(Kernel):
    """Also writes down when which broker stored a claim first, and the queues that publications
    met: of each directed link how many were put on it from `watched_from_s` on, the sum of the
    queue's lengths (the publication itself counted), and the longest; and of those that met more
    than tau, how long they waited (`crowded`). `path`: if it is a set, each
    publication and broker that it reached. `count_before`: publications on each link before that
    time, by the link's rank.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.record: Columns = Columns(list(setup.graph))
        self.watch = self._queued
        self.served = self._stored
        self.stored_s: dict[EntityId, dict[str, float]] = {}
        self.watched_from_s = 0.0
        self.path: set[tuple[PublicationId, str]] | None = None
        links = max(out.rank for node in self.nodes.values() for out in node.links.values()) + 1
        links += len(self.nodes) ** 2  # soft links, wherever they open
        self.count_before = [0] * links
        self._queue_count = [0] * links
        self._queue_sum = [0] * links
        self._queue_max = [0] * links
        self._crowded_count = [0] * links
        self._crowded_s = [0.0] * links
        self._crowded_above = setup.overload.tau

    def _queued(self, out: Link, publish: Publish, at: float) -> None:
        if at < self.watched_from_s:
            self.count_before[out.rank] += 1
            return
        rank, queue_len = out.rank, len(out.queued)
        self._queue_count[rank] += 1
        self._queue_sum[rank] += queue_len
        if queue_len > self._queue_max[rank]:  # noqa: PLR1730  (a call of max costs more)
            self._queue_max[rank] = queue_len
        if queue_len > self._crowded_above:
            self._crowded_count[rank] += 1
            self._crowded_s[rank] += out.queued[-1] - at
        if self.path is not None:
            self.path.add((publish.publication.id, out.target))

    def _stored(self, node: Node, item: Input, start: float) -> None:
        if isinstance(item, (Advertise, Subscribe, Bind)):
            self.stored_s.setdefault(item.id, {}).setdefault(node.name, node.busy_until)

    def answer(self, publication: Publication) -> Answer:
        """Return which filters of the network the publication matches; an equal answer is the same
        object."""
        return self._shared.match(publication)

    def take_queues(
        self,
        *,
        before: list[int],
        count: list[int],
        total: list[int],
        longest: list[int],
        crowded: list[int],
        crowded_s: list[float],
    ) -> None:
        """Record what was counted elsewhere, by the ranks of the overlay's links."""
        self.count_before, self._queue_count = before, count
        self._queue_sum, self._queue_max = total, longest
        self._crowded_count, self._crowded_s = crowded, crowded_s

    def crowded(self) -> dict[tuple[LinkName, LinkName], tuple[int, float]]:
        """Return directed link -> publications that met a queue longer than tau, and the seconds
        until all of them were sent, summed."""
        return {
            (node.name, out.target): (self._crowded_count[out.rank], self._crowded_s[out.rank])
            for node in self.nodes.values()
            for out in node.links.values()
        }

    def busiest_before(self) -> int:
        """Return how many publications were put on the links of the busiest sender before the time
        from which queues are watched."""
        put: Counter[int] = Counter()
        for node in self.nodes.values():
            for out in node.links.values():
                put[id(out.sender)] += self.count_before[out.rank]
        return max(put.values())

    def queues(self) -> dict[tuple[LinkName, LinkName], tuple[int, int, int]]:
        """Return directed link -> publications put on it, the sum of the queue's lengths, and the
        longest."""
        return {
            (node.name, out.target): (
                self._queue_count[out.rank],
                self._queue_sum[out.rank],
                self._queue_max[out.rank],
            )
            for node in self.nodes.values()
            for out in node.links.values()
        }


def evaluation_overlay() -> Scot:
    """Make S_e, with 56 brokers."""
    return scot(evaluation_tree(), section("overlay").clusters)


def simulation(
    run: Run, overlay: Scot, wired: Wires | None = None
) -> tuple[Simulation, MeasuringKernel]:
    """Return a network of the run's routing and preset, with nobody in it yet; on other wires than
    the preset's if they are given."""
    wired = wired or wires(run.variant)
    setup = Setup(
        graph=overlay.graph,
        routing=run.routing,
        scot=overlay,
        overload=overload(),
        seed=run.seed,
        costs=costs(run.variant),
        link=wired.link,
        sender=wired.sender,
        machines=wired.machines,
        keep_deliveries=False,
    )
    simulated = Simulation(setup, kernel=MeasuringKernel)
    assert isinstance(simulated.world, MeasuringKernel)
    return simulated, simulated.world


def delays_s(simulated: Simulation, kernel: MeasuringKernel, *, subscriptions: bool) -> list[float]:
    """Return, for each advertisement or subscription, the time from the client's call until the
    last broker that should store it has done so (a dropped duplicate is not the first, and does not
    count)."""
    return [
        _last_stored_s(kernel, claim) - claim.requested_s
        for claim in simulated.result().claims
        if claim.subscription is subscriptions
    ]


def _last_stored_s(kernel: MeasuringKernel, claim: Claim) -> float:
    """Return when the last broker stored a claim. Other brokers may know it by another id than its
    client does."""
    id = claim.client, claim.number
    known_as = kernel.nodes[claim.broker].core.known_as(id, claim.client)
    return max(at_s for key in {id, known_as} for at_s in kernel.stored_s.get(key, {}).values())


def mean_rows(kernel: MeasuringKernel, tables: Iterable[str]) -> float:
    """Return the rows of the one of these tables that the routing has: mean over the brokers."""
    rows = [_first(node.core.tables(), tables) for node in kernel.nodes.values()]
    return sum(rows) / len(rows)


def _first(rows: Mapping[str, int], tables: Iterable[str]) -> int:
    return next(rows[table] for table in tables if table in rows)
