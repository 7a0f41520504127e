"""`reefcast request`: publishes a request and prints the replies."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import click

from reefcast.cli.broker_url import split_words, words_argument
from reefcast.cli.event_rows import assignment, topic_option
from reefcast.cli.exit_codes import DONE, INTERRUPTED, NO
from reefcast.cli.options import Number, Whole, json_option
from reefcast.cli.secured import connect
from reefcast.cli.subscribe import json_line, text_line
from reefcast.client import Event
from reefcast.client.loop import new_event_loop
from reefcast.client.requests import TIMEOUT_S


@click.command(
    epilog="Exit codes: 0 there was a reply, or as many as --replies says; 1 the time was over "
    "before that."
)
@words_argument("NAME=VALUE...")
@topic_option
@click.option("--payload", default="", help="Payload of the request, as text.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Number(0),
    default=TIMEOUT_S,
    show_default=True,
    help="Seconds to wait for replies.",
)
@click.option(
    "--replies",
    type=Whole(0),
    default=1,
    show_default=True,
    help="End after this many replies; 0: take what comes until --timeout is over.",
)
@json_option("a line for each reply")
def command(
    *,
    words: tuple[str, ...],
    topics: tuple[str, ...],
    payload: str,
    timeout_s: float,
    replies: int,
    as_json: bool,
) -> None:
    """Publish a request, and print the replies.

        reefcast request kind=price symbol=IBM

    NAME=VALUE pairs are the request's attributes (values as in JSON, other text is a string).
    Whoever has a subscription that matches it may reply, a program by Event.reply or the command
    reefcast reply. URL is the broker's, reefcast://host:port; by default that of REEFCAST_URL, or
    of a broker on this machine.
    """
    url, attributes = split_words(words, "NAME=VALUE...")
    request: dict[str, Any] = {
        "payload": payload.encode(),
        "topics": topics,
        "timeout_s": timeout_s,
        "replies": replies,
    }
    line = json_line if as_json else text_line
    count = 0
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            count = runner.run(_ask(url, dict(map(assignment, attributes)), request, line))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    if not count:
        click.echo(f"reefcast: no reply within {timeout_s:g} s", err=True)
    sys.exit(DONE if count >= max(replies, 1) else NO)


async def _ask(
    url: str, attributes: dict[str, object], request: dict[str, Any], line: Callable[[Event], str]
) -> int:
    """Print the replies as they come; return how many there were."""
    count = 0
    async with connect(url, name="request") as client:
        async for reply in client.request_many(attributes, **request):
            click.echo(line(reply))
            count += 1
    return count
