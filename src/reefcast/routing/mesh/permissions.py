"""Permissions to move a primary link: the coordinator grants them, one at a time.

What is asked, granted and done is told to all brokers, and each keeps what is open of it: the asks
that were not granted yet, and the last grant, or that it is done. A broker that restarts is told
that by its neighbours, and tells on what others had not heard; so nothing is lost with a broker,
and a coordinator that restarts knows who moves before it grants anything.

All who knew of a move may fail together, or be away when the coordinator is back. So one with a
disk writes each grant there before anybody hears of it (`Permission.after_disk`), and grants
nothing more before it has heard what became of that. One that does not know it when it starts tells
of the same grant again, under the same number. The mover goes on, or says that it is over; one that
has forgotten it has the move abandoned. So nobody takes the next move for the one before, or hears
of it while that may still be carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from reefcast.model.keeping import Change, PutRow
from reefcast.model.messages import LinkName
from reefcast.routing.mesh.move_messages import RANKS, Permission, Step, Wish
from reefcast.routing.recent import RecentIds

GRANTED_MOVES = "granted moves"
"""The table of the coordinator's disk: one row, with the last grant."""
_KEY = b""
_encode = msgspec.msgpack.Encoder().encode

Granted = tuple[int, Wish, bool]
"""The number of the last move, whose wish it is, and whether the coordinator has heard what became
of it."""
_decode = msgspec.msgpack.Decoder(Granted).decode
REMEMBERED = 1024
"""Asks that are known when they come again; if more came since then, one is granted twice, and the
mover, which knows no such wish any more, is done with it at once."""


class Permissions:
    """The permissions that broker `me` knows. The messages that it returns go to all others: they
    pass on what is new to them (`handle`), so that it reaches every broker, whatever happens to the
    tree meanwhile. `now`: seconds, later in later lives of the broker. `last`: the last grant, or
    its end; `carried_out`: the last move of each mover that was."""

    def __init__(self, me: LinkName, coordinator: LinkName, now: Callable[[], float]) -> None:
        self._me = me
        self._coordinates = me == coordinator
        self._now = now
        self._heard: RecentIds[Wish] = RecentIds(REMEMBERED)
        self._asks: dict[Wish, Permission] = {}
        self.carried_out: dict[LinkName, Permission] = {}
        self.last: Permission | None = None
        self._wishes: dict[Wish, tuple[LinkName, LinkName]] = {}
        self._life: int | None = None
        self._number = 0
        self._write: Callable[[Change], None] = lambda change: None
        self._granted = 0

    def keep(self, write: Callable[[Change], None], rows: Mapping[bytes, bytes]) -> None:
        """Go on after the last grant on disk (`rows` of `GRANTED_MOVES`), and write the next
        ones."""
        self._write = write
        for row in rows.values():
            self._granted, (mover, life, number), is_over = _decode(row)
            if not is_over:
                wish = Permission(step="grant", mover=mover, life=life, number=number)
                self.last = wish.then("grant", self._granted)
                self._heard.is_new(wish.wish)

    def ask(self, old: LinkName, new: LinkName) -> Permission:
        """Ask for a link of this broker to `new` in place of that to `old`."""
        if self._life is None:
            self._life = int(self._now() * 1e6)
        self._number += 1
        message = Permission(step="ask", mover=self._me, life=self._life, number=self._number)
        self._wishes[message.wish] = (old, new)
        return message

    def handle(self, message: Permission) -> bool:
        """Return whether a message says something new, and is to be passed on."""
        if message.step == "ask":
            if self._heard.is_new(message.wish):
                self._asks[message.wish] = message
                return True
            return False
        is_news = self._carry_out(message)
        if self.last is not None and message.rank <= self.last.rank:
            return is_news
        self._asks.pop(message.wish, None)
        self.last = message
        if message.rank == (self._granted, RANKS["done"]):
            self._put(message, is_over=True)
        return True

    def _carry_out(self, message: Permission) -> bool:
        """Note that a move was carried out; return whether that is news."""
        if not message.moved:
            return False
        known = self.carried_out.get(message.mover)
        if known is None or known.move < message.move:
            self.carried_out[message.mover] = message
            return True
        both = known.with_links_of(message)  # each of the two ends may have said its part
        is_news = known.move == message.move and both != known
        if is_news:
            self.carried_out[message.mover] = both
        return is_news

    def granted(self, message: Permission) -> tuple[LinkName, LinkName] | None:
        """Return the wish of this broker that is granted by the message; None if it is not, or no
        longer, known here."""
        return self._wishes.pop(message.wish, None)

    def runs(self, move: int) -> bool:
        """Return whether a move was granted, and is not over."""
        last = self.last
        return last is not None and last.move == move and last.step in ("grant", "end")

    def follow(self, step: Step, move: int, old: LinkName = "") -> Permission | None:
        """Return the permission for the next `step` of a granted move; None if the last news of
        moves is another one than its grant."""
        last = self.last
        if last is None or (last.move, last.step) != (move, "grant"):
            return None
        return last.then(step, move, old)

    def grant(self) -> Permission | None:
        """Return what the coordinator may grant now; its number is written first."""
        last = self.last
        if not self._coordinates or not self._asks or (last and self.runs(last.move)):
            return None
        ask = next(iter(self._asks.values()))
        known = [each.move for each in self.carried_out.values()]
        self._granted = 1 + max([self._granted, last.move if last else 0, *known])
        self._put(ask, is_over=False)
        return ask.then("grant", self._granted)

    def forget(self, brokers: Collection[LinkName]) -> Permission | None:
        """Forget the links and wishes of brokers that are no longer in the network. Return the last
        grant, if it was for one of these, and nobody has said what became of it."""
        for mover, message in self.carried_out.items():
            self.carried_out[mover] = message.without(brokers)
        self._asks = {wish: ask for wish, ask in self._asks.items() if ask.mover not in brokers}
        last = self.last
        is_open = last is not None and last.mover in brokers and self.runs(last.move)
        return last if is_open else None

    def _put(self, message: Permission, *, is_over: bool) -> None:
        """Write what is known of the last grant."""
        row: Granted = (self._granted, message.wish, is_over)
        self._write(PutRow(GRANTED_MOVES, _KEY, _encode(row)))

    def open(self) -> list[Permission]:
        """Return what a neighbour without memory must know."""
        carried_out = sorted(self.carried_out.values(), key=lambda each: each.move)
        known, last = {each.rank for each in carried_out}, self.last
        more = [] if last is None or last.rank in known else [last]
        return [*self._asks.values(), *carried_out, *more]
