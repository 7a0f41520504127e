"""The report: one HTML file that needs nothing else, with its style and figures inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reefcast.pipeline import figures, units
from reefcast.pipeline.overlay_figure import overlay, scot_run
from reefcast.pipeline.page import Card, render_page

if TYPE_CHECKING:
    from reefcast.pipeline.analysis import Analysis


@dataclass(frozen=True, slots=True)
class Report:
    """What a report shows. `notes`: words to be written under brokers. `facts`: (name, value) of
    how the run was made."""

    title: str
    analysis: Analysis
    notes: Mapping[str, str] = field(default_factory=dict)
    facts: Sequence[tuple[str, str]] = ()


def write_report(report: Report, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(report), encoding="utf-8")


def render(report: Report) -> str:
    """Return the page's HTML."""
    return render_page("report.html.j2", **page_values(report))


def page_values(report: Report) -> dict[str, Any]:
    """Return what the template needs; a page that extends it may add to `cards`."""
    analysis = report.analysis
    return {
        "title": report.title,
        "kind": "simulated" if analysis.run["simulated"] else "live",
        "facts": report.facts,
        "report": report,
        "analysis": analysis,
        "cards": cards(analysis),
        "drawn": draw(report),
        "busiest": sorted(analysis.links, key=lambda link: -link["publications"]),
        "waiting": longest_queues(analysis),
        "scot": scot_run(analysis),
        "cases": cases(analysis),
        "crowded": sorted(analysis.overloaded, key=lambda row: -row["count"])[:10],
    }


def draw(report: Report) -> dict[str, str]:
    """Draw the figures for which there are data, by name."""
    analysis = report.analysis
    drawn = {"overlay": overlay(analysis, report.notes)}
    if analysis.delay_bins:
        drawn["delays"] = figures.delays(analysis)
        drawn["brokers"] = figures.brokers(analysis)
    if analysis.tables:
        drawn["tables"] = figures.tables(analysis)
    if len(analysis.seconds) > 1:
        drawn["over_time"] = figures.over_time(analysis)
    return drawn


def cards(analysis: Analysis) -> list[Card]:
    """Return the headline figures."""
    found = []
    if analysis.delays["count"]:
        median, late = (units.duration(analysis.delays[name]) for name in ("p50", "p99"))
        found.append(Card(median, "median delay", f"99 % within {late}"))
    crossed = analysis.link_publications
    if crossed:
        more = f"{units.size(analysis.link_bytes)} on {units.counted(len(analysis.links), 'link')}"
        found.append(Card(units.count(crossed), "messages between brokers", more))
    return found


CASES = (
    (
        "decisions, case I",
        "idr_case_1",
        "some target iLink was free: the copy on the one with the "
        "shortest queue took the clusters of the others along",
    ),
    (
        "decisions, case II",
        "idr_case_2",
        "all target iLinks were overloaded: the copy to a "
        "neighbour in the cluster took their clusters along",
    ),
    (
        "decisions, case III",
        "idr_case_3",
        "no such neighbour was free either: the copy on the "
        "iLink with the shortest queue took them along",
    ),
    (
        "copies on overloaded aLinks",
        "idr_overloaded_a_link",
        "of the decisions above, for inside a "
        "cluster there is no other way; copies of other decisions are not counted",
    ),
    (
        "case III with a free aLink",
        "idr_no_tree_link",
        "the aLink led to no matching subscription, and so was no candidate",
    ),
    ("clusters cut off", "idr_unreachable", "no link led there"),
)
"""Name, counter and meaning of what dynamic routing did (see `routing.idr.Idr`)."""


def cases(analysis: Analysis) -> list[tuple[str, int, str]]:
    """Return name, count and meaning of each case; empty for a run without dynamic routing."""
    if analysis.run["routing"] != "idr":
        return []
    counts = {row["counter"]: row["count"] for row in analysis.counters}
    return [(name, counts.get(counter, 0), meaning) for name, counter, meaning in CASES]


def longest_queues(analysis: Analysis) -> list[dict[str, object]]:
    """Return the ten longest queues that were not always empty."""
    waiting = [row for row in analysis.queues if row["most"]]
    return sorted(waiting, key=lambda row: -row["most"])[:10]
