"""Who may move a primary link, and when: asked of the coordinator, which grants one at a time."""

from __future__ import annotations

from collections import deque

from reefcast.model.messages import LinkName
from reefcast.routing.mesh.move_messages import Permission
from reefcast.routing.recent import RecentIds

REMEMBERED = 1024


class Permissions:
    """Of broker `me`. What it returns is to be told to all others: they pass on what is new to
    them (`is_new`), so that it reaches every broker, whatever becomes of the tree meanwhile."""

    def __init__(self, me: LinkName, coordinator: LinkName) -> None:
        self._me = me
        self._coordinates = me == coordinator
        self._heard: RecentIds[tuple[str, LinkName, int]] = RecentIds(REMEMBERED)
        self._waiting: deque[Permission] = deque()
        self._busy = False
        self._granted = 0
        self._wishes: dict[int, tuple[LinkName, LinkName]] = {}
        self._last_wish = 0

    def is_new(self, message: Permission) -> bool:
        """Whether it is heard for the first time."""
        return self._heard.is_new((message.step, message.mover, message.number))

    def ask(self, old: LinkName, new: LinkName) -> Permission:
        """This broker wants a link to `new` in place of that to `old`."""
        self._last_wish += 1
        self._wishes[self._last_wish] = (old, new)
        return Permission(step="ask", mover=self._me, number=self._last_wish)

    def granted(self, message: Permission) -> tuple[LinkName, LinkName] | None:
        """The wish that is granted by it; None if it is another broker's."""
        if message.step != "grant" or message.mover != self._me:
            return None
        return self._wishes.pop(message.number, None)

    def coordinate(self, message: Permission) -> Permission | None:
        """The coordinator may have something to grant now."""
        if not self._coordinates or message.step == "grant":
            return None
        if message.step == "ask":
            self._waiting.append(message)
        else:
            self._busy = False
        if self._busy or not self._waiting:
            return None
        self._busy = True
        self._granted += 1
        next_one = self._waiting.popleft()
        return Permission(
            step="grant", mover=next_one.mover, number=next_one.number, move=self._granted
        )
