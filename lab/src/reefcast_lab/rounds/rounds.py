"""Rounds of the overlays of many topics, by the state machine that runs live.

Theory of operation
-------------------
A round has three parts, each after the end of the one before:

1. every node ticks, and all that keeps an overlay together is delivered: joining, orphans, waves;
2. the walks go out, all at once, step by step, and see the views of that moment;
3. the answers come back; the views change, and links are told of.

So what a walk finds does not depend on which of two messages was faster: a round is a pure function
of the views, which the twin on arrays (`twin.Twin`) computes as well, and equally. In a step the
nodes hear in the order of their names, each from the others in the order of theirs.

Topics never meet: one after the other has its whole round.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from random import Random
from typing import Any

from reefcast.errors import LocalError
from reefcast.model.messages import Send
from reefcast.routing.gossip.messages import TopicMessage, Walk, Walked, of_stranger
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.streams import NodeId
from reefcast.routing.gossip.topic import TopicOverlay
from reefcast.routing.gossip.views import Numbers, View, Weights

Views = Mapping[str, Mapping[NodeId, Sequence[NodeId]]]
"""Topic -> node -> its view."""
Posted = tuple[NodeId, NodeId, Any]
"""Receiver, sender, a `TopicMessage`."""
Overlay = dict[NodeId, TopicOverlay]
"""The overlay of one topic, by node."""

PARTS = 3
PART_OF: dict[type, int] = {Walk: 1, Walked: 2}
"""The part of a round, from 0, in which a message is delivered; others at once."""


class Rounds:
    """The overlays of all topics, starting with `views`; every node in a view must have one itself.

    `contacts`: of each topic, nodes of it through which others join; without, there are no waves.
    `loss`: the probability that a message is lost, drawn from `random`. `number`: rounds so far;
    `counts`: messages sent, lost ones too, by their class.
    """

    def __init__(
        self,
        views: Views,
        options: GossipOptions,
        *,
        contacts: Mapping[str, Sequence[NodeId]] | None = None,
        loss: float = 0.0,
        random: Random | None = None,
    ) -> None:
        self.number = 0
        self.counts: Counter[type[TopicMessage]] = Counter()
        self._options = options
        self._contacts = contacts or {}
        self._loss, self._random = loss, random or Random(options.seed)
        self._weights: dict[NodeId, Weights] = {}
        self._numbers = Numbers()
        self._crashed: set[NodeId] = set()
        self._lives = 0
        self._topics = {topic: self._overlay(topic, views[topic]) for topic in sorted(views)}

    def _overlay(self, topic: str, views: Mapping[NodeId, Sequence[NodeId]]) -> Overlay:
        overlay = {node: self._member(node, topic) for node in sorted(views)}
        in_links: dict[NodeId, list[NodeId]] = {node: [] for node in overlay}
        for node, view in views.items():
            for other in view:
                if other not in in_links:
                    raise LocalError(
                        f"{node!r} has {other!r} in its view of topic {topic!r}, "
                        "but that one is not there: give it a view of this topic"
                    )
                in_links[other].append(node)
        for node, member in overlay.items():
            member.begin(views[node], in_links[node])
        return overlay

    def _member(self, node: NodeId, topic: str) -> TopicOverlay:
        self._lives += 1
        weights = self._weights.get(node)
        if weights is None:
            weights = self._weights[node] = Weights(node, self._options.seed, self._numbers)
        contacts = self._contacts.get(topic, ())
        return TopicOverlay(topic, self._options, weights, contacts, self._lives)

    # --- what there is ----------------------------------------------------------------------------

    def views(self) -> dict[str, dict[NodeId, View]]:
        return {
            topic: {node: overlay[node].view for node in sorted(overlay)}
            for topic, overlay in self._topics.items()
        }

    def total(self) -> int:
        """Return the sum of all view sizes: logical links."""
        return sum(
            len(member.view) for overlay in self._topics.values() for member in overlay.values()
        )

    def unique(self) -> int:
        """Return the sum over nodes of the different neighbours in their views: physical links."""
        neighbours: dict[NodeId, set[NodeId]] = {}
        for overlay in self._topics.values():
            for node, member in overlay.items():
                neighbours.setdefault(node, set()).update(member.view)
        return sum(map(len, neighbours.values()))

    # --- what happens -----------------------------------------------------------------------------

    def round(self) -> int:
        """Run a round, up to the last answer. Return how many views it changed."""
        self.number += 1
        with _collector_off():
            return sum(self._round(topic, overlay) for topic, overlay in self._topics.items())

    def _round(self, topic: str, overlay: Overlay) -> int:
        before = {node: member.view for node, member in overlay.items()}
        self._deliver(topic, _posts((x, member.tick()) for x, member in overlay.items()))
        return sum(member.view != before.get(x) for x, member in overlay.items())

    def join(self, node: NodeId, topic: str) -> None:
        """Join through the topic's contacts. Raises `LocalError` if it has none, or the node is
        in."""
        overlay = self._topics.get(topic, {})
        there = node in overlay
        if there or not overlay.keys() & self._contacts.get(topic, ()):
            why = "it is there already" if there else "it has no contact"
            raise LocalError(f"{node!r} cannot join the overlay of topic {topic!r}: {why}")
        self._crashed.discard(node)
        overlay[node] = self._member(node, topic)
        self._topics[topic] = dict(sorted(overlay.items()))
        self._deliver(topic, _posts([(node, overlay[node].join())]))

    def leave(self, node: NodeId, topic: str) -> None:
        """Leave in good order."""
        member = self._topics[topic].pop(node)
        self._deliver(topic, _posts([(node, member.leave())]))

    def crash(self, node: NodeId) -> None:
        """Crash in all topics; nodes with a connection to it notice that it is gone."""
        self._crashed.add(node)
        for topic, overlay in self._topics.items():
            if overlay.pop(node, None) is not None:
                linked = [x for x in overlay.values() if node in x.view or node in x.in_links]
                self._deliver(topic, _posts((x.me, x.lost(node)) for x in linked))

    # --- delivery ---------------------------------------------------------------------------------

    def _deliver(self, topic: str, posts: list[Posted]) -> None:
        """Deliver these messages, and all that follow from them, step by step."""
        overlay = self._topics[topic]
        parts: list[list[Posted]] = [[] for _ in range(PARTS)]
        while True:
            kinds = Counter(map(type, map(itemgetter(2), posts)))
            self.counts.update(kinds)
            if len(kinds) == 1:  # as of all steps of walks
                parts[PART_OF.get(next(iter(kinds)), 0)] += posts
            else:
                for post in posts:
                    parts[PART_OF.get(type(post[2]), 0)].append(post)
            now = next((part for part, waiting in enumerate(parts) if waiting), None)
            if now is None:
                return
            step, parts[now] = parts[now], []
            posts = self._step(overlay, step)

    def _step(self, overlay: Overlay, step: list[Posted]) -> list[Posted]:
        """Handle the messages of one step; return those that they cause, with senders in the order
        of names."""
        step.sort(key=itemgetter(0))
        if self._loss:
            step = [post for post in step if self._random.random() >= self._loss]
        posts: list[Posted] = []
        for to, sender, message in step:
            member = overlay.get(to)
            if member is None:
                posts += self._absent(overlay, to, sender, message)
                continue
            for send in member.handle(message, sender):
                posts.append((send.link, to, send.message))
        return posts

    def _absent(
        self, overlay: Overlay, to: NodeId, sender: NodeId, message: TopicMessage
    ) -> list[Posted]:
        """Return what follows from a message to a node that is not in the overlay."""
        if to not in self._crashed:
            return [(sender, to, answer) for answer in of_stranger(message)]
        member = overlay.get(sender)
        return [] if member is None else _posts([(sender, member.lost(to))])


@contextmanager
def _collector_off() -> Iterator[None]:
    """Turn Python's cycle collector off. Messages are freed by their reference counts; to look for
    cycles among so many takes a fifth of the time of a round, and finds none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _posts(sent: Iterable[tuple[NodeId, list[Send]]]) -> list[Posted]:
    return [(send.link, node, send.message) for node, sends in sent for send in sends]
