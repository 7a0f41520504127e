"""Tables of a page's evidence: all figures of all runs of a campaign, means over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from reefcast_lab.bench.matching.page import markdown
from reefcast_lab.experiments.campaign import Point
from reefcast_lab.experiments.numerals import short

NONE = "-"
"""Where nothing was measured."""


class Section(NamedTuple):
    """A table with a line for each x and routing; `columns`: (title, metric). `x_title`,
    `routing_title`: what these are here."""

    campaign: str
    title: str
    x_title: str
    text: str
    columns: Sequence[tuple[str, str]]
    routing_title: str


def tables(points: Iterable[Point], sections: Iterable[Section]) -> list[str]:
    """Markdown; nothing of what was not measured."""
    single = [point for point in points if point.at == 0.0]
    return [part for section in sections for part in _table(single, section)]


def _table(points: Sequence[Point], section: Section) -> Iterator[str]:
    found = {(p.x, p.routing, p.metric): p for p in points if p.campaign == section.campaign}
    rows = sorted({(x, routing) for x, routing, _ in found})
    if not rows:
        return
    yield f"### {section.title}"
    if section.text:
        yield section.text
    lines = [
        [short(x), routing, *(cell(found.get((x, routing, m))) for _, m in section.columns)]
        for x, routing in rows
    ]
    titles = [section.x_title, section.routing_title, *(name for name, _ in section.columns)]
    yield markdown(titles, lines, "rl" + "r" * len(section.columns))


def cell(point: Point | None) -> str:
    """The mean, and its interval if there is one."""
    if point is None:
        return NONE
    mean = short(point.mean)
    return f"{mean} ± {short(point.interval)}" if point.interval else mean
