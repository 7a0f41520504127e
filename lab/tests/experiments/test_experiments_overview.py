"""The index of the pages sums up what the pages say, and what they do not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from toy_paper import toy_paper

from reefcast.errors import ConfigurationError, DamagedError
from reefcast_lab.experiments import overview, page
from reefcast_lab.experiments.campaign import Measured, PaperPoint
from reefcast_lab.experiments.evaluation import evaluation
from reefcast_lab.experiments.overview import Line
from reefcast_lab.experiments.registry import papers
from reefcast_lab.experiments.table import Finding

DOCS = Path(__file__).parents[3] / "docs" / "reproduction"


def write_page(folder, paper, rows, scale="paper"):
    toy = evaluation(folder / "results", paper, paper.campaigns[:1], scale, None)
    return page.write(folder, toy, rows, Measured(scale, [], []))


@pytest.fixture
def toy(tmp_path):
    return toy_paper(tmp_path / "toy")


def test_a_page_is_read_as_it_was_written(toy, tmp_path):
    first, second, third, fourth = toy.claims
    noted = dataclasses.replace(first, note="a | b", explained=True)
    rows = [
        Finding(noted, 0.5, 0.01, 2),
        Finding(second, 99.0, None, 1),
        Finding(third, None, None, 0),
    ]
    made = overview.read(write_page(tmp_path, toy, [*rows, Finding(fourth, 3.0, None, 1)]))
    assert made.lines == (
        Line("toy/T1", "delay, slow over fast", "+40 %", "+50 % ± 1", "explained"),
        Line("toy/T2", "delay of fast \\| s", "100", "99", "reproduced"),
        Line("toy/T2", "delay of no one", "1", "not measured", "not reproduced"),
        Line("toy/T3", "queue", "", "3", "no figure of the paper"),
    )
    assert (made.scale, made.whole) == ("paper", True)
    assert overview.unmade(toy, made) == []


def test_the_index(toy, tmp_path):
    write_page(tmp_path, toy, [Finding(claim, 0.5, None, 1) for claim in toy.claims])
    other = dataclasses.replace(toy, name="other", title="Another")
    index = overview.write(tmp_path, {"toy": toy, "other": other})
    text = index.read_text(encoding="utf-8")
    assert "| A toy | [toy.md](toy.md) | paper | 4 | 1 | 0 | 2 | 1 |" in text
    assert "| [toy/T1](toy.md) | delay, slow over fast | +40 % | +50 % | reproduced |  |" in text
    assert "| Another | none yet |" in text
    assert "There is no page yet of toy/T1, toy/T2, toy/T3" in text


def test_the_index_leads_to_the_curves(toy, tmp_path):
    """Those that show the paper's points first; none whose picture is not there."""
    one = toy.plots[0]
    point = PaperPoint("fast", 1.0, "Fig. 1")
    plots = [
        dataclasses.replace(one, name=name, title=name.title(), points=points)
        for name, points in (("ours", ()), ("both", (point,)), ("lost", (point,)))
    ]
    drawn = dataclasses.replace(toy, plots=tuple(plots))
    write_page(tmp_path, drawn, [])
    (tmp_path / page.picture(drawn, plots[-1])).unlink()
    text = overview.text(tmp_path, {"toy": drawn})
    assert "Curves beside the paper's points: [Both](toy-both.svg).\n" in text
    assert "Curves of ours: [Ours](toy-ours.svg).\n" in text
    assert "Lost" not in text


def test_the_index_says_why_a_figure_is_missed(toy, tmp_path):
    """The claim has the word, and the page the figure: one that is reproduced needs no cause."""
    claims = [dataclasses.replace(claim, note="why", cause="set-up") for claim in toy.claims[:2]]
    noted = dataclasses.replace(toy, claims=(*claims, *toy.claims[2:]))
    write_page(tmp_path, noted, [Finding(claim, 0.5, None, 1) for claim in noted.claims])
    text = overview.text(tmp_path, {"toy": noted})
    assert "| [toy/T1](toy.md) | delay, slow over fast | +40 % | +50 % | reproduced |  |" in text
    assert "| delay of fast \\| s | 100 | 0.5 | not reproduced | set-up |" in text
    assert "| delay of no one | 1 | 0.5 | not reproduced |  |" in text
    assert "| queue |  | 0.5 | no figure of the paper |  |" in text


def test_what_a_page_leaves_out_is_said(toy, tmp_path):
    whole = evaluation(tmp_path / "results", toy, toy.campaigns[:1], "small", None)
    first, second, *_ = toy.claims
    rows = [Finding(first, 0.5, None, 1), Finding(second, 1.0, None, 1)]
    page.write(tmp_path, whole.finished(), rows, Measured("small", [], []))
    text = overview.text(tmp_path, {"toy": toy})
    assert "**Not all of its runs have been run yet**" in text
    assert "rows were added**: toy/T2, delay of no one; toy/T3, queue." in text


def test_a_page_of_somebody_else(toy, tmp_path):
    (tmp_path / "toy.md").write_text("# Mine\n", encoding="utf-8")
    with pytest.raises(DamagedError, match=r"toy\.md is no page of"):
        overview.text(tmp_path, {"toy": toy})


def test_a_small_page_does_not_take_the_place_of_one_of_full_size(toy, tmp_path):
    overview.check_scale(tmp_path, [toy], "small")
    write_page(tmp_path, toy, [])
    overview.check_scale(tmp_path, [toy], "paper")
    with pytest.raises(ConfigurationError, match="is at scale paper: take --scale paper"):
        overview.check_scale(tmp_path, [toy], "small")


def test_the_index_that_is_published_says_what_the_pages_say():
    """If not, `reefcast-lab experiment report --finished --scale paper` writes it again."""
    assert (DOCS / overview.NAME).read_text(encoding="utf-8") == overview.text(DOCS, papers())
