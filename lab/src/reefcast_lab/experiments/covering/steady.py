"""Publications on their way while tables stay as they are, computed for all of them at once.

Between two changes of tables a tree of brokers is a tree of queues: each broker serves what comes
in its order, and what a publication costs it, and where it goes on to, depends on the publication
alone. So arrivals and departures follow from one pass over the brokers, from the publishers
outward, with a few operations on arrays for each; a departure is that of Lindley's recursion,

    end[i] = max(arrival[i], end[i - 1]) + service[i]

How many rows lead where is counted for each kind of publication (`kinds`), from the rows that the
brokers have (`_Tables`).

The pass does to the kernel what the simulation would do: deliveries, counters, statistics, ghosts'
suspicions, and until when brokers are busy. It needs a network without control messages under way
(`control_under_way`) and without faults or jitter. Ghosts that are found wanting change tables:
what is passed ends before the publication that condemns the first of them.

The twin is the simulation itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reefcast.errors import LocalError
from reefcast.model.messages import EntityId, Publish
from reefcast.routing.acyclic import Acyclic
from reefcast.routing.covering.ghosts import Ghost, GhostTable
from reefcast.routing.covering.suspicion import Suspicion
from reefcast.routing.tables import Row
from reefcast.simulation.node import Node
from reefcast_lab.experiments.covering.crowd import Crowd, Stream, Subscription
from reefcast_lab.experiments.covering.kinds import Ints, Kinds
from reefcast_lab.experiments.covering.measuring import CoverKernel, Sample
from reefcast_lab.experiments.covering.topology import Topology, outward

Floats = NDArray[np.float64]

FRAME_BYTES = 100
"""About what a publication takes on a link: less than a microsecond."""


def control_under_way(kernel: CoverKernel) -> bool:
    """Return whether anything but publications waits at a broker or is on a link."""
    for node in kernel.nodes.values():
        waiting = [item for _, _, item, _ in node.queue]
        waiting += [entry[4] for link in node.links.values() for entry in link.flight]
        if node.leaving is not None:
            waiting.append(node.leaving.item)
        if node.urgent or any(type(item) is not Publish for item in waiting):
            return True
    return False


class _Tables:
    """The rows of one broker: for each kind, how many want it of its own clients (`local`), and of
    those that lead to each neighbour (`hops`)."""

    def __init__(self, node: Node, kinds: Kinds) -> None:
        self.local = np.zeros(kinds.number + 1, np.int64)
        self.hops: dict[str, Ints] = {}
        for row in acyclic(node).prt:
            if (ends := kinds.wanted.get(row.filter.text)) is not None:
                counts = self._counts(row)
                counts[ends[0]] += 1
                counts[ends[1]] -= 1
        for counts in (self.local, *self.hops.values()):
            np.cumsum(counts, out=counts)
        self.matched = sum(self.hops.values(), self.local)

    def _counts(self, row: Row) -> Ints:
        if row.local:
            return self.local
        return self.hops.setdefault(row.next_hop, np.zeros_like(self.local))


def acyclic(node: Node) -> Acyclic:
    """Return the broker's router. Raises `LocalError` for one of another routing."""
    router = node.core.router
    if not isinstance(router, Acyclic):
        raise LocalError(f"broker {node.name} does not route on a tree: nothing can be passed on")
    return router


@dataclass
class _Visits:
    """Publications at a broker, in the order in which they come: their numbers in the stream, when
    they came and left, and of what `CoverHeader` says the distance and count on leaving."""

    number: Ints
    arrival: Floats
    end: Floats
    distance: Ints
    count: Ints
    useless: NDArray[np.bool_]


class Passage:
    """The passage of a stream through a network at rest. `kinds` of a crowd are found once."""

    def __init__(self, kernel: CoverKernel, topology: Topology, crowd: Crowd) -> None:
        self._kernel = kernel
        self._order = outward(topology)
        self._publishers = crowd.publishers
        self._kinds = Kinds(crowd)
        self._wanted = self._kinds.wanted

    def take(
        self,
        stream: Stream,
        sampled: Collection[str] = (),
        sample_at_s: Sequence[float] = (),
        remember: Iterable[Subscription] = (),
        least: int = 0,
    ) -> int:
        """Pass publications on, up to the one that condemns a ghost, but at least so many; return
        how many. Samples are taken of the brokers `sampled`; of the deliveries to the subscriptions
        `remember` the brokers keep statistics."""
        tables = {name: _Tables(self._kernel.nodes[name], self._kinds) for name in self._order}
        visits = self._visits(stream, tables)
        passed = max(least, min(self._condemning(stream, visits), default=len(stream)))
        if passed < len(stream):
            stream = stream.part(0, passed)
            visits = self._visits(stream, tables)
        self._settle(stream, tables, visits)
        self._sample(visits, sampled, [at for at in sample_at_s if at <= stream.until_s])
        self._remember(remember, stream, visits)
        return passed

    # --- the pass ---------------------------------------------------------------------------------

    def _visits(self, stream: Stream, tables: Mapping[str, _Tables]) -> dict[str, _Visits]:
        kinds = self._kinds.of(stream)
        coming: dict[str, list[tuple[str, Ints, Floats, Ints, Ints]]] = {
            name: [] for name in self._order
        }
        for place, (client, broker) in enumerate(self._publishers):
            numbers = np.flatnonzero(stream.publisher == place)
            none = np.full(len(numbers), -1, np.int64)  # the first broker makes 0 of it
            coming[broker].append((client, numbers, stream.at_s[numbers], none, none))
        visits = {}
        for name in self._order:
            if coming[name]:
                visits[name] = self._visit(name, coming, tables[name], kinds)
        return visits

    def _visit(
        self,
        name: str,
        coming: dict[str, list[tuple[str, Ints, Floats, Ints, Ints]]],
        table: _Tables,
        kinds: Ints,
    ) -> _Visits:
        """Serve what comes to a broker, and send it on."""
        node, costs = self._kernel.nodes[name], self._kernel.costs
        sources = coming.pop(name)
        arrival = np.concatenate([each[2] for each in sources])
        order = np.argsort(arrival, kind="stable")
        arrival = arrival[order]
        number, distance, count = (
            np.concatenate([each[i] for each in sources])[order] for i in (1, 3, 4)
        )
        came_by = np.concatenate([np.full(len(each[1]), i) for i, each in enumerate(sources)])
        came_by = came_by[order]
        here = kinds[number]
        goes: dict[str, NDArray[np.bool_]] = {}
        for hop, counts in table.hops.items():
            back = [i for i, each in enumerate(sources) if each[0] == hop]
            goes[hop] = (counts[here] > 0) & ~np.isin(came_by, back)
        local, matched = table.local[here], table.matched[here]
        copies = local + sum(goes.values(), np.zeros(len(here), np.int64))
        service = costs.publication_s + costs.matched_row_s * matched + costs.copy_s * copies
        service = service + costs.table_row_s * len(acyclic(node).prt)
        first = distance < 0
        met = (matched > 1) & ~first
        distance = np.where(met | first, 0, distance + 1)
        count = np.where(first, 0, count + met)
        end = departures(arrival, service, node.busy_until)
        for hop, mask in goes.items():
            if mask.any() and hop not in coming:
                raise LocalError(f"publications go from {name} to {hop}, against the order")
            link = node.links[hop]
            later = end[mask] + FRAME_BYTES / link.bytes_per_s + link.latency_s
            coming[hop].append((name, number[mask], later, distance[mask], count[mask]))
        return _Visits(number, arrival, end, distance, count, copies == 0)

    # --- what it does to the kernel ---------------------------------------------------------------

    def _settle(
        self, stream: Stream, tables: Mapping[str, _Tables], visits: Mapping[str, _Visits]
    ) -> None:
        kinds = self._kinds.of(stream)
        homes = {broker for _, broker in self._publishers}
        for name, visit in visits.items():
            node, local = self._kernel.nodes[name], tables[name].local[kinds[visit.number]]
            got = local > 0
            delay = visit.end[got] - stream.at_s[visit.number[got]]
            self._kernel.record.take(visit.end[got], delay, local[got])
            if len(visit.end):
                node.busy_until = max(node.busy_until, float(visit.end[-1]))
            if name not in homes:  # what a neighbour sent
                self._kernel.record.forwarded += len(visit.number)
                node.core.counters["false_positive"] += int(visit.useless.sum())
        for ghost, limit, useless in self._seen(stream, visits):
            ghost.seen += len(useless)
            ghost.false += int(useless.sum())
            for counts in useless.tolist():
                ghost.suspicion = limit.after(ghost.suspicion, counts)

    def _condemning(self, stream: Stream, visits: Mapping[str, _Visits]) -> Iterator[int]:
        """Yield the number of the publication that condemns a ghost, for each that is."""
        for name, ghost, limit, seen in self._ghosts(stream, visits):
            suspicion, visit = ghost.suspicion, visits[name]
            for place in seen.tolist():
                suspicion = limit.after(suspicion, bool(visit.useless[place]))
                if limit.is_certain(suspicion):
                    yield int(visit.number[place])
                    break

    def _seen(
        self, stream: Stream, visits: Mapping[str, _Visits]
    ) -> Iterator[tuple[Ghost, Suspicion, NDArray[np.bool_]]]:
        for name, ghost, limit, seen in self._ghosts(stream, visits):
            yield ghost, limit, visits[name].useless[seen]

    def _ghosts(
        self, stream: Stream, visits: Mapping[str, _Visits]
    ) -> Iterator[tuple[str, Ghost, Suspicion, Ints]]:
        """Yield the ghosts, and which of their brokers' visits matched them."""
        kinds = self._kinds.of(stream)
        for name, visit in visits.items():
            router = acyclic(self._kernel.nodes[name])
            if not router.counts:
                continue
            limit, here = Suspicion(1 - router.theta), kinds[visit.number]
            for row in GhostTable(router.tree.outgoing):
                first, after = self._wanted[row.ghost.filter.text]
                yield name, row.ghost, limit, np.flatnonzero((here >= first) & (here < after))

    def _sample(
        self, visits: Mapping[str, _Visits], brokers: Collection[str], at_s: Sequence[float]
    ) -> None:
        """Take samples, or add to those that the simulation took at the same time."""
        taken = {sample.at_s: place for place, sample in enumerate(self._kernel.samples)}
        rows = [len(acyclic(self._kernel.nodes[name]).prt) for name in brokers]
        inside = [_inside(visits.get(name), np.array(at_s)) for name in brokers]
        for each, now in enumerate(at_s):
            queued = [int(counts[each]) for counts in inside]
            if now in taken:
                before = self._kernel.samples[taken[now]]
                queued = [sum(pair) for pair in zip(before.queued, queued, strict=True)]
                self._kernel.samples[taken[now]] = Sample(now, queued, before.rows)
            else:
                self._kernel.samples.append(Sample(now, queued, rows))

    def _remember(
        self, subscriptions: Iterable[Subscription], stream: Stream, visits: Mapping[str, _Visits]
    ) -> None:
        """Record the deliveries to these subscriptions, in their order at each broker."""
        kinds = self._kinds.of(stream)
        own = {row.last_hop: row.id for row in self._advertisements()}
        of_broker: dict[str, list[tuple[int, EntityId]]] = {}
        for one in subscriptions:
            first, after = self._wanted[one.filter]
            here = kinds[visits[one.broker].number]
            rows = acyclic(self._kernel.nodes[one.broker]).prt
            id = next(row.id for row in rows if row.local and row.last_hop == one.client)
            got = np.flatnonzero((here >= first) & (here < after)).tolist()
            of_broker.setdefault(one.broker, []).extend((place, id) for place in got)
        for name, deliveries in of_broker.items():
            statistics, visit = acyclic(self._kernel.nodes[name]).statistics, visits[name]
            for place, id in sorted(deliveries):
                number = int(visit.number[place])
                client, _ = self._publishers[stream.publisher[number]]
                said = (client, stream.first + number)
                distance, count = int(visit.distance[place]), int(visit.count[place])
                statistics.record(
                    said, own[client], id, distance, count, float(visit.arrival[place])
                )

    def _advertisements(self) -> Iterator[Row]:
        for _, broker in self._publishers:
            yield from (row for row in acyclic(self._kernel.nodes[broker]).srt if row.local)


def departures(arrival: Floats, service: Floats, busy_until: float) -> Floats:
    """Return when a queue's customers leave that come in this order, the server being busy before.

    Since the last time that the queue was empty the server never rested, so that a departure is the
    latest of these begins plus all service since."""
    done = np.cumsum(service)
    begun = np.maximum.accumulate(np.maximum(arrival - (done - service), busy_until))
    return np.asarray(begun + done)


def _inside(visit: _Visits | None, at_s: Floats) -> Ints:
    """Return how many publications waited or were served at each time."""
    if visit is None:
        return np.zeros(len(at_s), np.int64)
    came = np.searchsorted(visit.arrival, at_s)
    return np.asarray(came - np.searchsorted(visit.end, at_s, side="right"))
