"""The demo's report: that of its trace, with the check and what routing by content saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from reefcast.pipeline import units
from reefcast.pipeline.drawing import CORAL, TEAL, svg_for_page
from reefcast.pipeline.page import Card, render_page
from reefcast.pipeline.report import Report, page_values

if TYPE_CHECKING:
    from reefcast_lab.demos.check import Check
    from reefcast_lab.demos.costs import Cost


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the report shows: a trace's, and beside it `check` and `costs`, of which the first is
    the run's own and the second flooding's."""

    trace: Report
    check: Check
    costs: Sequence[Cost]


def write_report(report: DemoReport, path: Path) -> None:
    """Write the page to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(report), encoding="utf-8")


def render(report: DemoReport) -> str:
    """Return the page's HTML."""
    values = page_values(report.trace)
    values["cards"] = [*check_cards(report.check), *values["cards"], saved_card(report.costs)]
    values |= {"check": report.check, "costs": report.costs, "costs_drawn": draw(report.costs)}
    return render_page("demo.html.j2", package="reefcast_lab.demos", **values)


def check_cards(check: Check) -> list[Card]:
    """Return the headline figures of the check."""
    wrong = f"{check.lost} lost, {check.duplicated} duplicated, {check.unexpected} unexpected"
    verdict = "exactly as Spark SQL says" if check.passed else "not what Spark SQL says"
    tone = "good" if check.passed else "bad"
    return [
        Card("passed" if check.passed else "failed", verdict, wrong, tone),
        Card(
            units.count(check.published),
            "events published",
            f"of {units.count(check.replayed)} to replay",
        ),
        Card(
            units.count(check.delivered),
            "matches delivered",
            "pairs of an event and a subscription; a client gets each event once",
        ),
    ]


def saved_card(costs: Sequence[Cost]) -> Card:
    """Return the share of flooding's messages that routing by content did without."""
    routed, flooded = costs[0], costs[1]
    saved = 1 - routed.link_messages / max(flooded.link_messages, 1)
    return Card(units.percent(saved), "fewer messages than flooding", "between brokers")


def draw(compared: Sequence[Cost]) -> str:
    """Draw the publications between brokers and to subscribers, for each way to serve them."""
    return svg_for_page("costs", 10, 1.1 + 0.55 * len(compared), lambda f: _draw(f, compared))


def _draw(figure: Figure, compared: Sequence[Cost]) -> None:
    axes = figure.add_subplot()
    names = [cost.name for cost in compared]
    links = np.array([cost.link_messages for cost in compared], dtype=float)
    clients = np.array([cost.client_messages for cost in compared], dtype=float)
    axes.barh(names, links, color=TEAL, height=0.6, label="between brokers")
    axes.barh(names, clients, left=links, color=CORAL, height=0.6, label="to subscribers")
    for row, (cost, total) in enumerate(zip(compared, links + clients, strict=True)):
        text = f"{units.short(cost.messages)} messages, {units.size(cost.size_bytes)}"
        axes.annotate(
            text, (total, row), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.invert_yaxis()
    axes.set_xlim(0, 1.28 * max(links + clients))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.short(value)))
    axes.set_xlabel("publications")
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, fontsize=9)
