"""The topics of a broker as an operator sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reefcast.routing.gossip.membership import Membership
from reefcast.routing.tables import Cell, TableView


class TopicTable(TableView[str]):
    """The topics of a broker, by name."""

    name = "topics"
    columns = ("topic", "view", "known by", "for", "neighbours")
    shown = True

    def __init__(self, memberships: Mapping[str, Membership]) -> None:
        self._memberships = memberships

    def __len__(self) -> int:
        return len(self._memberships)

    def __iter__(self) -> Iterator[str]:
        yield from sorted(self._memberships)

    def describe(self, row: str) -> tuple[Cell, ...]:
        known = self._memberships[row]
        overlay = known.overlay
        contact = " and contact" if overlay.me in overlay.contacts else ""
        reasons = f"{len(known.reasons)}{contact}"
        return (row, len(overlay.view), len(overlay.in_links), reasons, ", ".join(overlay.view))
