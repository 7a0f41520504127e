"""Reading the figures of a live broker, when somebody asks for them.

Almost everything is counted by the core and the parts around it anyway; `summing` has what must be
summed up over all clients or durable sessions."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from reefcast.model.messages import LinkName
from reefcast.server.host import Host
from reefcast.server.keeper import Keeper
from reefcast.server.metrics import definitions as of
from reefcast.server.metrics.definitions import COUNTED, FIGURES, MOST_LINKS, OTHERS, Metric
from reefcast.server.metrics.observed import Figure, ObservedBroker, figure, not_ready
from reefcast.server.metrics.summing import Sums
from reefcast.sessions.outcome import Told

OF_SESSIONS = {f"session_{told}": str(told) for told in Told}
"""The counters of what happens to durable sessions, and the kinds."""


class Collector:
    """Reads the figures of one broker. `sums`: those of others who look, by default its own."""

    def __init__(self, broker: ObservedBroker, sums: Sums | None = None) -> None:
        self._broker = broker
        self._sums = sums or Sums(broker)

    async def figures(self, visitors: int = 0) -> list[Figure]:
        """Return all figures. `visitors`: connections to its HTTP listener."""
        broker = self._broker
        return [
            *_broker(broker),
            *_counted(broker.host),
            *_delays(broker.host),
            *_links(broker),
            *_tables(broker.host),
            *_disk(broker),
            figure(of.CONNECTIONS, visitors, "http"),
            *await self._sums.figures(),
        ]


@cache
def own_version() -> str:
    """Return the version of Reefcast. To look it up takes long: once is enough."""
    from importlib.metadata import version  # slow to load, and not needed to start

    return version("reefcast")


# --- at once -------------------------------------------------------------------------------------


def _broker(broker: ObservedBroker) -> Iterator[Figure]:
    core, network = broker.host.core, broker.network.network
    about = (broker.name, network.name, core.router.name, own_version())
    yield figure(of.INFO, 1, *about)
    yield figure(of.READY, not not_ready(broker))
    yield figure(of.RELEARNING, core.relearning)
    yield figure(of.STOPPING, broker.stopping)
    if broker.tls is not None:
        yield figure(of.CERTIFICATE, broker.tls.value.ends_s)
    yield figure(of.UNCONFIRMED, len(core.delivering.confirming))
    congestion = broker.host.congestion
    yield figure(of.CONGESTED, congestion.announced)
    yield figure(of.CONGESTED_TARGETS, len(congestion.targets))
    memory, limits = broker.clients.memory, broker.host.limits
    yield figure(of.QUEUE_BYTES, memory.total)
    yield figure(of.QUEUE_BYTES_LIMIT, limits.queue_bytes)
    yield figure(of.QUEUE_EVICTIONS, memory.gave_way)
    yield figure(of.CLIENTS_LIMIT, limits.max_clients)
    yield figure(of.CONNECTIONS_LIMIT, broker.shared.limit)


def _counted(host: Host) -> Iterator[Figure]:
    """Yield the figures of all counters; those with a metric of their own also if they are 0."""
    counters = Counter(host.core.counters) + host.journal.counters
    figures = host.core.figures()
    counters["retained_refused"] = figures["retained_refused"]
    for name, kind in OF_SESSIONS.items():
        yield figure(of.DURABLE_EVENTS, counters.pop(name, 0), kind)
    yield from of_counters(counters, COUNTED)
    came, _ = host.core.links.passed()
    yield figure(of.RECEIVED, sum(came.values()), "neighbours")
    for name, metric in FIGURES.items():
        yield figure(metric, figures[name])


def of_counters(
    counters: Mapping[str, int], known: Mapping[str, tuple[Metric, tuple[str, ...]]]
) -> Iterator[Figure]:
    """Yield the figures of counters. `known`: those that have metrics of their own, with the values
    of labels; they are told also if they are 0."""
    for name, (metric, labels) in known.items():
        yield Figure(metric, labels, counters.get(name, 0))
    for name, count in sorted(counters.items()):
        if name not in known:
            yield figure(of.EVENTS, count, name)


def _delays(host: Host) -> Iterator[Figure]:
    samples = host.samples
    if samples is not None:
        yield figure(of.MATCHING, samples.matching)
        yield figure(of.DELIVERY_DELAY, samples.delivery)
        yield figure(of.CONFIRMATION, samples.confirmation)
        yield figure(of.LAG, samples.lag)
    if isinstance(host.keeper, Keeper):
        yield figure(of.COMMIT, host.keeper.commits)
        yield figure(of.PENDING, host.keeper.pending)
        yield figure(of.FAILING, host.keeper.is_failing)


def _tables(host: Host) -> Iterator[Figure]:
    for name, rows in host.core.sizes().items():
        yield figure(of.TABLE_ROWS, rows, name)


def _disk(broker: ObservedBroker) -> Iterator[Figure]:
    section = broker.network.sessions
    if broker.host.keeper is None or not section.directory:
        return
    sizes = []
    for ending in ("", "-wal"):
        try:
            file = Path(section.directory) / f"{broker.name}.sqlite{ending}"
            sizes.append(file.stat().st_size)
        except OSError:
            continue
    yield figure(of.DISK_BYTES, sum(sizes))
    free = free_bytes(section.directory)
    if free is not None:
        yield figure(of.DISK_FREE, free)


def free_bytes(directory: Path | str) -> int | None:
    """Return the free space where this directory is; None if that is not known."""
    try:
        space = os.statvfs(directory)
    except (OSError, AttributeError):
        return None
    return space.f_bavail * space.f_frsize


# --- links ---------------------------------------------------------------------------------------


def _links(broker: ObservedBroker) -> Iterator[Figure]:
    core, ends = broker.host.core, broker.links
    known = sorted({*broker.network.neighbours(broker.name), *ends})
    named = dict.fromkeys(known[:MOST_LINKS])
    for name in named:
        if (link := ends.get(name)) is not None:
            yield figure(of.LINK_UP, link.connection is not None, name)
            yield figure(of.LINK_RECONNECTS, max(0, link.reconnects), name)
            row = core.links.lst.status(name)
            yield figure(of.LINK_LOAD, row.load, name)
    yield figure(of.LINK_LOAD_LIMIT, core.links.lst.tau)
    yield figure(of.SOFT_LINKS, len(core.soft_links))
    came, went = core.links.passed()
    brokers = {*broker.host.outputs.links, *named}
    each = (
        (of.LINK_RECEIVED, came),
        (of.LINK_SENT, went),
        (of.LINK_OVERLOADED, core.links.lst.found_overloaded),
        (of.LINK_QUEUE, {name: core.links.queue_len(name) for name in brokers}),
        (of.LINK_HELD, {name: core.links.held(name) for name in brokers}),
        (of.LINK_UNCONFIRMED, core.delivering.confirming.waits_for()),
    )
    for metric, by_link in each:
        yield from _by_link(metric, by_link, named)
    yield from _custody(broker, named)


def _by_link(
    metric: Metric, by_link: Mapping[LinkName, float], named: Mapping[LinkName, None]
) -> Iterator[Figure]:
    """Yield the values of the links with names, and the sum of all others, if there are any."""
    for name in named:
        yield figure(metric, by_link.get(name, 0), name)
    if others := [count for name, count in by_link.items() if name not in named]:
        yield figure(metric, sum(others), OTHERS)


def _custody(broker: ObservedBroker, named: Mapping[LinkName, None]) -> Iterator[Figure]:
    delivering = broker.host.core.delivering
    custody, away = delivering.confirming.custody, delivering.away
    if custody is None or away is None:
        return
    yield figure(of.CUSTODY_BYTES, custody.size)
    yield figure(of.CUSTODY_LIMIT, broker.network.sessions.custody_bytes)
    yield from _by_link(of.LINK_CUSTODY, custody.counts(), named)
    now = asyncio.get_running_loop().time()
    for name in named:
        yield figure(of.LINK_AWAY, max(0.0, now - away.since.get(name, now)), name)
