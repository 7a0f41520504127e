"""Links of the overlay that brokers move in a tortured network (`Promote`, `Demote`).

A link changes at both ends at once: the first end to say so decides. A broker that is killed loses
the links that their other ends have as soft ones, for they are being moved. One that starts has the
links of the network file, which nobody changes, and what its disk says of those that were moved
(`MovedLinks`). Two brokers are linked then if one of them says so, and neither has left the other.
"""

from __future__ import annotations

from typing import Any, Protocol

from reefcast.model.messages import Demote, Effect, LinkDown, Promote
from reefcast.routing.broker import Broker
from reefcast.routing.mesh.movable import MovableMesh
from reefcast.routing.mesh.moved_links import MOVED_LINKS, MovedLinks
from reefcast_lab.torture.disks import Disk
from reefcast_lab.torture.links import Directed, Link
from reefcast_lab.torture.soft import SoftLinks


class Overlay(Protocol):
    """The network as moves see it. `edges`: its links; `cut`: those through which nothing passes;
    `links`: of all kinds."""

    edges: list[Directed]
    cut: set[Directed]
    cores: dict[str, Broker]
    disks: dict[str, Disk]
    links: dict[Directed, Link]
    soft: SoftLinks

    def connect(self, one: str, other: str) -> None: ...

    def put(self, name: str, item: Any, link: str) -> list[Effect]: ...


class Moves:
    """The moved links of a network. `filed`: the neighbours of each broker in the network file."""

    def __init__(self, network: Overlay, filed: dict[str, list[str]]) -> None:
        self.filed = filed
        self._network = network
        self._lost: list[tuple[str, str, Link]] = []

    # --- which links there are --------------------------------------------------------------------

    def _moved(self, name: str) -> MovedLinks:
        core = self._network.cores.get(name)
        if core is not None and isinstance(core.router, MovableMesh):
            return core.router.moved_links
        return MovedLinks(self._network.disks[name].load().rows.get(MOVED_LINKS))

    def neighbours(self, name: str) -> list[str]:
        """Return the neighbours of a broker as it knows them itself."""
        filed = self.filed[name]
        return self._moved(name).applied_to(filed)

    def relink(self, name: str) -> None:
        """Find out anew which links a broker has that was killed, or starts."""
        edges = self._network.edges
        edges[:] = [edge for edge in edges if name not in edge]
        edges += [
            (min(name, other), max(name, other))
            for other in sorted(self.filed)
            if other != name
            and (other in self.neighbours(name) or name in self.neighbours(other))
            and not (self._moved(name).has_left(other) or self._moved(other).has_left(name))
        ]
        self._network.cut.intersection_update(edges)

    # --- links that change ------------------------------------------------------------------------

    def change(self, name: str, effect: Promote | Demote) -> None:
        """Make a soft link one of the overlay, or the other way round; `name`: who says so."""
        edge = (min(name, effect.link), max(name, effect.link))
        if isinstance(effect, Demote):
            self._demote(edge)
        elif (name, effect.link) in self._network.soft.opened:
            self._network.soft.opened.difference_update((edge, edge[::-1]))
            self._network.edges.append(edge)

    def _demote(self, edge: Directed) -> None:
        network, ends = self._network, (edge, (edge[1], edge[0]))
        if edge in network.edges:
            network.edges.remove(edge)
        elif network.soft.opened.intersection(ends):
            return
        if all(end in network.links for end in ends) and edge not in network.cut:
            network.soft.opened.update(ends)
            return
        network.cut.discard(edge)
        for one, two in ends:
            if not network.soft.has_as_neighbour(one, two):  # else it waits, and gives it up later
                self._lost.append((one, two, network.links.pop((one, two), Link())))

    def tell_lost(self) -> None:
        """Tell brokers of links that were over when they left the overlay."""
        lost, self._lost = self._lost, []
        for end in lost:
            self._network.soft.tell_lost(*end)

    def killed(self, name: str) -> None:
        """Release the links of a broker that is killed which are being moved."""
        for edge in [edge for edge in self._network.edges if name in edge]:
            other = edge[0] if name == edge[1] else edge[1]
            core = self._network.cores.get(other)
            if core is not None and name in core.soft_links:
                self._demote(edge)

    def part(self, edge: Directed) -> bool:
        """Return whether a link that is cut, and that one end has as a soft one, is over."""
        cores = self._network.cores
        if not any(b in cores[a].soft_links for a, b in (edge, edge[::-1]) if a in cores):
            return False
        self._demote(edge)
        self.tell_lost()
        self._dial_anew(edge)
        self._give_up(edge)
        return True

    def _dial_anew(self, edge: Directed) -> None:
        """Connect a link anew that one end still has as one of the overlay: the other one may not
        know of its move yet, and takes it in. One that has left it refuses it."""
        network = self._network
        for one, other in (edge, edge[::-1]):
            has = (one, other) in network.links and network.soft.has_as_neighbour(one, other)
            takes_in = other in network.cores and not self._moved(other).has_left(one)
            if has and takes_in and edge not in network.edges:
                network.edges.append(edge)
                network.connect(one, other)

    def _give_up(self, edge: Directed) -> None:
        """Tell an end that still has a link which its other end refuses that this stays away."""
        network = self._network
        for one, other in (edge, edge[::-1]):
            is_refused = edge not in network.edges and network.soft.has_as_neighbour(one, other)
            if is_refused and network.links.pop((one, other), None) is not None:
                network.put(one, LinkDown(), other)
