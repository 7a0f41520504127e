"""Publications through a mesh that finds its links, with the compiled event loop (`loop`) in place
of the kernel's.

The kernel handles one publication at one broker in some 30 microseconds. Here control messages and
timers go through the kernel, one by one, and publications through the loop in between. Both change
when brokers and senders are free again; brokers review their soft links by what the loop counted;
and after each control message the loop has the maps that the broker has then. Subscriptions stay as
they are. All figures are those of the kernel (a test compares them).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from reefcast.errors import LocalError
from reefcast.model.flat import as_sent
from reefcast.model.messages import LinkName
from reefcast.model.publication import Publication
from reefcast.routing.links import WINDOW_S
from reefcast.routing.mesh.maps import Neighbourhood, Wom
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.router import Mesh
from reefcast.routing.mesh.traffic import Traffic
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.node import Node
from reefcast.simulation.recording import microseconds
from reefcast.simulation.sizes import publication_size
from reefcast.simulation.world import TIMER_RANK
from reefcast_lab.experiments.mesh import loop
from reefcast_lab.experiments.mesh.distribution import matching
from reefcast_lab.experiments.script import Claim, Event
from reefcast_lab.experiments.under_way import (
    HEAP,
    KEPT,
    begin,
    longer_way,
    nothing_under_way,
    twice,
)

ROOM = 1 << 14
"""Messages under way, and deliveries, for which there is room at first."""
CURVE_S = 10.0
"""Traffic over time is counted by so many seconds."""
LONGEST_S = 3600.0
"""What is sent later than so long after `from_s` is counted as if at that time."""


class Passed(NamedTuple):
    """What publications did. `published`: how many were given. `sends`: from broker to broker;
    `hops`, `delay_s`: of each delivery at another broker than the publisher's; `to`, `out`:
    publications that each broker got and sent. `over_time`: sends, by `CURVE_S`, since time 0.
    `bytes_each`: the mean length."""

    published: int
    sends: int
    hops: NDArray[np.int64]
    delay_s: NDArray[np.float64]
    to: Counter[str]
    out: Counter[str]
    over_time: list[int]
    bytes_each: float


class Counted(Traffic):
    """The traffic of a broker whose publications are counted elsewhere. `taken`: returns, for S1 or
    S2 (`direct`), the publications by link and candidate since it was called last."""

    def __init__(
        self, mom: Neighbourhood, taken: Callable[[bool], Mapping[LinkName, int]], *, direct: bool
    ) -> None:
        super().__init__(mom)
        self.paths.direct = direct
        self._taken = taken

    def count(self) -> None:
        self.sent.update(self._taken(self.paths.direct))
        super().count()


class Crossing:
    """The passage of publications through a network in which all have claimed what they will ever
    claim, nothing has been published, and nothing is under way. Raises `LocalError` for a network
    where the loop would do something else than the kernel."""

    def __init__(self, kernel: Kernel, claims: Sequence[Claim]) -> None:
        self._kernel = kernel
        self._nodes = list(kernel.nodes.values())
        self._options = _checked(kernel, self._nodes)
        self._routers = [cast(Mesh, node.core.router) for node in self._nodes]
        self._publishers = {(one.client, one.broker) for one in claims if one.advertises}
        self._is_over = False
        self._number = {node.name: node.index for node in self._nodes}
        self._claims = [claim for claim in claims if not claim.advertises]
        anchors = self._found_anchors()
        self._sequence: Counter[str] = Counter()
        self._senders = [next(iter(node.links.values())).sender for node in self._nodes]
        self._known: list[object] = [None] * len(self._nodes)
        self._windows = [-1] * len(self._nodes)
        size = len(self._nodes)
        self._brokers = _broker_arrays(self._nodes)
        self._real, self._tried = _empty_maps(size), _empty_maps(size)
        ranks = 1 + max(out.rank for node in self._nodes for out in node.links.values())
        self._links = _link_arrays(size, ranks)
        self._now = np.zeros(loop.NOW, np.int64)
        self._network = loop.Network(self._brokers, self._real, self._tried, anchors, self._links)
        self._way = nothing_under_way(ranks + size * size, ROOM, self._now)
        self._room = _empty_room(ROOM)
        for node in self._nodes:
            self._take_over_counting(node)
            self._hear(node)

    def _found_anchors(self) -> loop.Places:
        """Return the anchors of the brokers' rows, by subscription and broker."""
        number = {claim.client: i for i, claim in enumerate(self._claims)}
        if len(number) < len(self._claims):
            raise LocalError("the loop knows clients of one subscription each")
        anchors = np.full((len(number), len(self._nodes)), loop.NONE, np.int16)
        for node, router in zip(self._nodes, self._routers, strict=True):
            for row in router.prt:
                anchor = loop.HERE if row.local else self._number[row.next_hop]
                anchors[number[row.id[0]], node.index] = anchor
        return anchors

    def _take_over_counting(self, node: Node) -> None:
        mesh, sent = self._routers[node.index].mesh, self._brokers.sent[:, node.index]
        names = [each.name for each in self._nodes]

        def taken(direct: bool) -> dict[LinkName, int]:
            counts = sent[int(direct)]
            found = {names[i]: int(counts[i]) for i in counts.nonzero()[0]}
            sent[:] = 0
            return found

        direct = mesh.traffic.paths.direct
        mesh.traffic = Counted(mesh.mom, taken, direct=direct)
        mesh.relink()
        self._brokers.direct[node.index] = direct

    # --- passing on -------------------------------------------------------------------------------

    def pass_on(
        self,
        events: Sequence[Event],
        from_s: float,
        until_s: float = np.inf,
        rounds_until_s: float = 0.0,
    ) -> Passed:
        """Publish events, whose times ascend from `from_s` on, and let time pass `until_s`, or
        until nothing is under way and it is `rounds_until_s`. What has not happened by `until_s`
        never does: that is the last call then. Raises `LocalError` behind it, and for events of
        clients that do not advertise at their broker, or of descending times."""
        if self._is_over:
            raise LocalError("the network was stopped in the middle: nothing passes through it now")
        publications = self._published(events, from_s)
        self._forget(from_s)
        self._serve_late_timers(until_s)
        limits = self._limits(until_s)
        if events:
            begin(self._way, self._now, float(publications.at_s[0]))
        while True:
            due, rank, node = self._kernel.head(until_s) or (np.inf, 0, None)
            stopped = self._pass_until(publications, limits, due, rank)
            if stopped is not None:
                self._serve_timer(stopped, until_s)
            elif node is None or self._nobody_waits(due, until_s, rounds_until_s):
                break
            else:
                self._step(node, due, rank, until_s)
        self._end(until_s, rounds_until_s)
        return self._passed(publications)

    def _serve_late_timers(self, until_s: float) -> None:
        """Serve the timers that were due before brokers were at rest, but nobody waited for."""
        for node in self._nodes:
            while node.first_timer()[0] <= self._kernel.now and self._serve_timer(node, until_s):
                pass

    def _nobody_waits(self, due: float, until_s: float, rounds_until_s: float) -> bool:
        """Return whether nobody waits for the timer that is due next."""
        idle = self._kernel.is_idle and not self._now[HEAP]
        return bool(idle and due > rounds_until_s and until_s == np.inf)

    def _pass_until(
        self, publications: loop.Publications, limits: loop.Limits, due: float, rank: int
    ) -> Node | None:
        """Pass on what arrives before this; return the node whose timer comes before it."""
        while True:
            stopped = loop.run(
                self._network, publications, self._way, self._room, self._now, limits, due, rank
            )
            if stopped == loop.TIMER:
                return self._nodes[int(self._now[loop.WHERE])]
            if stopped == loop.WAITS:
                return None
            self._make_room()

    def _step(self, node: Node, due: float, rank: int, until_s: float) -> None:
        """Have the kernel serve what is due."""
        timer_s = node.first_timer()[0]
        start = max(due, float(self._brokers.busy_until[node.index]))
        if rank == TIMER_RANK:
            if timer_s == due:
                self._serve_timer(node, until_s)
            self._kernel.step()  # what is left of it, or was moved
        elif timer_s > start or not self._serve_timer(node, until_s):
            self._tell(node, start)
            self._kernel.step()
            self._hear(node)

    def _serve_timer(self, node: Node, until_s: float) -> bool:
        """Have the kernel serve a node's next timer; return whether that begins in time."""
        start = max(node.first_timer()[0], float(self._brokers.busy_until[node.index]))
        if start >= until_s:  # and so would everything behind it
            self._brokers.timer_due[node.index] = np.inf
            self._brokers.busy_until[node.index] = node.busy_until = start
            return False
        self._tell(node, start)
        self._tell_queues(node)
        self._kernel.serve_timer(node)
        self._hear(node)
        return True

    # --- what the kernel and the loop tell each other ---------------------------------------------

    def _tell(self, node: Node, start: float) -> None:
        """Tell the kernel, and the broker, what publications did before an input is served."""
        broker, brokers, mesh = node.index, self._brokers, self._routers[node.index].mesh
        node.busy_until = float(brokers.busy_until[broker])
        self._senders[broker].free_at = float(brokers.free_at[broker])
        mesh.traffic.paths.direct = bool(brokers.direct[broker])
        mesh.sent_in_period = int(brokers.in_period[broker])
        window = int(start / WINDOW_S)
        if window != self._windows[broker]:
            self._windows[broker] = window
            self._tell_rates(node, window - 1)

    def _tell_rates(self, node: Node, window: int) -> None:
        """Tell a broker how many copies it put on primary links in the window that is over."""
        links = self._routers[node.index].links
        links.pass_time(max(window * WINDOW_S, links.now))
        for name in node.neighbours:
            links.goes(name, loop.copies_in(self._links, node.links[name].rank, window))

    def _tell_queues(self, node: Node) -> None:
        """Tell the kernel what is under way on primary links: it counts what still waits."""
        for name in node.neighbours:
            out = node.links[name]
            ends = np.zeros(64)
            found = loop.ends_of(self._way, self._room, out.rank, ends)
            if found > len(ends):
                ends = np.zeros(found)
                loop.ends_of(self._way, self._room, out.rank, ends)
            out.queued = deque(ends[:found].tolist())

    def _hear(self, node: Node) -> None:
        """Take over what an input has changed."""
        broker, brokers, mesh = node.index, self._brokers, self._routers[node.index].mesh
        brokers.busy_until[broker] = node.busy_until
        brokers.free_at[broker] = self._senders[broker].free_at
        brokers.timer_due[broker] = node.first_timer()[0]
        brokers.in_period[broker] = mesh.sent_in_period
        if self._known[broker] is not mesh.traffic.paths:
            self._known[broker] = mesh.traffic.paths
            wom, candidates = mesh.traffic.paths.wom, mesh.candidates
            self._map(self._real, broker, wom, wom.neighbours)
            self._tried.neighbours[broker] = 0
            if candidates:
                both = Wom(mesh.mom, {*wom.neighbours, *candidates})
                self._map(self._tried, broker, both, candidates)
            for name in wom.neighbours:
                self._connect(broker, node.links[name].rank, self._number[name])

    def _map(self, maps: loop.Maps, broker: int, wom: Wom, counted: Sequence[str]) -> None:
        """Take over a map of a broker; `counted`: the neighbours to count publications for."""
        number = len(wom.neighbours)
        if number > loop.MOST:
            raise LocalError(
                f"the loop knows brokers of {loop.MOST} links and candidates, not of {number}"
            )
        maps.neighbours[broker] = number
        maps.neighbour[broker, :number] = [self._number[name] for name in wom.neighbours]
        maps.counted[broker, :number] = [name in counted for name in wom.neighbours]
        for name, bits in (
            ("between", wom.between),
            ("beyond", wom.beyond),
            ("behind", wom.behind),
        ):
            getattr(maps, name)[broker, :number] = bits
        places = [self._number[name] for name in wom.place]
        maps.place[broker, places] = list(wom.place.values())

    def _connect(self, broker: int, rank: int, other: int) -> None:
        self._links.rank[broker, other] = rank
        self._links.source[rank], self._links.target[rank] = broker, other

    def _end(self, until_s: float, rounds_until_s: float) -> None:
        """Leave the kernel as publications have left it, and the time that it is."""
        self._is_over = until_s < np.inf
        busy_until = float(self._brokers.busy_until.max())
        at_s = until_s if self._is_over else max(busy_until, rounds_until_s)
        self._kernel.now = max(self._kernel.now, at_s)
        for node in self._nodes:
            self._tell(node, self._kernel.now)

    # --- arrays -----------------------------------------------------------------------------------

    def _published(self, events: Sequence[Event], from_s: float) -> loop.Publications:
        """Return the arrays of publications, made as clients would make them."""
        unknown = {(event.client, event.broker) for event in events} - self._publishers
        if unknown or any(a.at_s > b.at_s for a, b in pairwise(events)):
            raise LocalError(
                "events must be in the order of time, and of clients that advertise at their "
                f"broker{', unlike ' + min(unknown)[0] if unknown else ''}"
            )
        stamps_us, sizes = [], []
        for event in events:
            self._sequence[event.client] += 1
            stamps_us.append(microseconds(from_s + event.at_s))
            made = Publication(
                event.client,
                self._sequence[event.client],
                stamps_us[-1],
                as_sent(event.attributes),
                (),
                b"",
            )
            sizes.append(publication_size(made))
        found = list(matching(self._claims, events))
        widths = [np.diff(offsets) for offsets, _ in found]
        first = np.cumsum(np.concatenate([np.zeros(1, np.int64), *widths]))
        keys = [each for _, each in found]
        return loop.Publications(
            at_s=np.array([from_s + event.at_s for event in events], np.float64),
            stamp_s=np.array(stamps_us, np.float64) * 1e-6,
            size=np.array(sizes, np.int64),
            broker=np.array([self._number[event.broker] for event in events], np.int64),
            first=first,
            matched=np.concatenate([np.zeros(0, np.int32), *keys]).astype(np.int32),
        )

    def _forget(self, from_s: float) -> None:
        """Begin to count anew."""
        self._brokers.to[:] = 0
        self._brokers.out[:] = 0
        self._now[KEPT:] = 0
        bins = int((from_s + LONGEST_S) / CURVE_S) + 1
        self._room = self._room._replace(over_time=np.zeros(bins, np.int64))

    def _limits(self, until_s: float) -> loop.Limits:
        setup, options = self._kernel.setup, self._options
        return loop.Limits(
            publication_s=setup.costs.publication_s,
            bytes_per_s=setup.link.bytes_per_s,
            latency_s=setup.link.latency_s,
            capacity_per_s=options.capacity_per_s,
            threshold=options.load_threshold,
            hybrid=options.strategy == "SH",
            until_s=until_s,
            curve_s=CURVE_S,
        )

    def _make_room(self) -> None:
        """Make room for twice as many messages, or deliveries."""
        room, now = self._room, self._now
        names: tuple[str, ...] = ("crossed", "delay_s")
        if now[loop.DELIVERIES] < len(room.delay_s):
            self._way = longer_way(self._way, now)
            names = ("pub", "hops", "end")
        self._room = room._replace(**{name: twice(getattr(room, name)) for name in names})

    def _passed(self, publications: loop.Publications) -> Passed:
        room, rows = self._room, int(self._now[loop.DELIVERIES])
        names = [node.name for node in self._nodes]
        return Passed(
            published=len(publications.at_s),
            sends=int(self._now[loop.SENT]),
            hops=room.crossed[:rows].copy(),
            delay_s=room.delay_s[:rows].copy(),
            to=Counter(dict(zip(names, self._brokers.to.tolist(), strict=True))),
            out=Counter(dict(zip(names, self._brokers.out.tolist(), strict=True))),
            over_time=room.over_time.tolist(),
            bytes_each=float(publications.size.mean()) if len(publications.size) else 0.0,
        )


def _checked(kernel: Kernel, nodes: Sequence[Node]) -> MeshOptions:
    """Return the options that all brokers share, but for the length of their rounds; check that
    brokers do nothing with publications but what the loop does."""
    costs, setup, options = kernel.costs, kernel.setup, kernel.setup.options
    if not isinstance(options, MeshOptions) or not all(node.links for node in nodes):
        raise LocalError("the loop knows meshes of two brokers or more, with options of their own")
    for own in setup.broker_options.values():
        assert isinstance(own, MeshOptions), "a mesh has no others"
        if msgspec.structs.replace(own, round_s=options.round_s) != options:
            raise LocalError("the loop knows brokers that differ in the length of rounds alone")
    if costs.matched_row_s or costs.table_row_s or costs.copy_s:
        raise LocalError("the loop knows no costs but one for each publication")
    if setup.links or setup.faults or setup.link.jitter_s or setup.sender != "broker":
        raise LocalError(
            "the loop knows links that are all alike, without faults and jitter, and share the "
            "sender of their broker: use the kernel for others"
        )
    busy = any(node.queue or node.leaving or node.urgent for node in nodes)
    busy = busy or any(out.flight for node in nodes for out in node.links.values())
    if busy or kernel.interventions or kernel.published:
        raise LocalError(
            "the loop knows networks where nothing is under way or planned, before the first "
            "publication"
        )
    return options


def _broker_arrays(nodes: Sequence[Node]) -> loop.Brokers:
    size = len(nodes)
    return loop.Brokers(
        busy_until=np.zeros(size),
        free_at=np.zeros(size),
        timer_due=np.zeros(size),
        window_s=np.zeros(size),
        in_window=np.zeros(size, np.int64),
        in_period=np.zeros(size, np.int64),
        direct=np.zeros(size, np.bool_),
        sent=np.zeros((2, size, size), np.int64),
        to=np.zeros(size, np.int64),
        out=np.zeros(size, np.int64),
    )


def _empty_maps(size: int) -> loop.Maps:
    wide = (size, loop.MOST)
    return loop.Maps(
        neighbours=np.zeros(size, np.int64),
        neighbour=np.zeros(wide, np.int32),
        counted=np.zeros(wide, np.bool_),
        place=np.zeros((size, size), np.int16),
        between=np.zeros(wide, np.int64),
        beyond=np.zeros(wide, np.int64),
        behind=np.zeros(wide, np.int64),
    )


def _link_arrays(size: int, primary: int) -> loop.Links:
    ranks = primary + size * size
    return loop.Links(
        rank=np.zeros((size, size), np.int32),
        source=np.zeros(ranks, np.int64),
        target=np.zeros(ranks, np.int64),
        window=np.full(primary, -2, np.int64),
        in_window=np.zeros(primary, np.int64),
        before=np.zeros(primary, np.int64),
    )


def _empty_room(size: int) -> loop.Room:
    return loop.Room(
        pub=np.zeros(size, np.int64),
        hops=np.zeros(size, np.int64),
        end=np.zeros(size),
        crossed=np.zeros(size, np.int64),
        delay_s=np.zeros(size),
        over_time=np.zeros(1, np.int64),
    )
