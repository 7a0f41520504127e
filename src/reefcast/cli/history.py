"""`reefcast history`: prints past events that match a filter."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime

import click

from reefcast.cli.broker_url import split_words, words_argument
from reefcast.cli.filter_arguments import check_filters
from reefcast.cli.options import Time, Whole, json_option
from reefcast.cli.secured import connect
from reefcast.cli.subscribe import json_line, text_line
from reefcast.client.loop import new_event_loop
from reefcast.words import counted


@click.command()
@words_argument("FILTER")
@click.option("--since", type=Time(), help="From this time on; by default from the oldest on.")
@click.option("--until", type=Time(), help="Before this time; by default to the newest.")
@click.option(
    "--limit", type=Whole(0), default=0, help="At most this many, the oldest; by default (0) all."
)
@json_option("a line for each event")
def command(
    *,
    words: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    limit: int,
    as_json: bool,
) -> None:
    """Print past events that match a filter, oldest first.

        reefcast history "topic = 'fx'" --limit 20

    FILTER must name its topics; storages keep them (`reefcast storage`). URL is that of any broker,
    reefcast://host:port; by default that of REEFCAST_URL, or of a broker on this machine.
    """
    url, filters = split_words(words, "FILTER")
    if len(filters) > 1:
        raise click.UsageError(
            f"expected one FILTER, not {len(filters)}: join them with OR, and quote the whole"
        )
    check_filters(filters)
    (filter,) = filters
    line = json_line if as_json else text_line

    async def ask() -> int:
        printed = 0
        async with connect(url, name="history") as client:
            events = client.history(filter, since=since, until=until, limit=limit)
            async for event in events:
                sys.stdout.write(line(event) + "\n")
                printed += 1
        return printed

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        printed = runner.run(ask())
    click.echo(f"reefcast: {counted(printed, 'event')}", err=True)
