"""Routing `mesh`: that of `router`, whose primary links can be moved while it runs (see `move`). If
so, what is to be confirmed is flooded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from reefcast.errors import ConfigurationError
from reefcast.model import keeping
from reefcast.model.filters import Filter
from reefcast.model.messages import (
    Demote,
    EntityId,
    Header,
    LinkName,
    PeerMessage,
    Publish,
    Send,
)
from reefcast.routing.capabilities import MovesLinks, SoftLink
from reefcast.routing.courses import Course
from reefcast.routing.mesh.floods import Floods
from reefcast.routing.mesh.meshed import MESSAGES, Meshed
from reefcast.routing.mesh.messages import stamp_of
from reefcast.routing.mesh.move import Plan
from reefcast.routing.mesh.move_messages import (
    MOVE_MESSAGES,
    RANKS,
    Beside,
    MoveDrained,
    MoveDry,
    MoveFailed,
    MoveJoin,
    MoveOver,
    MoveWave,
    Permission,
    beside,
    plainly,
)
from reefcast.routing.mesh.moved_links import MOVED_LINKS, MovedLinks
from reefcast.routing.mesh.mover import Mover
from reefcast.routing.mesh.moving import Change, Moving, taken_in
from reefcast.routing.mesh.permissions import GRANTED_MOVES, Permissions
from reefcast.routing.mesh.router import Mesh
from reefcast.routing.mesh.wishes import GIVEN_UP, MOVED, MOVING, WishTable, objection
from reefcast.routing.router import COUNTED, Action, Decision, Part, Surroundings
from reefcast.routing.tables import NextHops, Table, TableView

LOST = Decision({}, [], None)


class MovableMesh(Mesh, MovesLinks):
    """See the module's docstring. `moving`: the part in a move that affects this broker, if any;
    `permissions`: what it heard of moves anywhere."""

    messages: ClassVar[tuple[type[PeerMessage], ...]] = (*MESSAGES, *MOVE_MESSAGES)
    counted: ClassVar[Mapping[str, str]] = {
        **Meshed.counted,
        "moved": "links moved",
        "moves_given_up": "moves given up",
        "lost_in_moves": "lost in moves",
    }
    legend: ClassVar[Mapping[str, str]] = {
        **Meshed.legend,
        WishTable.name: WishTable.legend,
        COUNTED: (
            f"{Meshed.legend[COUNTED]} Links moved: primary links that this broker replaced. "
            "Moves given up: wishes that could not be met when they were granted, or while they "
            "were. Lost in moves: publications, where a move was abandoned as a broker failed."
        ),
    }

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self._where = where
        coordinator = where.options.coordinator
        self.floods = self.floods_anew = bool(coordinator)
        self.one_way = not coordinator
        self._floods = Floods(self._flooded_to)
        self.permissions = Permissions(where.name, coordinator, lambda: where.links.now)
        self.moved_links = MovedLinks()
        self._wishes = WishTable()
        self.moving: Moving | None = None
        self._abandoned: set[int] = set()
        self._stale: dict[LinkName, int] = {}
        self._unheard: Callable[[], Iterable[LinkName]] = tuple

    # --- moves ------------------------------------------------------------------------------------

    def move(self, old: LinkName, new: LinkName) -> list[Action]:
        if not self._where.options.coordinator:
            raise ConfigurationError(
                f"{self._where.name!r} cannot move its link from {old!r} to {new!r}: nobody may "
                "grant it; name a broker as coordinator in [routing]"
            )
        ask = self.permissions.ask(old, new)
        self._wishes.asked(ask.number, old, new)
        return self._spread(ask)

    def _spread(self, message: Permission, came_by: LinkName | None = None) -> list[Action]:
        """Send a permission to all brokers, and return what this one has to do about it."""
        if not self.permissions.handle(message):
            return []
        links = dict.fromkeys(self.brokers)
        if self.moving is not None and self.moving.next is not None:
            links |= dict.fromkeys(self.moving.next.brokers)
        concluded = self._conclude(message)
        # Not by a link that is broken, or left now: the message may wait for the disk.
        up = [x for x in links if x in self.brokers or self.soft_links.get(x, SoftLink.CLOSING).up]
        actions: list[Action] = [Send(link, message) for link in up if link != came_by]
        actions += concluded
        if message.mover == self.mesh.me and message.moved:
            actions += self._spread(self._carried_out(message))  # others may know it only in part
        if message.mover == self.mesh.me and message.step == "grant":
            actions += self._granted(message, self.permissions.granted(message))
        elif message.mover == self.mesh.me and message.step == "end":
            actions += self._leave(message.old)
        elif self.mesh.me == message.old:
            actions += self._left_by(message.mover, message.move)
        for other, move in message.left:
            if other == self.mesh.me:
                actions += self._left_by(message.mover, move)
        return [*actions, *self._catch_up(), *self._grant()]

    def _catch_up(self) -> list[Action]:
        """Advance the epoch to the last move that is known to be carried out, if this broker has
        all links that such moves gave it; route what has waited for the epoch."""
        done = self.permissions.carried_out.values()
        if done and all(self._has_links_of(each) for each in done):
            self.moved_links.reach(max(each.move for each in done))
        return [*self._floods.ready(self.moved_links.epoch)]

    def _has_links_of(self, done: Permission) -> bool:
        """Return whether this broker has the link that the mover of these moves has to it, if it
        has one; its other end has it on disk, and comes, if it was not taken out."""
        for other, move in done.come if self.is_broker(done.mover) else ():
            if other == self.mesh.me and not self.moved_links.has_changed(done.mover, move):
                if done.mover not in self.brokers:
                    return False
                self.moved_links.note(done.mover, move, "here", mine=False)
        return True

    def _carried_out(self, permission: Permission) -> Permission:
        """Return the message that this broker's move was carried out, with its links of then."""
        own = self.moved_links.own
        return permission.carried_out(permission.move, own.left, own.come)

    def _left_by(self, mover: LinkName, move: int) -> list[Action]:
        """Give up the link to a mover that has replaced it by another one, unless this broker knows
        that already, or a move affects it now. It does not know it if it has lost its memory."""
        if self.moving is not None or self.moved_links.knows(mover, move):
            return []
        self.moved_links.note(mover, move, "gone", mine=False)
        leave = self._leave(mover) if mover in self.brokers else [Part(mover)]
        return [*leave, Demote(mover)]

    def _grant(self) -> list[Action]:
        """Return the actions of the next grant, if this broker is the coordinator and one is due;
        none while it relearns, since it may not know yet what it granted before it restarted."""
        grant = None if self.relearning else self.permissions.grant()
        return [] if grant is None else self._spread(grant)

    def _granted(self, grant: Permission, wish: tuple[LinkName, LinkName] | None) -> list[Action]:
        mom, done = self.mesh.mom, grant.then("done", grant.move)
        if wish is None:  # of a former life: how far it had come is told by all neighbours
            return [] if self.relearning else self._spread(grant.then("abandon", grant.move))
        old, new = wish
        stops = "the broker is about to stop" if self.leaving else ""
        why = stops or objection(mom, self.brokers, old, new)
        if why:
            self._give_up(grant, why)
            return self._spread(done)
        self._wishes.became(grant.number, MOVING)
        plan = Plan(grant.move, mom.me, mom.path(new), self.mesh.options.delta)

        def over() -> list[Action]:
            self.moving = None
            self.counters["moved"] += 1
            self._wishes.became(grant.number, MOVED)
            return self._spread(self._carried_out(grant))

        links = self.moved_links
        self.moving = mover = Mover(self, plan, self._where, self._abandon, links, over)
        return mover.start()

    def _give_up(self, wish: Permission, why: str) -> None:
        self.counters["moves_given_up"] += 1
        self._wishes.became(wish.number, GIVEN_UP, why)

    def _abandon(self) -> list[Action]:
        """Abandon the move that affects this broker and cannot go on; nobody has come to its
        end."""
        assert self.moving is not None, "there is one to be abandoned"
        message = self.permissions.follow("abandon", self.moving.plan.move)
        return [] if message is None else self._spread(message)

    def _leave(self, old: LinkName) -> list[Action]:
        """Leave a link of a mover that has no memory of a move that is at its end."""
        if old not in self.brokers:
            return []
        self.brokers.remove(old)
        self.soft_links[old] = SoftLink.CLOSING
        return [*super().link_down(old), Part(old)]

    def _conclude(self, message: Permission) -> list[Action]:
        """End the move that affects this broker, if it is over by what was heard."""
        moving = self.moving
        if moving is None or message.rank <= (moving.plan.move, RANKS["grant"]):
            return []
        if message.step == "end" and message.move == moving.plan.move:
            return [*moving.catch_up()]
        self.moving = None
        if moving.ended or (message.step == "done" and message.move == moving.plan.move):
            finished = moving.finish()
            stale = moving.not_over.intersection(self.brokers)
            self._stale |= dict.fromkeys(sorted(stale), moving.plan.move)
            return [*finished, *moving.over()]
        self._abandoned.add(moving.plan.move)
        if moving.plan.mover == self.mesh.me:
            self._give_up(message, "a broker that it affects failed, or stops")
        return moving.abandoned()

    def _wave(self, wave: MoveWave, link: LinkName) -> list[Action]:
        if wave.phase == "begin" and self.permissions.runs(wave.move):
            plan = Plan(wave.move, wave.mover, wave.path, self.mesh.options.delta)
            self.moving = Moving(self, plan, self._where, self._abandon, self.moved_links)
            if self.leaving:  # neighbours hold back already what is for this broker's place
                return self._abandon()
        moving = self._in(wave.move)
        if moving is None:
            if wave.phase == "forget":
                self._is_over(wave.move, link)
            return self._pass_end_on(wave, link)
        if wave.phase == "forget" and moving.all_ended:
            self.moving = None
        return moving.phase(wave.phase, link)

    def _is_over(self, move: int, link: LinkName) -> None:
        """Note that a move is over at a neighbour, which keeps no old tables any more."""
        if self._stale.get(link, move) <= move:
            self._stale.pop(link, None)

    def _over(self, message: MoveOver, link: LinkName) -> list[Action]:
        self._is_over(message.move, link)
        moving = self._in(message.move)
        return [] if moving is None else moving.is_over(link)

    def _pass_end_on(self, wave: MoveWave, link: LinkName) -> list[Action]:
        """Tell all brokers of the *end* of a move that this broker does not remember: it passes no
        wave on, so the old end would wait for the mover, and others for its answers."""
        if wave.phase != "end":
            return []
        end = self.permissions.follow("end", wave.move, wave.path[0])
        return [] if end is None else self._spread(end, link)

    def _in(self, move: int) -> Moving | None:
        """Return this broker's part in the move; None if it is over or forgotten by a restart."""
        moving = self.moving
        return moving if moving is not None and moving.plan.move == move else None

    def peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        return [*self._peer(message, link), *self._floods.ready(self.moved_links.epoch)]

    def _peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        if isinstance(message, Permission):
            return self._spread(message, link)
        if isinstance(message, MoveWave):
            return self._wave(message, link)
        if isinstance(message, Beside):
            return self._beside(message, link)
        if isinstance(message, MoveOver):
            return self._over(message, link)
        if isinstance(message, MoveJoin | MoveDrained | MoveDry | MoveFailed):
            moving = self._in(message.move)
            return [] if moving is None else moving.handle(message, link)
        if isinstance(message, MESSAGES):
            return self._change(link, lambda tables: tables.handle(message, link))
        return super().peer(message, link)

    def _beside(self, message: Beside, link: LinkName) -> list[Send]:
        """Handle a message between new tables; after the end others may send such for a moment."""
        moving = self._in(message.move)
        if moving is not None:
            return moving.beside(message.message, link)
        if message.move in self._abandoned:
            return []
        return self._apply(link, lambda tables: taken_in(tables, message.message, link))

    # --- what goes into the tables ----------------------------------------------------------------

    def _change(self, link: LinkName, change: Change) -> list[Send]:
        """Apply a change, unless it comes plainly by a link that was a primary one, or from who
        has not come to the end of a move yet: it is for tables that are gone."""
        return [] if link in self._stale else self._apply(link, change)

    def _apply(self, link: LinkName, change: Change) -> list[Send]:
        if self.soft_links.get(link) is SoftLink.CLOSING and link not in self.brokers:
            return []
        return list(change(self)) if self.moving is None else self.moving.change(link, change)

    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        return self._change(link, lambda tables: Mesh.advertise(tables, id, filter, link, local))

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        return self._change(link, lambda tables: Mesh.unadvertise(tables, id, link))

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        return self._change(link, lambda tables: Mesh.subscribe(tables, id, filter, link, local))

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        return self._change(link, lambda tables: Mesh.unsubscribe(tables, id, link))

    def stand_ins(self, id: EntityId) -> list[tuple[LinkName, EntityId]]:
        """Return the stand-ins, including those said between new tables."""
        id = plainly(id)
        found = super().stand_ins(id)
        if self.moving is not None and self.moving.next is not None:
            found += self.moving.next.stand_ins(id)
        return found + [(link, beside(other)) for link, other in found]

    @property
    def moved_to(self) -> LinkName:
        return self.moved_links.new

    def may_have_link(self, other: LinkName) -> bool:
        return self.floods and not self.moved_links.has_left(other)

    def released(self) -> list[Action]:
        return [] if self.moving is None else self.moving.drained()

    def link_up(self, link: LinkName) -> list[Any]:
        """Handle a link that came up; return actions, not only sends."""
        self._floods.forget(link)
        self._stale.pop(link, None)
        actions = [*self._lost(link), *self._catch_up()]
        actions += [Send(link, message) for message in self.permissions.open()]
        if self.moving is not None:
            plan = self.moving.plan
            end = self.permissions.follow("end", plan.move, plan.old)
            actions += [Send(link, end)] if end is not None and self.moving.ended else []
            return actions + self.moving.link_up(link)
        return actions + super().link_up(link)

    def relearned(self) -> Sequence[Action]:
        """Go on after all neighbours have told what they know: a broker that lost its own move
        learns how far it came."""
        last, actions = self.permissions.last, [*super().relearned(), *self._grant()]
        if last is None or self.moving is not None or not self.permissions.runs(last.move):
            return actions
        is_lost = last.mover == self.mesh.me or not self.is_broker(last.mover)
        return actions + self._conclude_lost(last) if is_lost else actions

    def taken_out(self, brokers: Sequence[LinkName]) -> Sequence[Action]:
        self.moved_links.forget(brokers)
        unended = self.permissions.forget(brokers)
        actions = [] if unended is None else self._conclude_lost(unended)
        return [*actions, *self._catch_up(), *self._grant()]

    def ends_for_good(self) -> None:
        self.moved_links.forget([*self.moved_links.links])

    def _conclude_lost(self, last: Permission) -> list[Action]:
        """Tell everybody what became of a move whose mover has no memory of it, or is gone."""
        is_at_end = last.step == "end" or (self.moving is not None and self.moving.ended)
        move = last.move
        return self._spread(last.carried_out(move) if is_at_end else last.then("abandon", move))

    def keep_moves(
        self,
        write: Callable[[keeping.Change], None],
        rows: Mapping[str, Mapping[bytes, bytes]],
        unheard: Callable[[], Iterable[LinkName]],
    ) -> None:
        """Go on with moved links; what this broker knows of moves that were carried out it tells
        everybody: as their mover, or as an end of their links."""
        self._unheard = unheard
        self.permissions.keep(write, rows.get(GRANTED_MOVES, {}))
        self.moved_links = MovedLinks(rows.get(MOVED_LINKS))
        self.moved_links.write = write
        for said in self.moved_links.said_by(self.mesh.me):
            self.permissions.handle(said)

    def synced(self, link: LinkName) -> list[Send]:
        return self._change(link, lambda tables: Mesh.synced(tables, link))

    def link_down(self, link: LinkName) -> list[Any]:
        """Handle that a client or a primary link is gone; return actions, not only sends."""
        if link not in self.mesh.mom:
            return self._change(link, lambda tables: Mesh.link_down(tables, link))
        self._stale.pop(link, None)
        actions = self._lost(link)
        if self.moving is not None:
            return actions + self.moving.link_down(link)
        return actions + super().link_down(link)

    def _lost(self, link: LinkName) -> list[Action]:
        """Handle that this neighbour has no memory of a move, or is gone."""
        if self.moving is None or not self.moving.concerns(link):
            return []
        return self.moving.lost(link)

    # --- disk -------------------------------------------------------------------------------------

    def durable_tables(self) -> Mapping[str, Table[Any]]:
        """Return none where links may be moved: what is to be confirmed is flooded."""
        return {} if self.floods else super().durable_tables()

    def deputy(self, advertisement: EntityId, link: LinkName) -> Filter | None:
        return None if self.floods else super().deputy(advertisement, link)

    # --- soft links -------------------------------------------------------------------------------

    def round(self) -> list[Action]:
        return super().round() if self.moving is None else []

    def soft_up(self, link: LinkName) -> list[Action]:
        return super().soft_up(link) if self.moving is None else self.moving.soft_up(link)

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> Sequence[Action]:
        """Forget a soft link. What is to be confirmed went by it only while it was about to become
        a primary one, or had been one: it is flooded anew."""
        lost = [publish for publish in lost if not publish.confirm]
        parts = [Part(link)] if self.floods else []
        if self.moving is None:
            return [*super().soft_down(link, lost), *parts]
        return [*self.moving.soft_down(link, lost), *parts]

    # --- publications -----------------------------------------------------------------------------

    def course(self, header: Header, link: LinkName) -> Course | None:
        """Return the course of publications; None while a move affects this broker."""
        return super().course(header, link) if self.moving is None else None

    def match(self, publications: Sequence[Publish], link: LinkName) -> Sequence[NextHops]:
        if self.moving is None:
            return super().match(publications, link)
        return self.moving.match(publications, link)

    def route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterable[Decision]:
        if self._abandoned:
            return self._route_one_by_one(publications, found, link)
        return self._route(publications, found, link)

    def _route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterable[Decision]:
        if self.moving is None:
            return super().route(publications, found, link)
        return self._route_moving(self.moving, publications, found, link)

    def _route_moving(
        self,
        moving: Moving,
        publications: Sequence[Publish],
        found: Sequence[NextHops],
        link: LinkName,
    ) -> Iterator[Decision]:
        for publish, next_hops in zip(publications, found, strict=True):
            if publish.confirm:
                yield from self.confirmed(publish, next_hops, link)
            else:
                yield from moving.route((publish,), (next_hops,), link)

    def confirmed(
        self, publish: Publish, next_hops: NextHops, link: LinkName
    ) -> Iterable[Decision]:
        """Decide to flood it, where links may be moved."""
        if not self.floods:
            return super().confirmed(publish, next_hops, link)
        return (self._floods.decide(publish, next_hops, link, self.moved_links.epoch),)

    def begins(self) -> list[tuple[LinkName, Header]]:
        return self._floods.begins(self.moved_links.epoch)

    def _flooded_to(self) -> list[LinkName]:
        """Return all neighbours, also those that have not come up yet."""
        return sorted({*self.brokers, *self.absent, *self._unheard()})

    def _route_one_by_one(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterator[Decision]:
        """Route publications one by one. Copies by the new tables of a move that was abandoned are
        lost with these."""
        for publish, next_hops in zip(publications, found, strict=True):
            stamp = stamp_of(publish.header)
            if publish.confirm:
                yield from self.confirmed(publish, next_hops, link)
            elif stamp is not None and stamp.new and stamp.move in self._abandoned:
                self.counters["lost_in_moves"] += 1
                yield LOST
            else:
                yield from self._route((publish,), (next_hops,), link)

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> dict[str, TableView[Any]]:
        return {**super().tables(), WishTable.name: self._wishes}
