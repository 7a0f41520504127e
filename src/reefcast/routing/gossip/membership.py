"""A broker's membership in one topic: why it is in, and what it keeps besides the overlay."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from reefcast.model.messages import EntityId, Publish, Send
from reefcast.model.publication import PublicationId
from reefcast.routing.gossip.messages import Digest
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.repair import TOLD_ROUNDS, Kept, Room
from reefcast.routing.gossip.streams import NodeId, choice, mixed, stream
from reefcast.routing.gossip.topic import TopicOverlay
from reefcast.routing.gossip.views import View

MOST_WAITING = 10_000
"""Publications of a topic that wait until another node is met."""
WAITING_ROUNDS = 5
"""How many rounds they wait."""
MOST_TOLD = 1_000
"""The most publications that one message names."""


class Membership:
    """`reasons`: subscriptions, advertisements and publishers of this broker's clients; `waiting`:
    publications made here before another node of the topic was met; `joining`: not `joined` yet.
    `room`: the room for publications of all topics."""

    def __init__(self, overlay: TopicOverlay, options: GossipOptions, room: Room) -> None:
        self.overlay = overlay
        self.reasons: set[EntityId] = set()
        self.waiting: deque[Publish] = deque()
        self.kept = Kept(options.kept_rounds, room)
        self._kept_rounds = options.kept_rounds
        self._told: dict[NodeId, int] = {}
        self._asked: dict[PublicationId, NodeId] = {}
        self._asked_before: dict[PublicationId, NodeId] = {}
        self._stream = stream(options.seed + 1, overlay.me, overlay.topic)
        self._waited = 0
        self.joining = True
        self._fresh = True

    @property
    def alone(self) -> bool:
        """Whether no other node can be met."""
        return not any(contact != self.overlay.me for contact in self.overlay.contacts)

    def joined(self) -> list[Send]:
        """End joining: from now on this node should have the publications that neighbours name."""
        self.joining = False
        self._fresh = self._fresh and not self.overlay.view
        return []

    def lacks(self, digest: Digest, node: NodeId) -> tuple[PublicationId, ...]:
        """Return what this node wants of a neighbour's publications: nothing while it joins, and
        nothing that another neighbour was asked for just now, since many may offer the same at
        once."""
        if self._fresh:
            self.kept.waive(digest.ids)
            return ()
        lacking = self.kept.lacking(digest.ids)
        if digest.part:
            asked = (self._asked, self._asked_before)
            lacking = [id for id in lacking if not any(id in each for each in asked)]
            self._asked.update(dict.fromkeys(lacking, node))
        return tuple(lacking)

    def offers(self, before: View, joiner: NodeId = "") -> list[Send]:
        """Tell new neighbours in the view (not `before`) of recent publications; tell the `joiner`,
        and the first neighbour that this node has, of all that are kept."""
        sends: list[Send] = []
        for node in self.overlay.view:
            if node in before:
                continue
            if node == joiner:
                sends += self._tell(node, self.kept.every())
            elif before:
                sends += self._tell(node, self.kept.newest())
            else:
                sends += self._tell(node, self.kept.since(self._kept_rounds))
        return sends

    def _tell(self, node: NodeId, ids: Sequence[PublicationId], asks: int = 0) -> list[Send]:
        """Tell a node of ids, in parts; at least one if it `asks`."""
        parts = [tuple(ids[i : i + MOST_TOLD]) for i in range(0, len(ids), MOST_TOLD)]
        if asks and not parts:
            parts = [()]
        topic = self.overlay.topic
        return [
            Send(node, Digest(topic=topic, ids=part, part=True, asks=0 if number else asks))
            for number, part in enumerate(parts)
        ]

    # --- neighbours that were out of reach --------------------------------------------------------

    def lost(self, node: NodeId) -> list[Send]:
        """Handle that a node cannot be reached."""
        self.unlinked(node)
        return self.overlay.lost(node)

    def unlinked(self, node: NodeId) -> None:
        """Handle the end of the connection to a node; what it was asked for may not come."""
        self.overlay.unlinked(node)
        self._told.pop(node, None)
        for asked in (self._asked, self._asked_before):
            for id in [id for id, other in asked.items() if other == node]:
                del asked[id]

    def relinked(self, node: NodeId) -> list[Send]:
        """Handle a new connection to a node after one broke."""
        links = self.overlay.links(node)
        return links + self._compare_with(node, TOLD_ROUNDS) if links else []

    def reached(self, node: NodeId) -> list[Send]:
        """Handle a connection to a node, made for any reason; a lost node gets its place back."""
        if node not in self.overlay.missed:
            return []
        return self.overlay.reached(node) + self.compare_all(node)

    def compare_all(self, node: NodeId) -> list[Send]:
        """Compare all that is kept with a node that was out of reach, or cut off."""
        return self._compare_with(node, self._kept_rounds)

    def _compare_with(self, node: NodeId, rounds: int) -> list[Send]:
        """Compare the publications of this many rounds with a node."""
        self._told[node] = rounds
        return self._tell(node, self.kept.since(rounds), rounds)

    def answers(self, digest: Digest, node: NodeId) -> list[Send]:
        """Return the answers to a digest, unless the node has just been told: both may have asked
        at once."""
        rounds = min(digest.asks, self._kept_rounds)
        if rounds <= self._told.get(node, 0):
            return []
        self._told[node] = rounds
        return self._tell(node, self.kept.since(rounds))

    # --- repair -----------------------------------------------------------------------------------

    def repairs(self) -> list[Send]:
        """Tell one neighbour what is kept; only the topic decides which one."""
        view = self.overlay.view
        if not view:
            return []
        to = view[choice(mixed(self._stream, self.overlay.round), len(view))]
        return [Send(to, Digest(topic=self.overlay.topic, ids=self.kept.told()))]

    def wait(self, publish: Publish) -> int:
        """Let a publication wait; return how many others were given up for it."""
        self.waiting.append(publish)
        if len(self.waiting) <= MOST_WAITING:
            return 0
        self.waiting.popleft()
        return 1

    def taken(self) -> list[Publish]:
        """Return the publications that waited, which no longer do."""
        waited = list(self.waiting)
        self.waiting.clear()
        return waited

    def next_round(self) -> int:
        """Begin a round: forget what is too old; return how many publications wait in vain."""
        self.kept.next_round()
        self._asked, self._asked_before = {}, self._asked
        self._told.clear()
        if not self.joining:
            self.joined()
        self._waited = self._waited + 1 if self.waiting else 0
        return len(self.taken()) if self._waited > WAITING_ROUNDS else 0
