"""What stands under the table: all strategies, all thetas, traffic by tier, our own engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reefcast.bench.matching.page import markdown
from reefcast.experiments.campaign import Measured, Point
from reefcast.experiments.covering import moving, own, processing, slow, unsubscribing, workflows
from reefcast.experiments.covering.measuring import STRATEGIES
from reefcast.experiments.covering.parameters import SLOW, section
from reefcast.experiments.numerals import short

NONE = "-"
"""Where nothing was measured."""

Columns = Sequence[tuple[str, str]]
"""(title, metric)."""


class _Found:
    """Means over seeds, with half the width of their intervals."""

    def __init__(self, measured: Measured) -> None:
        single = (point for point in measured.points if point.at == 0.0)
        self._points: dict[tuple[str, str, str, str, float], Point] = {
            (p.campaign, p.metric, p.routing, p.variant, p.x): p for p in single
        }

    def rows(self, campaign: str) -> list[tuple[float, str, str]]:
        """(x, strategy, variant) of its runs, in order."""
        found = {(x, r, v) for name, _, r, v, x in self._points if name == campaign}
        order = ("none", *STRATEGIES)
        return sorted(found, key=lambda one: (one[0], one[2], order.index(one[1])))

    def cell(self, campaign: str, metric: str, row: tuple[float, str, str]) -> str:
        x, routing, variant = row
        point = self._points.get((campaign, metric, routing, variant, x))
        if point is None:
            return NONE
        mean = short(point.mean)
        return f"{mean} ± {short(point.interval)}" if point.interval else mean

    def mean(self, campaign: str, metric: str, routing: str, x: float) -> float | None:
        point = self._points.get((campaign, metric, routing, "", x))
        return None if point is None else point.mean

    def table(self, campaign: str, x_name: str, columns: Columns) -> str:
        """A line for each strategy at each x."""
        lines = [
            [short(row[0]), f"{row[1]} {row[2]}".strip()]
            + [self.cell(campaign, metric, row) for _, metric in columns]
            for row in self.rows(campaign)
        ]
        titles = [x_name, "strategy", *(title for title, _ in columns)]
        return markdown(titles, lines, "rl" + "r" * len(columns))


def evidence(measured: Measured) -> list[str]:
    """Markdown, from everything measured."""
    found = _Found(measured)
    return [part for section in _sections(found, measured.scale) for part in section]


def _sections(found: _Found, scale: str) -> Iterable[list[str]]:
    yield _own(found, scale)
    yield [
        "### Broker time without unsubscriptions (C1)",
        "Seconds of CPU of the mean core broker, as in the paper's Table II. `subscriptions`: those "
        "that came to it; the paper's times divided by its costs for one give about 18 000 (active, "
        "lazy) and 21 000 (none).",
        found.table(
            processing.NAME,
            "subscriptions",
            (
                ("subscriptions came", "subscriptions"),
                ("matching", "matching_s"),
                ("covering", "covering_s"),
                ("unsubscriptions", "unsubscriptions_s"),
                ("publications", "publications_s"),
                ("all", "total_s"),
                ("rows of its PRT", "rows"),
            ),
        ),
    ]
    bursts: Columns = (
        ("mean delay, s", "mean_delay_s"),
        ("largest, s", "largest_delay_s"),
        ("steady, s", "steady_delay_s"),
        ("longest queue", "largest_queue"),
        ("NRS at A", "nrs_A"),
        ("B", "nrs_B"),
        ("C", "nrs_C"),
        ("D", "nrs_D"),
        ("E", "nrs_E"),
        ("other inner", "nrs_inner"),
        ("rows before", "rows_before"),
        ("rows after", "rows_after"),
        ("false positives", "false_positives"),
    )
    explanation = (
        "NRS: subscriptions that came to a broker in the place of others, from the first "
        "unsubscription on, for as long as was observed. With *incremental* most of them come late: "
        "a ghost whose false positives are more than a share 1 - theta of a hundred publications moves "
        "one hop towards the publishers, and what it stood for is sent that hop. Rows: PRT of the mean "
        "core broker. False positives: publications that a broker got and had no use for, in all."
    )
    yield [
        "### Unsubscriptions (C2 to C6)",
        explanation,
        found.table(unsubscribing.NAME, "unsubscriptions", bursts),
    ]
    yield ["### Covering degree (C7)", found.table(unsubscribing.DEGREE, "degree", bursts)]
    yield ["### Similarity threshold (C8)", found.table(unsubscribing.THETA, "theta", bursts)]
    spikes: Columns = (
        ("steady delay, s", "steady_delay_s"),
        ("after a sampler went, s", "spike_delay_s"),
        ("largest then, s", "largest_spike_delay_s"),
        ("longest queue", "largest_queue"),
        ("NRS sent", "nrs"),
        ("rows of a broker", "rows"),
        ("their change in 10 s", "rows_change"),
        ("false positives", "false_positives"),
    )
    for campaign, what in ((workflows.MADE, "Processes"), (workflows.LOGGED, "A real event log")):
        if found.rows(campaign):
            yield [
                f"### {what} (C9)",
                f"`{SLOW}`: with the slow engine of C10 in place of the paper's default one.",
                found.table(campaign, "size", spikes),
            ]
    probes: Columns = (
        ("delay of probes, s", "probe_delay_s"),
        ("its 10th percentile", "probe_delay_p10_s"),
        ("its 90th", "probe_delay_p90_s"),
        ("congested for, s", "congested_s"),
        ("longest queue", "largest_queue"),
        ("rows, core", "rows_core"),
        ("rows, inner", "rows_inner"),
        ("false positives", "false_positives"),
    )
    yield ["### A slow engine (C10)", found.table(slow.SLOW, "unsubscriptions", probes)]
    yield [found.table(slow.DEGREE, "degree", probes)]
    yield ["### Clusters (C11)", found.table(slow.CLUSTERED, "unsubscriptions", probes)]
    yield [
        "### Subscribers that move (C12)",
        "By tier, the core broker first: publications that the mean broker of the tier passed on to "
        "neighbours, and those that it got and had no use for.",
        found.table(
            moving.NAME,
            "moves a minute",
            (
                ("rows", "rows"),
                ("their deviation over time", "rows_deviation"),
                ("mean delay, s", "mean_delay_s"),
                ("longest queue", "largest_queue"),
                *((f"passed on, tier {n}", f"forwarded_{n}") for n in range(4)),
                *((f"false positives, tier {n}", f"false_positives_{n}") for n in range(4)),
            ),
        ),
    ]


# --- our own engine -------------------------------------------------------------------------------

CONGESTED_S = 1.0
"""Delays from here on are what we call congestion."""


def _own(found: _Found, scale: str) -> list[str]:
    columns: Columns = (
        ("mean delay, s", "mean_delay_s"),
        ("largest, s", "largest_delay_s"),
        ("longest queue", "largest_queue"),
    )
    entries = section("own", scale)
    parts = ["### What remains of the problem with our engine"]
    for campaign, rate in ((own.SLOWLY, entries.slow_rate), (own.FAST, entries.fast_rate)):
        parts.append(_statement(found, campaign, rate))
        parts.append(found.table(campaign, "degree", columns))
    return parts


def _statement(found: _Found, campaign: str, rate: float) -> str:
    sizes = sorted({x for x, _, _ in found.rows(campaign)})
    delays = [(x, found.mean(campaign, "largest_delay_s", "active", x)) for x in sizes]
    over = [x for x, delay_s in delays if delay_s is not None and delay_s > CONGESTED_S]
    what = (
        f"*active* holds publications back for more than {CONGESTED_S:g} s from {short(over[0])} "
        "subscriptions behind a root on, of the sizes measured"
        if over
        else f"*active* holds no publication back for {CONGESTED_S:g} s, at any size measured"
    )
    return (
        f"With the preset `measured`, at {short(rate)} publications a second, when two of four roots "
        f"go: {what}."
    )
