"""The mesh of a broker as an operator sees it."""

from __future__ import annotations

from collections.abc import Iterator

from reefcast.model.messages import LinkName
from reefcast.routing.mesh.overlay import LinkReport, MeshOverlay
from reefcast.routing.tables import Cell, TableView

NOTHING = LinkReport(0, 0.0)


class SoftLinkTable(TableView[LinkName]):
    """Soft links, then candidates."""

    name = "soft links"
    columns = ("link", "state", "hops", "sent", "gain")
    shown = True

    def __init__(self, mesh: MeshOverlay) -> None:
        self._mesh = mesh

    def __len__(self) -> int:
        return len(self._mesh.soft_links) + len(self._mesh.candidates)

    def __iter__(self) -> Iterator[LinkName]:
        yield from sorted(self._mesh.soft_links)
        yield from self._mesh.candidates

    def describe(self, row: LinkName) -> tuple[Cell, ...]:
        mesh = self._mesh
        state = mesh.soft_links.get(row)
        report = mesh.reports.get(row, NOTHING)
        hops = mesh.mom.distance(row) if row in mesh.mom else 0
        named = "candidate" if state is None else state.value
        return (row, named, hops, report.sent, round(report.gain, 1))
