"""A page with today's texts: what a paper's files say is renewed, and what was measured is kept.

The texts of a page are its title and setting, the words and notes of its table, the titles of its
curves, and the paragraphs of its evidence. They may change without a run: `renewed` then writes
what the command would write with the same results. A change that does need results is refused: of
the rows, of a paper's figure or of its points in a plot, of which figures are explained, of the
order of the evidence, or of a sentence with computed values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments import page, paper_marks
from reefcast_lab.experiments.campaign import Paper
from reefcast_lab.experiments.overview import CELLS
from reefcast_lab.experiments.paper_files import HOLE
from reefcast_lab.experiments.table import Finding, paper_text

_MADE, _EVIDENCE = "Made by `", "## Evidence"
_BOUND = re.compile(
    r"(?:^|; )((?:a lower|an upper|computed from lower) bounds?\b.* before their end)$"
)
"""What a note says of a figure that is only a bound (`Finding.bound`): such notes depend on the
measurements."""


def renew(file: Path, paper: Paper) -> Path:
    """Renew the texts of a page, and return its path.

    Raises `ConfigurationError` if there is no page, or if a change needs results.
    """
    if not file.exists():
        raise ConfigurationError(f"there is no page {file}: make it without --texts")
    try:
        text = renewed(file.read_text(encoding="utf-8"), paper)
    except ValueError as error:
        raise ConfigurationError(f"{file}: {error}: make the page without --texts") from error
    file.write_text(text, encoding="utf-8")
    return file


def renewed(text: str, paper: Paper) -> str:
    """Return the page with the texts of today. Raises `ValueError` if a change needs results."""
    blocks = text.rstrip("\n").split("\n\n")
    made = _first(blocks, _MADE)
    table = _first(blocks, f"| {page.TITLES[0]} | {page.TITLES[1]} |")
    evidence = _first(blocks, _EVIDENCE) if _EVIDENCE in blocks else len(blocks)
    _check_points(blocks, paper)
    rows = [Finding(claim, None, None, 0) for claim in paper.claims]
    new = [
        blocks[0],
        f"# {paper.title}",
        *([paper.setting] if paper.setting else []),
        *blocks[made:table],
        _table(blocks[table], rows),
        *page.footnotes(rows),
        *page.curves(paper),
        *blocks[evidence : evidence + 1],
        *_evidence(blocks[evidence + 1 :], paper.outline()),
    ]
    return "\n\n".join(part.rstrip("\n") for part in new) + "\n"


def _first(blocks: Sequence[str], start: str) -> int:
    found = (number for number, block in enumerate(blocks) if block.startswith(start))
    number = next(found, None)
    if number is None:
        raise ValueError(f"the page has no paragraph that begins with {start!r}")
    return number


def _check_points(blocks: Sequence[str], paper: Paper) -> None:
    """Raise `ValueError` if the pictures lack points that the paper states, or have others."""
    drawn = [block for block in blocks if block.startswith(paper_marks.BEGINS)]
    if drawn != [said for said in map(paper_marks.sources, paper.plots) if said]:
        raise ValueError("the curves have other points of the paper than now")


# --- the table -----------------------------------------------------------------------------------


def _table(old: str, rows: Sequence[Finding]) -> str:
    head, lines = old.split("\n")[:2], old.split("\n")[2:]
    if len(lines) != len(rows):
        raise ValueError(f"the page has {len(lines)} rows, and the paper has {len(rows)}")
    shared = page.repeated(rows)
    return "\n".join([*head, *(_row(*each, shared) for each in zip(lines, rows, strict=True))])


def _row(line: str, row: Finding, shared: Sequence[str]) -> str:
    cells = dict(zip(page.TITLES, (cell.strip() for cell in CELLS.split(line[2:-2])), strict=True))
    _check(cells, row)
    bound = _BOUND.search(cells["note"])
    said = (page.cell(page.note(row, shared)), bound[1] if bound else "")
    cells |= {"what": page.cell(row.claim.metric), "note": "; ".join(filter(None, said))}
    return f"| {' | '.join(cells.values())} |"


def _check(cells: Mapping[str, str], row: Finding) -> None:
    """Raise `ValueError` if the row is of another claim, or the claim's state may have changed."""
    claim = row.claim
    if (cells["id"], cells["paper"]) != (claim.id, page.cell(paper_text(row))):
        raise ValueError(
            f"{claim.id}, {claim.metric}: the page has {cells['id']}, {cells['paper']}"
        )
    if (cells["state"] == "explained") != (claim.explained and claim.paper is not None):
        raise ValueError(f"{claim.id}, {claim.metric}: the page has the state {cells['state']!r}")


# --- the evidence --------------------------------------------------------------------------------


def _evidence(old: Sequence[str], outline: Sequence[str]) -> list[str]:
    if len(old) != len(outline):
        raise ValueError(f"the evidence has {len(old)} parts, and now {len(outline)}")
    return [_part(*each) for each in zip(old, outline, strict=True)]


def _part(old: str, new: str) -> str:
    if HOLE in new:
        if re.fullmatch(".*?".join(map(re.escape, new.split(HOLE))), old, re.DOTALL):
            return old
        raise ValueError(f"a sentence with computed values has changed: {old[:60]!r}")
    kinds = [next((k for k in ("### ", "| ") if part.startswith(k)), "") for part in (old, new)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"the evidence has other parts than now, from {old[:60]!r} on")
    return _titled(old, new) if kinds[0] == "| " else new


def _titled(old: str, head: str) -> str:
    """Return a table of results with the titles of `head`."""
    lines, titles = old.split("\n"), head.split("\n")
    if lines[1] != titles[1]:
        raise ValueError(f"a table has other columns than now: {lines[0]}")
    return "\n".join([*titles, *lines[2:]])
