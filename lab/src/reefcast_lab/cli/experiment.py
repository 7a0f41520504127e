"""`reefcast-lab experiment`: the papers' evaluations, in the simulator."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reefcast.cli.command_line import Group
from reefcast.cli.exit_codes import NO
from reefcast.cli.options import DIRECTORY, OUTPUT_FILE, Whole, json_option, master_option
from reefcast.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reefcast_lab.experiments.campaign import Run
    from reefcast_lab.experiments.evaluation import Evaluation
    from reefcast_lab.experiments.sweep import Ended
    from reefcast_lab.experiments.table import Finding
C = TypeVar("C", bound=Callable[..., Any])


@click.group(cls=Group)
def command() -> None:
    """Run the papers' evaluations, and show them beside the papers' figures.

        reefcast-lab experiment list

    Results are kept under out/: what was run is not run again.
    """


@command.command("list")
@json_option("a list of rows")
def list_(as_json: bool) -> None:
    """Show all experiments: a row for each figure of a paper.

        reefcast-lab experiment list

    A row begins with the ID that `run` takes, and says where the figure stands in the paper.
    """
    from reefcast_lab.experiments.registry import papers

    claims = [claim for paper in papers().values() for claim in paper.claims]
    if as_json:
        names = ("id", "metric", "kind", "campaign", "paper")
        rows = [{name: getattr(claim, name) for name in names} for claim in claims]
        click.echo(json.dumps(rows))
        return
    width = max(len(claim.id) for claim in claims)
    place = max(len(claim.source) for claim in claims)
    for claim in claims:
        click.echo(f"{claim.id:{width}}  {claim.source:{place}}  {claim.metric}")


def _sweep_options(function: C) -> C:
    """Add the options that `run` and `report` share."""
    options = (
        click.option(
            "--scale",
            type=click.Choice(["small", "paper"]),
            default="small",
            show_default=True,
            help="small: seconds for a run; paper: the paper's own sizes.",
        ),
        click.option(
            "--seeds",
            type=Whole(1),
            help="Repeats of every run; by default as many as its scenario asks for.",
        ),
        master_option,
        click.option(
            "--results",
            type=DIRECTORY,
            default="out/experiments",
            show_default=True,
            help="Keep the results of runs in this directory.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command(epilog="Exit codes: 0 all was run, reproduced or not; 1 a run failed.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_sweep_options
@click.option(
    "--out",
    type=OUTPUT_FILE,
    help="Write all that was measured to this file: Parquet, a row for each measure of each run.",
)
@json_option("a list of rows")
def run(
    ids: tuple[str, ...],
    scale: str,
    seeds: int | None,
    master: str,
    results: Path,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run experiments, and print the paper's figures beside ours.

        reefcast-lab experiment run octopia/O4

    ID is one that `list` names, such as octopia/O4, or a paper's name for all of it. A run is a
    task of Spark, tried again if its process dies. What was run before with the same parameters
    and the same code is not run again, so an interrupted sweep goes on where it stopped.

    The papers' data are generated. To take real ones, name files in the environment:
    REEFCAST_STOCKS (OctopiA: CSV with date, open, high, low, close, volume, name),
    REEFCAST_EVENT_LOG (covering: a log in CSV, as from XES), REEFCAST_SOCIAL (mesh: wall posts),
    REEFCAST_TOPICS (gossip: users and artists, as Last.fm's), REEFCAST_TOPOLOGY (storage: a network
    in GraphML).
    """
    from reefcast_lab.experiments.evaluation import evaluation
    from reefcast_lab.experiments.registry import papers, select

    rows: list[Finding] = []
    failed: list[Ended] = []
    chosen = [
        (claims, evaluation(results, paper, campaigns, scale, seeds))
        for paper, claims, campaigns in select(papers(), ids)
    ]
    with _spark(master) as spark:
        for claims, each in chosen:
            failed += _sweep(spark, each)
            rows += each.rows(spark, claims)
    if out:
        _write_table(out, [each for _, each in chosen])
    if as_json:
        click.echo(json.dumps([row.as_dict() for row in rows]))
    else:
        print_rows(rows)
    _end(failed)


@command.command(
    epilog="Exit codes: 0 the pages are written; 1 a run failed, so its paper's page is not."
)
@click.argument("papers", nargs=-1, metavar="[PAPER...]")
@_sweep_options
@click.option(
    "--out",
    type=DIRECTORY,
    default="docs/reproduction",
    show_default=True,
    help="Write pages and plots into this directory.",
)
@click.option(
    "--finished",
    is_flag=True,
    help="Run nothing: pages of what is finished, which say what is left out.",
)
@click.option(
    "--texts",
    is_flag=True,
    help="Run nothing: renew the texts of the pages that are there, and keep their results.",
)
def report(
    papers: tuple[str, ...],
    scale: str,
    seeds: int | None,
    master: str,
    results: Path,
    out: Path,
    finished: bool,
    texts: bool,
) -> None:
    """Run what is missing of each PAPER, and write its page: table, curves, evidence.

        reefcast-lab experiment report octopia --scale paper

    PAPER is octopia, covering, mesh, gossip or storage, or one of our own: undone (what each change
    of covering's set-up does), sharing (OctopiA's burst, by what links share), outage (a broker
    that dies), skew (interests that are skewed or move), clusters (covering inside them), tenfold
    (ten times the papers' sizes); without one, all of them. Beside the pages stands an index,
    README.md: the state of every row of every page that is there. A run is a task of Spark, the
    longest first. How long all of them will take is said before, by what runs took that were
    measured earlier, or by a table; what was measured with the same code is not run again. A page
    says whether its data were generated or read from the file that REEFCAST_STOCKS (or the paper's
    own variable, see `experiment run --help`) names.
    """
    from reefcast_lab.experiments import overview, registry, renewal
    from reefcast_lab.experiments.evaluation import evaluation

    known = registry.papers()
    wanted = [registry.paper_named(known, name) for name in papers] or list(known.values())
    if texts:
        for paper in wanted:
            click.echo(renewal.renew(out / f"{paper.name}.md", paper))
        click.echo(overview.write(out, known))
        return
    whole = [evaluation(results, paper, paper.campaigns, scale, seeds) for paper in wanted]
    if finished:
        whole = _with_something(whole, results, by_name=bool(papers))
    overview.check_scale(out, [each.paper for each in whole], scale)
    failed = _write_pages(whole, master, out)
    click.echo(overview.write(out, known))
    _end(failed)


def _with_something(
    evaluations: Sequence[Evaluation], results: Path, *, by_name: bool
) -> list[Evaluation]:
    """Return what is finished of each evaluation. A paper of which nothing is keeps its page; if it
    was asked for by name, this raises `ConfigurationError`."""
    found = []
    for each in (whole.finished() for whole in evaluations):
        nothing = f"nothing of {each.paper.name} at scale {each.scale} is in {results}"
        if each.runs:
            found.append(each)
        elif by_name:
            raise ConfigurationError(f"{nothing}: run it")
        else:
            click.echo(f"{nothing}: its page stays as it is", err=True)
    return found


def _write_pages(evaluations: Sequence[Evaluation], master: str, out: Path) -> list[Ended]:
    """Write the pages; return the runs that failed. A paper with a failed run gets no page."""
    from reefcast_lab.experiments import page

    failed: list[Ended] = []
    if not evaluations:
        return failed
    with _spark(master) as spark:
        for each in evaluations:
            missed = _sweep(spark, each)
            failed += missed
            if not missed:
                rows = each.rows(spark, each.paper.claims)
                click.echo(page.write(out, each, rows, each.measured(spark)))
    return failed


def _write_table(out: Path, evaluations: Sequence[Evaluation]) -> None:
    """Write one table of what all of them measured."""
    import pyarrow.parquet as pq

    tables = [each.table() for each in evaluations]
    with pq.ParquetWriter(out, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)


@contextmanager
def _spark(master: str) -> Iterator[SparkSession]:
    from reefcast.pipeline.session import spark_session
    from reefcast_lab.experiments.sweep import patient

    with spark_session("reefcast-lab experiment", patient(master)) as spark:
        yield spark


def _end(failed: Sequence[Ended]) -> None:
    """Exit if runs failed, after a line for each."""
    for ended in failed:
        click.echo(f"reefcast-lab experiment: {name(ended.run)}: {ended.error}", err=True)
    if failed:
        sys.exit(NO)


# --- progress ------------------------------------------------------------------------------------

DOUBT = 0.05
"""The share of the runs that ends before it counts as much as what was expected, whether they take
longer."""


def _sweep(spark: SparkSession, evaluation: Evaluation) -> list[Ended]:
    from reefcast_lab.experiments.sweep import cores

    runs, takes = evaluation.missing(), evaluation.durations.of
    before = len(evaluation.runs) - len(runs)
    if before and runs:
        click.echo(f"{before} of {len(evaluation.runs)} runs were measured before", err=True)
    if not runs:
        return []
    at_a_time = cores(spark)
    whole = duration(sum(map(takes, runs)) / at_a_time)
    click.echo(
        f"{evaluation.paper.name}: {len(runs)} runs, about {whole} on {at_a_time} cores", err=True
    )
    with _progress(runs, _Estimate(runs, takes, at_a_time)) as tell:
        return evaluation.sweep(spark, tell)


@contextmanager
def _progress(runs: Sequence[Run], estimate: _Estimate) -> Iterator[Callable[[Ended], None]]:
    """Show progress on standard error: a bar on a terminal, otherwise a line for each run that
    ended."""
    total = len(runs)
    if not sys.stderr.isatty():
        yield lambda ended: click.echo(_line(ended, *estimate(ended), total), err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    words = (TextColumn("{task.description}"), TextColumn("{task.fields[last]}"))
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), *words)
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=total, last="")

        def tell(ended: Ended) -> None:
            done, left = estimate(ended)
            bar.update(task, completed=done, description=f"about {left} left", last=name(ended.run))

        yield tell


class _Estimate:
    """How long the rest of these runs will take, so many `at_a_time`, by those that ended: the runs
    of a campaign are as much longer than expected (`takes`) as those before them; and those of a
    campaign of which nothing has ended as all others."""

    def __init__(self, runs: Sequence[Run], takes: Callable[[Run], float], at_a_time: int) -> None:
        self._takes, self._at_a_time = takes, at_a_time
        self._done, self._all = 0, len(runs)
        self._waiting_s: defaultdict[str, float] = defaultdict(float)
        self._expected_s: defaultdict[str, float] = defaultdict(float)
        self._taken_s: defaultdict[str, float] = defaultdict(float)
        for run in runs:
            self._waiting_s[run.campaign] += takes(run)
        self._doubt_s = DOUBT * sum(self._waiting_s.values())

    def __call__(self, ended: Ended) -> tuple[int, str]:
        """Return how many runs have ended, and how long the rest will take."""
        campaign, expected_s = ended.run.campaign, self._takes(ended.run)
        self._done += 1
        self._waiting_s[campaign] -= expected_s
        self._expected_s[campaign] += expected_s
        self._taken_s[campaign] += ended.seconds
        left_s = sum(seconds * self._pace(name) for name, seconds in self._waiting_s.items())
        left_s = max(left_s, 0.0) if self._done < self._all else 0.0
        return self._done, duration(left_s / self._at_a_time)

    def _pace(self, campaign: str) -> float:
        """Return how much longer the runs of a campaign take than expected."""
        if self._expected_s[campaign]:
            return self._taken_s[campaign] / self._expected_s[campaign]
        taken_s = sum(self._taken_s.values()) + self._doubt_s
        return taken_s / max(sum(self._expected_s.values()) + self._doubt_s, 1e-9)


def _line(ended: Ended, done: int, left: str, total: int) -> str:
    result = "FAILED" if ended.error else duration(ended.seconds)
    return f"{done}/{total} {name(ended.run)}: {result}; about {left} left"


def name(run: Run) -> str:
    """Return a run in a few words."""
    variant = f" {run.variant}" if run.variant else ""
    return f"{run.campaign} {run.x:g} {run.routing}{variant} seed {run.seed}"


def duration(seconds: float) -> str:
    """Return a duration to the second, or to the minute if it is long."""
    if seconds < 90:
        return f"{seconds:.3g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


# --- the table -----------------------------------------------------------------------------------


def print_rows(rows: Sequence[Finding]) -> None:
    """Print the figures for people, and the notes below, because they are long."""
    from rich.console import Console
    from rich.table import Table

    from reefcast_lab.experiments.table import ours_text, paper_text, ratio_text, state_text

    table = Table("id", "what", box=None, pad_edge=False)
    for title in ("paper", "ours", "ratio"):
        table.add_column(title, justify="right")
    table.add_column("state")
    for row in rows:
        texts = (paper_text(row), ours_text(row), ratio_text(row), state_text(row))
        table.add_row(row.claim.id, row.claim.metric, *texts)
    console = Console(markup=False, highlight=False)
    console.print(table)
    notes: dict[str, list[str]] = {}
    for row in rows:
        notes.setdefault(row.note, []).append(f"{row.claim.id}, {row.claim.metric}")
    for note, claims in notes.items():
        if note:
            console.print(f"\n{'; '.join(claims)}: {note}")
