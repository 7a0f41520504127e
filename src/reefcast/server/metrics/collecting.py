"""Reading the figures of a live broker, when somebody asks for them.

Almost everything is counted by the core and the parts around it anyway. What has to be summed up
over all clients or durable sessions is summed up in slices of `SLICE`, between which the broker
does other things: a scrape of a large broker delays nobody by more than a slice."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from reefcast.model.messages import LinkName
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.server.broker_link import BrokerLink
from reefcast.server.client_port import Line
from reefcast.server.clients import Clients
from reefcast.server.connection import Connection
from reefcast.server.host import Host
from reefcast.server.keeper import Keeper
from reefcast.server.metrics import definitions as of
from reefcast.server.metrics.definitions import COUNTED, FIGURES, MOST_LINKS, OTHERS, Metric
from reefcast.server.metrics.histograms import Histogram
from reefcast.server.shared import Shared
from reefcast.sessions.outcome import Told
from reefcast.sessions.session import Session
from reefcast.timing import MACHINE
from reefcast.tls.credentials import BrokerCredentials

SLICE = 500
"""Clients or sessions that are looked at without a pause: about a millisecond."""
OF_SESSIONS = {f"session_{told}": str(told) for told in Told}
"""The counters of what happens to durable sessions, and the kinds."""
SUMMED = (of.CONSUMERS, of.HANDED_OUT, of.BACKLOG, of.BACKLOG_BYTES, of.DEAD, of.BLOCKED)
"""The figures that are summed up over all durable sessions."""

T = TypeVar("T")
Value = float | Histogram


class Figure(NamedTuple):
    """A value of a metric, for these values of its labels."""

    metric: Metric
    labels: tuple[str, ...]
    value: Value


class ObservedBroker(Protocol):
    """A broker, as operators see it (`node.Node`)."""

    network: NetworkFile
    name: str
    host: Host
    clients: Clients
    shared: Shared
    tls: BrokerCredentials | None
    stopping: bool

    @property
    def links(self) -> Mapping[LinkName, BrokerLink]:
        """The links of the overlay, by neighbour."""

    def status(self, request: StatusRequest) -> dict[str, object]:
        """Return its status as plain data."""


def not_ready(broker: ObservedBroker) -> list[str]:
    """Return in words what is missing until a broker is ready; no names, for anybody may ask."""
    links = broker.links.values()
    down = sum(link.connection is None for link in links)
    missing = {
        "it was told to stop": broker.stopping,
        "it relearns its tables": broker.host.core.relearning,
        f"{down} of its {len(links)} links are not up": down > 0,
    }
    return [words for words, true in missing.items() if true]


async def figures_of(broker: ObservedBroker, visitors: int = 0) -> list[Figure]:
    """Return all figures of a broker. `visitors`: connections to its HTTP listener."""
    found: list[Figure] = [
        *_broker(broker),
        *_counted(broker.host),
        *_delays(broker.host),
        *_links(broker),
        *_tables(broker.host),
        *_disk(broker),
    ]
    found += await _connections(broker, visitors)
    found += await _clients(broker)
    found += await _sessions(broker)
    return found


def _figure(metric: Metric, value: Value, *labels: str) -> Figure:
    return Figure(metric, labels, value)


# --- at once -------------------------------------------------------------------------------------


def _broker(broker: ObservedBroker) -> Iterator[Figure]:
    from importlib.metadata import version  # slow to load, and not needed to start

    core, network = broker.host.core, broker.network.network
    about = (broker.name, network.name, core.router.name, version("reefcast"))
    yield _figure(of.INFO, 1, *about)
    yield _figure(of.READY, not not_ready(broker))
    yield _figure(of.RELEARNING, core.relearning)
    yield _figure(of.STOPPING, broker.stopping)
    if broker.tls is not None:
        yield _figure(of.CERTIFICATE, broker.tls.value.ends_s)
    yield _figure(of.UNCONFIRMED, len(core.delivering.confirming))
    congestion = broker.host.congestion
    yield _figure(of.CONGESTED, congestion.announced)
    yield _figure(of.CONGESTED_TARGETS, len(congestion.targets))
    memory, limits = broker.clients.memory, broker.host.limits
    yield _figure(of.QUEUE_BYTES, memory.total)
    yield _figure(of.QUEUE_BYTES_LIMIT, limits.queue_bytes)
    yield _figure(of.QUEUE_EVICTIONS, memory.gave_way)
    yield _figure(of.CLIENTS_LIMIT, limits.max_clients)


def _counted(host: Host) -> Iterator[Figure]:
    """Yield the figures of all counters; those with a metric of their own also if they are 0."""
    counters = Counter(host.core.counters) + host.journal.counters
    figures = host.core.figures()
    counters["retained_refused"] = figures["retained_refused"]
    for name, (metric, labels) in COUNTED.items():
        yield Figure(metric, labels, counters.pop(name, 0))
    for name, kind in OF_SESSIONS.items():
        yield _figure(of.DURABLE_EVENTS, counters.pop(name, 0), kind)
    for name, count in sorted(counters.items()):
        yield _figure(of.EVENTS, count, name)
    came, _ = host.core.links.passed()
    yield _figure(of.RECEIVED, sum(came.values()), "neighbours")
    for name, metric in FIGURES.items():
        yield _figure(metric, figures[name])


def _delays(host: Host) -> Iterator[Figure]:
    samples = host.samples
    if samples is not None:
        yield _figure(of.MATCHING, samples.matching)
        yield _figure(of.DELIVERY_DELAY, samples.delivery)
        yield _figure(of.CONFIRMATION, samples.confirmation)
        yield _figure(of.LAG, samples.lag)
    if isinstance(host.keeper, Keeper):
        yield _figure(of.COMMIT, host.keeper.commits)
        yield _figure(of.PENDING, host.keeper.pending)
        yield _figure(of.FAILING, host.keeper.is_failing)


def _tables(host: Host) -> Iterator[Figure]:
    for name, rows in host.core.sizes().items():
        yield _figure(of.TABLE_ROWS, rows, name)


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
    yield _figure(of.DISK_BYTES, sum(sizes))
    try:
        space = os.statvfs(section.directory)
    except (OSError, AttributeError):
        return
    yield _figure(of.DISK_FREE, space.f_bavail * space.f_frsize)


# --- links ---------------------------------------------------------------------------------------


def _links(broker: ObservedBroker) -> Iterator[Figure]:
    core, ends = broker.host.core, broker.links
    known = sorted({*broker.network.neighbours(broker.name), *ends})
    named = dict.fromkeys(known[:MOST_LINKS])
    for name in named:
        if (link := ends.get(name)) is not None:
            yield _figure(of.LINK_UP, link.connection is not None, name)
            yield _figure(of.LINK_RECONNECTS, max(0, link.reconnects), name)
            row = core.links.lst.status(name)
            yield _figure(of.LINK_LOAD, row.load, name)
    yield _figure(of.LINK_LOAD_LIMIT, core.links.lst.tau)
    yield _figure(of.SOFT_LINKS, len(core.soft_links))
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
        yield _figure(metric, by_link.get(name, 0), name)
    if others := [count for name, count in by_link.items() if name not in named]:
        yield _figure(metric, sum(others), OTHERS)


def _custody(broker: ObservedBroker, named: Mapping[LinkName, None]) -> Iterator[Figure]:
    delivering = broker.host.core.delivering
    custody, away = delivering.confirming.custody, delivering.away
    if custody is None or away is None:
        return
    yield _figure(of.CUSTODY_BYTES, custody.size)
    yield _figure(of.CUSTODY_LIMIT, broker.network.sessions.custody_bytes)
    yield from _by_link(of.LINK_CUSTODY, custody.counts(), named)
    now = asyncio.get_running_loop().time()
    for name in named:
        yield _figure(of.LINK_AWAY, max(0.0, now - away.since.get(name, now)), name)


# --- in slices -----------------------------------------------------------------------------------


async def _slices(many: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """Yield parts of a list; between them the broker does other things."""
    for start in range(0, len(many), SLICE):
        if start:
            await asyncio.sleep(0)
        yield many[start : start + SLICE]


async def _connections(broker: ObservedBroker, visitors: int) -> list[Figure]:
    roles: Counter[str] = Counter(client=0, broker=0, soft=0, admin=0, greeting=0)
    async for lines in _slices(list(broker.shared.all)):
        for line in lines:
            roles[_role_of(line)] += 1
    roles["http"] = visitors
    return [
        *(_figure(of.CONNECTIONS, count, role) for role, count in sorted(roles.items())),
        _figure(of.CONNECTIONS_LIMIT, broker.shared.limit),
    ]


def _role_of(line: Line) -> str:
    """Return what is at the other end of a connection. Other protocols than ours are clients'."""
    if not isinstance(line, Connection):
        return "client"
    if line.hello is None or not line.greeted:
        return "greeting"
    return line.hello.role.name.lower()


async def _clients(broker: ObservedBroker) -> list[Figure]:
    accounts = broker.host.congestion.accounts
    away = queued = longest = slow = credit = congested = throttled = 0
    sessions = list(broker.clients.sessions.values())
    async for some in _slices(sessions):
        for session in some:
            port, account = session.port, accounts.get(session.name)
            waits = port.queue_len
            queued += waits
            longest = max(longest, waits)
            away += port.line is None
            slow += session.slow_since_s is not None
            if account is not None:
                credit += max(0, account.allowance)
                congested += bool(account.blockers)
                throttled += account.throttled
    subscribed = registered = held = 0
    async for clients in _slices(list(broker.host.core.clients.values())):
        for client in clients:
            subscribed += client.subscribed
            registered += client.registered
            held += len(client.held)
    return [
        _figure(of.CLIENTS, len(sessions) - away, "connected"),
        _figure(of.CLIENTS, away, "away"),
        _figure(of.QUEUED, queued),
        _figure(of.QUEUED_MOST, longest),
        _figure(of.SLOW, slow),
        _figure(of.CREDIT, credit),
        _figure(of.WITHHELD, congested, "congestion"),
        _figure(of.WITHHELD, throttled, "rate"),
        _figure(of.SUBSCRIPTIONS, subscribed),
        _figure(of.ADVERTISEMENTS, registered - subscribed),
        _figure(of.HELD, held),
    ]


async def _sessions(broker: ObservedBroker) -> list[Figure]:
    home = broker.host.core.delivering.home
    if home is None:
        return []
    sums: Counter[Metric] = Counter()
    longest, oldest_s, sessions = 0, float("inf"), home.each()
    async for some in _slices(sessions):
        for session in some:
            longest = max(longest, len(session.queue.entries))
            oldest_s = min(oldest_s, _add_up(session, sums))
    now_s = MACHINE.get().now_us() / 1e6
    return [
        _figure(of.DURABLE, len(sessions)),
        _figure(of.DURABLE_LIMIT, broker.network.sessions.max_sessions),
        _figure(of.STORED, home.stored_events),
        _figure(of.BACKLOG_MOST, longest),
        _figure(of.BACKLOG_AGE, max(0.0, now_s - oldest_s) if longest else 0.0),
        *(_figure(metric, sums[metric]) for metric in SUMMED),
    ]


def _add_up(session: Session, sums: Counter[Metric]) -> float:
    """Add the figures of a durable session; return since when its oldest event waits."""
    queue, consumers = session.queue, session.consumers.by_name
    if consumers:
        sums[of.CONSUMERS] += len(consumers)
        sums[of.HANDED_OUT] += sum(len(each.out) for each in consumers.values())
    if queue.entries:
        sums[of.BACKLOG] += len(queue.entries)
        sums[of.BACKLOG_BYTES] += queue.bytes
    sums[of.DEAD] += len(queue.dead)
    sums[of.BLOCKED] += len(session.waiting)
    oldest = queue.oldest
    return float("inf") if oldest is None else oldest.at_s
