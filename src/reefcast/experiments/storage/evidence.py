"""What stands below the table: all figures of all runs."""

from __future__ import annotations

from reefcast.experiments.campaign import Measured
from reefcast.experiments.evidence_tables import Section, tables
from reefcast.experiments.storage import real, trees

COLUMNS = (
    ("mean hops", "mean_hops"),
    ("none is below", "bound"),
    ("brokers with a storage", "brokers_with_storages"),
    ("requests at the busiest", "busiest_share"),
)

TEXT = (
    "`optimum`: the best placement with the same limits, to within 1 %; no placement is below the "
    "bound beside it. `grd_opt` has no limits, and so may be below."
)


def _section(campaign: str, title: str, x_title: str, text: str = "") -> Section:
    return Section(campaign, title, x_title, text, COLUMNS, "placement")


SECTIONS = (
    _section(trees.BROKERS, "Over the number of brokers (S1)", "brokers", TEXT),
    _section(trees.CAPACITY, "Over what a storage keeps (S2)", "topics of a storage"),
    _section(trees.COPIES, "Over the copies of a topic (S3)", "copies"),
    _section(
        real.NAME,
        "A real network (our own)",
        "copies",
        "With all its links: it is no tree, and requests take the shortest ways.",
    )._replace(columns=(*COLUMNS, ("brokers", "brokers"))),
)


def evidence(measured: Measured) -> list[str]:
    """Markdown."""
    return tables(measured.points, SECTIONS)
