"""A paper's page and its plots, from points and rows written by hand."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from toy_paper import toy_paper

from reefcast_lab.experiments import page, plots
from reefcast_lab.experiments.campaign import RUN_S, Measured, PaperPoint, Point, Value
from reefcast_lab.experiments.evaluation import evaluation
from reefcast_lab.experiments.table import Finding

THIN = "\N{NARROW NO-BREAK SPACE}"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def toy(tmp_path):
    paper = toy_paper(tmp_path / "toy")
    return evaluation(tmp_path / "results", paper, paper.campaigns[:1], "paper", None)


def rows(toy):
    first, second, *others = toy.paper.claims
    return [
        Finding(first, 0.5, 0.01, 2),
        Finding(second, 200.0, None, 1),
        Finding(others[-1], 3.0, None, 1),
    ]


def points():
    delays = [
        Point("sizes", "delay", routing, variant, x, 0.0, x * 2, 0.5, 2)
        for routing in ("fast", "slow")
        for variant in ("", "half")
        for x in (10.0, 20.0)
    ]
    return [*delays, *(Point("sizes", "queue", "fast", "", 10.0, at, at, None, 1) for at in (1, 2))]


def measured():
    seconds = (0.5, 1234.0, 7.0)
    values = [Value("sizes", RUN_S, "fast", "", 10.0, i, took) for i, took in enumerate(seconds)]
    return Measured("paper", points(), values)


def words(svg):
    root = ElementTree.fromstring(svg)
    return {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}


def test_the_page(toy, tmp_path):
    written = page.write(tmp_path / "docs", toy, rows(toy), measured())
    assert sorted(path.name for path in written.parent.iterdir()) == [
        "toy-delay.svg",
        "toy-queue.svg",
        "toy.md",
    ]
    text = written.read_text(encoding="utf-8")
    assert text.startswith("<!-- made by `reefcast-lab experiment report toy --scale paper`;")
    assert "All runs are toys." in text
    assert "(`parameters.toml`)" in text
    code = toy.store.versions["sizes"].code
    sizes = "| sizes | 10, 20, 30 brokers | fast, slow | preset | 2 | 12 |"
    assert f"{sizes} 0.5 to 1{THIN}234 | `{code}` |" in text
    assert "Of 2 figures 1 are reproduced, 0 explained, 1 neither." in text
    assert "| toy/T1 | delay, slow over fast | +40 % | +50 % ± 1 | 1.25 | reproduced |  |" in text
    assert "| toy/T2 | delay of fast \\| s | 100 | 200 | 2.00 | no | far |" in text
    assert "| toy/T3 | queue |  | 3 |  |  |  |" in text
    assert "### Delay\n\ntoy/T1, toy/T2\n\n![Delay](toy-delay.svg)" in text
    assert text.endswith("## Evidence\n\nThere are 10 points at scale paper.\n")


def test_the_same_results_give_the_same_bytes(toy, tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        page.write(folder, toy, rows(toy), measured())
    one, two = ([path.read_bytes() for path in sorted(f.iterdir())] for f in folders)
    assert one == two


def test_the_command_says_how_many_seeds_were_asked_for(toy):
    text = page.text(dataclasses.replace(toy, seeds=5), rows(toy), measured())
    assert "Made by `reefcast-lab experiment report toy --scale paper --seeds 5`:" in text


def test_a_paper_without_evidence_has_no_such_heading(toy):
    bare = dataclasses.replace(toy.paper, evidence=None, setting="")
    store = dataclasses.replace(toy.store, paper=bare)
    assert "Evidence" not in page.text(dataclasses.replace(toy, store=store), rows(toy), measured())


def test_routings_with_commas_in_their_names_are_told_apart(toy):
    runs = [run._replace(routing=f"{run.routing}, half") for run in toy.runs]
    both = dataclasses.replace(toy, runs=(*toy.runs, *runs))
    text = page.text(both, rows(toy), measured())
    assert "| fast; fast, half; slow; slow, half |" in text


def test_a_paper_without_curves_has_no_such_heading(toy):
    bare = dataclasses.replace(toy.paper, plots=())
    store = dataclasses.replace(toy.store, paper=bare)
    assert "Curves" not in page.text(dataclasses.replace(toy, store=store), rows(toy), measured())


def test_real_data_are_named(toy, tmp_path):
    data = tmp_path / "stocks.csv"
    data.write_text("IBM,1", encoding="utf-8")
    given = dataclasses.replace(toy.paper, data=lambda: str(data), data_variable="STOCKS")

    def text(paper):
        store = dataclasses.replace(toy.store, paper=paper)
        return page.text(dataclasses.replace(toy, store=store), rows(toy), measured())

    version = hashlib.sha256(b"IBM,1").hexdigest()[:12]
    assert f"The data are those of the file `stocks.csv` (hash `{version}`; `STOCKS`)." in text(
        given
    )
    generated = text(dataclasses.replace(given, data=str))
    assert "The data are generated: `STOCKS` named no file of real ones." in generated
    assert "The data are" not in text(toy.paper)


def test_a_page_without_times_of_runs(toy):
    bare = measured()._replace(values=[])
    assert "| 2 | 12 | - | `" in page.text(toy, rows(toy), bare)


def test_a_note_of_several_rows_stands_once_below_the_table(toy):
    first, second, *others = toy.paper.claims
    noted = [dataclasses.replace(claim, note="links | differ") for claim in (first, second)]
    noted[1] = dataclasses.replace(noted[1], of="fast", settled="stable")
    found = [Finding(noted[0], 0.5, None, 1), Finding(noted[1], 200.0, None, 1, ("fast",))]
    text = page.text(toy, [*found, Finding(others[0], 1.0, None, 1)], measured())
    assert "| +50 % | 1.25 | reproduced | note 1 |" in text
    bound = "note 1; a lower bound: some runs of fast were not stable before their end"
    assert f"| ≥ 200 | 2.00 | no | {bound} |" in text
    assert text.count("links") == 1
    assert "Note 1 (toy/T1, toy/T2): links | differ.\n\n## Curves" in text


def test_a_plot_over_x_has_a_panel_for_each_variant(toy):
    delay = toy.paper.plots[0]
    found = words(plots.draw(delay, points(), plots.looks(points()), "brokers"))
    assert {"fast", "slow", "half", "brokers", "s"} <= found


def test_a_plot_is_in_the_unit_of_its_label(toy):
    delay = dataclasses.replace(toy.paper.plots[0], times=1000.0)
    found = words(plots.draw(delay, points(), plots.looks(points()), "brokers"))
    assert "40k" in found and "40" not in found


def test_a_logarithmic_plot_leaves_out_values_of_0(toy, monkeypatch):
    def svg(width, height, panels):
        figure = Figure()
        panels(figure)
        return figure

    monkeypatch.setattr(plots, "svg", svg)
    delay = dataclasses.replace(toy.paper.plots[0], log=True)
    means = {10.0: 3.0, 100.0: 0.0, 1000.0: 300.0}
    mine = [Point("sizes", "delay", "fast", "", x, 0.0, y, None, 1) for x, y in means.items()]
    (axes,) = plots.draw(delay, mine, plots.looks(mine), "brokers").axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_lines()[0].get_xdata().tolist() == [10.0, 1000.0]


def test_a_plot_over_places_has_a_panel_for_each_x(toy):
    queue = toy.paper.plots[1]
    found = words(plots.draw(queue, points(), plots.looks(points()), "brokers"))
    assert {"fast", "10 brokers", "messages"} <= found
    far = [point._replace(x=60_000.0) for point in points() if point.metric == "queue"]
    assert f"60{THIN}000 brokers" in words(plots.draw(queue, far, plots.looks(far), "brokers"))
    assert "slow" not in found


def height(svg):
    return float(re.search(r'height="([\d.]+)pt"', svg)[1])


def test_a_place_without_points_has_no_panel(toy):
    """Variant "half" was run at 20 brokers only, the preset at 10 only: two panels of four."""
    queue = toy.paper.plots[1]
    mine = [
        Point("sizes", "queue", "fast", variant, x, at, at, None, 1)
        for variant, x in (("", 10.0), ("half", 20.0))
        for at in (1.0, 2.0)
    ]
    drawn = plots.draw(queue, mine, plots.looks(mine), "brokers")
    found = words(drawn)
    assert {"10 brokers", "20 brokers, half"} <= found
    assert not {"20 brokers", "10 brokers, half"} & found
    all_of_them = [point._replace(variant=variant) for point in mine for variant in ("", "half")]
    full = plots.draw(queue, all_of_them, plots.looks(mine), "brokers")
    assert height(drawn) < height(full)  # one line of panels beside two


def test_wide_intervals_do_not_stretch_the_scale(toy):
    point = Point("sizes", "delay", "fast", "", 10.0, 0.0, 4.0, 900.0, 2)
    found = words(plots.draw(toy.paper.plots[0], [point], plots.looks([point]), "brokers"))
    assert "4" in found and not {"200", "-200", "\N{MINUS SIGN}200"} & found


def drawn(svg):
    """Return the places of all marks and ends of lines in a plot, by the group that they are in."""
    root = ElementTree.fromstring(svg)
    groups = {}
    for group in root.iter(f"{SVG}g"):
        marks = [(use.get("x"), use.get("y")) for use in group.iter(f"{SVG}use")]
        lines = [path.get("d", "").split() for path in group.iterfind(f"{SVG}path")]
        groups[group.get("id", "")] = marks, [(d[1], d[2], d[-2], d[-1]) for d in lines if d]
    return groups


def with_points(plot, *stated):
    return dataclasses.replace(plot, points=tuple(PaperPoint(*one) for one in stated))


def test_a_paper_s_point_is_drawn_at_its_place(toy):
    """Ours are 20 at x = 10 and 40 at x = 20: the same figures of a paper lie upon them."""
    stated = with_points(
        toy.paper.plots[0],
        ("fast", 20.0, "Fig. 1", 10.0),
        ("fast", 40.0, "Fig. 1", 20.0),
        ("slow", 40.0, "text"),
        ("slow", 2.0, "text: twice as long", 10.0, None, "fast"),
        ("nobody", 1.0, "text", 10.0),
    )
    mine = [point for point in points() if not point.variant]
    svg = plots.draw(stated, mine, plots.looks(mine), "brokers")
    groups = drawn(svg)
    ours = {at for name, (marks, _) in groups.items() if "line2d" in name for at in marks}
    [first], [second], [twice] = (groups[f"paper-{number}"][0] for number in (0, 1, 3))
    assert {first, second} <= ours
    assert twice == (first[0], second[1])
    [(_, left, _, right)] = groups["paper-2"][1]
    assert left == right == second[1]
    assert "paper-4" not in groups
    assert {"paper", "paper: mean or peak", "paper: ratio to ours"} <= words(svg)


def test_a_paper_s_points_stand_in_their_panels_beside_the_preset(toy):
    mine = [
        Point("sizes", "queue", "fast", variant, x, at, at, None, 1)
        for variant in ("", "half")
        for x in (10.0, 20.0)
        for at in (1.0, 2.0)
    ]
    stated = with_points(
        toy.paper.plots[1],
        ("fast", 1.5, "Fig. 2", 1.5, 20.0),
        ("fast", 3.0, "Fig. 3"),
        ("fast", 2.0, "text", None, 10.0, "fast"),
    )
    svg = plots.draw(stated, mine, plots.looks(mine), "brokers")
    names = sorted(re.findall('id="(paper-[^"]*)"', svg))
    assert names == ["paper-0-20", "paper-1-10", "paper-1-20", "paper-2-10"]


def test_the_scale_has_room_for_a_paper_s_points(toy):
    stated = with_points(toy.paper.plots[0], ("fast", 4000.0, "Fig. 1", 20.0))
    assert "4k" in words(plots.draw(stated, points(), plots.looks(points()), "brokers"))


def test_the_page_says_where_a_paper_s_points_stand(toy):
    stated = with_points(
        toy.paper.plots[0],
        ("fast", 40.0, "Table 1", 20.0),
        ("slow", 30.0, "Table 1", 20.0),
        ("slow", 9.0, "Fig. 2, the mean"),
    )
    said = page.curve(toy.paper, stated)
    assert said.endswith("the paper states in numbers: Table 1; Fig. 2, the mean.")
    assert "Hollow" not in page.curve(toy.paper, toy.paper.plots[0])


def test_a_plot_without_points_is_empty_axes(toy):
    assert "s" in words(plots.draw(toy.paper.plots[0], [], {}, "brokers"))


def test_a_routing_looks_the_same_in_all_plots():
    every = plots.looks(points())
    assert list(every) == ["fast", "slow"]
    assert every["fast"]["color"] != every["slow"]["color"]


def many(count):
    names = [f"routing number {i:02}" for i in range(count)]
    return [Point("sizes", "delay", name, "", 10.0, 0.0, 4.0, None, 1) for name in names]


def test_more_routings_than_colours_look_different_all_the_same():
    every = plots.looks(many(20)).values()
    assert len({tuple(sorted(look.items())) for look in every}) == 20
    assert [look["linestyle"] for look in every] == ["-"] * 8 + ["--"] * 12


def test_a_legend_is_as_wide_as_its_plot(toy):
    """Seven long names stand in several lines, none of them outside the picture."""
    svg = plots.draw(toy.paper.plots[0], many(7), plots.looks(many(7)), "brokers")
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])
    places = [float(x) for x in re.findall(r'x="([\d.]+)"[^>]*>routing number', svg)]
    assert len(places) == 7
    assert max(places) < 0.8 * width
    assert len(set(places)) < 7
