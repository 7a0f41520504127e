"""Routing `gossip`: topics as overlays of their own, aligned so that they share connections (StAN).

Rules
-----
- The topics of a broker are those that its clients' filters name, and those that they publish to.
  In each it is a node of that topic's overlay (`topic`); further conditions of a filter are looked
  at here, at the edge. A filter that does not say which topics it is about is refused.
- Who subscribes is settled when the broker has joined these topics, or can ask nobody.
- Whom a view names, or who names this broker, there is a connection to: one, whatever the number of
  topics, opened as a soft link. Where no topic needs it any more, it is closed.
- A publication that is new here goes to the clients who want it, and to `fanout` neighbours of each
  of its topics that this broker is in (0: all): one copy for each connection, whatever the number
  of topics. What came before is dropped.
- What was under way on a connection that broke is sent again on the next one, and both ends
  compare what came lately.
- Whom a topic misses because it could not be reached is called again: every round `CALLED` of them,
  one after the other, and all of them when one was reached. Each topic then takes its own back, and
  compares all that is kept.
- New neighbours are told what came lately; with *repair* others are, too: see `repair`.

A publication may miss a subscriber (`best_effort`): with a low fanout, and for as long as nodes
that crashed have not been replaced. With `repair` it reaches in the end all who were in the topic
when it was published, as long as the live nodes of the topic are connected. Without it, and with
all neighbours, it reaches all of these if none crashes: also those whose neighbours change, or who
could not be reached for some time, if somebody still keeps it then.

Order is not kept.

Source: `papers/stan.txt`, section 2. Costs: see `topic` and `repair`; a publication crosses each
connection between its nodes once in each direction at most, but not back to where it came from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from reefcast.model.filters import Filter
from reefcast.model.messages import (
    CloseLink,
    EntityId,
    Header,
    LinkName,
    OpenLink,
    PeerMessage,
    Publish,
    Send,
)
from reefcast.model.topics import topics_of
from reefcast.routing.capabilities import ActsLater, OpensLinks, Refuses, SoftLink
from reefcast.routing.gossip.membership import Membership
from reefcast.routing.gossip.messages import (
    MESSAGES,
    Digest,
    Join,
    JoinWalk,
    Missing,
    TopicMessage,
    of_stranger,
)
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.repair import Room
from reefcast.routing.gossip.seen import SeenIds
from reefcast.routing.gossip.streams import NodeId, weight
from reefcast.routing.gossip.topic import TopicOverlay
from reefcast.routing.gossip.view import TopicTable
from reefcast.routing.gossip.views import Weights
from reefcast.routing.router import (
    COUNTED,
    Action,
    Await,
    Decision,
    Router,
    Shape,
    Surroundings,
)
from reefcast.routing.tables import NextHops, Row, TableView

CONTACTS = 2
"""Contacts of a topic."""
CALLED = 2
"""Nodes out of reach that are called in one round."""
PUBLISHES = 0
"""The number of the reason for which a broker is in a topic that a client just publishes to."""


class Gossip(Router, Refuses, ActsLater, OpensLinks):
    """Topic gossip; see the module's docstring. `memberships`: by topic, in the order of
    entering."""

    name = "gossip"
    overlay = Shape.NONE
    best_effort = True
    unconfirmed = (
        "routing 'gossip' does not confirm publications, for it does not know when one is "
        "everywhere; publish without confirm, or use another routing"
    )
    needs_topics = True
    restless = True
    messages: ClassVar[tuple[type[PeerMessage], ...]] = MESSAGES
    options = GossipOptions
    counted: ClassVar[Mapping[str, str]] = {"repaired": "repaired", "unsent": "unsent"}
    legend: ClassVar[Mapping[str, str]] = {
        TopicTable.name: (
            "Topics that this broker is in. View: nodes that it sends to. Known by: nodes that "
            "send to it. For: how many subscriptions and publishers here, and whether it is one of "
            "the topic's contacts."
        ),
        COUNTED: (
            "Repaired: publications that a neighbour lacked, or that were asked for. Unsent: those "
            "that nobody in their topic could be met for in time."
        ),
    }

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self.wanted: GossipOptions = where.options
        self.round_s = self.wanted.round_s
        self.soft_links: dict[LinkName, SoftLink] = {}
        self.memberships: dict[str, Membership] = {}
        self._me = where.name
        self._weights = Weights(where.name, self.wanted.seed)
        self._life = where.rng.getrandbits(63)
        self._room = Room()
        self._seen = SeenIds()
        self._advertised: dict[EntityId, tuple[LinkName, tuple[str, ...]]] = {}
        self._late: list[Send] = []
        self._to_enter: list[tuple[Publish, LinkName]] = []
        self._resay: set[LinkName] = set()
        self._idle: set[LinkName] = set()
        self._missed: set[LinkName] = set()
        self._called: LinkName = ""
        self._called_all = False

    # --- clients ----------------------------------------------------------------------------------

    def objection(self, filter: Filter) -> str | None:
        topics = topics_of(filter)
        if topics is None:
            return (
                "routing 'gossip' needs to know the topics: write topic = '...' or topic IN (...), "
                "AND what else the events must satisfy"
            )
        for topic in topics:
            if not self.contacts_of(topic):
                return (
                    f"nobody can be met for topic {topic!r}: name some brokers as contacts in "
                    "[routing] of the network file"
                )
        return None

    def subscribe(
        self, id: EntityId, filter: Filter, link: LinkName, local: bool
    ) -> Sequence[Action]:
        self.prt.add(Row(id, filter, link, local))
        return [a for topic in topics_of(filter) or () for a in self._enter(topic, id)]

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Action]:
        row = self.prt.remove(id, link)
        topics = topics_of(row.filter) if row is not None else None
        return [action for topic in topics or () for action in self._quit(topic, id)]

    def advertise(
        self, id: EntityId, filter: Filter, link: LinkName, local: bool
    ) -> Sequence[Action]:
        """Handle an advertisement: enter its topics before anything is published to them."""
        topics = topics_of(filter) or ()
        self._advertised[id] = (link, topics)
        return [action for topic in topics for action in self._enter(topic, id)]

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Action]:
        """Withdraw an advertisement; the client's publications of it are no reason to stay in its
        topics."""
        owner, topics = self._advertised.pop(id, (link, ()))
        reasons = (id, (owner, PUBLISHES))
        return [a for topic in topics for reason in reasons for a in self._quit(topic, reason)]

    def link_down(self, link: LinkName) -> list[Action]:
        actions = [*super().link_down(link)]
        for id in [id for id, (owner, _) in self._advertised.items() if owner == link]:
            actions += self.unadvertise(id, link)
        for topic in list(self.memberships):
            actions += self._quit(topic, (link, PUBLISHES))
        return actions

    # --- topics -----------------------------------------------------------------------------------

    def contacts_of(self, topic: str) -> tuple[NodeId, ...]:
        """Return the contacts named for a topic, or the contacts to which its name gives the least
        weight."""
        named = self.wanted.topics.get(topic)
        if named is not None:
            return named
        ranked = sorted(self.wanted.contacts, key=lambda x: (weight(self.wanted.seed, topic, x), x))
        return tuple(ranked[:CONTACTS])

    def _enter(self, topic: str, reason: EntityId | None) -> list[Action]:
        """Enter a topic, from now on also for this reason; None: as a contact."""
        known, joins = self.memberships.get(topic), []
        if known is None:
            contacts = self.contacts_of(topic)
            overlay = TopicOverlay(topic, self.wanted, self._weights, contacts, self._life)
            known = self.memberships[topic] = Membership(overlay, self.wanted, self._room)
            joins = overlay.join()
        if reason is not None:
            known.reasons.add(reason)
        return self._joins(known, joins) if known.joining else []

    def _joins(self, known: Membership, sends: Sequence[Send]) -> list[Action]:
        """Return the actions of joining: nothing that needs the topic settles before they are
        done."""
        actions = self._connected(sends)
        joins = [action for action in actions if isinstance(action, Send)]
        opens = [action for action in actions if not isinstance(action, Send)]
        return [*opens, Await(joins, known.joined, key=known)]

    def _quit(self, topic: str, reason: EntityId) -> list[Action]:
        """Remove a reason, and leave the topic if none is left, unless this broker is a contact.
        Whether there is a connection to those who are told depends on other topics: so it must not
        matter."""
        known = self.memberships.get(topic)
        if known is None or reason not in known.reasons:
            return []
        known.reasons.remove(reason)
        if known.reasons or self._me in known.overlay.contacts:
            return []
        del self.memberships[topic]
        self._room.leave(known.kept)
        return self._connected(known.overlay.leave())

    def peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        if not isinstance(message, TopicMessage):
            return super().peer(message, link)
        entered: list[Action] = []
        known = self.memberships.get(message.topic)
        if known is None:
            if not isinstance(message, Join) or self._me not in self.contacts_of(message.topic):
                return self._stranger(message, link)
            entered = self._enter(message.topic, None)
            known = self.memberships[message.topic]
        if isinstance(message, Digest | Missing):
            return self._compare(known, message, link)
        before = known.overlay.view
        sends = known.overlay.handle(message, link)
        sends += known.offers(before, message.joiner if isinstance(message, JoinWalk) else "")
        if isinstance(message, Join) and message.again:
            sends += known.compare_all(link)
        return entered + self._connected(sends) + self._flush(known)

    def _stranger(self, message: TopicMessage, link: LinkName) -> list[Action]:
        """Answer a message about a topic that this broker is not (or no longer) in."""
        return self._connected(Send(link, answer) for answer in of_stranger(message))

    def round(self) -> list[Action]:
        actions: list[Action] = []
        for known in self.memberships.values():
            actions += self._connected(known.overlay.tick())
            self.counters["unsent"] += known.next_round()
            if self.wanted.repair:
                actions += self._connected(known.repairs())
        self._called_all = False
        return actions + self._close_idle() + self._call_some()

    # --- connections ------------------------------------------------------------------------------

    def _connected(self, sends: Iterable[Send]) -> list[Action]:
        """Return sends with the actions that open missing connections; those that are being closed
        are opened again afterwards."""
        actions: list[Action] = []
        for send in sends:
            state = self.soft_links.get(send.link)
            if state is None:
                self.soft_links[send.link] = SoftLink.OPENING
                actions.append(OpenLink(send.link))
            elif state is SoftLink.CLOSING:
                self._missed.add(send.link)
            actions.append(send)
        return actions

    def awaits_link(self, link: LinkName) -> bool:
        state = self.soft_links.get(link)
        return state is not None and not state.up

    def soft_up(self, link: LinkName) -> list[Action]:
        asked = self.soft_links.get(link) is SoftLink.OPENING
        self.soft_links[link] = SoftLink.OPENED if asked else SoftLink.ACCEPTED
        topics = list(self.memberships.values())
        actions: list[Action] = []
        if link in self._resay:
            self._resay.remove(link)
            actions += [send for known in topics for send in known.relinked(link)]
        back = [send for known in topics for send in known.reached(link)]
        if not back:
            return actions
        actions += self._connected(back)
        for known in topics:
            actions += self._flush(known)
        return actions + self._call_all()

    # --- who is out of reach ----------------------------------------------------------------------

    def _out_of_reach(self) -> list[LinkName]:
        """Return the nodes that topics miss, and that are not being called."""
        missed = {node for known in self.memberships.values() for node in known.overlay.missed}
        return sorted(missed.difference(self.soft_links))

    def _call_some(self) -> list[Action]:
        """Call the nodes that follow the last one that was called, by name."""
        nodes = self._out_of_reach()
        start = bisect_right(nodes, self._called)
        some = (nodes[start:] + nodes[:start])[:CALLED]
        if some:
            self._called = some[-1]
        return self._call(some)

    def _call_all(self) -> list[Action]:
        """Call all missed nodes after one was reached, because others may be reachable, too; at
        most once in a round."""
        if self._called_all:
            return []
        self._called_all = True
        return self._call(self._out_of_reach())

    def _call(self, nodes: Iterable[LinkName]) -> list[Action]:
        actions: list[Action] = []
        for node in nodes:
            self.soft_links[node] = SoftLink.OPENING
            actions.append(OpenLink(node))
        return actions

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> Sequence[Action]:
        """Handle a soft link that was closed because nobody needed it, that broke, or that could
        not be opened. Only in the last case is the node given up: otherwise there is another
        attempt, if it is needed."""
        before = self.soft_links.pop(link, None)
        self._idle.discard(link)
        missed = link in self._missed
        self._missed.discard(link)
        topics = self.memberships.values()
        if before is SoftLink.OPENING:
            self._resay.discard(link)
            return [action for known in topics for action in self._connected(known.lost(link))]
        for known in topics:
            known.unlinked(link)
        again: list[Action] = [Send(link, publish) for publish in lost]
        if not (again or missed or any(link in known.overlay.view for known in topics)):
            return []
        self._resay.add(link)
        self.soft_links[link] = SoftLink.OPENING
        return [OpenLink(link), *again]

    def _close_idle(self) -> list[Action]:
        """Close connections that no topic has needed for a whole round."""
        needed: set[LinkName] = set()
        for known in self.memberships.values():
            needed.update(known.overlay.view, known.overlay.in_links)
        idle = [link for link, state in self.soft_links.items() if state.up and link not in needed]
        closing = [link for link in idle if link in self._idle]
        self._idle = set(idle)
        self.soft_links.update(dict.fromkeys(closing, SoftLink.CLOSING))
        return [CloseLink(link) for link in closing]

    # --- publications -----------------------------------------------------------------------------

    def route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterator[Decision]:
        hosted = link not in self.soft_links
        for publish, (local, _, matched) in zip(publications, found, strict=True):
            if not self._seen.is_new(publish.publication.id):
                yield Decision({}, [], matched, duplicate=True)
                continue
            if hosted:
                self._to_enter.append((publish, link))
                self.unfinished = True
            onward = Header(publish.header.hops + 1)
            hops = []
            for target in self._targets(publish, link):
                if self.soft_links[target].up:
                    hops.append((target, onward))
                else:
                    self._late.append(
                        Send(
                            target,
                            Publish(publish.publication, onward, publish.body, publish.again),
                        )
                    )
                    self.unfinished = True
            yield Decision(local, hops, matched)

    def _targets(self, publish: Publish, link: LinkName) -> dict[LinkName, None]:
        """Return the targets of a publication, each once, whatever the number of topics that lead
        there."""
        targets: dict[LinkName, None] = {}
        for topic in publish.publication.topics:
            known = self.memberships.get(topic)
            if known is not None:
                known.kept.add(publish)
                targets.update(dict.fromkeys(self._some(known.overlay.view)))
        targets.pop(link, None)
        return targets

    def _some(self, view: Sequence[NodeId]) -> Sequence[NodeId]:
        fanout = self.wanted.fanout
        return self.rng.sample(view, fanout) if 0 < fanout < len(view) else view

    def afterwards(self) -> list[Action]:
        """Enter the topics that clients publish to; what cannot be sent yet waits there."""
        self.unfinished = False
        actions = self._connected(self._late)
        self._late = []
        hosted, self._to_enter = self._to_enter, []
        for publish, client in hosted:
            for topic in publish.publication.topics:
                actions += self._enter(topic, (client, PUBLISHES))
                known = self.memberships[topic]
                known.kept.add(publish)
                if not known.overlay.view and not known.alone:
                    self.counters["unsent"] += known.wait(publish)
        return actions

    def _flush(self, known: Membership) -> list[Action]:
        """Send what waited until another node of the topic was met."""
        if not known.waiting or not known.overlay.view:
            return []
        return [
            action
            for publish in known.taken()
            for action in self._copies(publish, self._some(known.overlay.view))
        ]

    def _copies(self, publish: Publish, targets: Iterable[LinkName]) -> list[Action]:
        onward = Header(publish.header.hops + 1)
        copy = Publish(publish.publication, onward, publish.body, publish.again)
        return self._connected(Send(target, copy) for target in targets)

    # --- repair -----------------------------------------------------------------------------------

    def _compare(
        self, known: Membership, message: Digest | Missing, link: LinkName
    ) -> list[Action]:
        kept = known.kept
        sent = []
        if isinstance(message, Missing):
            sent = kept.those(message.ids)
        elif self.wanted.repair and not message.part:
            sent = kept.besides(message.ids)
        self.counters["repaired"] += len(sent)
        # The clients of a broker that lost its memory may have had them from its former life.
        copies = [msgspec.structs.replace(publish, again=True) for publish in sent]
        actions = [action for publish in copies for action in self._copies(publish, (link,))]
        if isinstance(message, Digest):
            lacking = tuple(id for id in known.lacks(message, link) if id not in self._seen)
            if lacking:
                actions.append(Send(link, Missing(topic=message.topic, ids=lacking)))
            actions += known.answers(message, link)
        return actions

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> dict[str, TableView[Any]]:
        return {**super().tables(), TopicTable.name: TopicTable(self.memberships)}
