"""What the live demonstrations print for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from reefcast.cli.terminal import plain_console


def print_report(
    columns: Iterable[str],
    rows: Iterable[tuple[str, Sequence[str]]],
    sentences: Iterable[str],
    report: Path,
) -> None:
    """Print a table of named rows, what it shows in sentences, and where the report is."""
    from rich.table import Table

    shown = Table("")
    for name in columns:
        shown.add_column(name, justify="right")
    for name, values in rows:
        shown.add_row(name, *values)
    console = plain_console()
    console.print(shown)
    for sentence in sentences:
        click.echo(click.wrap_text(sentence, width=min(console.width, 100)))
    click.echo(f"report: {report}")
