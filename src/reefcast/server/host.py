"""The parts of a live broker that the ends of its connections share, and how they are connected."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from reefcast.history.service import HistoryService
from reefcast.logs import about, part
from reefcast.model import wire
from reefcast.model.keeping import Contents, DropRow
from reefcast.model.messages import LinkName
from reefcast.model.versions import Offer
from reefcast.model.wire import Codec, Hello, Role
from reefcast.network.file import NetworkFile
from reefcast.network.roles import grants_of
from reefcast.network.sections import LimitsSection, SessionsSection
from reefcast.overlay.topology import is_tree
from reefcast.protocol.credit import CongestionControl
from reefcast.retaining.service import RetainingService
from reefcast.retaining.values import Limits
from reefcast.routing.broker import Broker
from reefcast.routing.custody import CustodyLimits
from reefcast.routing.mesh.moved_links import MOVED_LINKS, MovedLinks, said_by_file
from reefcast.routing.on_disk import Rows
from reefcast.routing.registry import routing_named
from reefcast.routing.router import RoutingOptions, Shape
from reefcast.security.audit import Audit
from reefcast.server.driver import Driver
from reefcast.server.keeper import Keeping, open_keeper
from reefcast.server.looks.watching import Watching
from reefcast.server.member import audit_of
from reefcast.server.metrics.sampling import Samples
from reefcast.server.outputs import Outputs
from reefcast.server.passage import Passage
from reefcast.server.request_log import LiveRequestLog, open_request_log
from reefcast.server.tracing import Journal, open_trace
from reefcast.sessions.home import Home
from reefcast.statistics.store import StatisticsStore
from reefcast.timing import MACHINE
from reefcast.traces.files import MOST_HASH

log = part("sessions")
NO_LINKS = (
    "routing {routing!r} retains nothing, for its brokers have no fixed links by which all of them "
    "would learn of it: publish without retain, or use a routing with links, such as acyclic"
)


class Host(NamedTuple):
    """The shared parts of a broker. `me`: the content of all hellos of this broker; its `session`
    is a random text drawn when the broker started. `codec`: encodes messages between brokers.
    `statistics`: None where the routing keeps none; `requests`: None where requests are not logged;
    `passage`: None where all publications take the readable path; `keeper`: None where the broker
    has no disk; `moved`: the links that were moved, where they are not as in the network file, when
    the broker started. `audit`: the audit log. `samples`: delays, None where nobody can see them.
    `watching`: the publications that operators watch for."""

    me: Hello
    limits: LimitsSection
    journal: Journal
    outputs: Outputs
    congestion: CongestionControl
    core: Broker
    driver: Driver
    codec: Codec
    statistics: StatisticsStore | None
    requests: LiveRequestLog | None
    passage: Passage | None
    keeper: Keeping | None
    moved: MovedLinks
    audit: Audit
    samples: Samples | None
    watching: Watching


def make_host(
    network: NetworkFile,
    name: str,
    offer: Offer,
    *,
    readable: bool = False,
    keeper: Keeping | None = None,
) -> Host:
    """Make the parts of broker `name`. Input goes to the driver, which calls the core; output goes
    to the outputs, which tell congestion control how full they are. `readable`: all publications
    take the readable path, also plain ones. `keeper`: the broker's disk, if not the one that the
    network file names."""
    machine = MACHINE.get()
    me = wire.hello(Role.BROKER, name, network.network.name, machine.token(8), offer=offer)
    keeper = keeper or open_keeper(network.sessions, name)
    rows, moved, dropped = _rows(network, name, keeper)
    limits = replace(network.limits)  # changes while the broker runs, and is another broker's, too
    neighbours, scot = moved.applied_to(network.neighbours(name)), network.scot()
    journal = Journal(name, open_trace(network.trace, name))
    outputs = Outputs()
    tree = is_tree(network.graph())

    def sources(link: LinkName) -> Sequence[LinkName]:
        return (link, *core.alongside(link)) if tree else neighbours

    congestion = CongestionControl(
        name, machine.now_us() * 1000, outputs.grant, outputs.flood, sources
    )
    options = network.routing_options(name)
    statistics = _statistics(network, name, options)
    core = Broker(
        name,
        network.network.routing,
        neighbours=neighbours,
        rng=random.Random(me.session),
        queues=outputs,
        overload=network.overload_limit(),
        scot=scot.neighbours(name) if scot else None,
        options=options,
        statistics=statistics,
        services=(HistoryService(name), _retaining(network)),
        most_held=limits.link_buffer,
        patience_s=limits.link_patience_s,
        home=_home(network.sessions, limits, keeper),
        rows=rows,
        most_sessions=network.sessions.max_sessions,
        custody=CustodyLimits(network.sessions.custody_after_s, network.sessions.custody_bytes),
        advisories=network.sessions.advisories,
        grants=grants_of(network.role),
    )
    for what in core.delivering.set_aside:
        words = "broker %s set aside what it cannot read: %s"
        log.error(words, name, what, extra=about(broker=name))
    samples = None if network.admin_address(name) is None else Samples()
    watching = Watching(core)
    driver = Driver(core, outputs, congestion, journal, samples, watching)
    if keeper is not None:
        keeper.contents = Contents()  # a backlog is large, and the core has it now
        driver.keep_with(keeper)
        keeper.keep(dropped, 0)
    codec = Codec(core.messages, core.header)
    requests = open_request_log(network.requests, name)
    # Rows about single publications are written where there are objects of them.
    readable = readable or journal.wanted_below > MOST_HASH
    passage = None if readable else Passage(core.plain_way, outputs, journal.wanted_below)
    if passage is not None:
        watching.readable = passage.watch_below
    shared = me, limits, journal, outputs, congestion, core, driver, codec, statistics, requests
    return Host(*shared, passage, keeper, moved, audit_of(network, name), samples, watching)


def _rows(
    network: NetworkFile, name: str, keeper: Keeping | None
) -> tuple[Rows, MovedLinks, list[DropRow]]:
    """Return the rows on a broker's disk without those of moved links that the network file has by
    now, the moved links that remain, and the removal of the others."""
    rows = {} if keeper is None else keeper.contents.rows
    moved = rows.get(MOVED_LINKS, {})
    dropped = said_by_file(moved, network.neighbours(name), network.names)
    gone = {each.key for each in dropped}
    left = {key: row for key, row in moved.items() if key not in gone}
    return ({**rows, MOVED_LINKS: left} if gone else rows), MovedLinks(left), dropped


def _epoch_s() -> float:
    """Return what makes seconds UTC of the loop's time."""
    return MACHINE.get().now_us() / 1e6 - asyncio.get_running_loop().time()


def _retaining(network: NetworkFile) -> RetainingService:
    """Make the broker's retained values, which are empty until its disk or its neighbours tell."""
    section = network.retained
    limits = Limits(**{field: getattr(section, field) for field in Limits.__struct_fields__})
    routing = network.network.routing
    unable = NO_LINKS.format(routing=routing)
    without_links = routing_named(routing).overlay is Shape.NONE
    return RetainingService(limits, epoch_s=_epoch_s(), unable=unable if without_links else "")


def _home(section: SessionsSection, limits: LimitsSection, keeper: Keeping | None) -> Home | None:
    """Make the sessions that the broker had when it stopped."""
    if keeper is None:
        return None
    now = asyncio.get_running_loop().time()
    return Home(
        keeper.contents,
        epoch_s=_epoch_s(),
        dedup_s=section.dedup_s,
        memory_bytes=section.memory_bytes,
        most_subscriptions=limits.max_subscriptions,
        most_filter_bytes=limits.max_filter_bytes,
        now=now,
    )


def _statistics(network: NetworkFile, name: str, options: RoutingOptions) -> StatisticsStore | None:
    """Open this broker's statistics, if its routing keeps any."""
    if not options.keeps_statistics:
        return None
    path = Path(network.statistics.directory) / f"{name}.sqlite"
    now = asyncio.get_running_loop().time()
    return StatisticsStore(path, now, part("trace").warning, network.statistics_window())
