"""Publications that are to be confirmed where links may be moved: flooded, each attempt by itself,
along the tree of one epoch. `move` says how, and why that reaches everybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reefcast.model.messages import Header, LinkName, Publish
from reefcast.model.publication import PublicationId
from reefcast.routing.mesh.messages import MeshHeader, Stamp, stamp_of
from reefcast.routing.recent import RecentIds
from reefcast.routing.router import Decision, Route
from reefcast.routing.tables import NextHops


class Floods:
    """The floods of one broker. `neighbours`: returns all that it has, up or not. What is asked of
    it depends on the broker's `epoch`."""

    def __init__(self, neighbours: Callable[[], Sequence[LinkName]]) -> None:
        self._neighbours = neighbours
        self._had: RecentIds[tuple[PublicationId, int]] = RecentIds()
        self._ahead: list[tuple[Publish, LinkName]] = []

    def decide(self, publish: Publish, next_hops: NextHops, link: LinkName, epoch: int) -> Decision:
        """Decide about a copy: one of this epoch is passed on, one of an earlier epoch begins anew,
        and one of a later epoch waits (see `ready`)."""
        its = _epoch_of(publish)
        if its > epoch:
            self._ahead.append((publish, link))
            return Decision({}, [], None, waits=True)
        if not self._had.is_new((publish.publication.id, publish.confirm)):
            return Decision({}, [], next_hops.matched, duplicate=True)
        if its < epoch:
            return Decision(next_hops.local, self.begins(epoch), next_hops.matched, anew=True)
        onward = _header(publish.header.hops + 1, epoch)
        hops = [(hop, onward) for hop in self._neighbours() if hop != link]
        return Decision(next_hops.local, hops, next_hops.matched)

    def begins(self, epoch: int) -> list[tuple[LinkName, Header]]:
        """Return where an attempt goes that begins here."""
        onward = _header(1, epoch)
        return [(hop, onward) for hop in self._neighbours()]

    def ready(self, epoch: int) -> list[Route]:
        """Return the routing of what has waited for this epoch."""
        before, self._ahead = self._ahead, []
        found: list[Route] = []
        for publish, link in before:
            if _epoch_of(publish) <= epoch:
                found.append(Route((publish,), link))
            else:
                self._ahead.append((publish, link))
        return found

    def forget(self, link: LinkName) -> None:
        """Forget what waits that came by a link whose other end has no memory of that."""
        self._ahead = [each for each in self._ahead if each[1] != link]


def _header(hops: int, epoch: int) -> Header:
    return MeshHeader(hops, None, Stamp(epoch, True)) if epoch else Header(hops)


def _epoch_of(publish: Publish) -> int:
    """Return the epoch of the broker that sent a copy; 0 from a client."""
    stamp = stamp_of(publish.header)
    return 0 if stamp is None else stamp.move
