"""One node's part in the overlay of one topic: a state machine of its own.

It knows of no other topic, so that nothing that it says can depend on one.

Rules
-----
- A node has a *view*: nodes of the topic that it sends to, ascending by weight. The weight of a
  node is a hash of both names (`streams.weight`), the same for every topic: so a node ends with the
  same neighbours in all topics that it shares with them, without asking who is in which.
- Every round it sends out a random walk of `ttl` steps. Each node on it adds its name and its view;
  then the answer comes back along the path, and `views.best_view` chooses. The size stays.
- Who is taken into a view, or dropped, is told (`Linked`). So a node knows who points to it: it
  can leave in good order, and notices when nobody does.
- *Join*: the contacts of a topic know who has joined, n nodes say, and tell each other. One of them
  sends out 2 ln n walks, but two at least, from members at random. Where one ends, the joiner takes
  the place of a node, which it gets in exchange; so paths lead on as before, through it. At the end
  of the first two walks it is taken in addition; so there are 2 n ln n links in the end (whose
  derivative is 2 ln n + 2). With walks from the contact itself, as many as it has neighbours, it
  would all depend on that one: if 100 join at once, views have 3.5 nodes on average, one has 72.
  Who was in the overlay before, but is cut off, takes places only, so that no view grows by that.
- *Leave*: each node that points to the leaver gets one of the leaver's neighbours in exchange.
- *Crash*: who cannot be reached leaves the view, is not taken again for a while (quarantine), and
  is replaced after the next walk. Who is left with an empty view joins again.
- *Who could not be reached* is remembered for a time (`missed`). As soon as there is a connection
  to it again, it is in the view as before, beside those who came in its place; walks choose among
  them. So two halves of an overlay that could not reach each other are one again.
- *Orphans*, which nobody points to, ask along a walk. A node that has a neighbour in common with
  the orphan takes it in that one's place, who is still pointed to: by the orphan.
- *Waves*: now and then each contact sends a number along all views, and another against them. Who
  misses either for three periods is cut off from that contact, and joins again: by that contact
  itself, as walks end where no way leads out of. On their way waves put right what nodes know of
  who points to them. So whatever fell apart is strongly connected again five periods after nothing
  happens any more; rarely, when two repairs undo each other, after as many once more.

Source: `papers/stan.txt`, Listing 1. Ours: the witness rule, `Linked`, joining, leaving, orphans
and waves (the paper presupposes a membership protocol); the answer takes the path back, so that it
needs no link that is not there.

Costs per round: `2 ttl` messages for a walk, of up to `ttl` views; and two for each neighbour that
is exchanged. In each period of waves two messages for each link and contact. A contact remembers
the names of all members.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from reefcast.errors import ProtocolError
from reefcast.model.messages import Send
from reefcast.routing.gossip.messages import (
    MOST_STEPS,
    Adopt,
    Join,
    JoinWalk,
    Left,
    Linked,
    Members,
    Met,
    TopicMessage,
    Walk,
    Walked,
    Wave,
)
from reefcast.routing.gossip.missed import MissedNodes
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.streams import MASK, NodeId, choice, mixed, stream
from reefcast.routing.gossip.views import View, Weights, best_view
from reefcast.routing.recent import RecentIds

LOWEST = 2
"""How many nodes take a joiner in addition. This is also the least number of walks for one, and of
places in a view that does not exist from the beginning."""
MISSED = 3
"""Waves that a node may miss before it joins again."""
WAVES_REMEMBERED = 64
PATIENCE = 3
"""Rounds after which a node that still has no neighbour asks to join again, contacts in quarantine
too."""


class Heard(NamedTuple):
    """The rounds in which a contact's waves came last, along views and against them."""

    forward: int
    backward: int


class TopicOverlay:
    """One node's part in the overlay of a topic; see the module's docstring. `contacts`: of the
    topic, best first; `life`: a number that no earlier overlay of this node and topic had.

    The returned messages must be sent in this order. `round`: rounds so far. `missed`: the nodes
    that it wants back as soon as there is a connection (`reached`)."""

    def __init__(
        self,
        topic: str,
        options: GossipOptions,
        weights: Weights,
        contacts: Sequence[NodeId] = (),
        life: int = 0,
    ) -> None:
        self.topic = topic
        self.me = weights.me
        self.view: View = ()
        self.size = 0
        self.in_links: set[NodeId] = set()
        self.missed = MissedNodes()
        self.contacts = tuple(contacts)
        self.round = 0
        self._options = options
        self._weights = weights
        self._life = life
        self._stream = stream(options.seed, self.me, topic)
        self._drawn = 0
        self._grows = True
        self._fewest = LOWEST
        self._members: dict[NodeId, None] = {}
        self._quarantine: dict[NodeId, int] = {}
        self._heard: dict[NodeId, Heard] = {}
        self._asked: dict[NodeId, int] = {}
        self._waves = 0
        self._passed: RecentIds[tuple[NodeId, int, int, bool]] = RecentIds(WAVES_REMEMBERED)

    # --- inputs -----------------------------------------------------------------------------------

    def begin(self, view: Sequence[NodeId], in_links: Sequence[NodeId]) -> None:
        """Begin in an existing overlay, with this place in it."""
        self.view = self._weights.view(view)
        self.size = len(view)
        self.in_links = set(in_links)
        self._fewest = max(LOWEST, len(view))

    def join(self) -> list[Send]:
        """Join through the first contact that is not in quarantine, and is not this node itself."""
        for contact in self.contacts:
            if contact != self.me and contact not in self._quarantine:
                return self._ask(contact)
        return []

    def leave(self) -> list[Send]:
        """Leave: the nodes that point here get a neighbour of this node in exchange; contacts are
        told."""
        sends = [Send(node, Linked(topic=self.topic, linked=False)) for node in self.view]
        for number, node in enumerate(sorted(self.in_links)):
            others = [other for other in self.view if other != node]
            instead = others[number % len(others)] if others else ""
            sends.append(Send(node, Left(topic=self.topic, instead=instead)))
        for contact in self.contacts:
            if contact not in self.in_links and contact not in self._quarantine:
                sends.append(Send(contact, Left(topic=self.topic)))
        self.view, self.size = (), 0
        self.in_links.clear()
        return sends

    def tick(self) -> list[Send]:
        """Begin a round."""
        self.round += 1
        self._quarantine = {x: until for x, until in self._quarantine.items() if until > self.round}
        self.missed.forget(self.round)
        sends = self._keep_together()
        if not self.view:
            waited = self.round - max(self._asked.values(), default=-PATIENCE)
            return sends + self._join_anyhow() if waited >= PATIENCE else sends
        if not self.in_links:
            sends += self._search_for_parents()
        nonce = mixed(self._stream, self.round)
        to = self.view[self._choice(nonce, 0, len(self.view))]
        left = self._options.ttl - 1
        return [*sends, Send(to, Walk(topic=self.topic, path=(self.me,), nonce=nonce, left=left))]

    def handle(self, message: TopicMessage, sender: NodeId) -> list[Send]:
        """Handle a message of another node. Raises `ProtocolError`, changing nothing, for a message
        that no node sends."""
        return HANDLERS[type(message)](self, message, sender)

    def lost(self, node: NodeId) -> list[Send]:
        """Handle that a node cannot be reached."""
        self.in_links.discard(node)
        self._members.pop(node, None)
        if node not in self.view and node not in self.contacts:
            return []
        self._quarantine[node] = self.round + self._options.quarantine_rounds
        self.missed.add(node, node in self.view, self.round)
        self.view = tuple(other for other in self.view if other != node)
        return [] if self.view else self.join()

    def reached(self, node: NodeId) -> list[Send]:
        """Handle a connection to a node that was missed. A contact that should only be asked is
        asked; two contacts tell each other whom they know, and become neighbours: the topic may
        have begun at each of them by itself."""
        missed = self.missed.pop(node)
        self._quarantine.pop(node, None)
        told: list[Send] = []
        if self.me in self.contacts and node in self.contacts:
            told.append(Send(node, Members(topic=self.topic, nodes=tuple(self._members))))
        elif not missed.neighbour:
            return self._ask(node)
        return told if node in self.view else told + self._adds(node)

    def _adds(self, node: NodeId) -> list[Send]:
        """Add a node to the view; while this node joins, the view grows."""
        self.view = self._weights.view((*self.view, node))
        if self._grows:
            self.size = max(self.size, len(self.view), LOWEST)
        return [self._link(node)]

    def unlinked(self, node: NodeId) -> None:
        """Handle that the connection to a node ended; if it points here, it will say so again."""
        self.in_links.discard(node)

    # --- walks ------------------------------------------------------------------------------------

    def _choice(self, nonce: int, step: int, size: int) -> int:
        """Return this node's choice for the walk `nonce`; the steps left distinguish visits."""
        return choice(mixed(self._stream ^ nonce, step), size)

    def _walk(self, walk: Walk, sender: NodeId) -> list[Send]:
        if not walk.path or walk.path[-1] != sender:
            raise self._wrong(sender, "a walk that did not come from where it says")
        if len(walk.views) != len(walk.path) - 1 or len(walk.path) + walk.left > MOST_STEPS:
            raise self._wrong(sender, "a walk that is too long, or has not a view of each node")
        path, views = (*walk.path, self.me), (*walk.views, self.view)
        if not walk.left or not self.view:
            return self._back(path, views, len(path) - 2)
        to = self.view[self._choice(walk.nonce, walk.left, len(self.view))]
        onward = Walk(
            topic=self.topic, path=path, views=views, nonce=walk.nonce, left=walk.left - 1
        )
        return [Send(to, onward)]

    def _back(self, path: tuple[NodeId, ...], views: tuple[View, ...], at: int) -> list[Send]:
        return [Send(path[at], Walked(topic=self.topic, path=path, views=views, at=at))]

    def _walked(self, walked: Walked, sender: NodeId) -> list[Send]:
        path, at = walked.path, walked.at
        if path[at : at + 2] != (self.me, sender) or len(walked.views) != len(path) - 1:
            raise self._wrong(sender, "an answer that is not for this node")
        if at:
            return self._back(path, walked.views, at - 1)
        new = best_view(
            self.view,
            self.size,
            path[1:],
            walked.views,
            self._weights,
            self._quarantine,
            greedy=self._options.rule == "greedy",
        )
        return self._change(new)

    def _change(self, new: View) -> list[Send]:
        old, self.view = self.view, new
        if old == new:
            return []
        gained = [self._link(node) for node in new if node not in old]
        return gained + [
            Send(node, Linked(topic=self.topic, linked=False)) for node in old if node not in new
        ]

    def _link(self, node: NodeId) -> Send:
        return Send(node, Linked(topic=self.topic, linked=True))

    def links(self, node: NodeId) -> list[Send]:
        """Return what to tell a node to which there is a new connection."""
        return [self._link(node)] if node in self.view else []

    def _linked(self, message: Linked, sender: NodeId) -> list[Send]:
        if message.linked:
            self.in_links.add(sender)
        else:
            self.in_links.discard(sender)
        return []

    # --- joining and leaving ----------------------------------------------------------------------

    def _draw(self) -> int:
        """Draw a number of this node's own stream, for choices that belong to no round."""
        self._drawn += 1
        return mixed(self._stream ^ MASK, self._drawn)

    def _join_anyhow(self) -> list[Send]:
        """Join by any contact: a node without neighbours tries contacts in quarantine, too."""
        for contact in self.contacts:
            self._quarantine.pop(contact, None)
        return self.join()

    def _ask(self, contact: NodeId) -> list[Send]:
        self._asked[contact] = self.round
        self._grows = not self.view
        if self._grows:
            self.size = 0
        return [Send(contact, Join(topic=self.topic, again=not self._grows))]

    def _join(self, message: Join, sender: NodeId) -> list[Send]:
        sends = self._tell_contacts(sender)
        self._members[sender] = None
        if message.again:
            return sends + self._take_back(sender)
        starts = [self.me, *(node for node in self._members if node != sender)]
        for number in range(self._walks_of_joiner()):
            walk = self._walk_of(sender, number < LOWEST)
            start = starts[self._choice(walk.nonce, walk.left + 1, len(starts))]
            sends += self._join_walk(walk, sender) if start == self.me else [Send(start, walk)]
        return sends

    def _take_back(self, node: NodeId) -> list[Send]:
        """Add a node that could not be reached, or could not reach this node: it can now, without
        detour. (Walks end where no path leads out.)"""
        walk = replace(self._walk_of(node, False), left=0)
        return [*self._join_walk(walk, node), Send(node, Met(topic=self.topic, node=self.me))]

    def _walk_of(self, joiner: NodeId, grows: bool) -> JoinWalk:
        nonce, left = self._draw(), self._options.ttl
        return JoinWalk(topic=self.topic, joiner=joiner, grows=grows, nonce=nonce, left=left)

    def _walks_of_joiner(self) -> int:
        """Return 2 ln n; in an overlay that existed before the contact, at least as many as its
        view has."""
        return max(self._fewest, round(2 * math.log(1 + len(self._members))))

    def _tell_contacts(self, joiner: NodeId) -> list[Send]:
        """Tell the other contacts of a new member, and a contact that joins of all members."""
        sends: list[Send] = []
        if joiner not in self._members:
            news = Members(topic=self.topic, nodes=(joiner,))
            others = (x for x in self.contacts if x not in (self.me, joiner))
            sends = [Send(other, news) for other in others if other not in self._quarantine]
        if joiner in self.contacts:
            sends.append(Send(joiner, Members(topic=self.topic, nodes=tuple(self._members))))
        return sends

    def _learn_members(self, members: Members, sender: NodeId) -> list[Send]:
        if sender in self.contacts:
            known = (node for node in (sender, *members.nodes) if node != self.me)
            self._members.update(dict.fromkeys(known))
        return []

    def _join_walk(self, walk: JoinWalk, sender: NodeId) -> list[Send]:
        others = [node for node in self.view if node != walk.joiner]
        ends = walk.joiner != self.me and walk.joiner not in self.view
        if others and walk.left:
            to = others[self._choice(walk.nonce, walk.left, len(others))]
            return [Send(to, replace(walk, left=walk.left - 1))]
        return self._take_in(walk, others) if ends else self._introduce(walk, others)

    def _introduce(self, walk: JoinWalk, others: list[NodeId]) -> list[Send]:
        """Tell a joiner that is in this view already, or is this node, of another node."""
        if walk.joiner == self.me:
            return []
        node = others[self._choice(walk.nonce, 0, len(others))] if others else self.me
        return [Send(walk.joiner, Met(topic=self.topic, node=node))]

    def _take_in(self, walk: JoinWalk, others: list[NodeId]) -> list[Send]:
        """Add the joiner to the view; it gets the node that was in its place, or this node."""
        joiner = walk.joiner
        self._quarantine.pop(joiner, None)
        if walk.grows or not others:
            self.size = max(self.size, len(self.view) + 1)
            self.view = self._weights.view((*self.view, joiner))
            return [Send(joiner, Met(topic=self.topic, node=self.me))]
        given = others[self._choice(walk.nonce, 0, len(others))]
        self.view = self._weights.view((*(x for x in self.view if x != given), joiner))
        return [
            Send(joiner, Met(topic=self.topic, node=given)),
            Send(given, Linked(topic=self.topic, linked=False)),
        ]

    def _met(self, met: Met, sender: NodeId) -> list[Send]:
        """Handle an introduction by a node that points here already, or does from now on. If the
        introduced node cannot be reached, the sender takes its place."""
        self.in_links.add(sender)
        node = sender if met.node in self._quarantine else met.node
        return [] if node == self.me or node in self.view else self._adds(node)

    def _left(self, left: Left, sender: NodeId) -> list[Send]:
        self.in_links.discard(sender)
        self._members.pop(sender, None)
        self.missed.pop(sender, None)
        if sender not in self.view:
            return []
        rest = [node for node in self.view if node != sender]
        instead = left.instead
        if not instead or instead == self.me or instead in self.view or instead in self._quarantine:
            self.view = tuple(rest)
            if len(rest) < self.size:
                self.size = max(self.size - 1, LOWEST)
            return [] if rest else self.join()
        self.view = self._weights.view((*rest, instead))
        return [self._link(instead)]

    # --- orphans ----------------------------------------------------------------------------------

    def _search_for_parents(self) -> list[Send]:
        nonce = self._draw()
        to = self.view[self._choice(nonce, 0, len(self.view))]
        left = self._options.ttl
        adopt = Adopt(topic=self.topic, orphan=self.me, view=self.view, nonce=nonce, left=left)
        return [Send(to, adopt)]

    def _adopt(self, adopt: Adopt, sender: NodeId) -> list[Send]:
        """Adopt an orphan in place of a node that is in both views: that needs this one least."""
        orphan = adopt.orphan
        if orphan == self.me:
            return []
        self._quarantine.pop(orphan, None)
        if orphan in self.view:
            return [self._link(orphan)]
        common = [node for node in self.view if node in adopt.view]
        if common:
            given = common[-1]
            return self._change(
                self._weights.view((*(node for node in self.view if node != given), orphan))
            )
        if adopt.left and self.view:
            to = self.view[self._choice(adopt.nonce, adopt.left, len(self.view))]
            return [Send(to, replace(adopt, left=adopt.left - 1))]
        self.size = max(self.size, len(self.view) + 1)
        return self._change(self._weights.view((*self.view, orphan)))

    # --- waves ------------------------------------------------------------------------------------

    def _keep_together(self) -> list[Send]:
        """Send a contact's waves, of each topic in a round of its own, because those of many topics
        at once would delay publications; and ask the contacts whose waves stay away to let this
        node join again."""
        period = self._options.wave_rounds
        sends: list[Send] = []
        if self.me in self.contacts and (self.round + self._stream) % period == 0:
            self._waves += 1
            for forward in (True, False):
                wave = Wave(
                    topic=self.topic,
                    contact=self.me,
                    life=self._life,
                    number=self._waves,
                    forward=forward,
                )
                sends += self._wave(wave, self.me)
        for contact in self.contacts:
            heard = min(self._heard.get(contact, Heard(0, 0)))
            since = max(heard, self._asked.get(contact, 0))
            if contact != self.me and self.round - since > MISSED * period:
                sends += self._ask(contact)
        return sends

    def _wave(self, wave: Wave, sender: NodeId) -> list[Send]:
        told = self._put_right(wave, sender) if sender != self.me else []
        id = (wave.contact, wave.life, wave.number, wave.forward)
        if wave.contact not in self.contacts or not self._passed.is_new(id):
            return told
        heard = self._heard.get(wave.contact, Heard(0, 0))
        if wave.forward:
            self._heard[wave.contact] = heard._replace(forward=self.round)
        else:
            self._heard[wave.contact] = heard._replace(backward=self.round)
        to = self.view if wave.forward else sorted(self.in_links)
        return told + [Send(node, wave) for node in to]

    def _put_right(self, wave: Wave, sender: NodeId) -> list[Send]:
        """Repair the links after a wave: the sender points here, or believes that this node points
        to it."""
        if wave.forward:
            self.in_links.add(sender)
        elif sender not in self.view:
            return [Send(sender, Linked(topic=self.topic, linked=False))]
        return []

    def _wrong(self, sender: NodeId, what: str) -> ProtocolError:
        return ProtocolError(f"neighbour {sender!r} sent {what}, about topic {self.topic!r}")


HANDLERS: dict[type, Callable[[TopicOverlay, Any, NodeId], list[Send]]] = {
    Walk: TopicOverlay._walk,
    Walked: TopicOverlay._walked,
    Linked: TopicOverlay._linked,
    Join: TopicOverlay._join,
    Members: TopicOverlay._learn_members,
    JoinWalk: TopicOverlay._join_walk,
    Met: TopicOverlay._met,
    Adopt: TopicOverlay._adopt,
    Left: TopicOverlay._left,
    Wave: TopicOverlay._wave,
}
"""The handler of each message that is of its overlay."""
