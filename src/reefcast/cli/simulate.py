"""`reefcast simulate`: run a network file in the simulator, and check what came of it."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from reefcast.overlay.network_file import NetworkFile
    from reefcast.simulation.checkers import Report
    from reefcast.simulation.simulation import Simulation
    from reefcast.simulation.workload import Workload
    from reefcast.simulation.world import Setup

WRONG, NO_PROGRESS, CRASHED = 1, 3, 4
"""Exit codes: a check failed; the network never becomes quiet; the code under test raised."""


@click.command(
    epilog="Exit codes: 0 all is well, 1 a check failed, 2 something you gave was wrong, "
    "3 the network never became quiet, 4 a broker crashed that no fault had crashed."
)
@click.argument("network", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--seed", default=0, show_default=True, help="Sets every random choice of the run.")
@click.option("--routing", help="Instead of the one that the network file names.")
@click.option(
    "--costs",
    default="reefcast",
    show_default=True,
    help="What a message costs a broker's CPU: reefcast, padres or free.",
)
@click.option(
    "--subscriptions",
    type=click.IntRange(0),
    metavar="INTEGER",
    default=1000,
    show_default=True,
    help="Generated; one a client.",
)
@click.option(
    "--publications",
    type=click.IntRange(0),
    metavar="INTEGER",
    default=10_000,
    show_default=True,
    help="Generated.",
)
@click.option(
    "--publishers",
    type=click.IntRange(1),
    metavar="INTEGER",
    default=10,
    show_default=True,
    help="One a client.",
)
@click.option(
    "--selectivity",
    default=0.02,
    show_default=True,
    help="Share of the publications that satisfies one subscription.",
)
@click.option("--rate", default=1000.0, show_default=True, help="Publications a second, in all.")
@click.option(
    "--workload",
    type=click.Path(exists=True, path_type=Path),
    help="Parquet of subscriptions (subscription, filter, broker, client) instead of "
    "generated ones; goes with --events.",
)
@click.option(
    "--events",
    type=click.Path(exists=True, path_type=Path),
    help="Parquet of events; its columns are their attributes (event and time_us only "
    "order them). The first --publications of them.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="FAULT",
    help="For instance crash:broker=b03,at_s=5,restart_s=7, drop:share=0.01, "
    "partition:links=b01/b02+b02/b03,from_s=5,to_s=8, delay:extra_s=0.1, "
    "bandwidth:links=b01/b02,at_s=5,mbit_per_s=1, reorder:share=0.1,up_to_s=0.05; "
    "may be given several times.",
)
@click.option(
    "--trace",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a trace into this directory.",
)
@click.option(
    "--trace-level",
    default="full",
    show_default=True,
    help="counters, sampled (one publication in a hundred) or full.",
)
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Judge the run; keeps all deliveries in memory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(network: Path, check: bool, as_json: bool, **options: Any) -> None:
    """Run the network file NETWORK in the simulator, and check what came of it.

    Subscribers and publishers are put to brokers at random. The first second is for their
    subscriptions and advertisements; then the publications start. One seed gives one run, to the
    last byte of its trace.

    "deliveries" counts all of them, "expected" those that the check demands (none that a fault
    touched, nor any around the crash of a broker that its neighbours gave up), "delivered" how many
    of the expected ones arrived. With many publications and subscriptions, every n-th publication
    stands for the others ("checked_one_in").
    """
    from reefcast.overlay.network_file import load_network
    from reefcast.simulation.simulation import Simulation
    from reefcast.simulation.world import NoProgressError

    described = load_network(network)
    simulation = Simulation(_setup(described, check, options))
    workload = _workload(described, options)
    workload.load(simulation)
    end_s = 1.0 + (workload.events[-1].at_s if workload.events else 0.0)
    try:
        with _progress(end_s) as progress:
            simulation.run(progress=progress)
        report = _judge(simulation) if check else None
    except NoProgressError as error:
        click.echo(f"reefcast simulate: {error} (seed {simulation.setup.seed})", err=True)
        sys.exit(NO_PROGRESS)
    except OSError:
        raise  # the trace cannot be written; no broker is to blame
    except Exception:
        traceback.print_exc()
        click.echo(f"reefcast simulate: seed {simulation.setup.seed} crashed a broker", err=True)
        sys.exit(CRASHED)
    summary = summarize(simulation, report)
    click.echo(json.dumps(summary) if as_json else _text(summary))
    if report is not None and not report.expected and summary["published"]:
        click.echo("reefcast simulate: the check had nothing to demand of this run", err=True)
    if report and not report.correct:
        for problems in report.problems.values():
            for line in problems[:10]:
                click.echo(line, err=True)
        sys.exit(WRONG)


def _setup(described: NetworkFile, check: bool, options: dict[str, Any]) -> Setup:
    from reefcast.routing.links import Overload
    from reefcast.routing.registry import routing_named
    from reefcast.simulation.costs import preset
    from reefcast.simulation.faults import parse_fault
    from reefcast.simulation.links import LinkSpec
    from reefcast.simulation.recording import TraceOptions
    from reefcast.simulation.world import Setup

    trace = options["trace"]
    if options["routing"]:
        described.network.routing = options["routing"]
        described.validate()
    return Setup(
        graph=described.graph(),
        routing=routing_named(described.network.routing).name,
        scot=described.scot(),
        overload=Overload(described.overload.tau, described.overload.window_ms / 1e3),
        seed=options["seed"],
        costs=preset(options["costs"]),
        links={
            link.between: LinkSpec(
                link.latency_ms / 1e3, link.bandwidth_mbit_per_s * 125_000, link.jitter_ms / 1e3
            )
            for link in described.link
        },
        faults=[parse_fault(text) for text in options["faults"]],
        trace=TraceOptions(trace, options["trace_level"], 0.01) if trace else None,
        keep_deliveries=check,
    )


def _workload(described: NetworkFile, options: dict[str, Any]) -> Workload:
    from reefcast.simulation.workload import read_workload, stock_workload

    common = {name: options[name] for name in ("publications", "publishers", "seed")}
    common["rate_per_s"] = options["rate"]
    if (options["workload"] is None) != (options["events"] is None):
        raise click.UsageError("--workload and --events go together")
    if options["workload"]:
        return read_workload(options["workload"], options["events"], described.names, **common)
    common |= {name: options[name] for name in ("subscriptions", "selectivity")}
    return stock_workload(described.names, **common)


@contextmanager
def _progress(end_s: float) -> Iterator[Callable[[float], None]]:
    """A bar on standard error over the simulated time, if somebody looks at it."""
    if not sys.stderr.isatty():
        yield lambda now_s: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=end_s)
        yield lambda now_s: bar.update(task, completed=min(now_s, end_s))


def _judge(simulation: Simulation) -> Report:
    from rich.console import Console

    from reefcast.simulation.checkers import check

    with Console(stderr=True).status("checking every delivery, the slow way"):
        return check(simulation)


def summarize(simulation: Simulation, report: Report | None) -> dict[str, Any]:
    """The figures of a run; those of the checks only where it was checked."""
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
    percentiles = np.percentile(rows.time_us - rows.published_us, (50, 90, 99, 100)) / 1e3
    names = ("delay_p50_ms", "delay_p90_ms", "delay_p99_ms", "delay_max_ms")
    return {name: round(float(value), 3) for name, value in zip(names, percentiles, strict=True)}


def _text(summary: dict[str, Any]) -> str:
    """One figure a line; kinds of messages side by side."""
    lines = []
    for name, value in summary.items():
        if isinstance(value, dict):
            shown = ", ".join(f"{kind} {count}" for kind, count in value.items()) or "none"
        else:
            shown = str(value)
        lines.append(f"{name:15} {shown}")
    return "\n".join(lines)
