"""`reefcast dataset`: the events that storages keep, as a table."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import click

from reefcast import sync
from reefcast.cli.broker_url import split_words, words_argument
from reefcast.cli.command_line import Group
from reefcast.cli.filter_arguments import check_filters
from reefcast.cli.options import json_option
from reefcast.cli.secured import given
from reefcast.client import Options


@click.group(cls=Group)
def command() -> None:
    """Look at the events that storages keep as a table.

        reefcast dataset schema "topic = 'flights'"

    To turn a public data set into events: `reefcast-lab dataset`.
    """


@command.command()
@words_argument("FILTER")
@click.option(
    "--advertisements",
    "by_advertisements",
    is_flag=True,
    help="Print what publishers advertise of events, instead of looking at past events.",
)
@json_option("an object of names and types")
def schema(*, words: tuple[str, ...], by_advertisements: bool, as_json: bool) -> None:
    """Print the attributes of events, as the option schema of Spark takes them.

        reefcast dataset schema "topic = 'fx'"

    FILTER must name its topics. Some of the first events and some of the last day are looked at;
    where an attribute has unlike types, the most frequent one is printed. With --advertisements
    nothing need be stored, and columns have their ranges as comments. URL is that of any
    broker, reefcast://host:port; by default that of REEFCAST_URL, or of a broker on this machine.
    """
    from reefcast.pipeline.connector.inference import ddl, inferred

    url, filters = split_words(words, "FILTER")
    if len(filters) > 1:
        raise click.UsageError(
            f"expected one FILTER, not {len(filters)}: join them with OR, and quote the whole"
        )
    check_filters(filters)
    options: Options = {**given(), "name": "schema"}
    comments: dict[str, str] = {}
    if by_advertisements:
        from reefcast.pipeline.connector.advertised import advertised, comments_of, types_of

        ranges = advertised(url, options, filters[0])
        types, comments = types_of(ranges), comments_of(ranges)
    else:
        with sync.connect(url, **options) as client:
            types = inferred(client, filters[0], datetime.now(UTC))
    click.echo(json.dumps(types, ensure_ascii=False) if as_json else ddl(types, "", comments))
