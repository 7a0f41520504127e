"""A durable session from the first time that it is on a disk until it ends, as the checkers know
it. A session that is opened again under the same name is another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reefcast.model.keeping import Position, SessionOptions
from reefcast.model.publication import PublicationId
from reefcast_lab.torture.noting import Noting


class Life:
    """`link`: the name of its link, which no other life has.

    - `acknowledged`: the positions that some consumer has acknowledged, whoever knows of that.
    - `done`: the positions whose acknowledgement is on disk, as a consumer was told.
    - `released`: the positions that an operator has dropped; `moves`, `drops`: whether one has
      moved dead letters back, or dropped them.
    - `tries`: position -> the highest count with which an event was handed out.
    - `given`: positions with counts, as they were handed out.
    - `handed`: the events that were handed out and are no duplicates -> their position.
    - `holders`: position -> the consumer that has the event, and since when.
    - `delays`: position -> before when nobody is to get it, for a consumer has rejected it.
    - `alone_since_s`: since when it has no consumer, None while it has some.
    - `noting`: the notes that consumers left with it.
    - `again`: the events that may come again, for they were dead letters that were moved.
    """

    def __init__(self, link: str, options: SessionOptions, now: float) -> None:
        self.link = link
        self.options = options
        self.acknowledged: set[Position] = set()
        self.done: set[Position] = set()
        self.released: set[Position] = set()
        self.moves = self.drops = False
        self.tries: dict[Position, int] = {}
        self.given: set[tuple[Position, int]] = set()
        self.handed: dict[PublicationId, Position] = {}
        self.holders: dict[Position, tuple[str, float]] = {}
        self.delays: dict[Position, float] = {}
        self.attached: set[str] = set()
        self.alone_since_s: float | None = now
        self.again: set[PublicationId] = set()
        self.noting = Noting()

    def attach(self, consumer: str) -> None:
        """Note that a consumer is attached."""
        self.attached.add(consumer)
        self.alone_since_s = None

    def detach(self, consumer: str, now: float) -> None:
        """Note that a consumer is no longer attached, and has no events."""
        self.attached.discard(consumer)
        for position in [at for at, (who, _) in self.holders.items() if who == consumer]:
            del self.holders[position]
        if not self.attached and self.alone_since_s is None:
            self.alone_since_s = now

    def restarted(self, notes: Mapping[str, str], now: float) -> Iterator[str]:
        """Note that the home starts, with these notes on its disk: nobody is attached. Yield what
        is wrong with the notes."""
        self.attached.clear()
        self.holders.clear()
        self.delays.clear()
        self.alone_since_s = now
        yield from self.noting.check(notes, self.noting.done)

    def held(self, consumer: str, now: float) -> list[Position]:
        """Return the positions that this consumer has and whose time is not over."""
        most_s, held = self.options.ack_wait_s, self.holders.items()
        return [at for at, (who, since_s) in held if who == consumer and since_s + most_s > now]
