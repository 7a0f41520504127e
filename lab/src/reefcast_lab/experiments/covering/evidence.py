"""What the covering paper's evidence computes: our own engine, and false positives by tier."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reefcast_lab.experiments.covering import moving, own, unsubscribing
from reefcast_lab.experiments.covering.parameters import section
from reefcast_lab.experiments.covering.topology import tiered_topology
from reefcast_lab.experiments.evidence_tables import NONE, Found
from reefcast_lab.experiments.numerals import short

CONGESTED_S = 1.0
"""Delays from here on are what we call congestion."""
TIERS = range(4)


def statement(found: Found, campaign: str) -> str:
    """Return the sentence on the size from which *active* congests, and on what *incremental* does
    there."""
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


def watched_s(scale: str) -> float:
    """Return how long the slow engine is watched after the first unsubscription."""
    entries = section("slow", scale)
    return float(entries.publications * entries.publish_gap_s - entries.warm_s)


def lowest(found: Found) -> str:
    """Return the sentence on where the false positives of *incremental* are, as the tiers carry
    them."""
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


COMPUTED: dict[str, Callable[[Found], object]] = {
    "roots": lambda found: section("own", found.scale).roots,
    "leavers": lambda found: section("own", found.scale).leavers,
    "congested_s": lambda _: f"{CONGESTED_S:g}",
    "slowly_is": lambda found: statement(found, own.SLOWLY),
    "fast_is": lambda found: statement(found, own.FAST),
    "congested": lambda found: section("slow", found.scale).congested,
    "slow_watched_s": lambda found: short(watched_s(found.scale)),
    "lowest": lowest,
}
"""What texts of the page name."""
