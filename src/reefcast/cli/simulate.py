"""`reefcast simulate`: run a network file in the simulator, and check every delivery."""

from __future__ import annotations

import json
import math
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.exit_codes import NO, NOT_QUIET, OUR_FAULT
from reefcast.cli.options import (
    DIRECTORY,
    INPUT_FILE,
    Number,
    Whole,
    json_option,
    rows_option,
    seed_option,
    table_option,
)
from reefcast.traces.vocabulary import LEVELS

if TYPE_CHECKING:
    from reefcast.network.file import NetworkFile
    from reefcast.simulation.checkers import Report
    from reefcast.simulation.simulation import Simulation
    from reefcast.simulation.workload import Workload
    from reefcast.simulation.world import Setup

PARQUET = click.Path(exists=True, path_type=Path)
"""A file, or a directory of them."""
TOPICS = 20
"""How many topics generated publications have, where the routing needs topics."""
ENDS_S = 10.0
"""After the last publication a network that never becomes quiet is left to itself for so long."""


@click.command(
    epilog="Exit codes: 0 all is well; 1 a check failed; 3 the network never became quiet; "
    "4 a broker crashed that no fault had crashed."
)
@click.argument("network", type=INPUT_FILE)
@click.option(
    "--routing",
    metavar="NAME",
    help="Routing, instead of the one that the network file names; then with its defaults, "
    "whatever [routing] says.",
)
@click.option(
    "--costs",
    metavar="NAME",
    default="measured",
    show_default=True,
    help="What a message costs a broker's CPU: as measured of ours, padres or free.",
)
@click.option(
    "--subscriptions",
    type=Whole(0),
    default=1000,
    show_default=True,
    help="Subscriptions to generate, each of a client of its own.",
)
@click.option(
    "--publications",
    type=Whole(0),
    default=10_000,
    show_default=True,
    help="Publications to generate.",
)
@click.option(
    "--publishers", type=Whole(1), default=10, show_default=True, help="Clients that publish."
)
@click.option(
    "--selectivity",
    default=0.02,
    show_default=True,
    help="Share of the publications that satisfies one subscription.",
)
@click.option(
    "--rate",
    type=Number(0, min_open=True),
    default=1000.0,
    show_default=True,
    help="Publications per second, in all.",
)
@click.option(
    "--subscriptions-from",
    type=PARQUET,
    help="Parquet of subscriptions (subscription, filter, broker, client), all of which are taken "
    "instead of generated ones; goes with --publications-from.",
)
@click.option(
    "--publications-from",
    type=PARQUET,
    help="Parquet of publications, of which the first --publications are taken; its columns are "
    "their attributes (event and time_us only order them, topic is their topics).",
)
@seed_option
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="FAULT",
    help="For instance crash:broker=b03,at_s=5,restart_s=7, drop:share=0.01, "
    "partition:links=b01/b02+b02/b03,from_s=5,to_s=8, delay:extra_s=0.1, "
    "bandwidth:links=b01/b02,at_s=5,bandwidth_mbit_per_s=1, reorder:share=0.1,up_to_s=0.05; "
    "may be repeated.",
)
@click.option("--trace", type=DIRECTORY, help="Write a trace into this directory.")
@click.option(
    "--trace-level",
    type=click.Choice(LEVELS[1:]),
    default="full",
    show_default=True,
    help="sampled: the share of the publications that [trace] of the network file says.",
)
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Judge the run, which keeps all deliveries in memory.",
)
@click.option(
    "--inspect",
    is_flag=True,
    help="Show the brokers as they are at the end, as `reefcast network status` does live ones.",
)
@table_option
@rows_option
@json_option("the summary; with --inspect the brokers under the key inspect")
def command(
    network: Path,
    check: bool,
    inspect: bool,
    tables: tuple[str, ...],
    rows: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a network file in the simulator, and check every delivery.

        reefcast simulate net.toml --seed 7 --inspect --table PRT

    Subscribers and publishers are placed at random brokers of the network file NETWORK. In the
    first second they subscribe and advertise; then the publications start. One seed gives one run,
    to the last byte of its trace.

    "deliveries" counts all deliveries, "expected" those that the check requires (none that a fault
    affected, or around the crash of a broker that its neighbours gave up), and "delivered" the
    expected ones that arrived. With many publications and subscriptions, only every n-th
    publication is checked ("checked_one_in").

    For routing gossip, each generated publication and subscription is about one of 20 topics, and
    the run ends ten seconds after the last publication.
    """
    from reefcast.cli.inspection import check_tables
    from reefcast.network.file import load_network
    from reefcast.simulation.simulation import Simulation

    described = _rerouted(load_network(network), options["routing"])
    if tables and not inspect:
        raise click.UsageError("--table goes with --inspect")
    check_tables(described, tables)
    simulation = Simulation(_setup(described, check, options))
    workload = _workload(described, options)
    workload.load(simulation)
    end_s = 1.0 + (workload.events[-1].at_s if workload.events else 0.0)
    report = _run(simulation, end_s, check)
    answers = simulation.status(tables, rows) if inspect else None
    summary = summarize(simulation, report)
    _print(summary, answers, as_json)
    if report is not None:
        _judge(report, summary["published"])


def _run(simulation: Simulation, end_s: float, check: bool) -> Report | None:
    """Run the simulation, and return the report of the checks if they are wanted."""
    from reefcast.routing.registry import routing_named
    from reefcast.simulation.world import NoProgressError

    try:
        with _progress(end_s) as progress:
            restless = routing_named(simulation.setup.routing).restless
            simulation.run(end_s + ENDS_S if restless else math.inf, progress=progress)
        return _check(simulation) if check else None
    except NoProgressError as error:
        click.echo(f"reefcast simulate: {error} (seed {simulation.setup.seed})", err=True)
        sys.exit(NOT_QUIET)
    except OSError:
        raise  # the trace cannot be written; no broker is to blame
    except Exception:
        traceback.print_exc()
        click.echo(f"reefcast simulate: seed {simulation.setup.seed} crashed a broker", err=True)
        sys.exit(OUR_FAULT)


def _judge(report: Report, published: int) -> None:
    """Print what is wrong; exit if anything is."""
    if published and not report.expected:
        click.echo(
            "reefcast simulate: no delivery was due in this run, so nothing was checked", err=True
        )
    if not report.correct:
        for problems in report.problems.values():
            for line in problems[:10]:
                click.echo(line, err=True)
        sys.exit(NO)


def _rerouted(described: NetworkFile, routing: str | None) -> NetworkFile:
    """Return the network with another routing, if one is given."""
    if routing is not None and routing != described.network.routing:
        described.network.routing = routing
        described.routing = {}  # the options of the other one
        for entry in described.broker:
            entry.routing = {}
        described.validate()
    return described


def _setup(described: NetworkFile, check: bool, options: dict[str, Any]) -> Setup:
    from reefcast.simulation.costs import preset
    from reefcast.simulation.faults import parse_fault
    from reefcast.simulation.links import LinkSpec
    from reefcast.simulation.recording import TraceOptions
    from reefcast.simulation.world import Setup

    trace, sample = options["trace"], described.trace.sample
    return Setup(
        graph=described.graph(),
        routing=described.network.routing,
        options=described.routing_options(),
        broker_options={
            entry.name: described.routing_options(entry.name)
            for entry in described.broker
            if entry.routing
        },
        window=described.statistics_window(),
        scot=described.scot(),
        overload=described.overload_limit(),
        seed=options["seed"],
        costs=preset(options["costs"]),
        links={
            link.between: LinkSpec(
                link.latency_s, link.bandwidth_mbit_per_s * 125_000, link.jitter_s
            )
            for link in described.link
        },
        faults=[parse_fault(text, described.limits.link_patience_s) for text in options["faults"]],
        trace=TraceOptions(trace, options["trace_level"], sample) if trace else None,
        keep_deliveries=check,
    )


def _workload(described: NetworkFile, options: dict[str, Any]) -> Workload:
    from reefcast.routing.registry import routing_named
    from reefcast.simulation.workload import read_workload, stock_workload

    common = {name: options[name] for name in ("publications", "publishers", "seed")}
    common["rate_per_s"] = options["rate"]
    subscriptions, publications = options["subscriptions_from"], options["publications_from"]
    if (subscriptions is None) != (publications is None):
        raise click.UsageError("--subscriptions-from and --publications-from go together")
    if subscriptions:
        return read_workload(subscriptions, publications, described.names, **common)
    common |= {name: options[name] for name in ("subscriptions", "selectivity")}
    if routing_named(described.network.routing).needs_topics:
        common["topics"] = TOPICS
    return stock_workload(described.names, **common)


@contextmanager
def _progress(end_s: float) -> Iterator[Callable[[float], None]]:
    """Show a bar on standard error over the simulated time, if it is a terminal."""
    if not sys.stderr.isatty():
        yield lambda now_s: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=end_s)
        yield lambda now_s: bar.update(task, completed=min(now_s, end_s))


def _check(simulation: Simulation) -> Report:
    from rich.console import Console

    from reefcast.simulation.checkers import check

    with Console(stderr=True).status("checking every delivery, the slow way"):
        return check(simulation)


def summarize(simulation: Simulation, report: Report | None) -> dict[str, Any]:
    """Return the figures of a run; those of the checks only if it was checked."""
    result = simulation.result()
    summary: dict[str, Any] = {
        "routing": simulation.setup.routing,
        "brokers": len(simulation.setup.graph),
        "published": result.counters.get("published", 0),
        "deliveries": result.delivered_subscriptions,
        "messages": result.messages,
        "discards": result.discards,
        "simulated_s": round(result.duration_s, 6),
        "quiet": result.quiet,
        "seed": result.seed,
        "unseed": result.unseed,
    }
    if report is None:
        return summary
    summary |= {"checked_one_in": report.stride}
    summary |= {"expected": report.expected, "delivered": report.delivered}
    summary |= {name: len(problems) for name, problems in report.problems.items()}
    return summary | _delays(simulation)


def _delays(simulation: Simulation) -> dict[str, float]:
    import numpy as np

    rows = simulation.deliveries()
    if not len(rows):
        return {}
    percentiles = np.percentile(rows.time_us - rows.published_us, (50, 90, 99, 100))
    names = ("delay_p50_us", "delay_p90_us", "delay_p99_us", "delay_max_us")
    return {name: round(float(value), 1) for name, value in zip(names, percentiles, strict=True)}


def _print(summary: dict[str, Any], answers: dict[str, Any] | None, as_json: bool) -> None:
    """Print the summary; `answers`: of the brokers, if they are wanted."""
    from reefcast.cli.inspection import print_status

    if as_json:
        click.echo(json.dumps(summary if answers is None else summary | {"inspect": answers}))
        return
    click.echo(_text(summary))
    if answers is not None:
        print_status(answers)


def _text(summary: dict[str, Any]) -> str:
    """Return one figure a line; kinds of messages side by side."""
    lines = []
    for name, value in summary.items():
        if isinstance(value, dict):
            shown = ", ".join(f"{kind} {count}" for kind, count in value.items()) or "none"
        else:
            shown = str(value)
        lines.append(f"{name:15} {shown}")
    return "\n".join(lines)
