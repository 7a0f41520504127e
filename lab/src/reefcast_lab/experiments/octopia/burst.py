"""A burst: O12 and O13 (Figs 17 to 20), and the two limits of IDR.

All publishers publish all the time; some while after they began, one more (the paper's HRP) sends a
burst over the links of its broker. What is measured is when the network is as before, and how late
publications are until then.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np

from reefcast.model.publication import Value
from reefcast.overlay.scot import Scot
from reefcast.simulation.simulation import Result
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.columns import Delivered
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.octopia import passage
from reefcast_lab.experiments.octopia.grid import ALL, PAPER
from reefcast_lab.experiments.octopia.market import Market
from reefcast_lab.experiments.octopia.measuring import MeasuringKernel
from reefcast_lab.experiments.octopia.parameters import Wires, section
from reefcast_lab.experiments.octopia.points import curve, points, stable_after_s
from reefcast_lab.experiments.octopia.settling import (
    Population,
    Settled,
    after_settling,
    network_of,
    population_of,
    settle,
)
from reefcast_lab.experiments.parameters import Section

NAME = "burst"
VARIANTS = ("half", "double")
MINUTE_S = 60.0
CASES = ("idr_case_1", "idr_case_2", "idr_case_3")


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    made = runs_of(PAPER, NAME, scale, ALL, entries.x, entries.seeds)
    for variant in VARIANTS:
        made += runs_of(
            PAPER, NAME, scale, ALL, [entries.variants_x], entries.variant_seeds, variant
        )
    return made


def measure(run: Run) -> list[Measure]:
    return measured(run, section(NAME, run.scale))


def measured(run: Run, entries: Section, wired: Wires | None = None) -> list[Measure]:
    """Measure one burst; on the preset's wires unless others are given."""
    if wired is None:
        return after_settling(run, population(entries), partial(_measures, run, entries))
    return list(_measures(run, entries, settle(run, population(entries), wired)))


def population(entries: Section) -> Population:
    """Return the subscribers, their publishers, and the burst's."""
    return population_of(entries, entries.subscribers)._replace(burst_share=entries.burst_share)


def together(run: Run) -> str:
    """Return what runs have in common that differ only in the rate of the burst."""
    return network_of(run, population(section(NAME, run.scale)))


def _measures(run: Run, entries: Section, settled: Settled) -> Iterator[Measure]:
    overlay, crowd, at_s = settled.overlay, settled.crowd, settled.at_s
    simulated, kernel = settled.simulated, settled.kernel
    burst_s = kernel.watched_from_s = at_s + entries.before_s
    scheduled = schedule(crowd, run, entries, at_s)
    if passage.suits(kernel):
        passage.pass_on(kernel, scheduled)
    else:
        for when, name, broker, attributes in scheduled:
            simulated.publish(name, broker, attributes, when)
        simulated.advance()
    until_s = at_s + entries.publications * MINUTE_S / entries.largest_rate
    result = simulated.result()
    delivered = kernel.record.in_order()
    figures = (
        _of_points(delivered, burst_s, until_s, entries)
        | _of_deliveries(delivered, burst_s)
        | _of_messages(result, crowd, entries)
        | _of_queues(kernel, overlay, crowd, entries)
        | _limits_of_idr(kernel, overlay, run)
    )
    drawn = curve(*points(delivered, entries.point), burst_s, entries.curve_s)
    yield from (Measure(name, 0.0, value) for name, value in figures.items())
    yield from (Measure("largest_delay_s", since_s, delay_s) for since_s, delay_s in drawn)


def schedule(
    crowd: Market, run: Run, entries: Section, at_s: float
) -> Iterator[tuple[float, str, str, dict[str, Value]]]:
    """Yield (when, publisher, broker, attributes) of all publications. The rate of a publisher
    varies from each publication to the next; that of the burst is even."""
    rng = random.Random(f"{run.seed}/octopia/burst")
    for publisher in crowd.publishers:
        when = at_s + rng.uniform(0.0, MINUTE_S / entries.least_rate)
        for attributes in publisher.events(entries.publications):
            yield when, publisher.name, publisher.broker, attributes
            when += MINUTE_S / rng.uniform(entries.least_rate, entries.largest_rate)
    assert crowd.burst is not None
    for i, attributes in enumerate(crowd.burst.events(entries.burst)):
        when = at_s + entries.before_s + i * MINUTE_S / run.x
        yield when, crowd.burst.name, crowd.burst.broker, attributes


# --- what came of it ------------------------------------------------------------------------------


def _of_points(
    delivered: Delivered, burst_s: float, until_s: float, entries: Section
) -> dict[str, float]:
    """Measure when points are stable. For a run that never became stable, `stable_s` is the time
    until its end, a lower bound, and `stable` says so."""
    when, largest = points(delivered, entries.point)
    stable_s = stable_after_s(
        when,
        largest,
        burst_s,
        until_s=until_s,
        tolerance=entries.tolerance,
        window=entries.smooth,
    )
    stable = float(np.isfinite(stable_s))
    return {
        "stable_s": stable_s if stable else float(when[-1] - burst_s),
        "stable": stable,
        "level_s": float(np.median(largest[when < burst_s])),
        "worst_delay_s": float(largest.max()),
    }


def _of_deliveries(delivered: Delivered, burst_s: float) -> dict[str, float]:
    """Measure everything that was delivered since the start of the burst."""
    later = delivered.at_s >= burst_s
    delay_s, width = delivered.delay_s[later], delivered.width[later]
    return {
        "mean_delay_s": float(np.average(delay_s, weights=width)),
        "under_1_s": float(np.average(delay_s < 1.0, weights=width)),
    }


def _of_messages(result: Result, crowd: Market, entries: Section) -> dict[str, float]:
    wanted = sum(len(s.matches) for s in crowd.subscribers) * entries.publications
    wanted += sum(s.burst for s in crowd.subscribers) * entries.burst
    return {
        "messages": float(result.messages["publish"]),
        "suppressed_copies": float(result.discards.get("duplicate", 0)),
        "undelivered": float(wanted - result.delivered_subscriptions),
    }


def _of_queues(
    kernel: MeasuringKernel, overlay: Scot, crowd: Market, entries: Section
) -> dict[str, float]:
    """Measure the queues of target links when a publication was put on them, since the burst: of
    all, and the longest ever on aLinks and iLinks of the burst's own broker and of all others.
    Measure also what the busiest link, and the busiest sender, sent before the burst: the rest of
    the latter's rate is what drains it."""
    assert crowd.burst is not None
    longest: dict[str, int] = {}
    count = total = 0
    for (source, target), (put, lengths, most) in kernel.queues().items():
        count, total = count + put, total + lengths
        inside = overlay.places[source].cluster == overlay.places[target].cluster
        whose = "own" if source == crowd.burst.broker else "other"
        name = f"longest_{'a' if inside else 'i'}_link_queue_{whose}"
        longest[name] = max(most, longest.get(name, 0))
    return {
        "queue_len": total / max(count, 1),
        "busiest_link_per_s": max(kernel.count_before) / entries.before_s,
        "busiest_sender_per_s": kernel.busiest_before() / entries.before_s,
        **{name: float(most) for name, most in longest.items()},
    }


def _limits_of_idr(kernel: MeasuringKernel, overlay: Scot, run: Run) -> dict[str, float]:
    """Measure how often IDR met its two limits, and the queue that a copy had to wait behind. The
    counters of the routers are about their decisions between clusters; `a_link_crowded` is about
    all copies inside clusters."""
    if run.routing != "idr":
        return {}
    counters: Counter[str] = Counter()
    for node in kernel.nodes.values():
        counters.update(node.core.counters)
    decisions = max(1, sum(counters[case] for case in CASES))
    figures = {f"{case}_share": counters[case] / decisions for case in CASES}
    figures |= _crowded_a_links(kernel, overlay)
    figures["idr_decisions"] = float(sum(counters[case] for case in CASES))
    for limit in ("idr_overloaded_a_link", "idr_no_tree_link"):
        met = counters[limit]
        figures[limit] = float(met)
        figures[f"{limit}_queue"] = counters[f"{limit}_queue"] / max(1, met)
    return figures


def _crowded_a_links(kernel: MeasuringKernel, overlay: Scot) -> dict[str, float]:
    """Measure the copies that went onto an aLink behind more than tau others since the burst: how
    many, which share of all on aLinks, and how long it was until they were sent."""
    a_links = {edge for a, b in overlay.a_links for edge in ((a, b), (b, a))}
    put = sum(count for edge, (count, _, _) in kernel.queues().items() if edge in a_links)
    met = [figures for edge, figures in kernel.crowded().items() if edge in a_links]
    count = sum(count for count, _ in met)
    return {
        "a_link_crowded": float(count),
        "a_link_crowded_share": count / max(1, put),
        "a_link_crowded_wait_s": sum(seconds for _, seconds in met) / max(1, count),
    }


CAMPAIGN = Campaign(NAME, "publications/minute", runs, measure, together)
