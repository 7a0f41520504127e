"""`reefcast publish`: events from the command line, a file or standard input."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import msgspec

from reefcast.cli.broker_url import split_words, words_argument
from reefcast.cli.event_rows import (
    Rows,
    assignment,
    format_of,
    read_in_thread,
    read_rows,
    row_count,
    source_options,
    topic_option,
)
from reefcast.cli.exit_codes import DONE, INTERRUPTED
from reefcast.cli.filter_arguments import check_filters
from reefcast.cli.options import Number, json_option
from reefcast.cli.progress import Progress
from reefcast.cli.secured import connect
from reefcast.client import Client
from reefcast.client.loop import new_event_loop
from reefcast.errors import ConfigurationError, InvalidValueError
from reefcast.words import counted

AHEAD_S = 0.002
"""With --rate, events that are due within this time go together."""


class Job(msgspec.Struct):
    """The request on the command line, and its progress."""

    url: str
    rows: AsyncIterator[Rows]
    total: int | None
    rate_per_s: float
    advertise: tuple[str, ...]
    topics: tuple[str, ...]
    payload: bytes
    confirm: bool
    outbox: str
    retain: bool | tuple[str, ...]
    published: int = 0
    first_at_s: float = 0.0


@click.command()
@words_argument("[NAME=VALUE]...")
@source_options("Publish every row of this file.")
@click.option(
    "--rate",
    type=Number(0),
    default=0.0,
    help="Events per second, in all; by default (0) as fast as possible.",
)
@click.option(
    "--advertise",
    multiple=True,
    metavar="FILTER",
    help="Advertise this first; by default anything may be published; may be repeated.",
)
@topic_option
@click.option("--payload", default="", help="Payload of every event, as text.")
@click.option(
    "--confirm",
    is_flag=True,
    help="Wait until all durable sessions that they are for have the events on disk.",
)
@click.option(
    "--outbox",
    default="",
    metavar="FILE",
    help="Keep the events in this file until they are confirmed; a later call goes on with it.",
)
@click.option(
    "--retain",
    is_flag=True,
    help="Keep each event as the last value of its topic, for those who subscribe later.",
)
@click.option(
    "--retain-by",
    multiple=True,
    metavar="NAME",
    help="Keep each event as the last value of what this attribute says; several make one key; may "
    "be repeated.",
)
@json_option("how many events, and the seconds that it took")
def command(
    *,
    words: tuple[str, ...],
    path: Path | None,
    format: str | None,
    rate: float,
    advertise: tuple[str, ...],
    topics: tuple[str, ...],
    payload: str,
    confirm: bool,
    outbox: str,
    retain: bool,
    retain_by: tuple[str, ...],
    as_json: bool,
) -> None:
    """Publish events from the command line, a file or standard input.

        reefcast publish symbol=IBM price=99.5

    NAME=VALUE pairs are one event (values as in JSON, other text is a string). Without them, each
    row of --file, or of standard input, is an event: JSON lines, CSV with a header, or Parquet
    (files only). URL is the broker's, reefcast://host:port; by default that of REEFCAST_URL, or of
    a broker on this machine.
    """
    url, attributes = split_words(words)
    check_filters(advertise)
    if attributes and path is not None:
        raise click.UsageError("give either NAME=VALUE pairs or --file, not both")
    if retain and retain_by:
        raise click.UsageError("give either --retain or --retain-by, not both")
    form = format or (format_of(path) if path else "jsonl")
    job = Job(
        url=url,
        rows=_single(dict(map(assignment, attributes))) if attributes else _source(path, form),
        total=1 if attributes else row_count(path, form),
        rate_per_s=rate,
        advertise=advertise,
        topics=topics,
        payload=payload.encode(),
        confirm=confirm,
        outbox=outbox,
        retain=retain or retain_by or False,
    )
    sys.exit(_carry_out(job, as_json))


async def _single(attributes: dict[str, Any]) -> AsyncIterator[Rows]:
    yield [attributes]


def _source(path: Path | None, format: str) -> AsyncIterator[Rows]:
    if path is None and sys.stdin.isatty():
        raise click.UsageError("nothing to publish: give NAME=VALUE pairs, --file, or pipe rows in")
    return read_in_thread(read_rows(path, format))


def _carry_out(job: Job, as_json: bool) -> int:
    """Carry out the job, and return the exit code."""
    code, started_s = DONE, time.monotonic()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_publish(job))
    except KeyboardInterrupt:
        code = INTERRUPTED
    seconds = time.monotonic() - started_s
    if as_json:
        click.echo(msgspec.json.encode({"published": job.published, "seconds": round(seconds, 3)}))
    else:
        click.echo(f"published {counted(job.published, 'event')} in {seconds:.2f} s", err=True)
    return code


async def _publish(job: Job) -> None:
    progress = Progress("publishing", job.total)
    async with connect(job.url, name="publish", outbox=job.outbox) as client:
        for filter in job.advertise:
            await client.advertise(filter)
        try:
            async with client.confirming() if job.confirm else nullcontext():
                async for rows in job.rows:
                    await _publish_rows(client, job, rows)
                    progress.update(job.published)
            await client.flush()
        finally:
            progress.clear()


async def _publish_rows(client: Client, job: Job, rows: Rows) -> None:
    for row in rows:
        if job.rate_per_s:
            await _pace(job)
        try:
            await client.publish(row, topics=job.topics, payload=job.payload, retain=job.retain)
        except (InvalidValueError, ConfigurationError) as error:
            raise type(error)(f"event {job.published + 1}: {error}") from error
        job.published += 1


async def _pace(job: Job) -> None:
    """Wait until the next event is due, counted from the first one: no drift."""
    now_s = time.monotonic()
    if not job.published:
        job.first_at_s = now_s
    early_s = job.first_at_s + job.published / job.rate_per_s - now_s
    if early_s > AHEAD_S:
        await asyncio.sleep(early_s)
