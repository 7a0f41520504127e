"""What came of a topic lately, to be compared with a neighbour: anti-entropy.

Every round a node tells a neighbour of each of its topics which publications it has (`Digest`). The
neighbour sends those that are not there, and asks for those that it lacks itself (`Missing`). So a
publication that one live node has reaches all that are connected with it, whatever is lost; within
the rounds for which it is kept.

Source: Demers et al., Epidemic algorithms for replicated database maintenance (1987), push-pull.
Cost: one message per node, topic and round, with the ids of what is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from reefcast.model.messages import Publish
from reefcast.model.publication import PublicationId


class Kept:
    """The publications of one topic of the last `rounds` rounds, in the order of their coming."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._round = 0
        self._kept: dict[PublicationId, tuple[int, Publish]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, publish: Publish) -> None:
        self._kept[publish.publication.id] = (self._round, publish)

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
        """Those that are here, and not among these."""
        theirs = set(ids)
        return [publish for id, (_, publish) in self._kept.items() if id not in theirs]
