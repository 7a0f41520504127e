"""`reefcast retained`: lists and clears retained values."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

import click
import msgspec

from reefcast.cli.broker_url import split_words, words_argument
from reefcast.cli.filter_arguments import check_filters
from reefcast.cli.options import json_option
from reefcast.cli.secured import connect
from reefcast.cli.subscribe import record_of, text_line
from reefcast.client import Client, Event
from reefcast.client.loop import new_event_loop
from reefcast.client.retaining import RetainedValue, retained_values
from reefcast.words import counted


@click.command()
@words_argument("[FILTER]")
@click.option(
    "--clear",
    is_flag=True,
    help="Clear these values in the whole network, and print them; FILTER must be given.",
)
@json_option("a line for each value, with the key under which it is retained")
def command(*, words: tuple[str, ...], clear: bool, as_json: bool) -> None:
    """Print the retained values, or those that match a filter.

        reefcast retained "symbol = 'IBM'"

    These are the last publications of their keys, of those that were published with --retain or
    --retain-by. Every broker has them all. URL is that of any broker, reefcast://host:port; by
    default that of REEFCAST_URL, or of a broker on this machine.
    """
    url, filters = split_words(words, "")
    if len(filters) > 1:
        raise click.UsageError(
            f"expected one FILTER, not {len(filters)}: join them with OR, and quote the whole"
        )
    if clear and not filters:
        raise click.UsageError("--clear needs a FILTER; TRUE is the one for all values")
    check_filters(filters)
    filter = filters[0] if filters else "TRUE"
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        found = runner.run(_look(url, filter, clear=clear))
    for value in found:
        sys.stdout.write(f"{json_line(value) if as_json else text_line(value.event)}\n")
    done = "cleared" if clear else "retained"
    click.echo(f"reefcast: {counted(len(found), 'value')} {done}", err=True)


async def _look(url: str, filter: str, *, clear: bool) -> list[RetainedValue]:
    async with connect(url, name="retained") as client:
        found = sorted(await retained_values(client, filter), key=_order)
        if clear:
            await _clear(client, found)
    return found


async def _clear(client: Client, values: Iterable[RetainedValue]) -> None:
    for value in values:
        await client.clear_retained(topic=value.topic, attributes=value.attributes)


def _order(value: RetainedValue) -> tuple[int, str, int]:
    event: Event = value.event
    return (event.time_us, *event.id)


def json_line(value: RetainedValue) -> str:
    """Return a value as a line of JSON, with its key."""
    key = {"topic": value.topic} if value.topic else {"attributes": value.attributes}
    return msgspec.json.encode({**record_of(value.event), "key": key}).decode()
