"""Sends to neighbours that a move does not affect, of two sets of tables together (see `move`)."""

from __future__ import annotations

from collections.abc import Iterable

from reefcast.model.messages import (
    Advertise,
    EntityId,
    LinkName,
    Send,
    Unadvertise,
    Unsubscribe,
)
from reefcast.routing.mesh.messages import Anchored, Vicinity

OLD, NEW = 1, 2
Key = tuple[LinkName, bool, EntityId]
"""A neighbour, whether it is about a subscription, and its id."""


class Egress:
    """A record of what is said for the old tables, for the new ones, or for both."""

    def __init__(self) -> None:
        self._said_for: dict[Key, int] = {}

    def was_said(self, link: LinkName, ids: Iterable[EntityId], *, subscriptions: bool) -> None:
        """Note what was said by the old tables, before there were others."""
        self._said_for.update(dict.fromkeys(((link, subscriptions, id) for id in ids), OLD))

    def passes(self, send: Send, tables: int) -> bool:
        """Return whether a send that these tables (`OLD` or `NEW`) ask for is needed."""
        message = send.message
        if isinstance(message, Advertise | Anchored):
            return self._say((send.link, not isinstance(message, Advertise), message.id), tables)
        if isinstance(message, Unadvertise | Unsubscribe):
            key = (send.link, isinstance(message, Unsubscribe), message.id)
            return self._unsay(key, tables)
        return tables == OLD or not isinstance(message, Vicinity)

    def _say(self, key: Key, tables: int) -> bool:
        """Return whether to say something. What the old tables want said is said although it was
        for the new ones: who waits for it need not wait for these, and it is answered when the
        first time is done, too."""
        before = self._said_for.get(key, 0)
        self._said_for[key] = before | tables
        return not before & (OLD | tables)

    def _unsay(self, key: Key, tables: int) -> bool:
        left = self._said_for.get(key, 0) & ~tables
        if left:
            self._said_for[key] = left
        else:
            self._said_for.pop(key, None)
        return not left

    def forget(self, link: LinkName) -> None:
        """Forget what was said to a neighbour that has no memory of us, or is gone."""
        self._said_for = {key: said for key, said in self._said_for.items() if key[0] != link}

    def drop_old(self) -> list[Send]:
        """Forget the old tables; return the sends that withdraw what only they asked for."""
        return self._said_only_for(OLD)

    def drop_new(self) -> list[Send]:
        """Forget the new tables, since the move was abandoned; return the sends that withdraw what
        only they asked for."""
        return self._said_only_for(NEW)

    def _said_only_for(self, tables: int) -> list[Send]:
        return [
            Send(link, Unsubscribe(id) if subscription else Unadvertise(id))
            for (link, subscription, id), said in self._said_for.items()
            if said == tables
        ]
