"""The traffic of a mesh's links, and what its candidates would carry: for the gains of a period.

Publications are counted by their anchors and where they came from; links are looked at only when a
period ends, or the WOMs change: so a candidate costs no publication anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from reefcast.model.messages import LinkName
from reefcast.routing.counts import Counts
from reefcast.routing.mesh.maps import Neighbourhood, Wom
from reefcast.routing.mesh.strategies import Paths

Kind = tuple[tuple[LinkName, ...], LinkName | None]
"""Anchors, and where the publication came from."""


class Traffic:
    """The traffic of one broker. `paths`: those over the real links; this class has the
    candidates'. `sent`: publications by link and candidate in this period, as far as `count` has
    been called."""

    def __init__(self, mom: Neighbourhood) -> None:
        self.paths = Paths(Wom(mom, ()), direct=False)
        self._with_candidates = self.paths
        self._candidates: frozenset[LinkName] = frozenset()
        self._kinds: Counts[Kind] = Counts()
        self.sent: Counter[LinkName] = Counter()

    def relink(
        self, mom: Neighbourhood, real: Collection[LinkName], candidates: Collection[LinkName]
    ) -> None:
        """Rebuild the paths for other links, or another MOM."""
        self.count()
        direct = self.paths.direct
        self.paths = Paths(Wom(mom, real), direct)
        self._candidates = frozenset(candidates)
        self._with_candidates = self.paths
        if candidates:
            self._with_candidates = Paths(Wom(mom, {*real, *candidates}), direct)

    def sends(self, anchors: Sequence[LinkName], came_from: LinkName | None) -> tuple[str, ...]:
        """Return the neighbours that get a copy, nearest first; see `Paths.sends`."""
        hops = self.paths.sends(anchors, came_from)
        if hops:
            self._kinds[tuple(anchors), came_from] += 1
        return hops

    def repeated(self, anchors: Sequence[LinkName], came_from: LinkName | None, times: int) -> None:
        """Count publications that went as `paths` says, and were not asked about."""
        if self.paths.sends(anchors, came_from):
            self._kinds[tuple(anchors), came_from] += times

    def count(self) -> None:
        """Convert what was counted so far to publications per link: over primary and soft links by
        the real WOM, over candidates by the one that has them."""
        self._with_candidates.direct = self.paths.direct
        for (anchors, came_from), times in self._kinds.items():
            for hop in self.paths.sends(anchors, came_from):
                self.sent[hop] += times
            for hop in self._with_candidates.sends(anchors, came_from):
                if hop in self._candidates:
                    self.sent[hop] += times
        self._kinds.clear()

    def end_period(self) -> dict[LinkName, int]:
        """Return the publications per link and candidate since the last period ended."""
        self.count()
        sent, self.sent = self.sent, Counter()
        return dict(sent)
