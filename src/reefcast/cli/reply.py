"""`reefcast reply`: answers the requests that match a filter, all in the same way."""

from __future__ import annotations

import asyncio

import click

from reefcast.cli.broker_url import split_words, words_argument
from reefcast.cli.event_rows import assignment, topic_option
from reefcast.cli.filter_arguments import check_filters
from reefcast.cli.options import Whole, json_option
from reefcast.cli.secured import connect
from reefcast.cli.subscribe import json_line, text_line
from reefcast.client.event import TO
from reefcast.client.loop import new_event_loop
from reefcast.words import counted


@click.command()
@words_argument("FILTER NAME=VALUE...")
@topic_option
@click.option("--payload", default="", help="Payload of the replies, as text.")
@click.option(
    "--count", type=Whole(0), default=0, help="End after this many replies; by default (0) never."
)
@json_option("a line for each request")
def command(
    *,
    words: tuple[str, ...],
    topics: tuple[str, ...],
    payload: str,
    count: int,
    as_json: bool,
) -> None:
    """Answer the requests that match a filter, and print them.

        reefcast reply "kind = 'price'" symbol=IBM price=99.5

    Each reply has the same attributes, the NAME=VALUE pairs. It goes on until Ctrl-C. Events that
    ask for no reply are ignored. URL is the broker's, reefcast://host:port; by default
    that of REEFCAST_URL, or of a broker on this machine.
    """
    url, rest = split_words(words, "FILTER NAME=VALUE...")
    check_filters(rest[:1])
    reply = dict(map(assignment, rest[1:]))
    line = json_line if as_json else text_line
    replied = 0

    async def answer() -> None:
        nonlocal replied
        async with connect(url, name="reply") as client:
            requests = await client.subscribe(f"({rest[0]}) AND {TO} IS NOT NULL")
            click.echo("reefcast: subscribed", err=True)
            async for request in requests:
                click.echo(line(request))
                await request.reply(reply, payload=payload.encode(), topics=topics)
                replied += 1
                if replied == count:
                    return

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(answer())
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the usual ways to end it
    click.echo(f"reefcast: {counted(replied, 'reply', 'replies')}", err=True)
