"""The part of the broker that moves its primary link: see `move`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reefcast.model.messages import LinkName, OpenLink, Promote, Publish, Send
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.mesh.move import Plan
from reefcast.routing.mesh.move_messages import MoveJoin
from reefcast.routing.mesh.moved_links import MovedLinks
from reefcast.routing.mesh.moving import Abandon, Moving
from reefcast.routing.mesh.router import Mesh
from reefcast.routing.router import Action, Await, OnceKept, Surroundings

TRIES = 8
"""Attempts to open the new link; it may fail for a moment, or its other end may have just closed
it."""


class Mover(Moving):
    """See the module's docstring. `over`: what is to be done when the move is over."""

    def __init__(
        self,
        tables: Mesh,
        plan: Plan,
        where: Surroundings,
        abandon: Abandon,
        links: MovedLinks,
        over: Callable[[], Sequence[Action]],
    ) -> None:
        super().__init__(tables, plan, where, abandon, links)
        self._over = over
        self._linking = False
        self._tries = 0

    def start(self) -> list[Action]:
        return self._and_then(self.phase("begin", None), self._begun)

    def _and_then(
        self, actions: Sequence[Action], then: Callable[[], Sequence[Action]]
    ) -> list[Action]:
        """Return actions whose sends are awaited before `then`, unless the move is abandoned."""
        sends = [action for action in actions if isinstance(action, Send)]
        others = [action for action in actions if not isinstance(action, Send)]
        return [*others, Await(sends, lambda: () if self.left else then())]

    def _begun(self) -> list[Action]:
        self._linking = True
        return self._link()

    def _link(self) -> list[Action]:
        """Open the new link. One that is about to open or close will be heard of."""
        new = self.plan.new
        state = self._soft_links.get(new)
        if state is not None:
            return [Send(new, MoveJoin(move=self.plan.move))] if state.up else []
        self._tries += 1
        if self._tries > TRIES:
            return self._abandon()
        self._soft_links[new] = SoftLink.OPENING
        return [OpenLink(new)]

    def soft_up(self, link: LinkName) -> list[Action]:
        actions = super().soft_up(link)
        return actions + self._link() if self._linking and link == self.plan.new else actions

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> list[Action]:
        actions = super().soft_down(link, lost)
        return actions + self._link() if self._linking and link == self.plan.new else actions

    def joined(self, link: LinkName) -> list[Action]:
        """Promote the new link: the other end agrees."""
        if not self._linking:
            return []
        self._linking, self._joined = False, True
        self._links.open(link)
        built = self._and_then(self.phase("build", None), lambda: self.phase("switch", None))
        return [Promote(link), *built]

    def dry(self) -> list[Action]:
        """Decide that the move is carried out, and end it when that is on disk."""
        self._links.write_ahead(self.plan.old, self.plan.move, "gone", mine=True)
        self._links.write_ahead(self.plan.new, self.plan.move, "here", mine=True)
        return [OnceKept(lambda: () if self.left else self._decided())]

    def abandoned(self) -> list[Action]:
        """Take a decision back that is not on disk yet; nobody hears of it before it is."""
        if self._reported:
            self._links.take_back(self.plan.old, self.plan.new)
        return super().abandoned()

    def _decided(self) -> list[Action]:
        """End the move at the other end of the new link before all others but this one: without
        disks, if either fails now, the remaining one knows."""
        first = Send(self.plan.new, self.plan.wave("end"))
        return self._and_then([first, *self._end()], self._new_ended)

    def _new_ended(self) -> list[Action]:
        others = [link for link in self._after if link != self.plan.new]
        return self._and_then([Send(x, self.plan.wave("end")) for x in others], self._ended)

    def _ended(self) -> list[Action]:
        return self._and_then(self.phase("forget", None), self._over)
