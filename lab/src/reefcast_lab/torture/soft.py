"""Soft links between tortured brokers: the direct links that brokers open besides those of the
overlay (`OpenLink`).

As in `simulation.soft_links`, each end puts a sign on the link when it is open from its side, and
when nothing more comes, in order among the publications. A link that breaks gives each end back
what the other one has not acknowledged. Brokers open links for what these are worth; a run is too
short for that, so that it also opens and closes some by itself (`Torture`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from reefcast.model.messages import (
    Away,
    CloseLink,
    Confirmed,
    Effect,
    LinkDown,
    LinkKind,
    LinkUp,
    OpenLink,
    Refused,
    Settled,
)
from reefcast.routing.broker import Broker
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.mesh.meshed import Meshed
from reefcast.routing.mesh.movable import MovableMesh
from reefcast.simulation.signs import SoftDown, SoftUp
from reefcast_lab.torture.links import Directed, Link

ANSWERS = (Settled, Refused, Confirmed)

Put = Callable[[str, Any, str], list[Effect]]
"""Hands an input to a broker that has it from a link; returns the effects."""


class Linked(Protocol):
    """The network as soft links see it. `edges`: the links of the overlay; `links`: of all
    kinds."""

    cores: dict[str, Broker]
    edges: list[Directed]
    links: dict[Directed, Link]


class SoftLinks:
    """The soft links of a network. `opened`: from which sides they are open."""

    def __init__(self, network: Linked, put: Put) -> None:
        self.opened: set[Directed] = set()
        self._network = network
        self._put = put
        self._refused: list[Directed] = []
        self._again: set[Directed] = set()

    def pairs(self) -> list[Directed]:
        """Return the links that are open from some side, each once."""
        return sorted({(min(pair), max(pair)) for pair in self.opened})

    # --- what brokers do --------------------------------------------------------------------------

    def carry_out(self, name: str, effect: OpenLink | CloseLink) -> None:
        """Open or close a link from one side."""
        if isinstance(effect, OpenLink):
            self._open(name, effect.to)
        else:
            self._close(name, effect.link)

    def _open(self, name: str, to: str) -> None:
        if to not in self._network.cores or self.has_as_neighbour(to, name):
            self._refused.append((name, to))
            return
        if (to, name) in self._network.links and (name, to) not in self._network.links:
            self.tell_lost(to, name, self._network.links.pop((to, name)))  # it has given it up
        if (name, to) in self.opened:  # it has just heard that the other end closes it
            self._again.add((name, to))
            return
        for pair in ((name, to), (to, name)):
            self._network.links.setdefault(pair, Link())
        self._say_up(name, to)

    def _say_up(self, name: str, to: str) -> None:
        if (name, to) not in self.opened:
            self.opened.add((name, to))
            self._network.links[name, to].frames.append(SoftUp(name))

    def _close(self, name: str, to: str) -> None:
        """Close a link from one side, also one that has not been opened from there (refused)."""
        if (name, to) in self._again:
            self._again.discard((name, to))
            self._refused.append((name, to))
        elif (name, to) in self._network.links:
            self.opened.discard((name, to))
            self._network.links[name, to].frames.append(SoftDown(name))

    def came(self, sign: SoftUp | SoftDown, name: str) -> None:
        """Handle a sign that has come to a broker."""
        other = sign.source
        if isinstance(sign, SoftUp):
            effects = self._put(name, LinkUp(LinkKind.SOFT), other)
            if CloseLink(other) not in effects and (name, other) in self._network.links:
                self._say_up(name, other)
            return
        if self._network.cores[name].soft_links.get(other) is not None:
            self._put(name, LinkDown(), other)
        again = (other, name) in self._again
        if (name, other) in self.opened:
            self.opened.discard((name, other))
            self._network.links[name, other].frames.append(SoftDown(name))
        elif again or not self._network.links.get((name, other), Link()).frames:
            self._forget(name, other)  # nothing more is under way either way, or for nobody
        if again:
            self._open(other, name)

    def is_over(self, other: str, name: str) -> bool:
        """Return whether `name` has heard that nothing more comes from `other`: what does is no
        more than an answer to what was sent before."""
        core = self._network.cores[name]
        return other not in core.soft_links and other not in core.router.brokers

    def tell_refused(self) -> None:
        """Tell brokers of links that could not be opened."""
        refused, self._refused = self._refused, []
        for name, to in refused:
            self._put(name, LinkDown(), to)

    def _forget(self, name: str, other: str) -> None:
        for pair in ((name, other), (other, name)):
            self.opened.discard(pair)
            self._again.discard(pair)
            self._network.links.pop(pair, None)

    # --- what is done to them ---------------------------------------------------------------------

    def may_open(self, name: str) -> list[str]:
        """Return to which brokers this one may open a link."""
        router = self._network.cores[name].router
        if not isinstance(router, Meshed) or router.relearning or _is_moving(router):
            return []
        mom = router.mesh.mom
        return [
            other
            for other in mom.brokers
            if mom.distance(other) > 1
            and other not in router.soft_links
            and (name, other) not in self._network.links
        ]

    def open(self, name: str, to: str) -> None:
        """Have a broker open a link, as it does at the end of a round."""
        router = self._network.cores[name].router
        assert isinstance(router, Meshed), "others have none"
        router.soft_links[to] = SoftLink.OPENING
        self._open(name, to)
        self.tell_refused()

    def close(self, name: str, to: str) -> None:
        """Have a broker close a link, as it does at the end of a round."""
        router = self._network.cores[name].router
        if (
            isinstance(router, Meshed)
            and router.soft_links.get(to, SoftLink.CLOSING).up
            and not _is_moving(router)
        ):
            router.soft_links[to] = SoftLink.CLOSING
            router.mesh.relink()
            self._close(name, to)

    def cut(self, one: str, other: str) -> None:
        """Let a link break; each end that is there gets back what is not acknowledged."""
        links, ends = self._network.links, ((one, other), (other, one))
        self.opened.difference_update(ends)
        self._again.difference_update(ends)
        waiting = [end for end in ends if self.has_as_neighbour(*end)]
        over = [(*end, links.pop(end, Link())) for end in ends if end not in waiting]
        for a, b in waiting:
            links.setdefault((a, b), Link())
            self._put(a, Away(), b)
        for a, b, link in over:
            self.tell_lost(a, b, link)

    def tell_lost(self, name: str, to: str, link: Link) -> None:
        """Tell an end that its link is over; it gets back what is not acknowledged."""
        core = self._network.cores.get(name)
        if core is not None and (to in core.soft_links or link.kept()):
            self._put(name, LinkDown(link.kept()), to)

    def has_as_neighbour(self, name: str, to: str) -> bool:
        """Return whether a broker has the link to another one as one of the overlay: it waits until
        a connection that breaks is made again, although the other end may have demoted it."""
        core = self._network.cores.get(name)
        return core is not None and to in core.router.brokers and to not in core.soft_links

    def killed(self, name: str) -> None:
        """Let all links of a broker break that was killed."""
        edges = self._network.edges
        soft = {(min(pair), max(pair)) for pair in self._network.links if name in pair}
        for one, other in sorted(soft.difference(edges, [edge[::-1] for edge in edges])):
            self.cut(one, other)


def _is_moving(router: Meshed) -> bool:
    """Return whether a move affects a broker, so that it opens and closes no soft links."""
    return isinstance(router, MovableMesh) and router.moving is not None
