"""Messages of a router that wait for a soft link to come up."""

from __future__ import annotations

from reefcast.model.messages import (
    Discard,
    Effect,
    LinkName,
    PeerMessage,
    Publish,
    Send,
    TableChange,
)
from reefcast.routing.capabilities import OpensLinks


class Unopened:
    """Sends in their order, by link, as long as `OpensLinks.awaits_link` says so."""

    def __init__(self, router: OpensLinks) -> None:
        self._router = router
        self._waiting: dict[LinkName, list[Effect]] = {}

    def pass_on(self, send: Send) -> list[Send]:
        """Return the send, or nothing if it has to wait."""
        if not self._router.awaits_link(send.link):
            return [send]
        self._waiting.setdefault(send.link, []).append(send)
        return []

    def came_up(self, link: LinkName) -> list[Effect]:
        """Return what waited for the link."""
        return self._waiting.pop(link, [])

    def tokens(self, link: LinkName) -> set[int]:
        """Return the tokens of control messages that wait for the link."""
        waiting = (item.message for item in self._waiting.get(link, ()) if isinstance(item, Send))
        return {m.token for m in waiting if isinstance(m, TableChange | PeerMessage)}

    def went(self, link: LinkName) -> list[Effect]:
        """Return the effects for what waited for a link that cannot be opened, unless the router
        tries again."""
        if self._router.awaits_link(link):
            return []
        waited = [item for item in self._waiting.pop(link, ()) if isinstance(item, Send)]
        return [
            Discard(send.message, "link_lost", link)
            for send in waited
            if isinstance(send.message, Publish)
        ]
