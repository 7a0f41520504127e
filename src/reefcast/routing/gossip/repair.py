"""What came of a topic lately, to be compared with a neighbour: anti-entropy.

A node tells a neighbour which publications it has (`Digest`). The neighbour asks for those that it
lacks (`Missing`).

- *New neighbours* are told so what came in the last `OFFERED_ROUNDS`: else who changes neighbours
  could miss what had passed the new one already, and had not yet come to the old one.
- *Who joins* is told so of all that is kept, and wants none of it: it came before.
- With *repair* a neighbour of each topic is told every round, and sends also what is not there. So
  a publication that one live node has reaches all that are connected with it, whatever is lost;
  within the rounds for which it is kept.

Source: Demers et al., Epidemic algorithms for replicated database maintenance (1987), push-pull.
Cost: one message for each new neighbour, if anything came; with repair one more per node, topic and
round, with the ids of what is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from reefcast.model.messages import Publish
from reefcast.model.publication import PublicationId

OFFERED_ROUNDS = 3
MOST_OFFERED = 1_000
"""Publications that a new neighbour is told of."""
FORGETTING_ROUNDS = 2
"""For so long a publication is kept after it is no more told of, and not sent unasked before that:
rounds of different nodes do not begin at one time."""


class Kept:
    """The publications of one topic of the last `rounds` rounds, in the order of their coming; None
    for those that came before this node did, which it does not want."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._round = 0
        self._kept: dict[PublicationId, tuple[int, Publish | None]] = {}

    def add(self, publish: Publish) -> None:
        id = publish.publication.id
        self._kept.pop(id, None)  # it may be waived: the order is that of coming
        self._kept[id] = (self._round, publish)

    def waive(self, ids: Iterable[PublicationId]) -> None:
        """They came before this node did."""
        for id in ids:
            self._kept.setdefault(id, (self._round, None))

    def next_round(self) -> None:
        """Forgets what is too old."""
        self._round += 1
        oldest = self._round - self._rounds - FORGETTING_ROUNDS
        while self._kept:
            id, (since, _) = next(iter(self._kept.items()))
            if since >= oldest:
                break
            del self._kept[id]

    def every(self) -> tuple[PublicationId, ...]:
        """Those too that are not told of any more, so that who comes now can waive them."""
        return tuple(self._kept)

    def told(self) -> tuple[PublicationId, ...]:
        """Those of the last rounds, the latest first."""
        return tuple(id for id, _ in self._last(self._rounds))

    def newest(self) -> tuple[PublicationId, ...]:
        """For a new neighbour, the latest first."""
        return tuple(
            id for id, publish in islice(self._last(OFFERED_ROUNDS), MOST_OFFERED) if publish
        )

    def lacking(self, ids: Iterable[PublicationId]) -> list[PublicationId]:
        """Those of these that are neither here nor waived."""
        return [id for id in ids if id not in self._kept]

    def those(self, ids: Iterable[PublicationId]) -> list[Publish]:
        """Those of these that are here."""
        found = (self._kept.get(id, (0, None))[1] for id in ids)
        return [publish for publish in found if publish is not None]

    def besides(self, ids: Iterable[PublicationId]) -> list[Publish]:
        """Those that are not among these, of which a neighbour told; but for old ones: of these it
        may tell no more."""
        theirs = set(ids)
        last = self._last(self._rounds - FORGETTING_ROUNDS)
        return [publish for id, publish in last if publish is not None and id not in theirs]

    def _last(self, rounds: int) -> Iterator[tuple[PublicationId, Publish | None]]:
        oldest = self._round - rounds
        for id, (since, publish) in reversed(self._kept.items()):
            if since < oldest:
                return
            yield id, publish
