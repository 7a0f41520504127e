"""The part of the broker that moves its primary link: see `move`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reefcast.model.messages import CloseLink, LinkName, OpenLink, Publish, Regrade, Send
from reefcast.routing.mesh.move import Plan
from reefcast.routing.mesh.move_messages import MoveJoin
from reefcast.routing.mesh.moving import Moving
from reefcast.routing.mesh.router import Mesh
from reefcast.routing.router import Action, Await, SoftLink, Surroundings


class Mover(Moving):
    """See the module's docstring. `over`: what is to be done when the move is over."""

    def __init__(
        self,
        tables: Mesh,
        plan: Plan,
        where: Surroundings,
        over: Callable[[], Sequence[Action]],
    ) -> None:
        super().__init__(tables, plan, where)
        self._over = over
        self._linking = False

    def start(self) -> list[Action]:
        return _and_then(self.phase("begin", None), self._begun)

    def _begun(self) -> list[Action]:
        self._linking = True
        return self._link()

    def _link(self) -> list[Action]:
        """On the way to the new link. One that is about to open or close will be heard of."""
        new = self.plan.new
        state = self._soft_links.get(new)
        if state is None:
            self._soft_links[new] = SoftLink.OPENING
            return [OpenLink(new)]
        return [Send(new, MoveJoin(move=self.plan.move))] if state.up else []

    def soft_up(self, link: LinkName) -> list[Action]:
        actions = super().soft_up(link)
        return actions + self._link() if self._linking and link == self.plan.new else actions

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> list[Action]:
        actions = super().soft_down(link, lost)
        return actions + self._link() if self._linking and link == self.plan.new else actions

    def joined(self, link: LinkName) -> list[Action]:
        """The other end agrees."""
        if not self._linking:
            return []
        self._linking = False
        built = _and_then(self.phase("build", None), lambda: self.phase("switch", None))
        return [Regrade(link, overlay=True), *built]

    def dry(self) -> list[Action]:
        return _and_then(self.phase("end", None), self._ended)

    def _ended(self) -> list[Action]:
        return _and_then(self.phase("forget", None), self._forgotten)

    def _forgotten(self) -> list[Action]:
        old = self.plan.old
        return [Regrade(old, overlay=False), CloseLink(old), *self._over()]


def _and_then(actions: Sequence[Action], then: Callable[[], Sequence[Action]]) -> list[Action]:
    """What is sent is awaited."""
    sends = [action for action in actions if isinstance(action, Send)]
    return [*(a for a in actions if not isinstance(a, Send)), Await(sends, then)]
