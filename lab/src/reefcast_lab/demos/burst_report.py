"""The demonstration of covering in words and tables, and its page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from statistics import mean

from reefcast.pipeline import units
from reefcast.pipeline.page import Card, render_page
from reefcast_lab.demos import burst_plots
from reefcast_lab.demos.burst_figures import Figures
from reefcast_lab.demos.burst_live import Run
from reefcast_lab.demos.burst_script import (
    ENGINES,
    EVERYTHING,
    MONITOR,
    PUBLISHER,
    BurstOptions,
    Script,
)

SHOWS = 3.0
"""So many times what 99 % of the events take at rest: a longer delay is one that people see."""
SAVES = 0.5
"""At most this share of the other's longest delay."""

Say = Callable[[Figures], str]


def seconds(value: float) -> str:
    return units.duration(1e6 * value)


ROWS: tuple[tuple[str, Say], ...] = (
    ("events published", lambda f: units.count(f.published)),
    ("deliveries", lambda f: units.count(f.delivered)),
    (
        "lost, duplicated, unexpected",
        lambda f: f"{f.verdict.lost}, {f.verdict.duplicated}, {f.verdict.unexpected}",
    ),
    ("delay: 50 % within", lambda f: units.duration(f.p50_us)),
    ("delay: 99 % within", lambda f: units.duration(f.p99_us)),
    ("delay: longest", lambda f: units.duration(f.longest_us)),
    ("at rest: 99 % within", lambda f: units.duration(f.rest_p99_us)),
    ("at rest: longest", lambda f: units.duration(f.rest_longest_us)),
    ("longest when the monitor comes first", lambda f: units.duration(f.longest_coming_us[0])),
    (
        "longest when it comes again",
        lambda f: units.duration(max(f.longest_coming_us[1:], default=None)),
    ),
    ("longest when it goes", lambda f: units.duration(max(f.longest_going_us))),
    ("until all knew that it came (longest)", lambda f: seconds(max(f.coming_s))),
    ("until all knew that it went (longest)", lambda f: seconds(max(f.going_s))),
    ("control messages between brokers", lambda f: units.count(f.control)),
    ("NRS: sent in the monitor's place", lambda f: units.count(f.nrs)),
    ("PRT rows with the monitor", lambda f: units.count(f.prt_with)),
    ("PRT rows without it", lambda f: units.count(f.prt_without)),
    ("ghosts at the end", lambda f: units.count(f.ghosts)),
    ("false positives", lambda f: units.count(f.false_positives)),
    ("copies of an event between brokers", lambda f: f"{f.copies:.2f}"),
)
"""What the table says of each run."""


def table(found: Sequence[Figures]) -> list[tuple[str, list[str]]]:
    """Return a row for each figure: its name, and its value in each run."""
    return [(name, [say(each) for each in found]) for name, say in ROWS]


def conclusions(active: Figures, incremental: Figures) -> list[str]:
    """Return what the two runs show, and do not show, in plain sentences."""
    return [
        verdict(active, incremental),
        f"With active, {_going(active)} With incremental, {_going(incremental)}",
        f"When the monitor came for the first time, both had to withdraw all that it covers: an "
        f"event took up to {units.duration(active.longest_coming_us[0])} with active and "
        f"{units.duration(incremental.longest_coming_us[0])} with incremental."
        + _again(active, incremental),
        f"The price of incremental: {units.count(incremental.false_positives)} false positives "
        f"({units.count(active.false_positives)} with active) among "
        f"{units.count(incremental.published)} events, and {incremental.ghosts} "
        f"{'ghost' if incremental.ghosts == 1 else 'ghosts'} at the end. An event was copied "
        f"{incremental.copies:.2f} times between brokers, {active.copies:.2f} times with active. "
        f"The tables have {units.count(incremental.prt_without)} rows when the monitor has gone, "
        f"{units.count(active.prt_without)} with active.",
    ]


def verdict(active: Figures, incremental: Figures) -> str:
    """Return whether the burst shows, and whether incremental avoids it."""
    slow, fast = max(active.longest_going_us), max(incremental.longest_going_us)
    rest, times = units.duration(active.rest_p99_us), slow / max(fast, 1)
    if slow <= SHOWS * active.rest_p99_us:
        return (
            f"The burst does not show at this size: with active, no event took more than "
            f"{units.duration(slow)} when the monitor went, and at rest 99 % take up to {rest}. "
            "More subscriptions make it longer."
        )
    shown = (
        f"The burst shows: with active, an event took up to {units.duration(slow)} when the "
        f"monitor went; at rest 99 % take up to {rest}."
    )
    if fast > SAVES * slow:
        return f"{shown} Incremental hardly helps here: {units.duration(fast)}."
    return f"{shown} With incremental it was {units.duration(fast)}, {times:.1f} times less."


def _going(run: Figures) -> str:
    sent = units.count(run.nrs / len(run.going_s))
    return (
        f"the brokers sent {sent} subscriptions in the monitor's place each time it went, and it "
        f"took {seconds(mean(run.going_s))} until all of them knew."
    )


def _again(active: Figures, incremental: Figures) -> str:
    slow, fast = (max(each.longest_coming_us[1:], default=0) for each in (active, incremental))
    if not slow:
        return ""
    return (
        f" When it came again, {units.duration(slow)} and {units.duration(fast)}: incremental had "
        "not sent again what the monitor covers, and so had less to withdraw."
    )


# --- the page -------------------------------------------------------------------------------------


def render(
    options: BurstOptions, script: Script, runs: Sequence[Run], found: Sequence[Figures]
) -> str:
    """Return the page's HTML; `runs` and `found`: active, then incremental."""
    return render_page(
        "burst.html.j2",
        package="reefcast_lab.demos",
        title="A monitor that comes and goes",
        kind="live",
        cards=cards(*found),
        facts=facts(options, script, found),
        options=options,
        found=found,
        sentences=conclusions(*found),
        rows=table(found),
        timeline=burst_plots.timeline(runs),
        moments=burst_plots.moments(runs),
        places={"publisher": PUBLISHER, "monitor": MONITOR, "engines": ENGINES},
    )


def cards(active: Figures, incremental: Figures) -> list[Card]:
    """Return the headline figures."""
    verdicts = [each.verdict for each in (active, incremental)]
    passed = all(each.passed for each in verdicts)
    wrong = [
        sum(getattr(each, what) for each in verdicts)
        for what in ("lost", "duplicated", "unexpected")
    ]
    expected = units.count(sum(each.expected for each in verdicts))
    pair = (active, incremental)
    longest = " → ".join(units.duration(max(each.longest_going_us)) for each in pair)
    nrs = " → ".join(units.short(each.nrs / len(each.going_s)) for each in pair)
    return [
        Card(
            "exactly once" if passed else "failed",
            f"{expected} deliveries were due",
            f"{wrong[0]} lost, {wrong[1]} duplicated, {wrong[2]} unexpected, in both runs together",
            "good" if passed else "bad",
        ),
        Card(longest, "longest delay when the monitor goes", "active → incremental"),
        Card(nrs, "subscriptions sent in its place", "each time it goes; active → incremental"),
    ]


def facts(options: BurstOptions, script: Script, found: Sequence[Figures]) -> list[tuple[str, str]]:
    """Return how the runs were made."""
    example = script.narrow[0].filter
    late = units.duration(1e6 * max(each.late_s for each in found))
    settling = " and ".join(seconds(each.settling_s) for each in found)
    return [
        ("subscriptions", f"{units.count(options.subscriptions)} such as {example}"),
        ("the monitor's", EVERYTHING),
        ("until they had settled", f"{settling}, before anything was published"),
        ("publishing", f"{options.rate_per_s:g} events a second, at most {late} late"),
        (
            "visits",
            f"{options.visits}, {options.stay_s:g} s each, as long as the pauses between them",
        ),
        (
            "machine",
            f"{os.cpu_count()} cores for seven brokers, each a process, and one process with all "
            "clients; one clock",
        ),
        ("seed", str(options.seed)),
    ]
