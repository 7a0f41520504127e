"""The part of one affected broker in a move of a primary link: see `move`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from reefcast.errors import ProtocolError
from reefcast.model.filters import parse_filter
from reefcast.model.messages import (
    Advertise,
    CloseLink,
    Demote,
    Header,
    LinkName,
    Promote,
    Publish,
    Send,
    Unadvertise,
    Unsubscribe,
)
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.mesh.drain import Drain
from reefcast.routing.mesh.egress import NEW, OLD, Egress
from reefcast.routing.mesh.messages import MeshHeader, Stamp, stamp_of, tunnel_of
from reefcast.routing.mesh.move import Plan
from reefcast.routing.mesh.move_messages import (
    Beside,
    MoveDrained,
    MoveDry,
    MoveFailed,
    MoveJoin,
    MoveOver,
    Phase,
    TreeMessage,
)
from reefcast.routing.mesh.moved_links import MovedLinks
from reefcast.routing.mesh.router import Mesh
from reefcast.routing.router import Action, Await, Decision, Part, Surroundings
from reefcast.routing.tables import NextHops, Row

Change = Callable[[Mesh], Sequence[Send]]
"""Something done to one set of tables; returns what these want said."""
Abandon = Callable[[], list[Action]]


class Moving:
    """See the module's docstring. `tables`: the broker's own, old ones until *end*. `abandon`: has
    all brokers give the move up."""

    def __init__(
        self,
        tables: Mesh,
        plan: Plan,
        where: Surroundings,
        abandon: Abandon,
        links: MovedLinks,
    ) -> None:
        mom = tables.mesh.mom
        self._links = links
        self.plan = plan
        self.next: Mesh | None = None
        self.parent: LinkName | None = None
        self.ended = self.left = False
        self.all_ended = False  # this broker, and all that it passed the wave on to
        self._forgetting = False  # who heard that says things plainly again
        self._tables = tables
        self._where = where
        self._abandon = abandon
        self._me = mom.me
        self._soft_links = tables.soft_links
        self._near = frozenset(x for x in mom.brokers if plan.affects(mom, x))
        self._bypassing = frozenset(x for x in mom.brokers if plan.bypasses(mom, x))
        self._known = frozenset(tables.brokers)
        before = [link for link in tables.brokers if link in self._near]
        self._before = before
        self._after = plan.links_after(self._me, before)
        self._egress = Egress()
        self._switched = False
        held = where.links.held
        self._drain = Drain(mom, before, self._near, self._soft_links, lambda x: held(x) > 0)
        self._dry: set[LinkName] = set()
        self._reported = False
        self._joined = False
        self._lost: set[LinkName] = set()
        self._over_at: set[LinkName] = set()

    # --- phases -----------------------------------------------------------------------------------

    def phase(self, phase: Phase, link: LinkName | None) -> list[Action]:
        """Begin a phase; `link`: where that came from, None for the mover. Who hears too early that
        all may forget leaves that to the mover's word that the move was carried out."""
        if phase == "forget" and link is not None and not self.all_ended:
            return self.is_over(link)
        self.parent = link
        along = self._before if phase == "begin" else self._after
        onward = [Send(x, self.plan.wave(phase)) for x in along if x != link]
        if phase == "begin":
            return [*onward, *self._begin()] if self._on_its_way() else self._abandon()
        if phase == "build":
            return [*onward, *self._build()]
        if phase == "switch":
            self._switched = True
            return [*onward, *self.drained()]
        if phase == "end":
            return [Await(onward, self._behind_ended, key=self), *self.catch_up()]
        self._forgetting = True
        return [*onward, *self._part()]

    def _on_its_way(self) -> bool:
        """Return whether the move path still continues here as the mover knew it."""
        path = self.plan.path
        onward = path[path.index(self._me) + 1 :] if self._me in path else ()
        return not onward or onward[0] in self._tables.brokers

    def _begin(self) -> list[Action]:
        mesh = self._tables.mesh
        mesh.candidates = tuple(x for x in mesh.candidates if x not in self._bypassing)
        up = [x for x, state in self._soft_links.items() if state.up and x in self._bypassing]
        self._soft_links.update(dict.fromkeys(up, SoftLink.CLOSING))
        self.relink()
        return [CloseLink(x) for x in up]

    def relink(self) -> None:
        """Rebuild the maps: soft links came or went."""
        self._tables.mesh.relink()
        if self.next is not None:
            self.next.mesh.relink()

    # --- two sets of tables -----------------------------------------------------------------------

    def _build(self) -> list[Send]:
        """Build new tables with what they hold to begin with, and return what they have to say."""
        old = self._tables
        new = self.next = Mesh(self._where)
        outer = [link for link in old.brokers if link not in self._near]
        new.brokers += sorted([*outer, *self._after])
        new.soft_links = self._soft_links
        new.mesh.continues(old.mesh, outer)
        for link in outer:
            told = [row.id for row in old.srt if row.last_hop != link]
            self._egress.was_said(link, told, subscriptions=False)
            out = old.tree.outgoing.get(link)
            self._egress.was_said(link, out.sent() if out else (), subscriptions=True)
        for row in _copies(old.srt, outer):
            new.srt.add(row)
        for row in _copies(old.prt, outer):
            new.prt.add(row)
        for link in outer:
            new.srt.doubts_as(old.srt, link)
            new.prt.doubts_as(old.prt, link)
        sends = [
            Send(link, Advertise(row.id, row.filter.text))
            for link in outer
            for row in new.srt
            if row.last_hop != link
        ]
        sends += [send for link in outer for send in new.tree.catch_up(link)]
        sends += [send for link in self._after for send in Mesh.link_up(new, link)]
        return self._said(sends, NEW)

    def change(self, link: LinkName, change: Change) -> list[Send]:
        """Apply a change that a client or a neighbour told of (plainly) to its own tables."""
        if self.ended:
            stale = link in self.not_over and not self._forgetting
            return [] if stale else self._said(change(self._tables), NEW)
        if link in self._lost:
            return self._where_it_fits(link, change)
        sends = self._said(change(self._tables), OLD)
        if self.next is not None and link not in self._near:
            sends += self._said(change(self.next), NEW)
        return sends

    def _where_it_fits(self, link: LinkName, change: Change) -> list[Send]:
        """Apply a change told by a neighbour without memory to the old and the new tables, wherever
        the link exists. It holds for the tree that will be, whichever that is, and may contradict
        the other one: a `ProtocolError` is ignored."""
        sends = list[Send]()
        for tables, kind in ((self._tables, OLD), (self.next, NEW)):
            if tables is not None and link in tables.brokers:
                with suppress(ProtocolError):
                    sends += self._said(change(tables), kind)
        return sends

    def beside(self, message: TreeMessage, link: LinkName) -> list[Send]:
        """Handle a message between new tables."""
        tables = self.next or self._tables
        return self._said(taken_in(tables, message, link), NEW)

    def _said(self, sends: Iterable[Send], tables: int) -> list[Send]:
        """Return the messages of these tables as they are sent: those of the new tables between
        affected brokers as `Beside`. Leave out what neighbours outside need not be told, and until
        the *end* what is for affected brokers without memory of the move."""
        found = []
        for send in sends:
            message = send.message
            if send.link in self._near:
                if send.link in self._lost and not self.ended:
                    continue
                if tables == NEW and isinstance(message, TreeMessage):
                    message = Beside(move=self.plan.move, message=message)
                found.append(Send(send.link, message))
            elif self.next is None or self._egress.passes(send, tables):
                found.append(send)
        return found

    def _end(self) -> list[Action]:
        """Make the new tables those of the broker from now on, and the links, too."""
        new, old, plan = self.next, self._tables.mesh, self.plan
        assert new is not None, "build comes before end"
        outer = [link for link in new.brokers if link not in self._near]
        sends = self._egress.drop_old()
        self._tables.become(new)
        self.next, self.ended = None, True
        if self._me in (plan.mover, plan.new):
            self._soft_links.pop(plan.new if self._me == plan.mover else plan.mover, None)
        if self._me in (plan.mover, plan.old):
            other = plan.old if self._me == plan.mover else plan.mover
            self._soft_links[other] = SoftLink.CLOSING
        self.relink()
        sends += self._said(new.mesh.takes_over(old, outer), NEW)
        actions: list[Action] = [*sends, *self._said(self._untold(), NEW)]
        self._note_links()
        if self._me in (plan.mover, plan.old):
            actions.append(Part(other))
        return actions

    def _note_links(self) -> None:
        """Note how the links of this broker have changed."""
        plan, links = self.plan, self._links
        links.reach(plan.move)
        if self._me == plan.mover:
            links.note(plan.old, plan.move, "gone", mine=True)
            links.note(plan.new, plan.move, "here", mine=True)
        elif self._me == plan.old:
            links.note(plan.mover, plan.move, "gone", mine=False)
        elif self._me == plan.new:
            links.note(plan.mover, plan.move, "here", mine=False)

    def _untold(self) -> list[Send]:
        """Return everything that the tables have to tell neighbours without memory."""
        tables, sends = self._tables, list[Send]()
        for link in [link for link in tables.brokers if link in self._lost]:
            sends += tables.mesh.again(link)
            rows = [row for row in tables.srt if row.last_hop != link]
            sends += [Send(link, Advertise(row.id, row.filter.text)) for row in rows]
            tables.tree.outgoing.pop(link, None)
            sends += tables.tree.catch_up(link)
        return sends

    def _behind_ended(self) -> Sequence[Action]:
        self.all_ended = True
        return ()

    def catch_up(self) -> list[Action]:
        """End the move here too: others have come to the end."""
        return [] if self.ended else self._end()

    def finish(self) -> list[Action]:
        """Complete a move that was carried out: end it here if it has not ended, and part from the
        old link."""
        sends = self.catch_up()
        self.left = True
        return [*sends, *self._part()]

    @property
    def not_over(self) -> set[LinkName]:
        """The neighbours that may have old tables yet, when this broker has none."""
        return {*self._before} - self._lost - self._over_at

    def is_over(self, link: LinkName) -> list[Action]:
        """Handle that the move is over at a neighbour, which heard that it was carried out."""
        self._over_at.add(link)
        return self.catch_up()

    def over(self) -> list[Send]:
        """Tell neighbours that what this broker says from now on is of the new tables."""
        near = [x for x in self._tables.brokers if x in self._near and x not in self._lost]
        return [Send(link, MoveOver(move=self.plan.move)) for link in near]

    def _part(self) -> list[Action]:
        """Demote or leave the old link; its far end, the last to know, closes it."""
        plan = self.plan
        if self._me == plan.mover:
            return [Demote(plan.old)]
        if self._me != plan.old:
            return []
        close = [CloseLink(plan.mover)] if plan.mover in self._soft_links else []
        return [Demote(plan.mover), *close]

    # --- brokers that lost their memory, or are gone ----------------------------------------------

    def concerns(self, link: LinkName) -> bool:
        """Return whether the move affects this neighbour, or nobody knows: it was away when it
        began."""
        return link in self._near or link not in self._known

    def lost(self, link: LinkName) -> list[Action]:
        """Handle that this affected neighbour has no memory of the move, or is gone."""
        actions = self.failed(link)
        self._lost.add(link)
        return actions

    def failed(self, link: LinkName) -> list[Action]:
        """Handle the news, which came by `link`, that the move failed. Abandon the move if nobody
        can have come to its *end*: this broker has not reported that it is dry, or it is the mover,
        or, without a disk, it is the other end of the new link, by which the news came. Otherwise
        pass the news on towards the mover."""
        plan = self.plan
        if self.ended:
            return []
        decides = (self._me, link) == (plan.new, plan.mover) and self._links.write is None
        if not self._reported or self.parent is None or decides:
            return self._abandon()
        if self.parent == link:
            return []
        return [Send(self.parent, MoveFailed(move=self.plan.move))]

    def abandoned(self) -> list[Action]:
        """Keep the old tables: the move was abandoned."""
        self.left = True
        actions: list[Action] = [*self._untold()]
        if self.next is not None:
            actions += self._egress.drop_new()
            for row in list(self.next.prt):
                self.next.prt.remove(row.id, row.last_hop)
            self.next = None
        other = self.plan.new if self._me == self.plan.mover else self.plan.mover
        if self._joined and other in self._soft_links:
            actions += [Demote(other), Part(other)]
        return actions

    def link_up(self, link: LinkName) -> list[Send]:
        """Handle a primary link that came up; its other end has no memory of this broker."""
        self._egress.forget(link)
        new = self.next
        if new is not None and link not in new.brokers and self._stays(link):
            new.brokers.append(link)
            new.brokers.sort()
        return self.change(link, lambda tables: Mesh.link_up(tables, link))

    def _stays(self, link: LinkName) -> bool:
        return link not in self._near or link in self._after

    def link_down(self, link: LinkName) -> list[Send]:
        """Handle a primary link that went down."""
        self._egress.forget(link)
        new = self.next
        sends = self._said(Mesh.link_down(self._tables, link), NEW if self.ended else OLD)
        if new is not None and link in new.brokers:
            new.brokers.remove(link)
            sends += self._said(Mesh.link_down(new, link), NEW)
        return sends

    # --- publications -----------------------------------------------------------------------------

    def match(self, publications: Sequence[Publish], link: LinkName) -> list[NextHops]:
        return [
            next_hops
            for publish in publications
            for next_hops in Mesh.match(
                self._by(self._goes_by_new(publish, link)), (publish,), link
            )
        ]

    def route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterator[Decision]:
        for publish, next_hops in zip(publications, found, strict=True):
            new = self._goes_by_new(publish, link)
            for decision in Mesh.route(self._by(new), (publish,), (next_hops,), link):
                hops = [(hop, self._stamped(header, new)) for hop, header in decision.hops]
                yield msgspec.structs.replace(decision, hops=hops)

    def _goes_by_new(self, publish: Publish, link: LinkName) -> bool:
        stamp = stamp_of(publish.header)
        if stamp is not None and stamp.move == self.plan.move:
            return stamp.new
        return self.ended or (self._switched and link not in self._near)

    def _by(self, new: bool) -> Mesh:
        return self.next if new and self.next is not None else self._tables

    def _stamped(self, header: Header, new: bool) -> Header:
        return MeshHeader(header.hops, tunnel_of(header), Stamp(self.plan.move, new))

    def _with_stamp(self, publish: Publish, new: bool) -> Publish:
        return Publish(
            publish.publication, self._stamped(publish.header, new), publish.body, publish.again
        )

    # --- soft links -------------------------------------------------------------------------------

    def soft_up(self, link: LinkName) -> list[Action]:
        """Accept no soft link but the new primary one; one that was asked for before comes up."""
        state = self._soft_links.get(link)
        if state is None and not self.plan.joins(self._me, link):
            return [CloseLink(link)]
        if state is SoftLink.OPENING:
            self._soft_links[link] = SoftLink.OPENED
        elif state is None:
            self._soft_links[link] = SoftLink.ACCEPTED
        self.relink()
        return self.drained()

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> list[Action]:
        self._soft_links.pop(link, None)
        self.relink()
        sends: list[Action] = []
        for publish in lost:
            stamp = stamp_of(publish.header)
            new = self.ended
            if stamp is not None and stamp.move == self.plan.move:
                new = stamp.new
            sends += self._by(new).tunnel(link, [self._with_stamp(publish, new)])
        if self._joined and self.plan.joins(self._me, link):
            if self.next is not None:
                return [*sends, *self.lost(link)]
            self._joined = False  # the mover has closed it, or opens it again
            sends.append(Demote(link))
        return [*sends, *self.drained()]

    def joined(self, link: LinkName) -> list[Action]:
        """Promote the link: the mover wants it for a primary one. If it is being closed, the mover
        will learn that, and open another."""
        if not self._soft_links.get(link, SoftLink.CLOSING).up:
            return []
        self._joined = True
        self._links.open(link)
        return [Promote(link), Send(link, MoveJoin(move=self.plan.move))]

    def handle(
        self, message: MoveJoin | MoveDrained | MoveDry | MoveFailed, link: LinkName
    ) -> list[Action]:
        if isinstance(message, MoveJoin):
            return self.joined(link)
        if isinstance(message, MoveDrained):
            return self.handle_drained(link)
        if isinstance(message, MoveDry):
            return self.handle_dry(link)
        return self.failed(link)

    # --- the old tables run dry -------------------------------------------------------------------

    def handle_drained(self, link: LinkName) -> list[Action]:
        self._drain.heard(link)
        return self.drained()

    def _confirmed(self, link: LinkName) -> list[Action]:
        self._drain.confirmed(link)
        return self.drained()

    def handle_dry(self, link: LinkName) -> list[Action]:
        self._dry.add(link)
        return self.drained()

    def drained(self) -> list[Action]:
        """Return the `MoveDrained` messages that are due now."""
        if not self._switched or self._reported or self.left:
            return []
        actions: list[Action] = []
        for link in self._drain.to_say():
            send = Send(link, MoveDrained(move=self.plan.move))
            if self._drain.is_soft(link):
                actions.append(Await([send], partial(self._confirmed, link)))
            else:
                actions.append(send)
        children = {link for link in self._after if link != self.parent}
        if self._drain.over and children <= self._dry:
            self._reported = True
            actions += self.dry()
        return actions

    def dry(self) -> list[Action]:
        """Report that this broker is dry, and all that `switch` was passed on to."""
        assert self.parent is not None, "only the mover has none"
        return [Send(self.parent, MoveDry(move=self.plan.move))]


def taken_in(tables: Mesh, message: TreeMessage, link: LinkName) -> list[Send]:
    """Apply a message from the tables of neighbour `link` to these tables."""
    if isinstance(message, Advertise):
        return Mesh.advertise(tables, message.id, parse_filter(message.filter), link, False)
    if isinstance(message, Unadvertise):
        return Mesh.unadvertise(tables, message.id, link)
    if isinstance(message, Unsubscribe):
        return Mesh.unsubscribe(tables, message.id, link)
    return tables.handle(message, link)


def _copies(rows: Iterable[Row], outer: Collection[LinkName]) -> list[Row]:
    """Return copies of the rows that came from clients, or by these links."""
    return [
        Row(row.id, row.filter, row.last_hop, row.local, row.next_hop)
        for row in rows
        if row.local or row.last_hop in outer
    ]
