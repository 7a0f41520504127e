"""Pages with today's texts: the published ones have them, and `renewed` changes nothing else."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from toy_paper import toy_paper
from unmade_pages import with_unmade

from reefcast.errors import ConfigurationError
from reefcast_lab.cli.experiment import command
from reefcast_lab.experiments import overview, page
from reefcast_lab.experiments.campaign import Measured, PaperPoint, Point
from reefcast_lab.experiments.evaluation import evaluation
from reefcast_lab.experiments.paper_files import PaperFiles
from reefcast_lab.experiments.registry import papers
from reefcast_lab.experiments.renewal import renew, renewed
from reefcast_lab.experiments.table import Finding

DOCS = Path(__file__).parents[3] / "docs" / "reproduction"
NOTES = """# {title}

## setting
All {word} are on one overlay.

## seen
There are {word}.

Of these {count} are small.
"""
PAGE = """
[columns]
sizes = [["delay (s)", "delay"]]

[[evidence]]
campaign = "sizes"
title = "{title}"
text = "{{seen}}"
x = "brokers"
routing = "routing"
columns = ["sizes"]
"""


def paper_of(folder: Path, title: str, word: str = "runs", count: str = "{count}"):
    """Return a toy paper whose texts are files."""
    toy = toy_paper(folder)
    (folder / "notes.md").write_text(
        NOTES.replace("{title}", title).replace("{word}", word).replace("{count}", count)
    )
    (folder / "page.toml").write_text(
        PAGE.replace("{title}", title).replace("{{", "{").replace("}}", "}")
    )
    (folder / "claims.toml").write_text("claims = []")
    files = PaperFiles(folder, "toy", computed={"count": lambda found: len(found.xs("sizes"))})
    made = files.paper(toy.campaigns, toy.parameters_file)
    return dataclasses.replace(made, claims=toy.claims, plots=toy.plots)


def text_of(folder: Path, paper, measured=None) -> str:
    """Return the page that the command would write, with the same results for every paper."""
    rows = [
        Finding(dataclasses.replace(claim, settled="over"), 0.5, 0.01, 2, unsettled)
        for claim, unsettled in zip(
            paper.claims, [("slow",), ("fast",), (), ("fast", "slow")], strict=True
        )
    ]
    points = [Point("sizes", "delay", r, "", x, 0.0, x, 0.0, 1) for x in (10.0, 20.0) for r in "ab"]
    toy = evaluation(folder / "results", paper, paper.campaigns[:1], "paper", None)
    return page.text(toy, rows, measured or Measured("paper", points, []))


def noted(toy, notes, **changes):
    """Return the paper with other notes, and with its first claim changed."""
    claims = [dataclasses.replace(c, note=n) for c, n in zip(toy.claims, notes, strict=True)]
    claims[0] = dataclasses.replace(claims[0], **changes)
    return dataclasses.replace(toy, claims=tuple(claims))


@pytest.mark.parametrize("name", with_unmade(papers()))
def test_published_pages_have_the_texts_of_today(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert renewed(text, papers()[name]) == text


def test_the_published_index_is_that_of_the_pages() -> None:
    assert overview.text(DOCS, papers()) == (DOCS / overview.NAME).read_text(encoding="utf-8")


def test_a_renewed_page_is_the_one_that_the_command_would_write(tmp_path: Path) -> None:
    before = noted(paper_of(tmp_path / "a", "A toy"), ("far", "", "far", "near | by"))
    plots = [dataclasses.replace(plot, title=f"{plot.title}, anew") for plot in before.plots]
    after = dataclasses.replace(
        noted(paper_of(tmp_path / "b", "A better toy"), ("", "x", "y", "x"), metric="a | b"),
        plots=tuple(plots),
    )
    old, new = text_of(tmp_path, before), text_of(tmp_path, after)
    assert "anew" in new and "Of these 2 are small" in new and "a lower bound" in new
    assert renewed(old, after) == new != old
    assert renewed(new, before) == old


def refused(text: str, paper, tmp_path: Path) -> str:
    """Return the reason why the texts of this page are not renewed; check that the page stays as it
    is."""
    file = tmp_path / "toy.md"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match="make the page without --texts") as error:
        renew(file, paper)
    assert file.read_text() == text
    return str(error.value)


def test_changes_that_need_results_are_refused(tmp_path: Path) -> None:
    paper = paper_of(tmp_path / "a", "A toy")
    text, notes = text_of(tmp_path, paper), [claim.note for claim in paper.claims]
    stated = dataclasses.replace(paper.plots[0], points=(PaperPoint("slow", 1.0, "Fig. 1"),))
    for changed, reason in (
        (dataclasses.replace(paper, plots=(stated, *paper.plots[1:])), "other points of the paper"),
        (noted(paper, notes, id="toy/T9"), "toy/T9, delay, slow over fast: the page has toy/T1"),
        (noted(paper, notes, paper=0.5), "the page has toy/T1, +40 %"),
        (noted(paper, notes, explained=True), "the page has the state 'reproduced'"),
        (dataclasses.replace(paper, claims=paper.claims[1:]), "the page has 4 rows, and the paper"),
        (paper_of(tmp_path / "b", "A toy", count="{count} of the"), "computed values has changed"),
        (dataclasses.replace(paper, outline=list), "the evidence has 4 parts, and now 0"),
    ):
        assert reason in refused(text, changed, tmp_path)
    assert "has no paragraph that begins with" in refused("# A toy\n", paper, tmp_path)


def test_tables_with_other_columns_are_refused(tmp_path: Path) -> None:
    paper = paper_of(tmp_path / "a", "A toy")
    text = text_of(tmp_path, paper)
    outline = paper.outline()
    wider = dataclasses.replace(paper, outline=lambda: [*outline[:-1], "| a | b |\n| ---|--: |"])
    assert "a table has other columns than now" in refused(text, wider, tmp_path)
    moved = dataclasses.replace(paper, outline=lambda: [outline[1], outline[0], *outline[2:]])
    assert "the evidence has other parts than now" in refused(text, moved, tmp_path)


@pytest.mark.parametrize("name", with_unmade(papers()))
def test_the_command_renews_pages_without_a_run(name: str, tmp_path: Path) -> None:
    whole = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    file = tmp_path / f"{name}.md"
    other = re.sub("^# .*$", "# Another title", whole, count=1, flags=re.MULTILINE)
    assert other != whole
    file.write_text(other, encoding="utf-8")
    arguments = ["report", name, "--texts", "--out", str(tmp_path)]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.output == f"{file}\n{tmp_path / 'README.md'}\n"
    assert file.read_text(encoding="utf-8") == whole


def test_a_page_that_is_not_there_cannot_be_renewed(tmp_path: Path) -> None:
    arguments = ["report", "mesh", "--texts", "--out", str(tmp_path)]
    with pytest.raises(ConfigurationError, match=r"there is no page .*mesh\.md"):
        CliRunner().invoke(command, arguments, catch_exceptions=False)
