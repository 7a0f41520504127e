"""Recent publications of a topic, to be compared with a neighbour: anti-entropy.

A node tells a neighbour which publications it has (`Digest`). The neighbour asks for those that it
lacks (`Missing`).

- *New neighbours* are told in this way of the publications of the last `OFFERED_ROUNDS`: otherwise
  a node that changes neighbours could miss those that had already passed the new one, and had not
  yet reached the old one.
- *Joiners* are told of all that is kept, and want none of it: it is older than their membership.
- *Nodes that were out of reach* and are back are told of all that is kept, and asked for the same;
  so are nodes that were cut off and join again. The first neighbour of a node that had none (any
  more) is told of it, too. If only the connection broke, and there is a new one, both ends tell of
  the last `TOLD_ROUNDS`.
- With *repair*, every round one neighbour of each topic is told of the publications of the last
  `TOLD_ROUNDS`, and also sends those that are missing. So a publication that one live node has
  reaches all that are connected with it, whatever is lost; within these rounds.

Publications that a node asked for are passed on as if they were new: so one connection between two
halves of a network is enough.

Publications of the last `kept_rounds` are kept, `MOST_BYTES` of all topics together at most: if
that is too little, the topic with the most drops its oldest.

Source: Demers et al., Epidemic algorithms for replicated database maintenance (1987), push-pull.
Cost: one message for each new neighbour, if anything came; with repair one more per node, topic and
round, with the ids of what came in `TOLD_ROUNDS`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from reefcast.model.messages import Publish
from reefcast.model.publication import PublicationId

OFFERED_ROUNDS = 3
MOST_OFFERED = 1_000
"""The most publications that a new neighbour is told of."""
TOLD_ROUNDS = 10
FORGETTING_ROUNDS = 2
"""How many rounds a publication is kept after nodes stopped telling of it, and not sent unasked
before that: rounds of different nodes do not begin at the same time."""
MOST_BYTES = 64 * 1024 * 1024
ENTRY_BYTES = 400
"""Bytes that keeping a publication costs, besides its own."""
GIVEN_UP_SHARE = 64
"""The share of its publications that a topic drops at once to make room."""


class Room:
    """The room that all topics of a broker share: `most` bytes, of which `used` are."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.used = 0
        self._most = most
        self._users: dict[Kept, None] = {}

    def enter(self, kept: Kept) -> None:
        self._users[kept] = None

    def leave(self, kept: Kept) -> None:
        """Free the room of a topic that the broker leaves."""
        del self._users[kept]
        self.used -= kept.bytes

    def reserve(self, size: int) -> None:
        """Reserve `size` bytes more, and make room where the most is kept if that is too much."""
        self.used += size
        while self.used > self._most:
            max(self._users, key=lambda kept: kept.bytes).make_room()


class Kept:
    """The publications of one topic of the last `rounds` rounds, in the order of arrival; None for
    those from before this node joined, which it does not want. `bytes`: their share of `room`."""

    def __init__(self, rounds: int, room: Room) -> None:
        self.bytes = 0
        self._rounds = rounds
        self._told_rounds = min(rounds, TOLD_ROUNDS)
        self._round = 0
        self._kept: dict[PublicationId, tuple[int, Publish | None]] = {}
        self._room = room
        room.enter(self)

    def add(self, publish: Publish) -> None:
        id = publish.publication.id
        if id in self._kept:  # it may be waived: the order is that of arrival
            self._forget(id)
        self._keep(id, publish)

    def waive(self, ids: Iterable[PublicationId]) -> None:
        """Waive publications that were sent before this node joined."""
        for id in ids:
            if id not in self._kept:
                self._keep(id, None)

    def _keep(self, id: PublicationId, publish: Publish | None) -> None:
        self._kept[id] = (self._round, publish)
        size = size_of(publish)
        self.bytes += size
        self._room.reserve(size)

    def _forget(self, id: PublicationId) -> None:
        _, publish = self._kept.pop(id)
        size = size_of(publish)
        self.bytes -= size
        self._room.used -= size

    def next_round(self) -> None:
        """Begin a round: forget what is too old."""
        self._round += 1
        oldest = self._round - self._rounds - FORGETTING_ROUNDS
        while self._kept:
            id, (since, _) = next(iter(self._kept.items()))
            if since >= oldest:
                break
            self._forget(id)

    def make_room(self) -> None:
        """Drop the oldest, at least one: more than just enough, so that this is not due each
        time."""
        most = self.bytes - self.bytes // GIVEN_UP_SHARE
        self._forget(next(iter(self._kept)))
        while self.bytes > most:
            self._forget(next(iter(self._kept)))

    def every(self) -> tuple[PublicationId, ...]:
        """Return all ids, also those too old to be told of, so that a node that joins now can waive
        them."""
        return tuple(self._kept)

    def told(self) -> tuple[PublicationId, ...]:
        """Return the ids of the last rounds, the latest first."""
        return tuple(id for id, _ in self._last(self._told_rounds))

    def newest(self) -> tuple[PublicationId, ...]:
        """Return the ids to offer to a new neighbour, the latest first."""
        return self._here(OFFERED_ROUNDS, MOST_OFFERED)

    def since(self, rounds: int) -> tuple[PublicationId, ...]:
        """Return the ids of this many rounds, the first first: a node that forgets the first again,
        because there are so many, has had them."""
        return self._here(rounds)[::-1]

    def _here(self, rounds: int, most: int | None = None) -> tuple[PublicationId, ...]:
        return tuple(id for id, publish in islice(self._last(rounds), most) if publish)

    def lacking(self, ids: Iterable[PublicationId]) -> list[PublicationId]:
        """Return those of `ids` that are neither here nor waived."""
        return [id for id in ids if id not in self._kept]

    def those(self, ids: Iterable[PublicationId]) -> list[Publish]:
        """Return the publications with these ids that are here."""
        found = (self._kept.get(id, (0, None))[1] for id in ids)
        return [publish for publish in found if publish is not None]

    def besides(self, ids: Iterable[PublicationId]) -> list[Publish]:
        """Return recent publications that are missing in a neighbour's digest `ids`; no older ones,
        which the digest may leave out although the neighbour has them."""
        theirs = set(ids)
        last = self._last(self._told_rounds - FORGETTING_ROUNDS)
        return [publish for id, publish in last if publish is not None and id not in theirs]

    def _last(self, rounds: int) -> Iterator[tuple[PublicationId, Publish | None]]:
        oldest = self._round - rounds
        for id, (since, publish) in reversed(self._kept.items()):
            if since < oldest:
                return
            yield id, publish


def size_of(publish: Publish | None) -> int:
    return ENTRY_BYTES if publish is None else ENTRY_BYTES + len(publish.body)
