"""Publications through a network whose tables change, with the compiled event loop (`loop`) in
place of the kernel's.

The kernel handles one publication at one broker in some 20 microseconds and more while tables
change, for what it knows of a table is void after each change. Here control messages go through the
kernel, one by one, and publications through the loop in between: both change when brokers and
senders are free again. Of a broker's table the loop needs how many rows want a kind of
publications, and lead where; a row that comes or goes changes that for a few kinds. All figures are
those of the kernel (a test compares them).

A service may be computed long before its time (`simulation.kernel`): what comes later waits behind
it anyway. So samples are not taken when their time has come, but put together from when inputs came
and left.

Brokers that keep statistics (*incremental*) look at each publication, and change tables by what
they see: they are left to the kernel (`phases.Play`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from reefcast.errors import LocalError
from reefcast.model.messages import Input, Publish
from reefcast.model.publication import Publication
from reefcast.routing.tables import Row
from reefcast.simulation.links import Link
from reefcast.simulation.node import Node
from reefcast.simulation.recording import microseconds
from reefcast.simulation.sizes import publication_size
from reefcast_lab.experiments.covering import loop
from reefcast_lab.experiments.covering.crowd import Crowd, Stream
from reefcast_lab.experiments.covering.kinds import Kinds
from reefcast_lab.experiments.covering.measuring import CoverKernel, Sample
from reefcast_lab.experiments.covering.steady import acyclic
from reefcast_lab.experiments.under_way import CLIENT, begin, longer_way, nothing_under_way, twice

ROOM = 1 << 16
"""Messages under way, and deliveries, for which there is room at first."""


class Crossing:
    """The passage of a stream through a network, with the control messages that scripts cause.
    `brokers` are sampled at `sample_at_s`, ascending. Raises `LocalError` for a network with
    statistics, faults, jitter or publications under way."""

    def __init__(
        self,
        kernel: CoverKernel,
        crowd: Crowd,
        stream: Stream,
        brokers: Sequence[str] = (),
        sample_at_s: Sequence[float] = (),
    ) -> None:
        self._kernel, self._watched = kernel, list(brokers)
        self._nodes = list(kernel.nodes.values())
        self._out = {out.rank: out for node in self._nodes for out in node.links.values()}
        _check(self._nodes, self._out.values())
        kinds = Kinds(crowd)
        self._brokers = _broker_arrays(kernel, self._watched, kinds.number)
        self._links = _link_arrays(self._out, self._nodes, kinds.number)
        self._publications = _publication_arrays(stream, kinds, self._nodes)
        self._rows: list[list[tuple[float, int]]] = [
            [(-np.inf, len(acyclic(kernel.nodes[name]).prt))] for name in self._watched
        ]
        times_s = np.array(sample_at_s, np.float64)
        change = np.zeros((max(len(self._watched), 1), len(times_s) + 1), np.int64)
        self._samples = loop.Samples(times_s, change)
        self._room, self._now = _empty_room(ROOM), np.zeros(loop.NOW, np.int64)
        self._way = nothing_under_way(len(self._links.target), ROOM, self._now)
        costs = kernel.costs
        self._costs = loop.Costs(
            costs.publication_s,
            costs.matched_row_s,
            costs.table_row_s,
            costs.copy_s,
            kernel.watched_from_s,
        )
        self._due = 0.0
        for node in self._nodes:
            self._count_rows(node, kinds)

    def _count_rows(self, node: Node, kinds: Kinds) -> None:
        """Count a broker's rows, from now on."""
        table = acyclic(node).prt
        log = _Counted(kinds, node, self._brokers, self._links)
        for row in table:
            log.came(row)
        self._brokers.rows[node.index] = node.prt_rows
        table.log = log

    def run(self) -> None:
        """Publish all, and run until nothing is under way."""
        kernel = self._kernel
        if len(self._publications.at_s):
            begin(self._way, self._now, self._publications.at_s[0])
        noted, kernel.served = kernel.served, self._served
        while (entry := kernel.head()) is not None:
            self._due, rank, node = entry
            self._pass_until(self._due, rank)
            self._tell(node)
            kernel.step()
            self._hear(node)
        kernel.served = noted
        self._pass_until(np.inf, 0)
        self._record()

    def _pass_until(self, due: float, rank: int) -> None:
        """Pass on what arrives before this."""
        while not loop.run(
            self._brokers,
            self._links,
            self._publications,
            self._room,
            self._samples,
            self._way,
            self._now,
            self._costs,
            due,
            rank,
        ):
            self._make_room()

    def _make_room(self) -> None:
        """Make room for twice as many, messages or deliveries."""
        room = self._room
        if self._now[loop.DELIVERIES] == len(room.at_s):
            names = ("at_s", "delay_s", "width")
            self._room = room._replace(**{name: twice(getattr(room, name)) for name in names})
        else:
            self._room = room._replace(pub=twice(room.pub))
            self._way = longer_way(self._way, self._now)

    def _tell(self, node: Node) -> None:
        """Tell the kernel until when a broker and its senders are busy."""
        node.busy_until = float(self._brokers.busy_until[node.index])
        for out in node.links.values():
            out.sender.free_at = float(self._links.free_at[out.rank])

    def _hear(self, node: Node) -> None:
        """Take over until when they are now, and how many rows there are."""
        self._brokers.busy_until[node.index] = node.busy_until
        self._brokers.rows[node.index] = node.prt_rows
        for out in node.links.values():
            self._links.free_at[out.rank] = out.sender.free_at

    def _served(self, node: Node, item: Input, start: float) -> None:
        """Note what the kernel has served, for samples."""
        self._kernel.note(node, item, start)
        place = int(self._brokers.watched[node.index])
        if place >= 0:
            loop.note(self._samples, place, self._due, node.busy_until)
            self._rows[place].append((start, len(acyclic(node).prt)))

    # --- what it does to the kernel ---------------------------------------------------------------

    def rows_at(self, at_s: float) -> list[int]:
        """Return the rows of the sampled brokers' PRTs at that time."""
        return [rows[bisect_left(rows, at_s, key=_start) - 1][1] for rows in self._rows]

    def _record(self) -> None:
        kernel, room, now = self._kernel, self._room, self._now
        rows = int(now[loop.DELIVERIES])
        kernel.record.take(room.at_s[:rows], room.delay_s[:rows], room.width[:rows])
        kernel.record.forwarded += int(now[loop.SENT])
        kernel.record.counters["published"] += len(self._publications.at_s)
        kernel.record.discards["unwanted"] += int(now[loop.UNWANTED])
        for node in self._nodes:
            self._tell(node)
            acyclic(node).prt.log = None
            node.core.counters["false_positive"] += int(self._brokers.useless[node.index])
            spent_s = self._brokers.spent_s[node.index]
            if spent_s:
                kernel.spent_s[node.name][Publish.__name__] = float(spent_s)
        queued = np.cumsum(self._samples.change, axis=1).T.tolist()
        for at_s, there in zip(self._samples.at_s.tolist(), queued, strict=False):
            rows_then = self.rows_at(at_s)
            kernel.samples.append(Sample(at_s, there[: len(rows_then)], rows_then))


class _Counted:
    """A log of one broker's PRT that keeps the numbers of rows in the arrays (`TableLog`)."""

    def __init__(self, kinds: Kinds, node: Node, brokers: loop.Brokers, links: loop.Links) -> None:
        self._kinds = kinds.wanted
        self._local = brokers.wanted[node.index]
        self._hops = {name: links.wanted[out.rank] for name, out in node.links.items()}

    def came(self, row: Row) -> None:
        self._change(row, 1)

    def went(self, row: Row) -> None:
        self._change(row, -1)

    def _change(self, row: Row, by: int) -> None:
        first, after = self._kinds[row.filter.text]
        rows = self._local if row.local else self._hops[row.next_hop]
        rows[first:after] += by


def _start(row: tuple[float, int]) -> float:
    return row[0]


def _check(nodes: Sequence[Node], links: Iterable[Link]) -> None:
    """Check that brokers do nothing with publications but what the loop does."""
    if any(acyclic(node).counts for node in nodes):
        raise LocalError("publications cannot be passed on by the loop: a broker keeps statistics")
    if any(node.timers or node.queue or node.leaving for node in nodes) or not all(
        out.steady and not out.jitter_s and not out.flight for out in links
    ):
        raise LocalError(
            "the loop begins with a network without messages under way, faults and jitter: use the "
            "kernel for this one"
        )


# --- arrays ---------------------------------------------------------------------------------------


def _broker_arrays(kernel: CoverKernel, watched: Sequence[str], kinds: int) -> loop.Brokers:
    """Make the arrays of brokers, whose links have consecutive ranks."""
    nodes = list(kernel.nodes.values())
    first = np.cumsum([CLIENT + 1, *(len(node.links) for node in nodes)])
    places = {name: place for place, name in enumerate(watched)}
    return loop.Brokers(
        busy_until=np.array([node.busy_until for node in nodes]),
        first_link=first.astype(np.int64),
        wanted=np.zeros((len(nodes), kinds), np.int32),
        rows=np.zeros(len(nodes), np.int64),
        spent_s=np.array([kernel.spent_s[node.name][Publish.__name__] for node in nodes]),
        useless=np.zeros(len(nodes), np.int64),
        watched=np.array([places.get(node.name, -1) for node in nodes], np.int64),
    )


def _link_arrays(links: Mapping[int, Link], nodes: Sequence[Node], kinds: int) -> loop.Links:
    size = max(links) + 1
    number = {node.name: node.index for node in nodes}
    rank = {(out.source, out.target): out.rank for out in links.values()}
    made = loop.Links(
        target=np.zeros(size, np.int64),
        back=np.zeros(size, np.int64),
        bytes_per_s=np.zeros(size),
        latency_s=np.zeros(size),
        free_at=np.zeros(size),
        wanted=np.zeros((size, kinds), np.int32),
    )
    for out in links.values():
        made.target[out.rank] = number[out.target]
        made.back[out.rank] = rank[out.target, out.source]
        made.bytes_per_s[out.rank], made.latency_s[out.rank] = out.bytes_per_s, out.latency_s
        made.free_at[out.rank] = out.sender.free_at
    return made


def _publication_arrays(stream: Stream, kinds: Kinds, nodes: Sequence[Node]) -> loop.Publications:
    number = {node.name: node.index for node in nodes}
    homes = np.array([number[broker] for _, broker in stream.publishers], np.int64)
    sizes, stamps_us = [], []
    sequence: Counter[str] = Counter()
    for event in stream.events():
        sequence[event.client] += 1
        stamps_us.append(microseconds(event.at_s))
        made = Publication(
            event.client, sequence[event.client], stamps_us[-1], event.attributes, (), b""
        )
        sizes.append(publication_size(made))
    return loop.Publications(
        at_s=stream.at_s,
        stamp_s=np.array(stamps_us, np.float64) * 1e-6,
        size=np.array(sizes, np.int64),
        kind=kinds.of(stream),
        broker=homes[stream.publisher],
    )


def _empty_room(size: int) -> loop.Room:
    return loop.Room(
        pub=np.zeros(size, np.int64),
        at_s=np.zeros(size),
        delay_s=np.zeros(size),
        width=np.zeros(size, np.int64),
    )
