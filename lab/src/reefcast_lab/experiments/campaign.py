"""What a paper's evaluation is made of: runs, measures, campaigns, claims and plots.

A `Campaign` is one scenario: it lists its runs and measures each of them, without regard to any
other. A `Claim` is one figure of the paper, computed from the measures of a campaign's runs; a
`Plot` is a curve of them. A `Paper` holds them together. Everything here is plain data, so that a
run travels to a Spark task and its key stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

SCALES = ("small", "paper")

Kind = Literal["effect", "level", "difference", "gap", "flat", "wins"]
"""How a claim's figure comes from the values of the routings `of` and `against`. Pairs are runs of
the same x and seed, of the preset alone (variant "").

- effect: mean over pairs of value(of) / value(against) - 1
- level: mean of value(of)
- difference: mean over pairs of value(of) - value(against)
- gap: the effect at the largest x minus the effect at the smallest; only the sign counts
- flat: for each seed, value(of) at the largest x over that at the smallest, - 1; `reproduced` if
  at most a third either way (the paper's figure is 0)
- wins: the share of the pairs in which value(of) is below value(against)
"""

Where = Literal["all", "least", "between", "most"]

Cause = Literal["ours", "set-up", "paper", "taken"]
"""Why a figure is not reproduced, as its claim's note shows.

- ours: a rule of our implementation
- set-up: what the experiment assumes where the paper leaves it open or is lost: costs, workload,
  overlay, what is counted
- paper: the paper's other figures, or its steps to the letter, exclude this one
- taken: a parameter was taken from this very figure, so that it is no evidence
"""

Axis = Literal["x", "at"]
"""What a curve runs over: the campaign's x, or the place inside a run."""

RUN_S = "run_s"
"""The metric that every run has, beside its campaign's: how long it took, in seconds of a clock."""


class Run(NamedTuple):
    """One run of a campaign, the unit of work: a Spark task, a file of results.

    x is what the campaign varies; variant "" is the preset of costs, and the only one that claims
    look at.
    """

    paper: str
    scale: str
    campaign: str
    routing: str
    x: float
    variant: str
    seed: int


class Measure(NamedTuple):
    """One figure of one run; `at` is the place on a curve inside the run, 0.0 for a single one."""

    metric: str
    at: float
    value: float


class Point(NamedTuple):
    """The mean over seeds of one measure, with the half-width of its 95 % interval (None of one
    seed): a point of a plot, and what a paper's evidence is written from."""

    campaign: str
    metric: str
    routing: str
    variant: str
    x: float
    at: float
    mean: float
    interval: float | None
    seeds: int


class Value(NamedTuple):
    """One measure of one run that is no place on a curve."""

    campaign: str
    metric: str
    routing: str
    variant: str
    x: float
    seed: int
    value: float


class Measured(NamedTuple):
    """What was measured at one scale: means over seeds, and the values of single runs."""

    scale: str
    points: list[Point]
    values: list[Value]


@dataclass(frozen=True)
class Campaign:
    """x says what x of the runs counts, with its unit ("publishers").

    runs: the runs of a scale, with seeds 0, 1, ...; `--seeds N` takes 0 to N - 1 in their place.
    measure: a pure function of the run and the paper's file of parameters; a function of a module,
    for it travels to Spark tasks by name. together: what runs have in common that one task measures
    one after the other, because `measure` prepares the same for all of them, or because each takes
    less time than a task of its own; None: no two runs.
    """

    name: str
    x: str
    runs: Callable[[str], list[Run]]
    measure: Callable[[Run], list[Measure]]
    together: Callable[[Run], Hashable] | None = None


def with_x_and_seed(run: Run) -> Hashable:
    """Return what `Campaign.together` is where all routings are measured on the same things."""
    return run.x, run.seed


@dataclass(frozen=True)
class Claim:
    """One figure of the paper beside ours; several claims may share an id ("octopia/O1").

    metric: what it is, with its unit, as a reader wants it. measure: the `Measure.metric` that it
    is computed from. paper: None where the paper gives no figure. explained: the note shows why
    ours must differ, so that the claim is never `reproduced`. cause: what the note says, in a word,
    of a figure that may be missed. where: of which x, all or the least or largest that there
    are, or those between these two. settled: the measure that is 1 for the runs whose value is
    final; the others' values are lower bounds, and the row says so. source: where the figure stands
    in the paper; "" for our own rows.
    """

    id: str
    metric: str
    kind: Kind
    campaign: str
    measure: str
    of: str
    against: str = ""
    paper: float | None = None
    note: str = ""
    explained: bool = False
    settled: str = ""
    where: Where = "all"
    source: str = ""
    cause: Cause | Literal[""] = ""


@dataclass(frozen=True)
class PaperPoint:
    """What a paper states of a curve in numbers.

    line: the routing. y: in the unit of the plot's label; with `over` how many times our value of
    that other routing. x: the place on the plot's axis; None if the paper gives none (a mean, a
    peak, or a ratio everywhere). panel: of a plot by "at" the campaign's x; None for every panel.
    source: where it stands in the paper.
    """

    line: str
    y: float
    source: str
    x: float | None = None
    panel: float | None = None
    over: str = ""


@dataclass(frozen=True)
class Plot:
    """A line for each routing (and variant): means over seeds with 95 % intervals.

    by "x": over the campaign's x. by "at": over the place inside the runs, a panel for each x.
    ids: the ids of the claims that the plot belongs to. times: what values are multiplied with, so
    that they are in the unit of the label. points: what the paper states of these lines. log: both
    axes are logarithmic, so that a power of x is a straight line; values of 0 are left out.
    """

    name: str
    title: str
    campaign: str
    measure: str
    x_label: str
    y_label: str
    by: Axis
    ids: tuple[str, ...]
    times: float = 1.0
    points: tuple[PaperPoint, ...] = ()
    log: bool = False


@dataclass(frozen=True)
class Paper:
    """A paper's package has it as `PAPER` in its module `claims`; the modules of its campaigns and
    the file of parameters stand in one folder, for a change of them makes results old.

    setting: a sentence or two for the page, on what all its runs share (overlay, workload).
    evidence: paragraphs of Markdown for the page, from everything measured.
    outline: the blocks of that evidence as far as no result is needed (see `PaperFiles.outline`).
    data: the path of a file of real data that runs take when it is given, or ""; data_variable: the
    variable of the environment that gives it.
    """

    name: str
    title: str
    campaigns: tuple[Campaign, ...]
    claims: tuple[Claim, ...]
    plots: tuple[Plot, ...]
    parameters_file: Path
    setting: str = ""
    evidence: Callable[[Measured], list[str]] | None = None
    outline: Callable[[], list[str]] = list
    data: Callable[[], str] = str
    data_variable: str = ""

    def campaign(self, name: str) -> Campaign:
        return next(campaign for campaign in self.campaigns if campaign.name == name)
