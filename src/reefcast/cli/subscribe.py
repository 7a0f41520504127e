"""`reefcast subscribe`: prints the events that match filters."""

from __future__ import annotations

import asyncio
import base64
import sys
from datetime import datetime
from functools import partial
from typing import Any

import click
import msgspec

from reefcast.cli.broker_url import split_words, words_argument
from reefcast.cli.exit_codes import DONE, NO
from reefcast.cli.filter_arguments import check_filters
from reefcast.cli.options import Number, Time, Whole, json_option
from reefcast.cli.output import Output
from reefcast.cli.secured import connect
from reefcast.client import (
    Client,
    Event,
    LastValues,
    OwedEvent,
    Replay,
    Subscription,
)
from reefcast.client.durable import PREFETCH
from reefcast.client.history import MOST_HANDOVER_S
from reefcast.client.loop import new_event_loop
from reefcast.model.messages import MOST_ORDER_S
from reefcast.model.wire import QUEUE_POLICIES
from reefcast.words import counted


class Job(msgspec.Struct):
    """The request on the command line, where events go, and how many were dropped."""

    url: str
    filters: tuple[str, ...]
    as_json: bool
    count: int
    timeout_s: float
    queue_policy: str
    order_s: float
    session: str
    retained: bool
    replay: datetime | bool
    handover_s: float
    output: Output
    dropped: int = 0


@click.command(
    epilog="Exit codes: 0 it ended as it was told; 1 --timeout was over before --count events came."
)
@words_argument("FILTER...")
@click.option(
    "--count", type=Whole(0), default=0, help="End after this many events; by default (0) never."
)
@click.option(
    "--timeout",
    type=Number(0),
    default=0.0,
    help="End after this many seconds; by default (0) never.",
)
@click.option(
    "--queue-policy",
    type=click.Choice(QUEUE_POLICIES),
    help="What the broker does when this program does not keep up; by default as its network file "
    "says.",
)
@click.option(
    "--order",
    "order_s",
    type=Number(0, MOST_ORDER_S),
    default=0.0,
    help="Hold events back for up to this many seconds, so that those of a publisher arrive in its "
    "order; by default (0) events are printed as they arrive.",
)
@click.option(
    "--session",
    default="",
    metavar="NAME",
    help="Be a consumer of the durable session NAME, which is made if there is none; FILTERs are "
    "added to its subscriptions. Each event is acknowledged when it is printed.",
)
@click.option(
    "--retained",
    is_flag=True,
    help="Print first the last values that match, of what was published with --retain or "
    "--retain-by.",
)
@click.option(
    "--replay",
    is_flag=True,
    help="Print first the past events that match, which storages have, then new ones: without a "
    "gap, and nothing twice. FILTERs must name their topics. With --session, the past goes into "
    "the session's queue, but for what the session has had.",
)
@click.option(
    "--since",
    type=Time(),
    help="With --replay: from this time on; by default from the oldest on.",
)
@click.option(
    "--handover",
    "handover_s",
    type=Number(0, MOST_HANDOVER_S),
    default=2.0,
    show_default=True,
    help="With --replay or --retained: for how many seconds new events are added to what is asked "
    "for; at least as long as an event takes on the longest path.",
)
@json_option("a line for each event")
def command(
    *,
    words: tuple[str, ...],
    count: int,
    timeout: float,
    queue_policy: str | None,
    order_s: float,
    session: str,
    retained: bool,
    replay: bool,
    since: datetime | None,
    handover_s: float,
    as_json: bool,
) -> None:
    """Print the events that match filters.

        reefcast subscribe "price < 100"

    It prints events that match at least one FILTER, until Ctrl-C. URL is the broker's,
    reefcast://host:port; by default that of REEFCAST_URL, or of a broker on this machine.
    """
    url, filters = split_words(words, "" if session else "FILTER...")
    check_filters(filters)
    if session and (queue_policy or order_s):
        raise click.UsageError("--queue-policy and --order are not for a durable session")
    job = Job(
        url=url,
        filters=filters,
        as_json=as_json,
        count=count,
        timeout_s=timeout,
        queue_policy=queue_policy or "",
        order_s=order_s,
        session=session,
        retained=retained,
        replay=since or True if replay else False,
        handover_s=handover_s,
        output=Output(),
    )
    _check_replay(job, since)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_subscribe(job))
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the usual ways to end it: Ctrl-C, or whoever read our output has enough
    job.output.finish()
    printed = job.output.lines
    lacking = f", and {job.dropped:,} that were dropped" if job.dropped else ""
    click.echo(f"reefcast: {counted(printed, 'event')}{lacking}", err=True)
    sys.exit(NO if printed < job.count and timeout else DONE)


def _check_replay(job: Job, since: datetime | None) -> None:
    if job.replay is False:
        if since is not None:
            raise click.UsageError("--since says from when on --replay goes: add --replay")
    elif not job.filters:
        raise click.UsageError("--replay needs a FILTER: it says what to replay")
    elif job.retained and not job.session:
        raise click.UsageError("a subscription begins with --replay or with --retained: choose one")


async def _subscribe(job: Job) -> None:
    policy, on_dropped = job.queue_policy, partial(_say_dropped, job)
    async with connect(
        job.url, name="subscribe", queue_policy=policy, on_dropped=on_dropped
    ) as client:
        try:
            async with asyncio.timeout(job.timeout_s or None):
                if job.session:
                    await _consume(job, client)
                    return
                subscription = await _subscription(job, client)
                click.echo("reefcast: subscribed", err=True)
                await _print(job, subscription)
        except TimeoutError:
            pass  # asked for


async def _subscription(job: Job, client: Client) -> Subscription | Replay | LastValues:
    if job.retained:
        return await client.subscribe(
            *job.filters, order_s=job.order_s, retained=True, handover_s=job.handover_s
        )
    if job.replay is not False:
        return await client.subscribe(
            *job.filters, order_s=job.order_s, replay=job.replay, handover_s=job.handover_s
        )
    return await client.subscribe(*job.filters, order_s=job.order_s)


async def _consume(job: Job, client: Client) -> None:
    """Print the events of a durable session, and acknowledge them."""
    prefetch = min(job.count or PREFETCH, PREFETCH)
    async with client.session(job.session, prefetch=prefetch) as session:
        for filter in job.filters:
            await session.subscribe(
                filter, retained=job.retained, replay=job.replay, handover_s=job.handover_s
            )
        click.echo("reefcast: subscribed", err=True)
        line = json_line if job.as_json else text_line
        while not job.count or job.output.lines < job.count:
            batch = await session.next_batch()
            if job.count:
                batch = batch[: job.count - job.output.lines]
            await job.output.write([line(event) for event in batch])
            await session.ack_up_to(batch[-1])


def _say_dropped(job: Job, count: int) -> None:
    if not job.dropped:
        click.echo(
            "reefcast: events arrive faster than they are read: the broker drops the oldest that "
            "wait (see --queue-policy); the number is printed at the end",
            err=True,
        )
    job.dropped += count


async def _print(job: Job, subscription: Subscription | Replay | LastValues) -> None:
    line, output = json_line if job.as_json else text_line, job.output
    while True:
        try:
            batch = await subscription.next_batch()
        except StopAsyncIteration:
            return
        if job.count:
            batch = batch[: job.count - output.lines]
        await output.write([line(event) for event in batch])
        if output.lines == job.count:
            return


def json_line(event: Event) -> str:
    """Return the event as a line of JSON; see `record_of`."""
    return msgspec.json.encode(record_of(event)).decode()


def record_of(event: Event) -> dict[str, Any]:
    """Return what there is to say of an event, for JSON; the payload, if there is one, is in
    base64. Of an event of a durable session also where it stands, and how often it was handed
    out."""
    record: dict[str, Any] = {
        "publisher": event.publisher,
        "seq": event.seq,
        "time_us": event.time_us,
        "attributes": event.attributes,
    }
    if event.topics:
        record["topics"] = event.topics
    if event.payload:
        record["payload"] = base64.b64encode(event.payload).decode()
    if event.retained:
        record["retained"] = True
    if isinstance(event, OwedEvent):
        record |= {
            "position": event.position,
            "deliveries": event.deliveries,
            "late": event.late,
        }
    return record


def text_line(event: Event) -> str:
    """Return a line with the time, the publisher, and the attributes as `reefcast publish` takes
    them."""
    parts = [f"{event.time:%Y-%m-%dT%H:%M:%S.%f}Z", f"{event.publisher}#{event.seq}"]
    parts += [f"{name}={_value(value)}" for name, value in event.attributes.items()]
    if event.topics:
        parts.append(f"topics={','.join(event.topics)}")
    if event.payload:
        parts.append(f"payload={len(event.payload)} bytes")
    if event.retained:
        parts.append("retained")
    if isinstance(event, OwedEvent) and event.redelivered:
        parts.append(f"redelivered={event.deliveries - 1}")
    return "  ".join(parts)


def _value(value: object) -> str:
    """Return a text as it is; numbers, true and false as in JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
