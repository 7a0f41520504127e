"""`reefcast session`: looks at the durable sessions of a broker, and manages them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
import msgspec

from reefcast.cli.broker_url import split_words, words_argument
from reefcast.cli.command_line import Group
from reefcast.cli.options import Whole, json_option
from reefcast.cli.secured import connect
from reefcast.cli.subscribe import record_of, text_line
from reefcast.client import Client, DurableSession, QueuedEvent
from reefcast.client.loop import new_event_loop
from reefcast.sessions.messages import MOST_LETTERS, SessionRow
from reefcast.words import counted, noun

T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])

owner_option: Callable[[C], C] = click.option(
    "--owner",
    default="",
    metavar="USER",
    help="The user whose sessions are meant; by default you. Others' are for administrators; "
    'with `list`, "*" stands for everybody.',
)


@click.group(cls=Group)
def command() -> None:
    """List, show, drain and close durable sessions.

        reefcast session list

    URL is that of a broker: reefcast://host:port; by default that of REEFCAST_URL, or of a broker
    on this machine. `list` prints the sessions that this broker keeps; the other commands find a
    session wherever it is.
    """


@command.command("list")
@words_argument("")
@owner_option
@json_option("an object for each session, in a list")
def list_command(*, words: tuple[str, ...], owner: str, as_json: bool) -> None:
    """Print the sessions that a broker keeps.

        reefcast session list

    They come in the order of their owners and names.
    """
    url, others = split_words(words)
    if others:
        raise click.UsageError(f"list takes no name; write: reefcast session show {others[0]}")
    rows = _run(url, lambda client: client.sessions(owner))
    if as_json:
        _print_json([_plain(row) for row in rows])
        return
    for row in rows:
        click.echo(_line(row))
    if not rows:
        click.echo("reefcast: this broker keeps no durable sessions", err=True)


@command.command()
@words_argument("NAME")
@owner_option
@click.option(
    "--events",
    type=Whole(0, MOST_LETTERS),
    default=0,
    help="Show this many of the oldest events that it owes, too; by default (0) none.",
)
@click.option(
    "--dead-letters",
    type=Whole(0, MOST_LETTERS),
    default=0,
    help="Show this many of its oldest dead letters, too; by default (0) none.",
)
@json_option("one object")
def show(
    *, words: tuple[str, ...], owner: str, events: int, dead_letters: int, as_json: bool
) -> None:
    """Show one session: its options, subscriptions, consumers and queue.

        reefcast session show billing --dead-letters 10

    Nothing is taken from the queue by looking at it.
    """
    url, name = _name(words)

    async def ask(client: Client) -> tuple[SessionRow, list[QueuedEvent], list[QueuedEvent]]:
        session = client.session(name, owner=owner)
        owed = await session.look(most=events) if events else []
        dead = await session.look(most=dead_letters, dead=True) if dead_letters else []
        return await session.status(), owed, dead

    row, owed, dead = _run(url, ask)
    if as_json:
        plain = _plain(row)
        if events:
            plain["queue"] = [_plain_event(each) for each in owed]
        if dead_letters:
            plain["dead"] = [_plain_event(each) for each in dead]
        _print_json(plain)
        return
    for line in (_line(row), *_details(row)):
        click.echo(line)
    for each in (*owed, *dead):
        click.echo(_event_line(each))


@command.command()
@words_argument("NAME")
@owner_option
@json_option("one object with the number of events")
def drain(*, words: tuple[str, ...], owner: str, as_json: bool) -> None:
    """Drop all events that a session owes, but for its dead letters.

        reefcast session drain billing

    Events that consumers have not acknowledged are dropped, too.
    """
    _count(words, owner, DurableSession.drain, "dropped", as_json=as_json)


@command.command()
@words_argument("NAME")
@owner_option
@click.option("--drop", is_flag=True, help="Forget them instead.")
@json_option("one object with the number of events")
def move_dead_letters(*, words: tuple[str, ...], owner: str, drop: bool, as_json: bool) -> None:
    """Put a session's dead letters back into its queue.

        reefcast session move-dead-letters billing

    They go behind all others, as if they were new.
    """
    call = DurableSession.drop_dead_letters if drop else DurableSession.move_dead_letters
    _count(words, owner, call, "dropped" if drop else "moved", as_json=as_json)


@command.command()
@words_argument("NAME")
@owner_option
@json_option("one object")
def close(*, words: tuple[str, ...], owner: str, as_json: bool) -> None:
    """End a session, with its subscriptions and all that it owes.

        reefcast session close billing

    Its consumers are told; the events that it owed are dropped.
    """
    url, name = _name(words)
    _run(url, lambda client: client.session(name, owner=owner).close())
    if as_json:
        _print_json({"session": name, "closed": True})
    else:
        click.echo(f"session {name} is closed")


def _count(
    words: tuple[str, ...],
    owner: str,
    call: Callable[[DurableSession], Awaitable[int]],
    done: str,
    *,
    as_json: bool,
) -> None:
    url, name = _name(words)
    count = _run(url, lambda client: call(client.session(name, owner=owner)))
    if as_json:
        _print_json({"session": name, done: count})
    else:
        click.echo(f"session {name}: {counted(count, 'event')} {done}")


def _name(words: tuple[str, ...]) -> tuple[str, str]:
    url, names = split_words(words, "NAME")
    if len(names) > 1:
        raise click.UsageError(f"one NAME, please, not {len(names)}")
    return url, names[0]


def _run(url: str, ask: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        async with connect(url, name="session") as client:
            return await ask(client)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(run())


def _plain(row: SessionRow) -> dict[str, Any]:
    """Return a session for JSON, all of its options included."""
    plain: dict[str, Any] = msgspec.to_builtins(row)
    plain["options"] = msgspec.structs.asdict(row.options)
    plain["subscriptions"] = [
        {"number": number, "filter": filter} for number, filter in row.subscriptions.items()
    ]
    return plain


def _plain_event(event: QueuedEvent) -> dict[str, Any]:
    about = event._asdict()
    del about["event"]
    return {**about, **record_of(event.event)}


def _print_json(value: object) -> None:
    click.echo(msgspec.json.encode(value))


def _line(row: SessionRow) -> str:
    parts = [
        f"{row.name}",
        f"owner {row.owner}",
        f"home {row.home}",
        counted(len(row.subscriptions), "subscription"),
        counted(len(row.consumers), "consumer"),
        f"{counted(row.events, 'event')} ({counted(row.bytes, 'byte')}) owed",
    ]
    parts += [counted(row.dead_letters, "dead letter")] if row.dead_letters else []
    wait = noun(row.waiting, "publication waits", "publications wait")
    parts += [f"{row.waiting:,} {wait} for room"] if row.waiting else []
    parts += [counted(row.notes, "note")] if row.notes else []
    parts += [f"{row.dropped:,} dropped"] if row.dropped else []
    return "  ".join(parts)


def _details(row: SessionRow) -> list[str]:
    oldest = f"{_time(row.oldest_s)}" if row.oldest_s else "none"
    options = msgspec.structs.asdict(row.options)
    return [
        f"  made {_time(row.created_s)}; oldest event {oldest}",
        "  options: " + ", ".join(f"{name}={value}" for name, value in options.items()),
        *(f"  subscription {number}: {text}" for number, text in row.subscriptions.items()),
        *(f"  consumer {name}: {out:,} not acknowledged" for name, out in row.consumers.items()),
    ]


def _event_line(event: QueuedEvent) -> str:
    why = f"  dead: {event.dead}" if event.dead else ""
    late = "  late" if event.late else ""
    return (
        f"  {event.position}  handed out {counted(event.deliveries, 'time')}{late}{why}  "
        f"{text_line(event.event)}"
    )


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
