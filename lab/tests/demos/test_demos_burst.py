"""The script of the demonstration of covering, its verdict, its figures and its page."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("matplotlib")

from reefcast.errors import ConfigurationError
from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.network.file import dump_network, read_network
from reefcast.traces.files import TraceRecorder
from reefcast_lab.demos.burst_figures import Delays, figures, judge
from reefcast_lab.demos.burst_live import Run, Status, Visit, read_control
from reefcast_lab.demos.burst_plots import binned
from reefcast_lab.demos.burst_report import conclusions, render, table
from reefcast_lab.demos.burst_script import (
    EVERYTHING,
    PROCESSES,
    SHARED,
    BurstOptions,
    Script,
    Step,
    make_network,
)

SMALL = BurstOptions(subscriptions=50, visits=1)
SCRIPT = Script(SMALL)
BROKERS = ("b1", "b2")


def some_steps(script: Script, count: int) -> list[Step]:
    return [step for step, _ in zip(script.steps(), range(count), strict=False)]


# --- the script -----------------------------------------------------------------------------------


@given(st.integers(len(PROCESSES), 80), st.integers(0, 9))
def test_who_must_get_what_is_what_the_filters_say(count: int, seed: int) -> None:
    script = Script(BurstOptions(subscriptions=count, seed=seed))
    steps = some_steps(script, 30)
    filters = [parse_filter(narrow.filter) for narrow in script.narrow]
    for step, wanted in zip(steps, script.wanted(steps), strict=True):
        event = Publication("p", 1, 0, {"process": step.process, "instance": step.instance})
        assert wanted == {i for i, filter in enumerate(filters) if filter.matches(event)}


def test_the_monitor_covers_every_narrow_subscription_and_they_not_one_another() -> None:
    everything = parse_filter(EVERYTHING)
    filters = [parse_filter(narrow.filter) for narrow in SCRIPT.narrow]
    assert all(covers(everything, filter) for filter in filters)
    assert not any(covers(a, b) for a in filters for b in filters if a is not b)


def test_an_event_is_shared_as_the_script_says() -> None:
    script = Script(BurstOptions(subscriptions=1000))
    wanted = script.wanted(some_steps(script, 4000))
    assert sum(map(len, wanted)) / len(wanted) == pytest.approx(SHARED, rel=0.1)


def test_one_seed_one_script() -> None:
    again, other = Script(SMALL), Script(replace(SMALL, seed=1))
    assert again.narrow == SCRIPT.narrow != other.narrow
    assert some_steps(again, 9) == some_steps(SCRIPT, 9) != some_steps(other, 9)


@pytest.mark.parametrize(
    "wrong",
    [
        BurstOptions(subscriptions=4),
        BurstOptions(subscriptions=100_001),
        BurstOptions(visits=0),
        BurstOptions(rate_per_s=0),
        BurstOptions(stay_s=0),
    ],
)
def test_options_out_of_range_are_refused(wrong: BurstOptions) -> None:
    with pytest.raises(ConfigurationError):
        wrong.validate()


@pytest.mark.live
def test_the_network_is_a_tree_with_the_strategy(tmp_path: Path) -> None:
    network = make_network(replace(SMALL, out=tmp_path), "incremental")
    assert read_network(dump_network(network)) == network
    assert (len(network.broker), len(network.link)) == (7, 6)
    assert network.routing == {"covering": "incremental"}


# --- a run that is made up ------------------------------------------------------------------------


def a_status(rows: int, nrs: int, forwarded: int) -> Status:
    return {
        name: {
            "tables": {"PRT": rows, "ghosts": 1},
            "counted": {"NRS": nrs, "false positives": 2 * nrs},
            "counters": {"forwarded": forwarded},
        }
        for name in BROKERS
    }


def a_run(covering: str = "active", slow_us: int = 90_000) -> Run:
    """Return a run of 400 events, one every 10 ms, which take 1 ms each. The monitor is there from
    number 100 to 200; events published up to 50 ms after it left take `slow_us`."""
    steps = some_steps(SCRIPT, 400)
    at_us = [10_000 * i for i in range(400)]
    delays_us = [slow_us if 2_000_000 <= at < 2_050_000 else 1000 for at in at_us]
    engines = [
        (seq, narrow, at_us[seq - 1], at_us[seq - 1] + delays_us[seq - 1])
        for seq, those in enumerate(SCRIPT.wanted(steps), 1)
        for narrow in sorted(those)
    ]
    stay = Counter(range(98, 203))
    visit = Visit(
        *(1_000_000, 1_005_000, 2_000_000, 2_100_000, 101, 200),
        stay,
        a_status(5, 0, 0),
    )
    return Run(
        covering,
        at_us,
        steps,
        engines,
        [visit],
        started=a_status(9, 3, 100),
        ended=a_status(8, 10, 500),
        control=[(1_000_100, "b1"), (2_000_100, "b2"), (2_000_200, "b2")],
    )


def test_a_run_without_fault_passes() -> None:
    verdict = judge(a_run(), SCRIPT)
    assert verdict.passed
    assert verdict.expected == len(a_run().engines) + 100


def test_each_fault_is_seen() -> None:
    run = a_run()
    first, second = run.engines[:2]
    run.engines.remove(first)
    run.engines.append(second)
    stranger = next(n for n in range(50) if (1, n) not in {row[:2] for row in a_run().engines})
    run.engines.append((1, stranger, 0, 1000))
    verdict = judge(run, SCRIPT)
    assert (verdict.lost, verdict.duplicated, verdict.unexpected) == (1, 1, 1)
    assert not verdict.passed


def test_the_monitor_must_get_what_is_published_while_it_stays() -> None:
    run = a_run()
    del run.visits[0].got[98], run.visits[0].got[202]  # while it came and went: it may miss them
    assert judge(run, SCRIPT).passed
    del run.visits[0].got[150]
    run.visits[0].got[151] += 1
    run.visits[0].got[401] += 1
    verdict = judge(run, SCRIPT)
    assert (verdict.lost, verdict.duplicated, verdict.unexpected) == (1, 1, 1)


def test_figures_of_a_run() -> None:
    found = figures(a_run(), SCRIPT)
    assert (found.p50_us, found.rest_p99_us, found.rest_longest_us) == (1000, 1000, 1000)
    assert (found.longest_coming_us, found.longest_going_us) == ([90_000], [90_000])
    assert (found.coming_s, found.going_s) == ([0.005], [0.1])
    assert (found.control, found.nrs, found.false_positives) == (3, 14, 28)
    assert (found.prt_with, found.prt_without, found.ghosts) == (10, 16, 2)
    assert found.copies == 2 * 400 / 400
    assert [each.control for each in found.brokers] == [1, 2]


def test_a_run_in_which_all_was_lost_has_figures_too() -> None:
    run = a_run()
    run.engines.clear()
    found = figures(run, SCRIPT)
    assert found.verdict.lost == len(a_run().engines)
    assert found.longest_us == found.p99_us == 0


def test_under_way_is_what_was_published_before_the_end_and_came_after_the_start() -> None:
    run = a_run()
    run.engines[:] = [(1, 0, 0, 10), (2, 0, 20, 60), (3, 0, 50, 55), (4, 0, 90, 95)]
    run.published_us[0] = 0
    assert list(Delays(run).under_way([(30, 52)])) == [False, True, True, False]
    assert list(Delays(run).under_way([])) == [False] * 4


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 99)), min_size=1))
def test_bins_have_the_median_and_the_largest(points: list[tuple[int, int]]) -> None:
    at, values = np.array(points).T
    names, medians, largest = binned(at, values, 100)
    by_bin: dict[int, list[int]] = {}
    for moment, value in points:
        by_bin.setdefault(moment // 100, []).append(value)
    assert list(names) == sorted(by_bin)
    for name, median, most in zip(names, medians, largest, strict=True):
        those = sorted(by_bin[name])
        assert (median, most) == (those[(len(those) - 1) // 2], those[-1])


def test_control_messages_are_those_between_brokers_in_the_span(tmp_path: Path) -> None:
    trace = TraceRecorder(tmp_path, "b1", "full")
    for at_us, link, message in (
        (5, "b2", "subscribe"),
        (10, "b2", "subscribe"),
        (11, "b2", "settled"),
        (12, "client-1", "subscribe"),
        (13, "b2", "replace"),
        (20, "b2", "unsubscribe"),
        (21, "b2", "unsubscribe"),
    ):
        trace.row("message", at_us, link, message, None, None, 9, 0)
    trace.flush()
    assert read_control(tmp_path, ["b1", "b2"], 10, 20) == [(10, "b1"), (13, "b1"), (20, "b1")]


# --- what is said of it ---------------------------------------------------------------------------


class Page(HTMLParser):
    """A parser that records the open tags, and the words."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """Handle SVG's empty tags."""


def test_the_page_is_whole_and_needs_no_other_file() -> None:
    runs = [a_run(), a_run("incremental", 2000)]
    found = [figures(run, SCRIPT) for run in runs]
    html = render(SMALL, SCRIPT, runs, found)
    assert Page(html).open == []
    assert not re.search(r"url\((?!#)|@import|<script|src=", html)
    for name, values in table(found):
        assert f"<td>{name}</td>".replace("'", "&#39;") in html
        assert all(value in html for value in values)
    assert "the monitor is there" in html
    assert "exactly once" in html
    assert render(SMALL, SCRIPT, runs, found) == html


def test_a_page_of_a_failure_says_so() -> None:
    runs = [a_run(), a_run("incremental")]
    del runs[0].engines[5:8]
    html = render(SMALL, SCRIPT, runs, [figures(run, SCRIPT) for run in runs])
    assert "exactly once" not in html
    assert "3 lost, 0 duplicated" in html


@pytest.mark.parametrize(
    ("slow_us", "fast_us", "words"),
    [
        (90_000, 3000, "30.0 times less"),
        (90_000, 60_000, "hardly helps"),
        (2000, 1000, "does not show"),
        (0, 0, "does not show"),
    ],
)
def test_the_conclusion_is_what_the_figures_say(slow_us: int, fast_us: int, words: str) -> None:
    active, incremental = (
        figures(a_run(covering, delay_us), SCRIPT)
        for covering, delay_us in (("active", slow_us), ("incremental", fast_us))
    )
    said = conclusions(active, incremental)
    assert words in said[0]
    assert "7 subscriptions" not in said[1] and "14 subscriptions" in said[1]
