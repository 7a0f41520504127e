"""`reefcast simulate --torture`: random networks under faults, held to the delivery promises."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.exit_codes import NO
from reefcast.cli.progress import Progress

if TYPE_CHECKING:
    from reefcast.simulation.torture.seeds import Summary

MOST_FAILED = 20
"""Failures that are printed."""


def run(first: int, seeds: int, routing: str | None, jobs: int, *, as_json: bool) -> None:
    """Run these seeds and print what came of them; exit with 1 if a promise was broken. The text of
    a single run is printed as well, unless JSON is wanted."""
    _check_routing(routing)
    if seeds == 1 and not as_json:
        _show(first, routing)
    summary, seconds = _run(first, seeds, routing, jobs)
    figures = summary.figures() | {"first_seed": first, "seconds": round(seconds, 3)}
    click.echo(json.dumps(figures) if as_json else _text(figures))
    if summary.failed:
        sys.exit(NO)


def _check_routing(routing: str | None) -> None:
    from reefcast.simulation.torture.run import routings

    names = routings()
    if routing is not None and routing not in names:
        raise click.UsageError(
            f"routing {routing!r} does not confirm publications; choose one of {', '.join(names)}"
        )


def _run(first: int, seeds: int, routing: str | None, jobs: int) -> tuple[Summary, float]:
    from reefcast.simulation.torture.seeds import run_seeds

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
    from reefcast.simulation.torture.run import torture
    from reefcast.simulation.torture.seeds import routing_of

    network, problems = torture(seed, routing_of(seed, routing), text=True)
    for line in (*network.described(), *(network.record.lines or ())):
        click.echo(line)
    for problem in problems:
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
        lines.append(f"{failed['problem']}\n  reefcast simulate --torture {again}")
    return "\n".join(lines)
