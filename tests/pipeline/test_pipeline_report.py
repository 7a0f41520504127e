"""The page of an analysis and its figures, without Spark."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("matplotlib")

import itertools

import msgspec
from click.testing import CliRunner

from analyses import Page, an_analysis
from reefcast.cli.analyze import command, print_tables, title_of
from reefcast.errors import ConfigurationError
from reefcast.overlay.scot import scot
from reefcast.overlay.topology import edges_of, path
from reefcast.pipeline import units
from reefcast.pipeline.layout import positions
from reefcast.pipeline.report import Report, cases, render

EMPTY = {
    "delays": {
        name: 0 if name == "count" else None
        for name in ("count", "mean", "p50", "p90", "p99", "p999", "max")
    },
    **{
        name: []
        for name in ("delay_bins", "delays_by_hops", "messages", "tables", "discards", "queues")
    },
}


@pytest.mark.long
def test_page_is_whole_and_needs_no_other_file():
    html = render(Report("A <b>title</b>", an_analysis(), {"a": "publishes JFK"}))
    page = Page(html)
    assert page.open == []
    assert all(reference.startswith(("#", "data:")) for reference in page.references)
    assert not re.search(r"url\((?!#)|@import|<script", html)
    assert len(set(page.ids)) == len(page.ids)
    assert "A &lt;b&gt;title&lt;/b&gt;" in html
    assert "publishes JFK" in html


def a_scot_run(clusters, **changes):
    made = scot(path(["x", "y"]), clusters)
    rows = [
        {"broker": n, "published": 5, "sent": 3, "deliveries": 30, "matching_ns": 900}
        for n in made.graph
    ]
    links = [
        {"a": a, "b": b, "publications": 100 + i, "control": 4, "size_bytes": 3100}
        for i, (a, b) in enumerate(edges_of(made.graph))
    ]
    run = {
        "simulated": False,
        "routing": "idr",
        "brokers": list(made.graph),
        "links": [list(edge) for edge in edges_of(made.graph)],
        "places": msgspec.to_builtins(made.places),
    }
    return an_analysis(run=run, brokers=rows, links=links, **changes)


@pytest.mark.long
def test_page_of_a_scot_says_what_it_is_and_what_dynamic_routing_did():
    analysis = a_scot_run(
        4,
        counters=[{"counter": "idr_case_1", "count": 123}, {"counter": "published", "count": 9}],
        overloaded=[
            {"broker": "x-0", "link": "x-1", "count": 7},
            {"broker": "x-2", "link": "y-2", "count": 45},
        ],
    )
    html = render(Report("A SCOT", analysis, notes={"x-0": "publishes JFK"}))
    page = Page(html)
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    for words in (
        *("4 clusters, each a copy", "region y", "cluster 3", "CLT: advertisements"),
        "copies of other decisions are not counted",
    ):
        assert words in html
    assert html.index("x-2 to y-2") < html.index("x-0 to x-1")
    assert [row[:2] for row in cases(analysis)][:2] == [
        ("decisions, case I", 123),
        ("decisions, case II", 0),
    ]
    for link in analysis.links:
        assert f">{link['publications']}<" in html


@pytest.mark.long
def test_page_of_a_static_run_or_without_overload_does_not_talk_of_detours():
    assert "No decision met an overloaded link" in render(Report("Calm", a_scot_run(2)))
    assert "dynamic routing" not in render(Report("Tree", an_analysis()))


@pytest.mark.long
def test_page_of_a_trace_without_details():
    html = render(Report("Counters", an_analysis(**EMPTY)))
    assert Page(html).open == []
    assert "The overlay" in html


@pytest.mark.long
def test_page_shows_the_whole_run_and_its_course():
    html = render(Report("Run", an_analysis()))
    assert "<td>body_bytes</td>" in html and ">seconds of the run<" in html
    once = an_analysis(seconds=an_analysis().seconds[:1], totals=[])
    assert "Over time" not in render(Report("Run", once))


@pytest.mark.long
def test_same_input_same_page():
    report = Report("Demo", an_analysis())
    assert render(report) == render(report)


def test_neighbours_are_drawn_next_to_each_other():
    place = positions(["a", "b", "c", "d"], [("a", "b"), ("b", "c"), ("c", "d")])
    xs = [place[name][0] for name in "abcd"]
    assert xs in (sorted(xs), sorted(xs, reverse=True))
    assert all(0.9 < abs(left - right) < 1.1 for left, right in itertools.pairwise(xs))
    assert positions(["a"], []) == {"a": (0.0, 0.0)}


def test_units():
    assert units.count(1234567) == "1\u202f234\u202f567"
    assert [units.duration(us) for us in (7, 850, 1234, 54_321, 2_000_000, None)] == [
        "7 µs",
        "850 µs",
        "1.23 ms",
        "54.3 ms",
        "2 s",
        "–",
    ]
    assert [units.size(b) for b in (12, 3_100_000_000)] == ["12 B", "3.10 GB"]
    assert [units.short(n) for n in (0, 950, 12_340)] == ["0", "950", "12.3k"]
    assert units.percent(0.493) == "49 %"


def test_analyze_prints_tables(capsys):
    print_tables(an_analysis())
    printed = capsys.readouterr().out
    assert "90 deliveries to clients: 50 % within 1.20 ms" in " ".join(printed.split())
    assert "a - b" in printed


def test_analyze_says_at_once_that_there_is_no_trace(tmp_path):
    result = CliRunner().invoke(command, [str(tmp_path)])
    assert isinstance(result.exception, ConfigurationError)
    assert "holds no trace" in str(result.exception)


@pytest.mark.long
def test_the_faults_of_a_simulated_run_are_marked():
    faults = [
        {"what": "b is down", "from_s": 8.0, "to_s": None},
        {"what": "cut on every link", "from_s": 8.5, "to_s": 8.5},
        {"what": "delay on a – b", "from_s": 100.0, "to_s": 107.0},
    ]
    run = an_analysis().run
    plain = render(Report("Run", an_analysis()))
    html = render(Report("Run", an_analysis(run=run | {"simulated": True, "faults": faults})))
    assert "Shaded" in html and "Shaded" not in plain
    assert "<td>b is down</td>" in html and "8 s</td>" in html and "the end</td>" in html
    shaded = 2 * (len(faults) - 1)  # in each of two plots, but for the one behind the end
    assert (
        html.count("stroke-dasharray: 3.7,1.6") - plain.count("stroke-dasharray: 3.7,1.6") == shaded
    )


@pytest.mark.long
def test_one_of_a_thing_is_no_plural():
    run = an_analysis().run | {"brokers": ["a", "b"], "links": [["a", "b"]]}
    whole = an_analysis()
    one = an_analysis(run=run, links=whole.links[:1], brokers=whole.brokers[:2])
    assert "2 brokers, 1 link, routing" in render(Report("Run", one))


def test_a_title_that_nobody_gave_names_the_network():
    run = an_analysis().run
    assert title_of(run) == "Run of 3 brokers"
    assert title_of(run | {"simulated": True, "network": "office"}) == "Simulated run of office"
