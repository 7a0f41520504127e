"""What the mesh paper's evidence computes: how much depends on how fast brokers are."""

from __future__ import annotations

from reefcast_lab.bench.page_tables import markdown
from reefcast_lab.experiments.evidence_tables import Case, Found
from reefcast_lab.experiments.mesh import throughput
from reefcast_lab.experiments.numerals import short

M7 = "throughput-DT1"
VARIANTS = {"half": "half", "": "as claimed", "double": "double"}


def speeds(found: Found) -> str:
    """Return a table with a line for each size and routing that was also measured with other
    costs."""
    lines = []
    for campaign in sorted((M7, throughput.FRIENDS)):
        measured = {case._replace(variant="") for case in found.cases(campaign) if case.variant}
        for case in sorted(measured):
            cells = (_share(found, campaign, case._replace(variant=name)) for name in VARIANTS)
            lines.append([campaign, short(case.x), case.routing, *cells])
    return markdown(["scenario", "fanout", "routing", *VARIANTS.values()], lines, "lrlrrr")


def _share(found: Found, campaign: str, case: Case) -> str:
    """Return the share of the deliveries that are due, and how much larger it is than with S0."""
    of = found.point(campaign, "delivered_share", case)
    base = found.point(campaign, "delivered_share", case._replace(routing="S0"))
    cell = found.cell(campaign, "delivered_share", case)
    if case.routing == "S0" or not (of and base):
        return cell
    return f"{cell} ({100 * (of.mean / base.mean - 1):+.0f} %)"


COMPUTED = {"speeds": speeds}
