"""The drain of a move: from when on no copy follows the old tables any more (see `move`, phase
*drain*)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reefcast.model.messages import LinkName
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.mesh.maps import Neighbourhood


class Drain:
    """The drain of one affected broker. `mom`: before the move. `primary`: its affected primary
    neighbours before the move; `near`: all affected brokers that it knows; `holds_for` tells
    whether publications wait here for a neighbour (`holding`), which follow."""

    def __init__(
        self,
        mom: Neighbourhood,
        primary: list[LinkName],
        near: frozenset[LinkName],
        soft_links: Mapping[LinkName, SoftLink],
        holds_for: Callable[[LinkName], bool] = lambda link: False,
    ) -> None:
        self._mom = mom
        self._primary = primary
        self._near = near
        self._soft_links = soft_links
        self._holds_for = holds_for
        self._heard: set[LinkName] = set()
        self._said: set[LinkName] = set()
        self._confirmed: set[LinkName] = set()

    def heard(self, link: LinkName) -> None:
        """Note that the other end has nothing more to send by the old tables."""
        self._heard.add(link)

    def confirmed(self, link: LinkName) -> None:
        """Note that the other end of this soft link has got everything, and the message that
        nothing follows."""
        self._confirmed.add(link)

    def is_soft(self, link: LinkName) -> bool:
        return link not in self._primary

    def _soft(self) -> list[LinkName]:
        return [x for x in self._soft_links if x in self._near and x not in self._primary]

    def to_say(self) -> list[LinkName]:
        """Return the links on which to say now that nothing follows, and count them as told."""
        soft = self._soft()
        links = [*soft, *self._primary]
        waiting = [link for link in links if link not in self._heard]
        found = [
            link
            for link in links
            if link not in self._said
            and not any(not self._same_branch(link, other) for other in waiting)
            and self._can_say(link, soft)
        ]
        self._said.update(found)
        return found

    def _same_branch(self, a: LinkName, b: LinkName) -> bool:
        return self._mom.branch(a) == self._mom.branch(b)

    def _can_say(self, link: LinkName, soft: list[LinkName]) -> bool:
        if self._holds_for(link):
            return False
        if link in soft:
            return self._soft_links[link].up
        return not any(
            self._soft_links[other] is not SoftLink.OPENING and other not in self._confirmed
            for other in soft
            if self._same_branch(other, link)
        )

    @property
    def over(self) -> bool:
        """Whether nothing by the old tables comes or goes any more."""
        soft = self._soft()
        links = {*soft, *self._primary}
        return links <= self._heard and links <= self._said and self._confirmed.issuperset(soft)
