"""`reefcast-lab bench keeping`: the store of durable sessions."""

from __future__ import annotations

from functools import partial

import click

from reefcast.cli.options import json_option
from reefcast_lab.cli.bench_tables import KEEPING, printed
from reefcast_lab.cli.options import whole_option


@click.command()
@whole_option("--backlog", 1_000_000, "Events that wait before they are drained.")
@json_option("a list of rows")
def keeping(backlog: int, as_json: bool) -> None:
    """Measure the store of durable sessions.

        reefcast-lab bench keeping

    Group commits of several sizes, a backlog that is filled, loaded and
    drained, and idle sessions, in the current directory. Beside SQLite, which
    brokers use, LMDB in the same run, where it is installed.
    """
    from reefcast_lab.bench.keeping.measure import bench

    printed(bench(backlog, partial(click.echo, err=True)), KEEPING, as_json)
