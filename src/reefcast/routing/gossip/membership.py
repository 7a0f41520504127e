"""A broker's being in one topic: why, and what it has of it besides the overlay."""

from __future__ import annotations

from collections import deque

from reefcast.model.messages import EntityId, Publish, Send
from reefcast.model.publication import PublicationId
from reefcast.routing.gossip.messages import Digest
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.repair import OFFERED_ROUNDS, Kept
from reefcast.routing.gossip.streams import NodeId, choice, mixed, stream
from reefcast.routing.gossip.topic import TopicOverlay
from reefcast.routing.gossip.views import View

MOST_WAITING = 10_000
"""Publications of a topic that wait until somebody is met."""
WAITING_ROUNDS = 5
"""How long they do."""


class Membership:
    """`reasons`: subscriptions, advertisements and publishers of this broker's clients; `waiting`:
    publications that were made here before anybody of the topic was met; `joining`: not `joined`
    yet."""

    def __init__(self, overlay: TopicOverlay, options: GossipOptions) -> None:
        self.overlay = overlay
        self.reasons: set[EntityId] = set()
        self.waiting: deque[Publish] = deque()
        self.kept = Kept(options.kept_rounds if options.repair else OFFERED_ROUNDS)
        self._stream = stream(options.seed + 1, overlay.me, overlay.topic)
        self._waited = 0
        self.joining = True
        self._fresh = True

    @property
    def alone(self) -> bool:
        """Whether there is nobody but this broker to be met."""
        return not any(contact != self.overlay.me for contact in self.overlay.contacts)

    def joined(self) -> list[Send]:
        """From now on what neighbours tell of is what it should have."""
        self.joining = False
        self._fresh = self._fresh and not self.overlay.view
        return []

    def lacks(self, ids: tuple[PublicationId, ...]) -> tuple[PublicationId, ...]:
        """What it wants of that which a neighbour tells of: nothing while it joins."""
        if self._fresh:
            self.kept.waive(ids)
            return ()
        return tuple(self.kept.lacking(ids))

    def offers(self, before: View, joiner: NodeId = "") -> list[Send]:
        """Who is in the view, and was not `before`, is told what came lately; `joiner`: all."""
        view = self.overlay.view
        if view == before:
            return []
        told = [
            (node, self.kept.every() if node == joiner else self.kept.newest())
            for node in view
            if node not in before
        ]
        topic = self.overlay.topic
        return [Send(node, Digest(topic=topic, ids=ids)) for node, ids in told if ids]

    def repairs(self) -> list[Send]:
        """A neighbour is told what is kept; which one depends on nothing but the topic."""
        view = self.overlay.view
        if not view:
            return []
        to = view[choice(mixed(self._stream, self.overlay.round), len(view))]
        return [Send(to, Digest(topic=self.overlay.topic, ids=self.kept.told()))]

    def wait(self, publish: Publish) -> int:
        """Returns how many are given up for it."""
        self.waiting.append(publish)
        if len(self.waiting) <= MOST_WAITING:
            return 0
        self.waiting.popleft()
        return 1

    def taken(self) -> list[Publish]:
        """What waited does no more."""
        waited = list(self.waiting)
        self.waiting.clear()
        return waited

    def next_round(self) -> int:
        """Forgets what is too old; returns how many wait in vain."""
        self.kept.next_round()
        if not self.joining:
            self.joined()
        self._waited = self._waited + 1 if self.waiting else 0
        return len(self.taken()) if self._waited > WAITING_ROUNDS else 0
