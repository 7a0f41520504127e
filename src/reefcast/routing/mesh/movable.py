"""Routing `mesh`: that of `router`, whose primary links can be moved while it runs (see `move`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId, LinkName, PeerMessage, Publish, Send
from reefcast.routing.mesh.meshed import MESSAGES, Meshed
from reefcast.routing.mesh.move import Plan
from reefcast.routing.mesh.move_messages import (
    MOVE_MESSAGES,
    Beside,
    MoveDrained,
    MoveDry,
    MoveJoin,
    MoveWave,
    Permission,
    beside,
    plainly,
)
from reefcast.routing.mesh.mover import Mover
from reefcast.routing.mesh.moving import Change, Moving, taken_in
from reefcast.routing.mesh.permissions import Permissions
from reefcast.routing.mesh.router import Mesh
from reefcast.routing.mesh.wishes import GIVEN_UP, MOVED, MOVING, WishTable, objection
from reefcast.routing.router import COUNTED, Action, Decision, SoftLink, Surroundings
from reefcast.routing.tables import TableView


class MovableMesh(Mesh):
    """See the module's docstring. `moving`: the part in a move that affects this broker, if any."""

    messages: ClassVar[tuple[type[PeerMessage], ...]] = (*MESSAGES, *MOVE_MESSAGES)
    counted: ClassVar[Mapping[str, str]] = {
        **Meshed.counted,
        "moved": "links moved",
        "moves_given_up": "moves given up",
    }
    legend: ClassVar[Mapping[str, str]] = {
        **Meshed.legend,
        WishTable.name: WishTable.legend,
        COUNTED: (
            f"{Meshed.legend[COUNTED]} Links moved: primary links that this broker replaced. "
            "Moves given up: wishes that could not be met when they were granted."
        ),
    }

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self._where = where
        coordinator = where.options.coordinator
        self._permissions = Permissions(where.name, coordinator, lambda: where.links.now)
        self._wishes = WishTable()
        self.moving: Moving | None = None

    # --- moves ------------------------------------------------------------------------------------

    def move(self, old: LinkName, new: LinkName) -> list[Action]:
        if not self._where.options.coordinator:
            raise ConfigurationError(
                f"{self._where.name!r} cannot move its link from {old!r} to {new!r}: nobody may "
                "grant it; name a broker as coordinator in [routing]"
            )
        ask = self._permissions.ask(old, new)
        self._wishes.asked(ask.number, old, new)
        return self._spread(ask)

    def _spread(self, message: Permission, came_by: LinkName | None = None) -> list[Action]:
        """To all brokers; and what this one has to do about it."""
        permissions = self._permissions
        if not permissions.hear(message):
            return []
        links = dict.fromkeys(self.brokers)
        if self.moving is not None and self.moving.next is not None:
            links |= dict.fromkeys(self.moving.next.brokers)
        actions: list[Action] = [Send(link, message) for link in links if link != came_by]
        if message.step == "grant" and message.mover == self.mesh.me:
            actions += self._granted(message, permissions.granted(message))
        return actions + self._grant()

    def _grant(self) -> list[Action]:
        """What the coordinator has to, if it knows already what it granted before it restarted."""
        grant = None if self.relearning else self._permissions.grant()
        return [] if grant is None else self._spread(grant)

    def _granted(self, grant: Permission, wish: tuple[LinkName, LinkName] | None) -> list[Action]:
        mom, done = self.mesh.mom, grant.then("done", grant.move)
        if wish is None:
            return self._spread(done)
        old, new = wish
        why = objection(mom, self.brokers, old, new)
        if why:
            self.counters["moves_given_up"] += 1
            self._wishes.became(grant.number, GIVEN_UP, why)
            return self._spread(done)
        self._wishes.became(grant.number, MOVING)
        plan = Plan(grant.move, mom.me, mom.path(new), self.mesh.options.delta)

        def over() -> list[Action]:
            self.moving = None
            self.counters["moved"] += 1
            self._wishes.became(grant.number, MOVED)
            return self._spread(done)

        self.moving = mover = Mover(self, plan, self._where, over)
        return mover.start()

    def _wave(self, wave: MoveWave, link: LinkName) -> list[Action]:
        if wave.phase == "begin":
            plan = Plan(wave.move, wave.mover, wave.path, self.mesh.options.delta)
            self.moving = Moving(self, plan, self._where)
        actions = self._known(wave.move, link).phase(wave.phase, link)
        if wave.phase == "forget":
            self.moving = None
        return actions

    def _known(self, move: int, link: LinkName) -> Moving:
        if self.moving is None or self.moving.plan.move != move:
            raise ProtocolError(
                f"neighbour {link!r} speaks of move {move}, which does not affect this broker; "
                "give all brokers the same delta"
            )
        return self.moving

    def peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        if isinstance(message, Permission):
            return self._spread(message, link)
        if isinstance(message, MoveWave):
            return self._wave(message, link)
        if isinstance(message, Beside):
            if self.moving is None:
                return taken_in(self, message.message, link)
            return self.moving.beside(message.message, link)
        if isinstance(message, MoveJoin):
            return self._known(message.move, link).joined(link)
        if isinstance(message, MoveDrained):
            return self._known(message.move, link).heard_drained(link)
        if isinstance(message, MoveDry):
            return self._known(message.move, link).heard_dry(link)
        if isinstance(message, MESSAGES):
            return self._change(link, lambda tables: tables.hear(message, link))
        return super().peer(message, link)

    # --- what goes into the tables ----------------------------------------------------------------

    def _change(self, link: LinkName, change: Change) -> list[Send]:
        """What comes plainly by a link that was a primary one is for tables that are no more."""
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
        """Also those that were said between new tables."""
        id = plainly(id)
        found = super().stand_ins(id)
        if self.moving is not None and self.moving.next is not None:
            found += self.moving.next.stand_ins(id)
        return found + [(link, beside(other)) for link, other in found]

    def link_up(self, link: LinkName) -> list[Send]:
        sends = [Send(link, message) for message in self._permissions.open()]
        return sends + self._change(link, lambda tables: Mesh.link_up(tables, link))

    def relearned(self) -> Sequence[Action]:
        return [*super().relearned(), *self._grant()]

    def synced(self, link: LinkName) -> list[Send]:
        return self._change(link, lambda tables: Mesh.synced(tables, link))

    def link_down(self, link: LinkName) -> list[Send]:
        return self._change(link, lambda tables: Mesh.link_down(tables, link))

    # --- soft links -------------------------------------------------------------------------------

    def round(self) -> list[Action]:
        return super().round() if self.moving is None else []

    def soft_up(self, link: LinkName) -> list[Action]:
        return super().soft_up(link) if self.moving is None else self.moving.soft_up(link)

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> Sequence[Action]:
        if self.moving is None:
            return super().soft_down(link, lost)
        return self.moving.soft_down(link, lost)

    # --- publications -----------------------------------------------------------------------------

    def route(self, publications: Sequence[Publish], link: LinkName) -> Iterator[Decision]:
        if self.moving is None:
            return super().route(publications, link)
        return self.moving.route(publications, link)

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> dict[str, TableView[Any]]:
        return {**super().tables(), WishTable.name: self._wishes}
