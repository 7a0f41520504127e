"""What stands under the table: our own engine first; all strategies, degrees and thetas; traffic by
tier."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reefcast_lab.bench.matching.page import markdown
from reefcast_lab.experiments.campaign import Measured, Point
from reefcast_lab.experiments.covering import (
    moving,
    own,
    processing,
    slow,
    unsubscribing,
    workflows,
)
from reefcast_lab.experiments.covering.measuring import STRATEGIES
from reefcast_lab.experiments.covering.parameters import SLOW, section
from reefcast_lab.experiments.covering.topology import tiered_topology
from reefcast_lab.experiments.numerals import short

NONE = "-"
"""Where nothing was measured."""

Row = tuple[float, str, str]
"""x, strategy and variant of a run."""
Columns = dict[str, str]
"""Metrics by title."""


class Found:
    """Single figures: means over seeds, with half the width of their intervals."""

    def __init__(self, measured: Measured) -> None:
        self.scale = measured.scale
        self._points: dict[tuple[str, str, str, str, float], Point] = {
            (p.campaign, p.metric, p.routing, p.variant, p.x): p
            for p in measured.points
            if p.at == 0.0
        }

    def rows(self, campaign: str) -> list[Row]:
        """Of what the campaign has measured, in order."""
        order = ("none", *STRATEGIES)
        found = {(x, r, v) for name, _, r, v, x in self._points if name == campaign}
        return sorted(found, key=lambda row: (row[0], row[2], order.index(row[1])))

    def xs(self, campaign: str) -> list[float]:
        return sorted({x for x, _, _ in self.rows(campaign)})

    def cell(self, campaign: str, metric: str, row: Row) -> str:
        x, routing, variant = row
        point = self._points.get((campaign, metric, routing, variant, x))
        if point is None:
            return NONE
        mean = short(point.mean)
        return f"{mean} ± {short(point.interval)}" if point.interval else mean

    def mean(self, campaign: str, metric: str, routing: str, x: float) -> float | None:
        """Of the preset; None where nothing was measured."""
        point = self._points.get((campaign, metric, routing, "", x))
        return None if point is None else point.mean

    def table(self, campaign: str, x_name: str, columns: Columns) -> str:
        """A line for each strategy at each x."""
        lines = [
            [short(row[0]), f"{row[1]} {row[2]}".strip()]
            + [self.cell(campaign, metric, row) for metric in columns.values()]
            for row in self.rows(campaign)
        ]
        return markdown([x_name, "strategy", *columns], lines, "rl" + "r" * len(columns))


def evidence(measured: Measured) -> list[str]:
    """Paragraphs and tables for the page; those of what was not measured are left out."""
    found = Found(measured)
    parts: tuple[tuple[str, Callable[[Found], list[str]]], ...] = (
        (own.SLOWLY, _ours),
        (processing.NAME, _processing),
        (unsubscribing.NAME, _unsubscribing),
        (unsubscribing.DEGREE, _degrees),
        (unsubscribing.THETA, _thetas),
        (workflows.MADE, _processes),
        (workflows.LOGGED, _log),
        (slow.SLOW, _slow),
        (slow.DEGREE, _slow_degrees),
        (slow.CLUSTERED, _clusters),
        (moving.NAME, _moving),
    )
    return [text for campaign, part in parts if found.rows(campaign) for text in part(found)]


# --- our own engine -------------------------------------------------------------------------------

CONGESTED_S = 1.0
"""Delays from here on are what we call congestion."""
LIVE = (
    "Live brokers show the same: `reefcast-lab burst`, and the table in "
    "[See it live](../explanation/covering.md#see-it-live)."
)


def _ours(found: Found) -> list[str]:
    columns = {
        "mean delay, s": "mean_delay_s",
        "largest, s": "largest_delay_s",
        "longest queue": "largest_queue",
    }
    entries = section("own", found.scale)
    parts = ["### What remains of the problem with our engine", _terms(found.scale)]
    for campaign, rate in ((own.SLOWLY, entries.slow_rate), (own.FAST, entries.fast_rate)):
        if found.rows(campaign):
            parts.append(f"At {short(rate)} publications a second: {_statement(found, campaign)}.")
            parts.append(found.table(campaign, "degree", columns))
    return [*parts, LIVE]


def _terms(scale: str) -> str:
    entries = section("own", scale)
    return (
        f"With the preset `measured`: 250 us for a subscription, some microseconds for a "
        f"publication. Of {entries.roots} roots, over ever more subscriptions each, "
        f"{entries.leavers} go at once. Congestion is what holds a publication back for more "
        f"than {CONGESTED_S:g} s."
    )


def _statement(found: Found, campaign: str) -> str:
    """From which size on *active* congests, and what *incremental* makes of it."""
    xs = found.xs(campaign)
    active, incremental = (
        {x: found.mean(campaign, "largest_delay_s", strategy, x) for x in xs}
        for strategy in unsubscribing.COMPARED
    )
    over = [x for x in xs if (active[x] or 0.0) > CONGESTED_S]
    sizes = f"with {_listed(map(short, xs))} subscriptions behind a root"
    return (
        f"{sizes} *active* holds publications back for at most {_seconds(active.values())}, "
        f"*incremental* for {_seconds(incremental.values())}: "
        f"{_listed(_times(active[x], incremental[x]) for x in xs)} times less. "
        + (
            f"So *active* congests from {short(over[0])} on, of these sizes"
            if over
            else "So *active* does not congest at any of these sizes"
        )
    )


def _seconds(delays_s: Iterable[float | None]) -> str:
    return _listed(NONE if one is None else f"{short(one)} s" for one in delays_s)


def _times(more: float | None, less: float | None) -> str:
    return short(more / less) if more and less else NONE


def _listed(texts: Iterable[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


# --- the paper's scenarios ------------------------------------------------------------------------


def _processing(found: Found) -> list[str]:
    columns = {
        "subscriptions came": "subscriptions",
        "matching": "matching_s",
        "covering": "covering_s",
        "unsubscriptions": "unsubscriptions_s",
        "publications": "publications_s",
        "all": "total_s",
        "rows of its PRT": "rows",
    }
    return [
        "### Broker time without unsubscriptions (C1)",
        "Seconds of CPU of the mean core broker, as in the paper's Table II. `subscriptions "
        "came`: the paper's times divided by its costs for one give about 18 000 (active, lazy) "
        "and 21 000 (none).",
        found.table(processing.NAME, "subscriptions", columns),
    ]


BURSTS = {
    "mean delay, s": "mean_delay_s",
    "largest, s": "largest_delay_s",
    "after five minutes, s": "steady_delay_s",
    "longest queue": "largest_queue",
    "rows before": "rows_before",
    "rows after": "rows_after",
    "false positives": "false_positives",
}
CAME = {
    **{f"NRS at {broker}": f"nrs_{broker}" for broker in "ABCDE"},
    "at the mean inner broker": "nrs_inner",
}


def _unsubscribing(found: Found) -> list[str]:
    return [
        "### Unsubscriptions (C2 to C6)",
        "Rows: PRT of the mean core broker. False positives: publications that a broker got and "
        "had no use for, in all, from the first unsubscription on.",
        found.table(unsubscribing.NAME, "unsubscriptions", BURSTS),
        "NRS: subscriptions that came to a broker in the place of others, from the first "
        "unsubscription on, for as long as was observed.",
        found.table(unsubscribing.NAME, "unsubscriptions", CAME),
    ]


def _degrees(found: Found) -> list[str]:
    return ["### Covering degree (C7)", found.table(unsubscribing.DEGREE, "degree", BURSTS)]


def _thetas(found: Found) -> list[str]:
    return [
        "### Similarity threshold (C8)",
        "The paper, for theta = 0.9, 0.5 and 0.1: at A 664, 154, 0; B 1 783, 0, 0; C 1 196, 0, "
        "0; D 1 276, 0, 0; E 1 543, 174, 0; at the other inner brokers 112, 92.7, 59.2; delay "
        "544, 477, 333 ms.",
        found.table(unsubscribing.THETA, "theta", CAME | BURSTS),
    ]


SPIKES = {
    "steady delay, s": "steady_delay_s",
    "after a sampler went, s": "spike_delay_s",
    "largest then, s": "largest_spike_delay_s",
    "longest queue": "largest_queue",
    "NRS sent": "nrs",
    "control messages": "control_messages",
    "rows of a broker": "rows",
    "their change in 10 s": "rows_change",
    "false positives": "false_positives",
}


def _processes(found: Found) -> list[str]:
    return [
        "### Processes (C9)",
        f"`{SLOW}`: with the slow engine of C10 in place of the paper's default one.",
        found.table(workflows.MADE, "size", SPIKES),
    ]


def _log(found: Found) -> list[str]:
    return ["### A real event log (C9)", found.table(workflows.LOGGED, "cases", SPIKES)]


PROBES = {
    "delay of probes, s": "probe_delay_s",
    "its 10th percentile": "probe_delay_p10_s",
    "its 90th": "probe_delay_p90_s",
    "congested for, s": "congested_s",
    "longest queue": "largest_queue",
    "rows, core": "rows_core",
    "rows, inner": "rows_inner",
    "false positives": "false_positives",
}


def _slow(found: Found) -> list[str]:
    entries = section("slow", found.scale)
    return [
        "### A slow engine (C10)",
        f"`congested for`: how long after the first unsubscription more than {entries.congested} "
        f"inputs waited at some core broker; it was watched for {short(watched_s(found.scale))} s.",
        found.table(slow.SLOW, "unsubscriptions", PROBES),
    ]


def watched_s(scale: str) -> float:
    """How long the slow engine is watched after the first unsubscription."""
    entries = section("slow", scale)
    return float(entries.publications * entries.publish_gap_s - entries.warm_s)


def _slow_degrees(found: Found) -> list[str]:
    return [found.table(slow.DEGREE, "degree", PROBES)]


def _clusters(found: Found) -> list[str]:
    return ["### Clusters (C11)", found.table(slow.CLUSTERED, "unsubscriptions", PROBES)]


TIERS = range(4)


def _moving(found: Found) -> list[str]:
    tables = {
        "rows": "rows",
        "their deviation over time": "rows_deviation",
        "mean delay, s": "mean_delay_s",
        "longest queue": "largest_queue",
    }
    traffic = {f"passed on, tier {n}": f"forwarded_{n}" for n in TIERS}
    traffic |= {f"false positives, tier {n}": f"false_positives_{n}" for n in TIERS}
    return [
        "### Subscribers that move (C12)",
        found.table(moving.NAME, "moves a minute", tables),
        f"By tier, the core broker first: publications that the mean broker of the tier passed "
        f"on to neighbours, and those that it got and had no use for. {_lowest(found)}",
        found.table(moving.NAME, "moves a minute", traffic),
    ]


def _lowest(found: Found) -> str:
    """Where the false positives of *incremental* are, as the tiers carry them."""
    brokers = [len(tier) for tier in tiered_topology().tiers]
    told = []
    for x in found.xs(moving.NAME):
        each = [found.mean(moving.NAME, f"false_positives_{n}", "incremental", x) for n in TIERS]
        total = [number * (mean or 0.0) for number, mean in zip(brokers, each, strict=True)]
        if sum(total):
            low = 100 * sum(total[2:]) / sum(total)
            told.append(f"{low:.0f} % (at {short(x)} moves a minute)")
    if not told:
        return ""
    return f"Of all false positives of *incremental*, the two lower tiers have {_listed(told)}."
