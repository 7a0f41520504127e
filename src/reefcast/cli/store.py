"""`reefcast store`: a storage, which keeps what is published and answers for it."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reefcast.cli.options import DIRECTORY, Number, Whole, json_option
from reefcast.errors import ConfigurationError, DamagedError

if TYPE_CHECKING:
    from reefcast.model.values import Kind
    from reefcast.storage.history.store import HistoryStore

log = logging.getLogger("reefcast.storage")


@click.command()
@click.argument("url")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "--directory", type=DIRECTORY, required=True, help="Where the history is kept; made if needed."
)
@click.option(
    "--index",
    "indexed",
    multiple=True,
    metavar="NAME",
    help="An attribute to look events up by: NAME=number, NAME=string or NAME=boolean; a directory "
    "keeps those that it was made with; may be repeated.",
)
@click.option(
    "--lifetime",
    "lifetime_s",
    type=Number(0),
    help="Forget events after this many seconds; by default never.",
)
@click.option(
    "--most", type=Whole(1), help="Keep at most this many events, the newest; by default all."
)
@json_option("a line when it answers")
def command(
    *,
    url: str,
    topics: tuple[str, ...],
    directory: Path,
    indexed: tuple[str, ...],
    lifetime_s: float | None,
    most: int | None,
    as_json: bool,
) -> None:
    """Keep what is published under some topics, and answer for it.

        reefcast store reefcast://127.0.0.1:7301 fx "a/#" --directory history

    URL is the broker's that the storage attaches to, TOPIC a topic or an MQTT pattern. What is
    committed survives a crash. It runs until SIGTERM or SIGINT. See `reefcast history`.
    """
    from reefcast.model.patterns import check_topic_pattern
    from reefcast.server.process import run
    from reefcast.storage.history.limits import Limits
    from reefcast.storage.history.store import HistoryStore

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    for topic in topics:
        try:
            check_topic_pattern(topic)
        except ValueError as error:
            raise ConfigurationError(f"TOPIC {topic!r}: {error}") from error
    lifetimes = {} if lifetime_s is None else {"#": lifetime_s}
    limits = Limits(rows=most, lifetimes_s=lifetimes)
    store = HistoryStore(directory, _report, limits, _kinds(indexed))
    try:
        run(lambda stop: _store(url, store, topics, stop, as_json=as_json))
    finally:
        store.close()


def _report(error: DamagedError) -> None:
    log.error("%s", error)


def _kinds(indexed: tuple[str, ...]) -> dict[str, Kind]:
    from reefcast.model.values import Kind as Kinds

    kinds = {}
    for text in indexed:
        name, _, kind = text.rpartition("=")
        if not name or kind.upper() not in Kinds.__members__:
            raise ConfigurationError(f"--index {text}: write it as price=number")
        kinds[name] = Kinds[kind.upper()]
    return kinds


async def _store(
    url: str, store: HistoryStore, topics: tuple[str, ...], stop: asyncio.Event, *, as_json: bool
) -> None:
    from reefcast.client import connect
    from reefcast.client.storage_node import StorageNode

    async with connect(url, name="storage") as client:
        node = StorageNode(client, store, topics)

        def ready() -> None:
            if as_json:
                click.echo(json.dumps({"storage": client.id, "topics": topics}))
            else:
                click.echo(f"storage {client.id} answers for {', '.join(topics)}")

        running = asyncio.ensure_future(node.run(ready))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not running.done():
            running.cancel()
        await asyncio.wait((running,))
        if not running.cancelled():
            running.result()
