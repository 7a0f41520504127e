"""What came of a topic lately, to be compared with a neighbour: anti-entropy.

A node tells a neighbour which publications it has (`Digest`). The neighbour asks for those that it
lacks (`Missing`).

- *New neighbours* are told so what came in the last `OFFERED_ROUNDS`: else who changes neighbours
  could miss what had passed the new one already, and had not yet come to the old one.
- With *repair* a neighbour of each topic is told every round, and sends also what is not there. So
  a publication that one live node has reaches all that are connected with it, whatever is lost;
  within the rounds for which it is kept.

Source: Demers et al., Epidemic algorithms for replicated database maintenance (1987), push-pull.
Cost: one message for each new neighbour, if anything came; with repair one more per node, topic and
round, with the ids of what is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile

from reefcast.model.messages import Publish
from reefcast.model.publication import PublicationId

OFFERED_ROUNDS = 3
MOST_OFFERED = 1_000
"""Publications that a new neighbour is told of."""
FORGETTING_ROUNDS = 2
"""Before a publication is forgotten here, others may have done so."""


class Kept:
    """The publications of one topic of the last `rounds` rounds, in the order of their coming."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._round = 0
        self._kept: dict[PublicationId, tuple[int, Publish]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, publish: Publish) -> None:
        """From now on; what is here already stays as it came."""
        self._kept.setdefault(publish.publication.id, (self._round, publish))

    def next_round(self) -> None:
        """Forgets what is too old."""
        self._round += 1
        oldest = self._round - self._rounds
        while self._kept:
            id, (since, _) = next(iter(self._kept.items()))
            if since >= oldest:
                break
            del self._kept[id]

    def ids(self) -> tuple[PublicationId, ...]:
        return tuple(self._kept)

    def those(self, ids: Iterable[PublicationId]) -> list[Publish]:
        """Those of these that are here."""
        return [self._kept[id][1] for id in ids if id in self._kept]

    def besides(self, ids: Iterable[PublicationId]) -> list[Publish]:
        """Those that are here, and not among these, which a neighbour has; but none that it may
        have forgotten by now."""
        theirs = set(ids)
        oldest = self._round - self._rounds + FORGETTING_ROUNDS
        return [
            publish
            for id, (since, publish) in self._kept.items()
            if id not in theirs and since >= oldest
        ]

    def newest(self) -> tuple[PublicationId, ...]:
        """For a new neighbour, the latest first."""
        oldest = self._round - OFFERED_ROUNDS
        young = takewhile(lambda item: item[1][0] > oldest, reversed(self._kept.items()))
        return tuple(id for id, _ in islice(young, MOST_OFFERED))
