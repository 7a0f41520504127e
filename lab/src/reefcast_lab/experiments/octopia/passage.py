"""Publications through a network at rest, with the compiled event loop in place of the kernel's.

The kernel handles one publication at one broker in some 20 microseconds, most of which repeat what
was found before: the same routers decide the same about each publication of one kind. Here a real
router is asked once for each place (see `loop`), or whenever its decision depends on the queues of
the moment, which it then sees as they are. What the kernel would have recorded is recorded in it;
all figures are the same (a test compares them).

Machines whose brokers share a sender are left to the kernel, and so is whatever has timers (soft
links).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log
from typing import Any, NamedTuple

import msgspec
import numpy as np

from reefcast.errors import LocalError
from reefcast.model.flat import as_sent
from reefcast.model.messages import FIRST_HOP, Header, LinkName, Publish
from reefcast.model.publication import Publication, Value
from reefcast.routing.router import Decision
from reefcast.routing.tid_tables import TidHeader
from reefcast.simulation.links import Link
from reefcast.simulation.node import Node
from reefcast.simulation.recording import microseconds
from reefcast.simulation.sizes import publication_size, wire_bytes
from reefcast_lab.experiments.octopia import loop
from reefcast_lab.experiments.octopia.measuring import MeasuringKernel
from reefcast_lab.experiments.under_way import (
    CLIENT,
    begin,
    free_list,
    longer_way,
    nothing_under_way,
    twice,
)

ROUTINGS = frozenset({"spr", "idr", "tid-s", "tid-d"})
REMEMBERS = "tid-d"
"""The routing whose brokers hand out each publication once: it may come again by another tree."""
DRAWN = 4096
"""Random delays that are drawn for a link at a time."""
SCRATCH = 0
"""The place whose decision holds for one publication."""
FEW, MANY = 1 << 12, 1 << 18
"""Places, and messages under way, for which there is room at first."""

Scheduled = tuple[float, str, str, dict[str, Value]]
"""(when, publisher, broker, attributes) of a publication."""


def suits(kernel: MeasuringKernel) -> bool:
    """Return whether the loop can take the kernel's place."""
    setup = kernel.setup
    return setup.routing in ROUTINGS and setup.sender != "machine" and not kernel.under_way()


def pass_on(kernel: MeasuringKernel, scheduled: Iterable[Scheduled]) -> None:
    """Publish all of these, and run until they have arrived. Raises `LocalError` in a network that
    publications have passed before, or that faults touch."""
    _Passage(kernel, list(scheduled)).run()


class Place(NamedTuple):
    """A publication that matches `answer` at a broker, where it came by `link` with this header."""

    answer: int
    broker: LinkName
    link: LinkName
    header: Header


class ArrayLinks:
    """A broker's links as its router sees them (`routing.links.Links`), from the loop's arrays. It
    is its own LST."""

    def __init__(self, node: Node, links: loop.Links, tau: float) -> None:
        self._rank = {name: link.rank for name, link in node.links.items()}
        self._links, self._tau = links, tau
        self.lst = self

    def queue_len(self, link: LinkName) -> int:
        return int(self._links.queue_len[self._rank[link]])

    def overloaded(self, link: LinkName) -> bool:
        rank = self._rank[link]
        return bool(self._links.queue_len[rank] * self._links.ratio[rank] > self._tau)


class _Passage:
    def __init__(self, kernel: MeasuringKernel, scheduled: list[Scheduled]) -> None:
        self._kernel = kernel
        self._nodes = list(kernel.nodes.values())
        self._links = {out.rank: out for node in self._nodes for out in node.links.values()}
        _check(kernel, self._links.values())
        self._numbers: dict[Place, int] = {}
        self._all: list[Place] = []
        self._hops = 0
        self._answers: dict[int, tuple[int, object]] = {}
        self._now = np.zeros(loop.NOW, np.int64)
        self._place_arrays = _empty_places(FEW)
        self._number(Place(-1, self._nodes[0].name, "", FIRST_HOP))  # SCRATCH
        scheduled.sort(key=_when)  # stable, as the handles of a kernel's scripts
        self._publications: list[Publication] = []
        self._arrays = self._made(scheduled)
        self._link_arrays = _link_arrays(self._links, self._nodes)
        self._brokers = _broker_arrays(self._nodes, self._link_arrays)
        self._room = _empty_room(MANY, max(4 * len(scheduled), FEW))
        self._way = nothing_under_way(len(self._link_arrays.broker), MANY, self._now)
        overload = kernel.setup.overload
        self._limits = loop.Limits(
            float(overload.tau),
            overload.window_s,
            kernel.watched_from_s,
            kernel.setup.link.jitter_s > 0,
        )
        for node in self._nodes:
            node.core.router.links = ArrayLinks(  # type: ignore[assignment]  # all it asks for
                node, self._link_arrays, self._limits.tau
            )

    def _made(self, scheduled: list[Scheduled]) -> loop.Publications:
        """Make the publications, as clients would."""
        at_s = np.array([each[0] for each in scheduled])
        size, place = np.empty(len(at_s), np.int64), np.empty(len(at_s), np.int64)
        stamp_s = np.empty(len(at_s))
        sequence: dict[str, int] = {}
        for i, (when, name, broker, attributes) in enumerate(scheduled):
            seq = sequence[name] = sequence.get(name, 0) + 1
            made = Publication(name, seq, microseconds(when), as_sent(attributes), (), b"")
            self._publications.append(made)
            stamp_s[i] = made.time_us * 1e-6
            size[i] = publication_size(made)
            place[i] = self._number(Place(self._answer(made), broker, name, FIRST_HOP))
        had = np.zeros((len(at_s), len(self._nodes)), np.bool_)
        return loop.Publications(at_s, stamp_s, size, place, had)

    def _answer(self, publication: Publication) -> int:
        """Return the number of what the publication matches."""
        answer = self._kernel.answer(publication)
        # Kept, so that no other one gets its id.
        return self._answers.setdefault(id(answer), (len(self._answers), answer))[0]

    def _number(self, place: Place) -> int:
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self._all)
            self._all.append(place)
            if number == len(self._place_arrays.broker):
                self._place_arrays = _longer_places(self._place_arrays)
            self._place_arrays.broker[number] = self._kernel.nodes[place.broker].index
        return number

    # --- the loop ---------------------------------------------------------------------------------

    def run(self) -> None:
        now, start = self._now, np.zeros(1)
        if self._publications:
            begin(self._way, now, self._arrays.at_s[0])
        while True:
            said = loop.run(
                self._brokers,
                self._link_arrays,
                self._place_arrays,
                self._arrays,
                self._room,
                self._way,
                now,
                start,
                self._limits,
            )
            if said == loop.DONE:
                break
            if said == loop.DECIDE:
                self._decide(int(now[loop.PLACE]), int(now[loop.PUB]))
            elif now[loop.LACKING] != loop.NO_LINK:
                self._draw(int(now[loop.LACKING]))
            else:
                self._make_room()
        self._record()

    def _make_room(self) -> None:
        """Make room for twice as many, messages or deliveries."""
        room, now = self._room, self._now
        if now[loop.DELIVERIES] == len(room.at_s):
            names = ("at_s", "delay_s", "width")
            self._room = room._replace(**{name: twice(getattr(room, name)) for name in names})
            return
        self._way = longer_way(self._way, now)
        longer = {name: twice(getattr(room, name)) for name in ("pub", "place", "queue_end")}
        size = len(room.queue_next)
        more = free_list(size, 2 * size, int(now[loop.QUEUE_FREE]))
        now[loop.QUEUE_FREE] = size
        self._room = room._replace(queue_next=np.concatenate((room.queue_next, more)), **longer)

    def _draw(self, rank: int) -> None:
        """Draw the next delays of a link, in the order in which it would have."""
        link = self._links[rank]
        draw, per_jitter = link.rng.random, 1 / link.jitter_s
        self._link_arrays.jitter[rank] = [log(1.0 - draw()) / per_jitter for _ in range(DRAWN)]
        self._link_arrays.drawn[rank] = 0

    def _decide(self, number: int, pub: int) -> None:
        """Ask the router; what depends on nothing but the place is kept."""
        place = self._all[number]
        node = self._kernel.nodes[place.broker]
        publish, router = Publish(self._publications[pub], place.header), node.core.router
        (decision,) = router.route((publish,), router.match((publish,), place.link), place.link)
        remembers = router.name == REMEMBERS
        holds = _holds(decision, place.header, remembers=remembers)
        if remembers:
            new = self._handed_out_once(node, pub, decision)
            holds = loop.ASK if new is not decision else holds
            decision = new
        kept = holds != loop.ASK and self._place_arrays.holds[number] == loop.ASK
        self._learn(number if kept else SCRATCH, place, node, decision)
        if kept:
            self._place_arrays.holds[number] = holds
        self._now[loop.ANSWER] = number if kept else SCRATCH

    def _handed_out_once(self, node: Node, pub: int, decision: Decision) -> Decision:
        """Return what `TidD` decides if it knows what the loop handed out in its place."""
        had = self._arrays.had
        if not decision.local:
            return decision
        if not had[pub, node.index]:
            had[pub, node.index] = True
            return decision
        node.core.counters["tid_suppressed_deliveries"] += len(decision.local)
        return msgspec.structs.replace(decision, local={}, duplicate=not decision.hops)

    def _learn(self, number: int, place: Place, node: Node, decision: Decision) -> None:
        onward = [
            (hop, header, self._number(Place(place.answer, hop, node.name, header)))
            for hop, header in decision.hops
        ]
        while self._hops + len(onward) > len(self._place_arrays.hop_link):
            self._place_arrays = _longer_hops(self._place_arrays)
        places = self._place_arrays
        places.first[number], places.hops[number] = self._hops, len(onward)
        for i, (hop, header, leads_to) in enumerate(onward, self._hops):
            places.hop_link[i], places.hop_place[i] = node.links[hop].rank, leads_to
            places.hop_bytes[i] = 0 if type(header) is Header else wire_bytes(header)
        self._hops += len(onward) if number != SCRATCH else 0
        discarded = _discarded(decision, hosted=place.link not in node.links)
        copies = len(decision.hops) + len(decision.local) + (discarded != loop.NOTHING)
        places.width[number] = sum(map(len, decision.local.values()))
        places.discarded[number] = discarded
        places.cost_s[number] = self._cost_s(decision, node, copies)

    def _cost_s(self, decision: Decision, node: Node, copies: int) -> float:
        """Return the time of a service (`Kernel._serve_publication`)."""
        costs = self._kernel.costs
        matching = costs.matching_s(decision, node.prt_rows)
        cost = costs.publication_s + matching + costs.copy_s * copies
        if decision.checked or decision.searched:
            cost += costs.choice_s(decision)
        return cost

    def _record(self) -> None:
        """Record in the kernel what has passed."""
        kernel, room, links, now = self._kernel, self._room, self._link_arrays, self._now
        rows = int(now[loop.DELIVERIES])
        kernel.record.take(room.at_s[:rows], room.delay_s[:rows], room.width[:rows])
        kernel.record.forwarded += int(now[loop.SENT])
        kernel.record.counters["published"] += len(self._publications)
        for kind, reason in ((loop.UNWANTED, "unwanted"), (loop.DUPLICATE, "duplicate")):
            if now[loop.DISCARDED + kind]:
                kernel.record.discards[reason] += int(now[loop.DISCARDED + kind])
        kernel.take_queues(
            before=links.before.tolist(),
            count=links.put.tolist(),
            total=links.total.tolist(),
            longest=links.longest.tolist(),
            crowded=links.crowded.tolist(),
            crowded_s=links.crowded_s.tolist(),
        )


def _holds(decision: Decision, header: Header, *, remembers: bool) -> int:
    """Return how long a decision holds at its place. Those of IDR between clusters depend on queues
    (`checked`). Of TID-D, which `remembers`, those do that found a link overloaded: the others look
    at the links that they take, and at nothing more. What it decides about copies that left their
    tree depends on those before."""
    if not remembers:
        return loop.ASK if decision.checked or decision.searched else loop.FOR_EVER
    switched = isinstance(header, TidHeader) and header.switched
    took_all = decision.checked == len(decision.hops) and not decision.searched
    return loop.QUIET if took_all and not switched else loop.ASK


def _discarded(decision: Decision, *, hosted: bool) -> int:
    """Return what becomes of a publication that ends at a broker (`Forwarding`)."""
    if decision.hops or decision.local:
        return loop.NOTHING
    if decision.duplicate:
        return loop.DUPLICATE
    return loop.UNWANTED if hosted else loop.NOTHING


def _when(scheduled: Scheduled) -> float:
    return scheduled[0]


def _check(kernel: MeasuringKernel, links: Iterable[Link]) -> None:
    """Check that nothing but publications will happen, and that the loop begins with them."""
    if kernel.record.forwarded or not all(link.steady for link in links):
        raise LocalError(
            "the compiled loop begins with a network that no publication has passed and no fault "
            "touches: use the kernel for this one"
        )


# --- arrays ---------------------------------------------------------------------------------------


def _link_arrays(links: Mapping[int, Link], nodes: list[Node]) -> loop.Links:
    size = max(links) + 1
    senders: dict[int, int] = {}
    made: dict[str, Any] = {
        "jitter": np.zeros((size, DRAWN)),
        "drawn": np.full(size, DRAWN, np.int64),
        "ratio": np.ones(size),
    }
    made |= {name: np.zeros(size) for name in ("bytes_per_s", "latency_s", "last_arrival")}
    made |= {name: np.full(size, -1, np.int64) for name in ("queue_first", "queue_last")}
    made["crowded_s"] = np.zeros(size)
    for name in loop.Links._fields:
        made.setdefault(name, np.zeros(size, np.int64))
    numbers = {node.name: node.index for node in nodes}
    for rank, link in links.items():
        made["broker"][rank] = numbers[link.source]
        made["sender"][rank] = senders.setdefault(id(link.sender), len(senders))
        made["bytes_per_s"][rank], made["latency_s"][rank] = link.bytes_per_s, link.latency_s
        made["last_arrival"][rank] = link.last_arrival
    return loop.Links(**made)


def _broker_arrays(nodes: list[Node], links: loop.Links) -> loop.Brokers:
    """Make the arrays of brokers, whose links have consecutive ranks."""
    first = np.searchsorted(links.broker[CLIENT + 1 :], np.arange(len(nodes) + 1))
    free_at = np.zeros(len(links.broker))
    for node in nodes:
        for link in node.links.values():
            free_at[links.sender[link.rank]] = link.sender.free_at
    return loop.Brokers(
        np.array([node.busy_until for node in nodes]),
        (first + CLIENT + 1).astype(np.int64),
        free_at,
        np.zeros(len(nodes), np.int64),
    )


def _empty_places(size: int) -> loop.Places:
    numbers = {name: np.zeros(size, np.int64) for name in loop.Places._fields if name != "cost_s"}
    return loop.Places(**numbers, cost_s=np.zeros(size))


_OF_HOPS = ("hop_link", "hop_place", "hop_bytes")


def _longer_places(places: loop.Places) -> loop.Places:
    names = set(loop.Places._fields) - set(_OF_HOPS)
    return places._replace(**{name: twice(getattr(places, name)) for name in names})


def _longer_hops(places: loop.Places) -> loop.Places:
    return places._replace(**{name: twice(getattr(places, name)) for name in _OF_HOPS})


def _empty_room(messages: int, deliveries: int) -> loop.Room:
    return loop.Room(
        pub=np.zeros(messages, np.int64),
        place=np.zeros(messages, np.int64),
        queue_end=np.zeros(messages),
        queue_next=free_list(0, messages, -1),
        at_s=np.zeros(deliveries),
        delay_s=np.zeros(deliveries),
        width=np.zeros(deliveries, np.int64),
    )
