"""The demo's page: what it adds to the page of a trace, without Spark."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("matplotlib")

from analyses import Page, an_analysis
from reefcast.pipeline.report import Report
from reefcast_lab.demos.check import Check
from reefcast_lab.demos.costs import Flooding, compare
from reefcast_lab.demos.demo_report import DemoReport, check_cards, render

PASSED = Check(50, 50, 0, 0, 120, 120, 0, 0, 0)
COSTS = compare(an_analysis(), events=50, clients=6, flooding=Flooding(10, 20))


def test_page_is_whole_and_needs_no_other_file():
    html = render(DemoReport(Report("Flights", an_analysis(), {"a": "JFK"}), PASSED, COSTS))
    page = Page(html)
    assert page.open == []
    assert all(reference.startswith(("#", "data:")) for reference in page.references)
    assert not re.search(r"url\((?!#)|@import|<script", html)
    assert len(set(page.ids)) == len(page.ids)
    order = ("exactly as Spark SQL says", "fewer messages than flooding", "What it saved")
    places = [html.index(words) for words in (*order, "The check against", "Messages per broker")]
    assert places == sorted(places)


def test_examples_of_a_failed_check_are_shown():
    example = {"event": 3, "subscription": 7, "filter": "dest = 'SFO' AND x < 1", "delivered": 0}
    check = Check(50, 50, 0, 0, 120, 119, 1, 0, 0, {"lost": [example]})
    report = DemoReport(Report("Demo", an_analysis()), check, COSTS)
    assert "dest = &#39;SFO&#39; AND x &lt; 1" in render(report)
    assert (check_cards(check)[0].value, check_cards(check)[0].tone) == ("failed", "bad")


def test_costs():
    routed, flooded, filtering = compare(
        an_analysis(), events=50, clients=6, flooding=Flooding(10, 20)
    )
    assert (routed.link_messages, routed.link_bytes) == (40, 4000)
    assert (routed.client_messages, routed.client_bytes) == (90, 8100)
    assert (flooded.link_messages, flooded.link_bytes) == (100, 10_000)
    assert (filtering.client_messages, filtering.messages) == (300, 400)
    assert "10 events scaled up" in flooded.how
