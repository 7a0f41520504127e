"""A paper's page under docs/reproduction/: the table, the curves, the evidence. All of it is made
from results; the same results give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import reefcast_lab
from reefcast_lab.bench.page_tables import markdown
from reefcast_lab.experiments import paper_marks, plots, table
from reefcast_lab.experiments.campaign import RUN_S, Measured, Paper, Plot, Run
from reefcast_lab.experiments.evaluation import Evaluation
from reefcast_lab.experiments.numerals import short, thin
from reefcast_lab.experiments.table import Finding

TITLES = ("id", "what", "paper", "ours", "ratio", "state", "note")
"""The titles of the table."""
NOT_WHOLE = "**Not all has been run yet**"
"""Begins what a page says of runs that are left out."""


def write(
    folder: Path, evaluation: Evaluation, rows: Sequence[Finding], measured: Measured
) -> Path:
    """Write <paper>.md and its plots into `folder`; return the page's path."""
    paper = evaluation.paper
    folder.mkdir(parents=True, exist_ok=True)
    looks = plots.looks(measured.points)
    for plot in paper.plots:
        svg = plots.draw(plot, measured.points, looks, paper.campaign(plot.campaign).x)
        (folder / picture(paper, plot)).write_text(svg, encoding="utf-8")
    page = folder / f"{paper.name}.md"
    page.write_text(text(evaluation, rows, measured), encoding="utf-8")
    return page


def picture(paper: Paper, plot: Plot) -> str:
    """Return the name of the plot's file."""
    return f"{paper.name}-{plot.name}.svg"


def text(evaluation: Evaluation, rows: Sequence[Finding], measured: Measured) -> str:
    """Return the page, in Markdown."""
    paper = evaluation.paper
    command = f"reefcast-lab experiment report {paper.name} --scale {evaluation.scale}"
    command += f" --seeds {evaluation.seeds}" if evaluation.seeds is not None else ""
    command += " --finished" if evaluation.left_out else ""
    parts = [
        f"<!-- made by `{command}`; change the code, not this page -->",
        f"# {paper.title}",
        *([paper.setting] if paper.setting else []),
        _how(evaluation, command),
        _campaigns(evaluation, measured),
        *_left_out(evaluation),
        "## What the paper measured, and what we measure",
        _reading(rows),
        _table(rows),
        *footnotes(rows),
        *curves(paper),
    ]
    evidence = paper.evidence(measured) if paper.evidence else []
    parts += ["## Evidence", *evidence] if evidence else []
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _how(evaluation: Evaluation, command: str) -> str:
    return (
        f"Made by `{command}`: scale `{evaluation.scale}`, one set of parameters for all rows "
        f"(`{_shown(evaluation.paper.parameters_file)}`). Every result is kept under the hash of "
        "its run, the parameters and the code that it depends on; none of other parameters or "
        f"other code is in this page.{_data(evaluation)}"
    )


def _data(evaluation: Evaluation) -> str:
    """Say whether real data were given, if the paper takes any."""
    variable, file = evaluation.paper.data_variable, evaluation.paper.data()
    if not variable:
        return ""
    if not file:
        return f" The data are generated: `{variable}` named no file of real ones."
    version = next(iter(evaluation.store.versions.values())).data
    return f" The data are those of the file `{Path(file).name}` (hash `{version}`; `{variable}`)."


def _shown(file: Path) -> str:
    """Return the path from the package on, which is the same wherever it is installed."""
    above = Path(reefcast_lab.__file__).parent.parent
    return file.relative_to(above).as_posix() if file.is_relative_to(above) else file.name


def _campaigns(evaluation: Evaluation, measured: Measured) -> str:
    titles = ("scenario", "points", "routings", "costs", "seeds", "runs", "a run took (s)", "code")
    lines = []
    for campaign in evaluation.paper.campaigns:
        mine = [run for run in evaluation.runs if run.campaign == campaign.name]
        if mine:
            sizes = f"{_listed({run.x for run in mine})} {campaign.x}"
            names = sorted({run.routing for run in mine})
            routings = ("; " if any("," in name for name in names) else ", ").join(names)
            variants = ", ".join(sorted({run.variant or "preset" for run in mine}))
            version = f"`{evaluation.store.versions[campaign.name].code}`"
            line = (campaign.name, sizes, routings, variants, _seeds(mine), short(len(mine)))
            lines.append((*line, _took(campaign.name, measured), version))
    return markdown(titles, lines, "llllrrrl")


def _left_out(evaluation: Evaluation) -> list[str]:
    """Return a line about the runs that are left out, by scenario and costs; none if all were
    run."""
    waiting: dict[tuple[str, str], set[float]] = {}
    for run in evaluation.left_out:
        waiting.setdefault((run.campaign, run.variant or "preset"), set()).add(run.x)
    if not waiting:
        return []
    cases = [f"{name} ({costs}) at {_listed(xs)}" for (name, costs), xs in waiting.items()]
    return [
        f"{NOT_WHOLE}: {len(evaluation.left_out)} runs are left out of this page, "
        f"of {'; '.join(cases)}. Without `--finished` the command runs them first."
    ]


def _took(campaign: str, measured: Measured) -> str:
    """Return the times of the shortest and the longest run, if they are known."""
    seconds = [v.value for v in measured.values if (v.campaign, v.metric) == (campaign, RUN_S)]
    return f"{short(min(seconds))} to {short(max(seconds))}" if seconds else "-"


def _listed(values: Iterable[float]) -> str:
    return ", ".join(
        thin(f"{value:,.0f}") if value == int(value) else f"{value}" for value in sorted(values)
    )


def _seeds(runs: Sequence[Run]) -> str:
    """Say how many repeats a point has: "5", or "3 to 5"."""
    of: dict[Run, int] = {}
    for run in runs:
        case = run._replace(seed=0)
        of[case] = of.get(case, 0) + 1
    least, most = min(of.values()), max(of.values())
    return f"{least}" if least == most else f"{least} to {most}"


def _reading(rows: Sequence[Finding]) -> str:
    states = [table.state_text(row) for row in rows if row.claim.paper is not None]
    counted = {state: states.count(state) for state in ("reproduced", "explained", "no")}
    return (
        "Percentages are effects (the ratio of the two, less 1); ± is half the width of the 95 % "
        "interval over seeds. `reproduced`: the same sign, and within a third of the paper's "
        "figure; of effects under 5 % the same sign is enough. `explained`: ours must differ, or "
        "follows from a constant that was chosen by this very figure; the note says why.\n\n"
        f"Of {len(states)} figures {counted['reproduced']} are reproduced, "
        f"{counted['explained']} explained, {counted['no']} neither."
    )


def _table(rows: Sequence[Finding]) -> str:
    shared = repeated(rows)
    lines = [
        (
            row.claim.id,
            row.claim.metric,
            table.paper_text(row),
            table.ours_text(row),
            table.ratio_text(row),
            table.state_text(row),
            note(row, shared),
        )
        for row in rows
    ]
    return markdown(TITLES, [[cell(text) for text in line] for line in lines], "llrrrll")


def repeated(rows: Sequence[Finding]) -> list[str]:
    """Return the notes that several claims share, which stand once, below the table."""
    notes = [row.claim.note for row in rows if row.claim.note]
    return [note for note in dict.fromkeys(notes) if notes.count(note) > 1]


def note(row: Finding, shared: Sequence[str]) -> str:
    """Return the note of a row; one of the `shared` notes is referred to by its number."""
    own = row.claim.note
    if own in shared:
        own = f"note {shared.index(own) + 1}"
    return "; ".join(text for text in (own, row.bound[1]) if text)


def footnotes(rows: Sequence[Finding]) -> list[str]:
    """Return the paragraphs below the table: the shared notes, numbered."""
    parts = []
    for number, note in enumerate(repeated(rows), 1):
        ids = ", ".join(dict.fromkeys(row.claim.id for row in rows if row.claim.note == note))
        parts.append(f"Note {number} ({ids}): {note}.")
    return parts


def cell(text: str) -> str:
    """Return a text for a table: a bar would end the cell, and a line break the row."""
    return " ".join(text.split()).replace("|", "\\|")


def curves(paper: Paper) -> list[str]:
    """Return the sections of the plots, under their heading; nothing without any."""
    return ["## Curves", *(curve(paper, plot) for plot in paper.plots)] if paper.plots else []


def curve(paper: Paper, plot: Plot) -> str:
    """Return the section of a plot: its title, the claims that it is about, the picture, and where
    the paper's points in it stand."""
    ids = ", ".join(plot.ids)
    shown = f"![{plot.title}]({picture(paper, plot)})"
    sources = paper_marks.sources(plot)
    return "\n\n".join([f"### {plot.title}", ids, shown, *([sources] if sources else [])])
