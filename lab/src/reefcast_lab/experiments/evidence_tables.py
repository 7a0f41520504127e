"""The evidence below a page's table: paragraphs, and tables of all that a campaign measured.

A paper's `page.toml` lists the parts, and what its columns show; texts may name what a function of
the paper computes from everything measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reefcast_lab.bench.page_tables import markdown
from reefcast_lab.experiments.campaign import Measured, Point
from reefcast_lab.experiments.numerals import short

NONE = "-"
"""Where nothing was measured."""


class Case(NamedTuple):
    """The runs that a line of a table is about; variant "" is the preset of costs."""

    x: float
    routing: str
    variant: str = ""


class Found:
    """Single figures of everything measured: means over seeds, and the values of each seed."""

    def __init__(self, measured: Measured) -> None:
        self.scale = measured.scale
        self._points: dict[tuple[str, str, Case], Point] = {
            (p.campaign, p.metric, Case(p.x, p.routing, p.variant)): p
            for p in measured.points
            if p.at == 0.0
        }
        self._seeds: dict[tuple[str, str, Case], dict[int, float]] = {}
        for v in measured.values:
            place = v.campaign, v.metric, Case(v.x, v.routing, v.variant)
            self._seeds.setdefault(place, {})[v.seed] = v.value

    def cases(self, campaign: str) -> set[Case]:
        """Return the cases that the campaign has measured."""
        return {case for name, _, case in self._points if name == campaign}

    def xs(self, campaign: str, variant: str = "") -> list[float]:
        """Return the x at which the campaign has runs of this variant, smallest first."""
        return sorted({case.x for case in self.cases(campaign) if case.variant == variant})

    def point(self, campaign: str, metric: str, case: Case) -> Point | None:
        """Return a point; None if nothing was measured."""
        return self._points.get((campaign, metric, case))

    def mean(self, campaign: str, metric: str, routing: str, x: float) -> float | None:
        """Return the mean with the preset; None if nothing was measured."""
        point = self.point(campaign, metric, Case(x, routing))
        return None if point is None else point.mean

    def cell(self, campaign: str, metric: str, case: Case, times: float = 1.0) -> str:
        """Return the mean, and half the width of its interval if there is one."""
        point = self.point(campaign, metric, case)
        if point is None:
            return NONE
        mean = short(point.mean * times)
        return f"{mean} ± {short(point.interval * times)}" if point.interval else mean

    def seeds(self, campaign: str, metric: str, case: Case) -> Mapping[int, float]:
        """Return the value of each seed."""
        return self._seeds.get((campaign, metric, case), {})


class Column(NamedTuple):
    """What a column is called, what it shows, and what values are multiplied with."""

    title: str
    metric: str
    times: float = 1.0


@dataclass(frozen=True)
class Part:
    """A part of the evidence, left out where its campaign has measured nothing.

    x, routing: what these are called here; "" for no such column. columns: none for no table.
    routings: these alone, in this order. descending: the largest x first. variants: of which
    costs there are lines, "" for the preset. beside: another campaign whose figures are enough.
    """

    campaign: str
    title: str = ""
    text: str = ""
    x: str = ""
    routing: str = ""
    columns: tuple[Column, ...] = ()
    routings: tuple[str, ...] = ()
    descending: bool = False
    variants: tuple[str, ...] = ("",)
    beside: str = ""

    def cases(self, found: Found) -> list[Case]:
        """Return the cases of its table, in order: all that it is about."""
        measured = found.cases(self.campaign) | (found.cases(self.beside) if self.beside else set())
        shown = (
            case
            for case in measured
            if case.variant in self.variants
            and (not self.routings or case.routing in self.routings)
        )
        return sorted(shown, key=self._place)

    def _place(self, case: Case) -> tuple[float, int, int, str]:
        x = -case.x if self.descending else case.x
        place = self.routings.index(case.routing) if self.routings else 0
        return x, self.variants.index(case.variant), place, case.routing

    def table(self, found: Found) -> str:
        """Return the table in Markdown, a line for each of its cases."""
        labels = [title for title in (self.x, self.routing) if title]
        align = "r" * bool(self.x) + "l" * bool(self.routing) + "r" * len(self.columns)
        titles = [*labels, *(column.title for column in self.columns)]
        return markdown(titles, (self._line(found, case) for case in self.cases(found)), align)

    def _line(self, found: Found, case: Case) -> Sequence[str]:
        labels = [short(case.x)] if self.x else []
        labels += [f"{case.routing} {case.variant}".strip()] if self.routing else []
        return labels + [found.cell(self.campaign, c.metric, case, c.times) for c in self.columns]
