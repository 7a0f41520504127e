"""Messages between brokers of a mesh about moves of primary links (see `move`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Literal

import msgspec

from reefcast.model.messages import (
    Advertise,
    Control,
    EntityId,
    LinkName,
    PeerMessage,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from reefcast.routing.mesh.messages import Anchored, Vicinity

BESIDE = " beside"

Step = Literal["ask", "grant", "end", "done", "abandon"]
RANKS: dict[Step, int] = {"ask": -1, "grant": 0, "end": 1, "done": 2, "abandon": 2}
Wish = tuple[LinkName, int, int]
"""Mover, life, number: see `Permission`."""
LinkAndMove = tuple[LinkName, int]
"""The other end of a link, and the number of the move that changed it last."""
Phase = Literal["begin", "build", "switch", "end", "forget"]


class Permission(PeerMessage, frozen=True, kw_only=True, tag="move-permission"):
    """`mover` asks the coordinator, is granted its wish, or is done with it, unless the move had to
    be abandoned; the message reaches every broker, once. `life`: from when on the mover lives, in
    microseconds; `number`: of its wishes since. `move`: the number of the move that is granted. The
    step *end* is said only when brokers failed: the move is being carried out, and `old` is no
    neighbour of the mover any more. With *done*: `moved`, whether the move was carried out; if so,
    `left`, all whom the mover has left, and `come`, to whom it has links by its moves, with the
    numbers of these."""

    step: Step
    mover: LinkName
    life: int
    number: int
    move: int = 0
    old: LinkName = ""
    moved: bool = False
    left: tuple[LinkAndMove, ...] = ()
    come: tuple[LinkAndMove, ...] = ()

    @property
    def after_disk(self) -> bool:
        """Return True: who says that a move is carried out has it on disk; and none of these
        overtakes another."""
        return True

    @property
    def wish(self) -> Wish:
        return (self.mover, self.life, self.number)

    @property
    def rank(self) -> tuple[int, int]:
        """The rank: of two permissions that are no asks, the one with the higher rank came
        later."""
        return (self.move, RANKS[self.step])

    def then(self, step: Step, move: int, old: LinkName = "") -> Permission:
        """Return the permission that follows for the same wish."""
        mover, life, number = self.wish
        return Permission(step=step, mover=mover, life=life, number=number, move=move, old=old)

    def carried_out(
        self,
        move: int,
        left: tuple[LinkAndMove, ...] = (),
        come: tuple[LinkAndMove, ...] = (),
    ) -> Permission:
        """Return the word that the move was carried out, with what is known of the mover's
        links."""
        done = self.then("done", move)
        return msgspec.structs.replace(done, moved=True, left=left, come=come)

    def with_links_of(self, other: Permission) -> Permission:
        """Return this permission with what the other one says of the same mover's links, too."""
        left, come = {*self.left, *other.left}, {*self.come, *other.come}
        return self.carried_out(self.move, tuple(sorted(left)), tuple(sorted(come)))

    def without(self, brokers: Collection[LinkName]) -> Permission:
        """Return this permission without links of brokers that are no longer in the network."""
        left, come = (
            tuple(each for each in links if not {self.mover, each[0]}.intersection(brokers))
            for links in (self.left, self.come)
        )
        return msgspec.structs.replace(self, left=left, come=come)


class MoveWave(PeerMessage, frozen=True, kw_only=True, tag="move"):
    """A phase of a move begins. `path`: from the mover's old neighbour to its new one."""

    phase: Phase
    move: int
    mover: LinkName
    path: tuple[LinkName, ...]

    @property
    def after_disk(self) -> bool:
        """Return whether the wave leaves only when all that was to be written before it is on disk;
        so it overtakes no permission."""
        return self.phase in ("begin", "end")


class MoveJoin(PeerMessage, frozen=True, kw_only=True, tag="move-join"):
    """Over the new link: the mover wants it to be a primary one; then the other end's yes."""

    move: int


class MoveDrained(PeerMessage, frozen=True, kw_only=True, tag="move-drained"):
    """No copy follows on this link that goes by the old tables."""

    move: int


class MoveDry(PeerMessage, frozen=True, kw_only=True, tag="move-dry"):
    """No copy goes by the old tables at the sender any more, nor at those that it passed `switch`
    on to."""

    move: int


class MoveFailed(PeerMessage, frozen=True, kw_only=True, tag="move-failed"):
    """To the mover: a broker that the move affects lost its memory, or is gone."""

    move: int


class MoveOver(PeerMessage, frozen=True, kw_only=True, tag="move-over"):
    """The move is over at the sender, who heard that it was carried out: what follows, and does not
    come as `Beside`, is of the new tables."""

    move: int


TreeMessage = Advertise | Unadvertise | Unsubscribe | Anchored | Vicinity


class Beside(PeerMessage, frozen=True, kw_only=True, tag="beside"):
    """A message between the new tables of two brokers that a move affects."""

    costs_like: ClassVar[type[Control]] = Subscribe
    move: int
    message: TreeMessage

    @property
    def brings(self) -> EntityId | None:
        message = self.message
        return beside(message.id) if isinstance(message, Advertise | Anchored) else None

    @property
    def says(self) -> tuple[EntityId, ...]:
        return () if self.brings is None else (self.brings,)


def beside(id: EntityId) -> EntityId:
    """Return the id under which settlement handles a message for the new tables, beside that for
    the old ones."""
    return (id[0] + BESIDE, id[1])


def plainly(id: EntityId) -> EntityId:
    """Return the inverse of `beside`; of another id that id itself."""
    return (id[0].removesuffix(BESIDE), id[1])


MOVE_MESSAGES = (
    Permission,
    MoveWave,
    MoveJoin,
    MoveDrained,
    MoveDry,
    MoveFailed,
    MoveOver,
    Beside,
)
