"""The links of one broker that were moved, as it keeps them on disk (see `move`).

For each broker to which it got a link by a move, or lost one, a broker keeps the last such move. So
a broker that restarts has the links that it had, although nobody may have changed the network file
yet. Where the file says the same, it says everything, and the row goes.

The *epoch* of a broker is the number of the last move that it knows to be carried out (see `move`):
its links are then at least those that it has in the tree after that move. So rows are noted with
the epoch in one write, and never the one without the other. A broker that starts goes by its rows;
others it is told by its neighbours (`Permission.come`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from reefcast.model.keeping import Change, DropRow, PutRow
from reefcast.model.messages import LinkName
from reefcast.routing.mesh.move_messages import LinkAndMove, Permission

MOVED_LINKS = "moved links"
"""The table of the broker's disk."""
State = Literal["here", "gone", "open"]
_encode = msgspec.msgpack.Encoder().encode
_decode_key = msgspec.msgpack.Decoder(str).decode


class Moved(NamedTuple):
    """What a move did to a link. `state`: it is there since, or gone; or it was gone since, and may
    come again ("open"). `mine`: this broker was the mover."""

    move: int
    state: State
    mine: bool


class Own(NamedTuple):
    """What a broker has moved itself: the number of its last move, 0 if there is none; all whom it
    has left, and to whom it has links by moves, with the numbers of these."""

    move: int
    left: tuple[LinkAndMove, ...]
    come: tuple[LinkAndMove, ...]


_decode = msgspec.msgpack.Decoder(Moved).decode


class MovedLinks:
    """The moved links of a broker, by the other end. `rows`: what was on disk when it started;
    `write`: writes to the disk, None without one; `epoch`: see the module's docstring."""

    def __init__(self, rows: Mapping[bytes, bytes] | None = None) -> None:
        self.write: Callable[[Change], None] | None = None
        self.links = {_decode_key(key): _decode(row) for key, row in (rows or {}).items()}
        self.epoch = max((moved.move for moved in self.links.values()), default=0)

    def applied_to(self, neighbours: Iterable[LinkName]) -> list[LinkName]:
        """Return the neighbours of the broker, from those in the network file."""
        here = {other for other, moved in self.links.items() if moved.state == "here"}
        return sorted(here.union(each for each in neighbours if each not in self.links))

    def has_left(self, other: LinkName) -> bool:
        """Return whether there was a link to this broker, and one of the two has left the other."""
        moved = self.links.get(other)
        return moved is not None and moved.state == "gone"

    def knows(self, other: LinkName, move: int) -> bool:
        """Return whether this move, or a later one, is known to have changed the link."""
        moved = self.links.get(other)
        return moved is not None and moved.move >= move

    def has_changed(self, other: LinkName, move: int) -> bool:
        """Return whether this broker has, or had, the link as this move left it."""
        moved = self.links.get(other)
        return moved is not None and (moved.move > move or moved[:2] == (move, "here"))

    @property
    def own(self) -> Own:
        """What this broker itself has moved."""
        mine = [(other, moved) for other, moved in sorted(self.links.items()) if moved.mine]
        left = [(other, moved.move) for other, moved in mine if moved.state == "gone"]
        come = [(other, moved.move) for other, moved in mine if moved.state == "here"]
        last = max((moved.move for _, moved in mine), default=0)
        return Own(last, tuple(left), tuple(come))

    def said_by(self, me: LinkName) -> list[Permission]:
        """Return the messages by which broker `me`, whose links these are, tells of moves that were
        carried out: its own moves, and those that gave it links or took them away."""
        own = self.own
        found = [_word(me, own.move).carried_out(*own)] if own.move else []
        for mover, (move, state, mine) in self.links.items():
            if not mine:
                links = ((me, move),)
                left, come = ((), links) if state == "here" else (links, ())
                found.append(_word(mover, move).carried_out(move, left, come))
        return found

    @property
    def new(self) -> LinkName:
        """The broker to which this one moved a link last; "" if it moved none."""
        mine = [(m.move, other) for other, m in self.links.items() if m.mine and m.state == "here"]
        return max(mine, default=(0, ""))[1]

    def note(self, other: LinkName, move: int, state: State, *, mine: bool) -> None:
        """Note what a move did to the link to another broker."""
        self.links[other] = Moved(move, state, mine)
        self.reach(move)
        self.write_ahead(other, move, state, mine=mine)

    def reach(self, move: int) -> None:
        """Note that this move is known to be carried out, and that this broker has its links."""
        self.epoch = max(self.epoch, move)

    def write_ahead(self, other: LinkName, move: int, state: State, *, mine: bool) -> None:
        """Write what a move is about to do to a link."""
        if self.write is not None:
            row = _encode(Moved(move, state, mine))
            self.write(PutRow(MOVED_LINKS, _encode(other), row))

    def take_back(self, *others: LinkName) -> None:
        """Write again what is known of these links, in place of what was written ahead."""
        for other in others:
            if (moved := self.links.get(other)) is not None:
                self.write_ahead(other, moved.move, moved.state, mine=moved.mine)
            elif self.write is not None:
                self.write(DropRow(MOVED_LINKS, _encode(other)))

    def forget(self, brokers: Iterable[LinkName]) -> None:
        """Forget the links to brokers that are no longer in the network."""
        for other in self.links.keys() & set(brokers):
            del self.links[other]
            self.take_back(other)

    def open(self, other: LinkName) -> None:
        """Note that a link may come again that is gone: who is about to move may restart, and know
        of its move when this broker does not."""
        if self.has_left(other):
            moved = self.links[other]
            self.note(other, moved.move, "open", mine=moved.mine)


def _word(mover: LinkName, move: int) -> Permission:
    """Return the grant of a move to `mover`, without its wish, which nobody knows any more."""
    return Permission(step="grant", mover=mover, life=0, number=0, move=move)


def said_by_file(
    rows: Mapping[bytes, bytes], neighbours: Iterable[LinkName], brokers: Iterable[LinkName]
) -> list[DropRow]:
    """Return the removal of the rows of `MOVED_LINKS` that say nothing more than the network file,
    which has these `brokers`, and by which this one has these `neighbours`."""
    filed, known = set(neighbours), set(brokers)
    found = {key: (_decode_key(key), _decode(row)) for key, row in rows.items()}
    return [
        DropRow(MOVED_LINKS, key)
        for key, (other, moved) in found.items()
        if other not in known or (other in filed) == (moved.state == "here")
    ]
