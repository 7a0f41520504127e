"""A paper's page and its plots, made from points and rows written by hand."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest
from toy_paper import toy_paper

from reefcast.experiments import page, plots
from reefcast.experiments.campaign import Point
from reefcast.experiments.evaluation import evaluation
from reefcast.experiments.table import Row

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def toy(tmp_path):
    paper = toy_paper(tmp_path / "toy")
    return evaluation(tmp_path / "results", paper, paper.campaigns[:1], "paper", None)


def rows(toy):
    first, second, *others = toy.paper.claims
    return [Row(first, 0.5, 0.01, 2), Row(second, 200.0, None, 1), Row(others[-1], 3.0, None, 1)]


def points():
    delays = [
        Point("sizes", "delay", routing, variant, x, 0.0, x * 2, 0.5, 2)
        for routing in ("fast", "slow")
        for variant in ("", "half")
        for x in (10.0, 20.0)
    ]
    return [*delays, *(Point("sizes", "queue", "fast", "", 10.0, at, at, None, 1) for at in (1, 2))]


def words(svg):
    root = ElementTree.fromstring(svg)
    return {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}


def test_the_page(toy, tmp_path):
    written = page.write(tmp_path / "docs", toy, rows(toy), points())
    assert sorted(path.name for path in written.parent.iterdir()) == [
        "toy-delay.svg",
        "toy-queue.svg",
        "toy.md",
    ]
    text = written.read_text(encoding="utf-8")
    assert text.startswith("<!-- made by `reefcast experiment report toy --scale paper`;")
    assert "All runs are toys." in text
    assert "(`parameters.toml`)" in text
    code = toy.store.code_versions["sizes"]
    assert f"| sizes | 10, 20, 30 brokers | fast, slow | preset | 2 | 12 | `{code}` |" in text
    assert "Of 2 figures 1 are reproduced, 0 explained, 1 neither." in text
    assert "| toy/T1 | delay, slow over fast | +40 % | +50 % ± 1 | 1.25 | reproduced |  |" in text
    assert "| toy/T2 | delay of fast \\| s | 100 | 200 | 2.00 | no | far |" in text
    assert "| toy/T3 | queue |  | 3 |  |  |  |" in text
    assert "### Delay\n\ntoy/T1, toy/T2\n\n![Delay](toy-delay.svg)" in text
    assert text.endswith("## Evidence\n\nThere are 10 points.\n")


def test_the_same_results_give_the_same_bytes(toy, tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        page.write(folder, toy, rows(toy), points())
    one, two = ([path.read_bytes() for path in sorted(f.iterdir())] for f in folders)
    assert one == two


def test_the_command_says_how_many_seeds_were_asked_for(toy):
    text = page.text(dataclasses.replace(toy, seeds=5), rows(toy), points())
    assert "Made by `reefcast experiment report toy --scale paper --seeds 5`:" in text


def test_a_paper_without_evidence_has_no_such_heading(toy):
    bare = dataclasses.replace(toy.paper, evidence=None, setting="")
    store = dataclasses.replace(toy.store, paper=bare)
    assert "Evidence" not in page.text(dataclasses.replace(toy, store=store), rows(toy), points())


def test_real_data_are_named(toy, tmp_path):
    data = tmp_path / "stocks.csv"
    data.write_text("IBM,1", encoding="utf-8")
    store = dataclasses.replace(
        toy.store, paper=dataclasses.replace(toy.paper, data=lambda: str(data))
    )
    text = page.text(dataclasses.replace(toy, store=store), rows(toy), points())
    assert f"The data are those of `stocks.csv` (hash `{store.data_version}`)." in text
    assert "The data are" not in page.text(toy, rows(toy), points())


def test_a_plot_over_x_has_a_panel_for_each_variant(toy):
    delay = toy.paper.plots[0]
    found = words(plots.draw(delay, points(), plots.looks(points()), "brokers"))
    assert {"fast", "slow", "half", "brokers", "s"} <= found


def test_a_plot_over_places_has_a_panel_for_each_x(toy):
    queue = toy.paper.plots[1]
    found = words(plots.draw(queue, points(), plots.looks(points()), "brokers"))
    assert {"fast", "10 brokers", "messages"} <= found
    assert "slow" not in found


def test_a_place_without_points_has_no_panel(toy):
    """Variant "half" was run at 20 brokers only, the preset at 10 only: two panels of four."""
    queue = toy.paper.plots[1]
    mine = [
        Point("sizes", "queue", "fast", variant, x, at, at, None, 1)
        for variant, x in (("", 10.0), ("half", 20.0))
        for at in (1.0, 2.0)
    ]
    found = words(plots.draw(queue, mine, plots.looks(mine), "brokers"))
    assert {"10 brokers", "20 brokers, half"} <= found
    assert not {"20 brokers", "10 brokers, half"} & found


def test_wide_intervals_do_not_stretch_the_scale(toy):
    point = Point("sizes", "delay", "fast", "", 10.0, 0.0, 4.0, 900.0, 2)
    found = words(plots.draw(toy.paper.plots[0], [point], plots.looks([point]), "brokers"))
    assert "4" in found and not {"200", "-200", "\N{MINUS SIGN}200"} & found


def test_a_plot_without_points_is_empty_axes(toy):
    assert "s" in words(plots.draw(toy.paper.plots[0], [], {}, "brokers"))


def test_a_routing_looks_the_same_in_all_plots():
    every = plots.looks(points())
    assert list(every) == ["fast", "slow"]
    assert every["fast"]["color"] != every["slow"]["color"]
