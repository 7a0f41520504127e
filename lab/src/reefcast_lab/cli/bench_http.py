"""`reefcast-lab bench http`: what HTTP clients cost a broker, beside a bare server."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from reefcast.cli.options import json_option
from reefcast_lab.cli.bench_tables import HTTP, printed
from reefcast_lab.cli.options import page_option, whole_option


@click.command()
@whole_option("--repeat", 3, "So many runs, of which the medians are told.")
@page_option("docs/explanation/performance.md")
@json_option("a list of rows")
def http(repeat: int, page: Path | None, as_json: bool) -> None:
    """Measure what HTTP clients cost a broker.

        reefcast-lab bench http

    CPU is microseconds of the server's processor time for each event that
    comes in, or goes out as a server-sent event. The baseline is a bare server
    of the same library (aiohttp) that decodes what is posted and passes it on:
    no filters, no users, no queues, no confirmations. A ratio above 1 says that
    ours needs less.

    It takes about a minute.
    """
    from reefcast_lab.bench.http import page as figures
    from reefcast_lab.bench.http.measure import LOADS, measure
    from reefcast_lab.bench.page_tables import fill

    rows = printed(measure(LOADS, repeat, partial(click.echo, err=True)), HTTP, as_json)
    if page is not None:
        fill(page, figures.FIGURES, figures.figures(rows), "http")
