"""OctopiA's dynamic routing (IDR): SPR that keeps copies off overloaded links between clusters.

Rules
-----
- No copy goes onto an overloaded target iLink (`links.LinkStatusTable`) if that can be helped: the
  bits of the clusters that are left over travel on one copy, in its header, and the next broker
  decides anew. Cases I to III are in `Idr._carrier`. No table changes.
- All else is as in `scot`.

Departure from the paper: in case III the copy goes over the iLink (Algorithm 4 writes the aLink;
text and Fig. 7(d) say the iLink).

Source: `OctopiA`, section 9.2. Cost: one lookup of a load for each target link.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from reefcast.model.messages import Header, LinkName
from reefcast.routing.clt import ScotHeader
from reefcast.routing.router import COUNTED, Decision
from reefcast.routing.scot import ScotRouter


class Target(NamedTuple):
    """A target link. Sorted: the shortest queue first, then by name."""

    queue_len: int
    link: LinkName
    bit: int


class Idr(ScotRouter):
    """Inter-cluster dynamic routing (section 9.2, Algorithm 4).

    It counts what it does: `idr_case_1` to `idr_case_3` are decisions of the paper's three cases.
    The others measure the two limits that section 9.2 states. Copies that a decision put on an
    overloaded aLink: `idr_overloaded_a_link` (and the queue they met, summed:
    `idr_overloaded_a_link_queue`). Decisions that had to take an overloaded iLink although an aLink
    that leads to no matching subscription was free: `idr_no_tree_link` (and the queue met:
    `idr_no_tree_link_queue`). `idr_unreachable`: clusters that no link leads to.
    """

    name = "idr"
    needs_all = True
    counted: ClassVar[Mapping[str, str]] = {
        "idr_case_1": "case I",
        "idr_case_2": "case II",
        "idr_case_3": "case III",
        "idr_overloaded_a_link": "full aLinks",
        "idr_no_tree_link": "no tree link",
        "idr_unreachable": "cut off",
    }
    legend: ClassVar[Mapping[str, str]] = {
        **ScotRouter.legend,
        COUNTED: (
            "Decisions that met overloaded iLinks. Case I: the copy on a free iLink took their "
            "clusters along. Case II: one on a free aLink. Case III: none was free, so one on the "
            "overloaded iLink with the shortest queue. Full aLinks: copies on overloaded aLinks "
            "that these decisions made; those of decisions inside a cluster, or that met no "
            "overloaded iLink, are not counted. No tree link: case III, though an aLink without a "
            "matching subscription was free. Cut off: clusters that no link led to."
        ),
    }

    def limits(self) -> Mapping[LinkName, int] | None:
        """Return how many copies each iLink takes before it is overloaded."""
        room = self.links.lst.room
        return {i_link: room(i_link) for i_link in self.i_links.values()}

    def _between_clusters(
        self, inside: Decision, link: LinkName, onward: Header, bits: int
    ) -> Decision:
        overloaded, queue_len = self.links.lst.overloaded, self.links.queue_len
        targets = [
            Target(queue_len(i_link), i_link, 1 << cluster)
            for cluster, i_link in self.i_links_up().items()
            if bits >> cluster & 1
        ]
        free = [
            target
            for target in targets
            if not overloaded(target.link) and target.link not in self.absent
        ]
        rest = bits
        for target in free:
            rest &= ~target.bit
        if not rest:
            inside.hops.extend((target.link, onward) for target in free)
            return replace(inside, checked=len(targets))
        a_links = [Target(queue_len(hop), hop, 0) for hop, _ in inside.hops]
        copies = dict.fromkeys([target.link for target in a_links + free], onward)
        carrier = self._carrier(free, a_links, targets, link)
        if carrier is not None:
            left = rest & ~carrier.bit
            copies[carrier.link] = ScotHeader(onward.hops, left) if left else onward
        else:
            self.counters["idr_unreachable"] += rest.bit_count()
        checked = len(targets) + len(a_links)
        return replace(inside, hops=list(copies.items()), checked=checked)

    def _carrier(
        self, free: list[Target], a_links: list[Target], targets: list[Target], came_by: LinkName
    ) -> Target | None:
        """Return the link whose copy takes the bits that are left over; None if there is no
        link."""
        overloaded, counters = self.links.lst.overloaded, self.counters
        crowded = [target for target in a_links if overloaded(target.link)]
        if crowded:
            counters["idr_overloaded_a_link"] += len(crowded)
            counters["idr_overloaded_a_link_queue"] += sum(t.queue_len for t in crowded)
        if free:
            counters["idr_case_1"] += 1
            return min(free)
        if len(crowded) < len(a_links):
            counters["idr_case_2"] += 1
            return min(target for target in a_links if target not in crowded)
        if not targets:
            return min(a_links, default=None)
        counters["idr_case_3"] += 1
        carrier = min(targets)
        tried = {came_by, *(target.link for target in a_links)}
        if any(link not in tried and not overloaded(link) for link in self.a_links):
            counters["idr_no_tree_link"] += 1
            counters["idr_no_tree_link_queue"] += carrier.queue_len
        return carrier
