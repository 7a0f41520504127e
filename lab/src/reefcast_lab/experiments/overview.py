"""The index of the reproduction report: the state of every row of every paper, on one page.

It is made from the papers' pages, which are made from results. So it says what they say, wherever
the results of their runs are kept; what a page has no row for, it says too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reefcast.errors import ConfigurationError, DamagedError
from reefcast_lab.bench.page_tables import markdown
from reefcast_lab.experiments import page
from reefcast_lab.experiments.campaign import Claim, Paper

NAME = "README.md"
"""What those who browse the folder are shown."""

_MADE_BY = re.compile(r"<!-- made by `(?P<command>[^`]*)`")
_SCALE = re.compile(r"--scale (\S+)")
CELLS = re.compile(r"(?<!\\) \| ")
"""Between cells; a bar inside one is escaped."""

_SHOWN = {"": "no figure of the paper", "no": "not reproduced"}
"""What is shown for a state in place of the page's own word."""
_MISSED = ("explained", "not reproduced")
_STATES = ("reproduced", *_MISSED, "no figure of the paper")


@dataclass(frozen=True)
class Line:
    """A row of a page's table, as it stands there."""

    id: str
    what: str
    paper: str
    ours: str
    state: str


@dataclass(frozen=True)
class Page:
    """What a page says. `whole`: no run was left out."""

    file: Path
    command: str
    whole: bool
    lines: tuple[Line, ...]

    @property
    def scale(self) -> str:
        found = _SCALE.search(self.command)
        return found[1] if found else "small"


def check_scale(folder: Path, papers: Iterable[Paper], scale: str) -> None:
    """Raise `ConfigurationError` if a page of the papers' own sizes would be lost to a small
    one."""
    for paper in papers:
        made = read(folder / f"{paper.name}.md")
        if made and made.scale != scale == "small":
            raise ConfigurationError(
                f"{made.file} is at scale {made.scale}: take --scale {made.scale}, or another "
                "directory for a small one"
            )


def write(folder: Path, papers: Mapping[str, Paper]) -> Path:
    """Write the index of the pages in `folder`; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / NAME
    index.write_text(text(folder, papers), encoding="utf-8")
    return index


def text(folder: Path, papers: Mapping[str, Paper]) -> str:
    """Return the index, in Markdown; papers without a page are named."""
    pages = {name: read(folder / f"{name}.md") for name in papers}
    parts = [
        "<!-- made by `reefcast-lab experiment report`; change the code, not this page -->",
        "# What the papers measured, and what we measure",
        _HOW,
        _summary(papers, pages),
        *(_part(paper, pages[name]) for name, paper in papers.items()),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


_HOW = """\
Every figure that the papers' evaluations give, beside ours (± half the width of the 95 % interval
over seeds), with its state; each paper's page has the notes that say why, the curves and the
evidence. `reproduced`: the same sign, and within a third of the paper's figure (of effects under
5 % the same sign). `explained`: ours must differ, and the note says why. This page is made from
the others by `reefcast-lab experiment report`, and they from the results of runs.

The cause of a figure that is not reproduced is what its note shows, in a word: `ours`, a rule of
our implementation; `set-up`, what the experiment assumes where the paper leaves it open, or where
that part of the paper is lost; `paper`, the paper itself, which excludes the figure by others of
its own, or by its steps taken to the letter; `taken`, a parameter was taken from this very figure,
so that it is no evidence.

The papers' points in the curves (hollow marks, dotted lines) are those that their texts and tables
state in numbers, with the place below each curve: their pictures are lost in our copies, so nothing
was read off them."""


def read(file: Path) -> Page | None:
    """Read a page; None if there is none. Raises `DamagedError` for one that was not made by the
    command."""
    if not file.exists():
        return None
    lines = file.read_text(encoding="utf-8").splitlines()
    made = _MADE_BY.match(lines[0]) if lines else None
    head = f"| {' | '.join(page.TITLES)} |"
    if made is None or head not in lines:
        raise DamagedError(f"{file} is no page of `reefcast-lab experiment report`: make it anew")
    table = lines[lines.index(head) + 2 :]
    end = next((i for i, line in enumerate(table) if not line.startswith("| ")), len(table))
    whole = not any(line.startswith(page.NOT_WHOLE) for line in lines)
    return Page(file, made["command"], whole, tuple(map(_line, table[:end])))


def _line(row: str) -> Line:
    texts = (cell.strip() for cell in CELLS.split(row[2:-2]))
    cells = dict(zip(page.TITLES, texts, strict=True))
    state = _SHOWN.get(cells["state"], cells["state"])
    return Line(cells["id"], cells["what"], cells["paper"], cells["ours"], state)


def unmade(paper: Paper, made: Page) -> list[str]:
    """Return rows of the paper that the page does not have, as "id, what"."""
    shown = {(line.id, line.what) for line in made.lines}
    rows = dict.fromkeys(map(_row, paper.claims))
    return [f"{id}, {what}" for id, what in rows if (id, what) not in shown]


def _row(claim: Claim) -> tuple[str, str]:
    """Return the id and the words by which a page has the claim."""
    return claim.id, page.cell(claim.metric)


# --- in words ------------------------------------------------------------------------------------


def _summary(papers: Mapping[str, Paper], pages: Mapping[str, Page | None]) -> str:
    titles = ("paper", "page", "scale", "rows", *_STATES)
    found = [(papers[name], made) for name, made in pages.items()]
    return markdown(titles, [_counts(*each) for each in found], "lllrrrrr")


def _counts(paper: Paper, made: Page | None) -> Sequence[str]:
    if made is None:
        return (paper.title, "none yet", *[""] * (2 + len(_STATES)))
    counted = Counter(line.state for line in made.lines)
    file = made.file.name
    states = (str(counted[state]) for state in _STATES)
    return (paper.title, f"[{file}]({file})", made.scale, str(len(made.lines)), *states)


def _part(paper: Paper, made: Page | None) -> str:
    head = f"## {paper.title}\n\n"
    if made is None:
        ids = ", ".join(dict.fromkeys(claim.id for claim in paper.claims))
        command = f"`reefcast-lab experiment report {paper.name} --scale paper`"
        return f"{head}There is no page yet of {ids}: {command} makes it."
    parts = [f"[{made.file.name}]({made.file.name}), made by `{made.command}`."]
    if not made.whole:
        parts.append("**Not all of its runs have been run yet**: the page says which.")
    if left := unmade(paper, made):
        parts.append(f"**Made before these rows were added**: {'; '.join(left)}.")
    return "\n\n".join([head.rstrip(), *parts, *_curves(paper, made), _table(paper, made)])


def _curves(paper: Paper, made: Page) -> Iterator[str]:
    """Yield lists of the curves that are there: with points of the paper, and of ours alone."""
    pictures = {plot: page.picture(paper, plot) for plot in paper.plots}
    there = [plot for plot in paper.plots if (made.file.parent / pictures[plot]).is_file()]
    for what, with_points in (
        ("Curves beside the paper's points", True),
        ("Curves of ours", False),
    ):
        if some := [plot for plot in there if bool(plot.points) is with_points]:
            yield f"{what}: {'; '.join(f'[{plot.title}]({pictures[plot]})' for plot in some)}."


def _table(paper: Paper, made: Page) -> str:
    titles = ("id", "what", "paper", "ours", "state", "cause")
    causes = {_row(claim): claim.cause for claim in paper.claims}
    lines: Iterable[Sequence[str]] = (
        (
            f"[{line.id}]({made.file.name})",
            line.what,
            line.paper,
            line.ours,
            line.state,
            causes.get((line.id, line.what), "") if line.state in _MISSED else "",
        )
        for line in made.lines
    )
    return markdown(titles, lines, "llrrll")
