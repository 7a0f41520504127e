"""`reefcast-lab torture`: random networks under faults, held to the delivery promises."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.exit_codes import NO
from reefcast.cli.options import Whole, json_option
from reefcast.cli.progress import Progress
from reefcast_lab.cli.options import whole_option

if TYPE_CHECKING:
    from reefcast_lab.torture.seeds import Summary

MOST_FAILED = 20
"""Failures that are printed."""


@click.command(epilog="Exit codes: 0 all promises were kept; 1 one was broken.")
@whole_option("--seeds", 1000, "How many runs; of a single one the steps are printed.")
@click.option(
    "--first-seed",
    type=Whole(0),
    default=0,
    show_default=True,
    help="The seed of the first run.",
)
@click.option("--routing", metavar="NAME", help="The only routing, instead of all that confirm.")
@whole_option("--jobs", 1, "Processes.")
@json_option("the summary")
def command(*, seeds: int, first_seed: int, routing: str | None, jobs: int, as_json: bool) -> None:
    """Run random networks under kills, cuts and power failures, and check what is promised.

        reefcast-lab torture --seeds 1000

    Each seed is a random network of a routing that confirms publications, with disks and durable
    sessions. "failures" counts the runs in which a promise was broken; the seed of one repeats it,
    to the last byte: "digest" is that of all steps.
    """
    _check_routing(routing)
    if seeds == 1 and not as_json:
        _show(first_seed, routing)
    summary, seconds = _run(first_seed, seeds, routing, jobs)
    figures = summary.figures() | {"first_seed": first_seed, "seconds": round(seconds, 3)}
    click.echo(json.dumps(figures) if as_json else _text(figures))
    if summary.failed:
        sys.exit(NO)


def _check_routing(routing: str | None) -> None:
    from reefcast_lab.torture.run import routings

    names = routings()
    if routing is not None and routing not in names:
        raise click.UsageError(
            f"routing {routing!r} does not confirm publications; choose one of {', '.join(names)}"
        )


def _run(first: int, seeds: int, routing: str | None, jobs: int) -> tuple[Summary, float]:
    from reefcast_lab.torture.seeds import run_seeds

    progress = Progress("seeds run:", seeds)
    began_s = time.monotonic()
    try:
        summary = run_seeds(
            range(first, first + seeds), routing, jobs=jobs, progress=progress.update
        )
    finally:
        progress.clear()
    return summary, time.monotonic() - began_s


def _show(seed: int, routing: str | None) -> None:
    """Print the steps of one run."""
    from reefcast_lab.torture.seeds import run_text

    outcome, lines = run_text(seed, routing, text=True)
    for line in lines:
        click.echo(line)
    for problem in outcome.problems:
        click.echo(f"broken: {problem}")


def _text(figures: dict[str, Any]) -> str:
    """Return one figure a line, and how to repeat what failed."""
    lines = []
    for name, value in figures.items():
        if isinstance(value, dict):
            shown = ", ".join(f"{kind} {count}" for kind, count in value.items()) or "none"
            lines.append(f"{name:15} {shown}")
        elif name != "failed":
            lines.append(f"{name:15} {value}")
    for failed in figures["failed"][:MOST_FAILED]:
        again = f"--first-seed {failed['seed']} --seeds 1 --routing {failed['routing']}"
        lines.append(f"{failed['problem']}\n  reefcast-lab torture {again}")
    return "\n".join(lines)
