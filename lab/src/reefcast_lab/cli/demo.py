"""`reefcast-lab demo`: real events over a live network, checked by Spark, with a report."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.options import (
    clusters_option,
    json_option,
    master_option,
    seed_option,
    tree_option,
)
from reefcast_lab.cli.options import (
    data_option,
    events_option,
    out_option,
    rate_option,
    whole_option,
)

if TYPE_CHECKING:
    from reefcast_lab.demos.demo import Summary


@click.command(
    epilog="Exit codes: 0 the check passed; 1 something was lost, duplicated or unexpected."
)
@tree_option("path:3")
@clusters_option(4)
@events_option("6000")
@whole_option("--subscriptions", 1000, "Subscriptions, in all.")
@rate_option(1200.0)
@seed_option
@out_option("out/demo", "Write logs, traces and the report into this directory.")
@data_option
@master_option
@click.option(
    "--prepare",
    is_flag=True,
    help="Only make what a demo needs and keeps (the events, compiled kernels), and end.",
)
@json_option("the summary")
def command(
    events: int,
    subscriptions: int,
    tree: str,
    clusters: int,
    rate: float,
    seed: int,
    out: Path,
    data: Path,
    master: str,
    prepare: bool,
    as_json: bool,
) -> None:
    """Carry real events over a network of brokers, check the result with Spark, report.

        reefcast-lab demo --events 10000

    Flights out of New York are replayed over brokers on this machine, each a process, to
    subscribers with generated filters. Spark SQL says independently who must get what.
    """
    from reefcast.pipeline.session import check_java
    from reefcast_lab.demos.demo import DemoOptions, prepare_demo, run_demo

    check_java()
    if prepare:
        prepare_demo(data, master)
        return
    options = DemoOptions(events, subscriptions, tree, clusters, rate, seed, out, data, master)
    show = Terminal(options.events, quiet=as_json)
    summary = run_demo(options, show)
    if as_json:
        click.echo(json.dumps(as_dict(summary)))
    else:
        click.echo("\n".join(lines(summary)))
    sys.exit(DONE if summary.check.passed else NO)


class Terminal:
    """Steps and progress bars on standard error; bars only where somebody watches."""

    def __init__(self, events: int, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._quiet = quiet
        self._console = Console(stderr=True, quiet=quiet)
        bars = (
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<34}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:>9,.0f}"),
        )
        watched = self._console.is_terminal and not quiet
        self._bars = Progress(*bars, console=self._console, disable=not watched)
        self._started_s = time.monotonic()
        self._said_first = False
        self._published = self._bars.add_task("  events published", total=events, visible=False)
        self._delivered = self._bars.add_task("  delivered", total=None, visible=False)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self._console.print(f"[bold]•[/bold] {name}", highlight=False)
        with self._bars:
            yield
        for task in (self._published, self._delivered):
            self._bars.update(task, visible=False)

    def replayed(self, published: int, delivered: int) -> None:
        if delivered and not self._said_first:
            self._said_first = True
            after_s = time.monotonic() - self._started_s
            self._console.print(
                f"  first figures after {after_s:.0f} s: {published:,} events published, "
                f"{delivered:,} delivered",
                highlight=False,
            )
        self._bars.update(self._published, completed=published, visible=True)
        self._bars.update(self._delivered, completed=delivered, visible=True)


def as_dict(summary: Summary) -> dict[str, Any]:
    """Return the summary for programs."""
    check, delays = summary.check, summary.analysis.delays
    return {
        "passed": check.passed,
        "published": check.published,
        "expected": check.expected,
        "delivered": check.delivered,
        "lost": check.lost,
        "duplicated": check.duplicated,
        "unexpected": check.unexpected,
        "unpublished": check.unpublished,
        "published_wrongly": check.published_wrongly,
        "brokers": len(summary.analysis.run["brokers"]),
        "subscriptions": summary.options.subscriptions,
        "delay_p50_us": delays["p50"],
        "delay_p99_us": delays["p99"],
        "link_messages": summary.analysis.link_publications,
        "flooding_link_messages": summary.costs[1].link_messages,
        **routing_counts(summary),
        "publishing_s": round(summary.timing.publishing_s, 1),
        "steps_s": summary.steps,
        "seconds": summary.seconds,
        "report": str(summary.options.report),
    }


def routing_counts(summary: Summary) -> dict[str, int]:
    """Return how often dynamic routing did what, by counter; zeros too."""
    from reefcast.pipeline.report import CASES

    found = {row["counter"]: row["count"] for row in summary.analysis.counters}
    return {counter: found.get(counter, 0) for _, counter, _ in CASES}


def lines(summary: Summary) -> list[str]:
    """Return eleven lines for people."""
    from reefcast.pipeline.units import count, duration, percent, size
    from reefcast_lab.demos.demo import ORIGINS

    check, analysis, options = summary.check, summary.analysis, summary.options
    routed, flooded, filtering = summary.costs
    saved = percent(1 - routed.link_messages / max(flooded.link_messages, 1))
    rate = check.published / summary.timing.publishing_s
    brokers = len(analysis.run["brokers"])
    detours = sum(n for name, n in routing_counts(summary).items() if "_case_" in name)
    return [
        "",
        f"check        {'passed' if check.passed else 'FAILED'}: {count(check.lost)} lost, "
        f"{count(check.duplicated)} duplicated, {count(check.unexpected)} unexpected",
        f"expected     {count(check.expected)} matches of event and subscription, says Spark SQL",
        f"delivered    {count(check.delivered)}, as the subscribers logged",
        f"published    {count(check.published)} events by {len(ORIGINS)} programs, "
        f"{count(rate)} a second",
        f"network      {options.clusters} clusters of {brokers // options.clusters} brokers, "
        f"{count(options.subscriptions)} subscriptions",
        f"delay        50 % within {duration(analysis.delays['p50'])}, "
        f"99 % within {duration(analysis.delays['p99'])}",
        f"detours      {count(detours)} decisions met overloaded links between clusters",
        f"messages     {count(routed.link_messages)} between brokers; flooding takes "
        f"{count(flooded.link_messages)} ({saved} saved)",
        f"bytes        {size(routed.size_bytes)}; filtering at the client takes "
        f"{size(filtering.size_bytes)}",
        f"time         {summary.seconds:.0f} s in all, of which "
        f"{summary.timing.until_quiet_s:.0f} s replay",
        f"report       {options.report}",
    ]
