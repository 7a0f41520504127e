"""A bounded memory of publications, which never takes one for new a second time."""

from __future__ import annotations

from collections.abc import Iterable

from reefcast.model.publication import PublicationId
from reefcast.routing.recent import REMEMBERED

MOST_PUBLISHERS = 100_000


class SeenIds:
    """The last ids, in two generations as in `RecentIds`, and for each publisher the highest number
    that was forgotten. A publication without a higher number counts as seen: after a partition, a
    neighbour may tell of one that came here too long ago to be remembered. So a publication that
    comes later than `remembered` others of its publisher may be taken for seen although it is new.

    Of the publishers with forgotten numbers, the last `MOST_PUBLISHERS` are remembered."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._young: set[PublicationId] = set()
        self._old: set[PublicationId] = set()
        self._forgotten: dict[str, int] = {}

    def __contains__(self, id: PublicationId) -> bool:
        return id in self._young or id in self._old or id[1] <= self._forgotten.get(id[0], 0)

    def is_new(self, id: PublicationId) -> bool:
        """Return whether the id is new, and remember it."""
        if id in self._young or id in self._old or id[1] <= self._forgotten.get(id[0], 0):
            return False
        if len(self._young) >= self._remembered:
            self._forget(self._old)
            self._old, self._young = self._young, set()
        self._young.add(id)
        return True

    def _forget(self, ids: Iterable[PublicationId]) -> None:
        highest: dict[str, int] = {}
        for publisher, seq in ids:
            highest[publisher] = max(seq, highest.get(publisher, 0))
        for publisher, seq in sorted(highest.items()):
            before = self._forgotten.pop(publisher, 0)  # the order is that of the last time
            self._forgotten[publisher] = max(seq, before)
        for publisher in list(self._forgotten)[:-MOST_PUBLISHERS]:
            del self._forgotten[publisher]
