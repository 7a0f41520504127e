"""`reefcast store`: a storage, which keeps what is published and answers for it."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.options import DIRECTORY, Number, Whole, json_option
from reefcast.errors import ConfigurationError, DamagedError, SlowConsumerError

if TYPE_CHECKING:
    from reefcast.client.storage_node import StorageNode
    from reefcast.history.limits import Limits
    from reefcast.history.store import HistoryStore
    from reefcast.model.values import Kind

log = logging.getLogger("reefcast.storage")

SEAL_AFTER_S = 3600.0
MOST_MENDS = 3
"""Of a history in which damage is found again and again: its disk needs looking at."""


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
@click.option(
    "--seal-after",
    "seal_after_s",
    type=Number(0),
    default=SEAL_AFTER_S,
    show_default=True,
    help="Move a day (UTC) into a Parquet file this many seconds after its end.",
)
@click.option(
    "--forget",
    is_flag=True,
    help="Remove what DIRECTORY has of other topics; by default it stays there.",
)
@json_option("a line whenever it has said for which topics it answers")
def command(
    *,
    url: str,
    topics: tuple[str, ...],
    directory: Path,
    indexed: tuple[str, ...],
    lifetime_s: float | None,
    most: int | None,
    seal_after_s: float,
    forget: bool,
    as_json: bool,
) -> None:
    """Keep what is published under some topics, and answer for it.

        reefcast store reefcast://127.0.0.1:7301 fx "a/#" --directory history

    URL is the broker's that the storage attaches to, TOPIC a topic or an MQTT pattern. What is
    committed survives a crash. It runs until SIGTERM or SIGINT. See `reefcast history`.
    """
    keeping = Keeping(
        directory=directory,
        indexed=kinds(indexed),
        limits=limits(lifetime_s, most),
        seal_after_s=seal_after_s,
        forget=forget,
    )
    run_store(url, topics, keeping, ready=partial(_say, as_json))


def _say(as_json: bool, node: StorageNode) -> None:
    if as_json:
        click.echo(json.dumps({"storage": node.id, "topics": node.answers}))
    elif node.answers:
        click.echo(f"storage {node.id} answers for {', '.join(node.answers)}")


def kinds(indexed: Sequence[str]) -> dict[str, Kind]:
    """Of attributes to be indexed, written as `price=number`."""
    from reefcast.model.values import Kind as Kinds

    found = {}
    for text in indexed:
        name, _, kind = text.rpartition("=")
        if not name or kind.upper() not in Kinds.__members__:
            raise ConfigurationError(f"--index {text}: write it as price=number")
        found[name] = Kinds[kind.upper()]
    return found


def limits(lifetime_s: float | None, most: int | None) -> Limits:
    """Of all topics together."""
    from reefcast.history.limits import Limits as Made

    lifetimes = {} if lifetime_s is None else {"#": lifetime_s}
    return Made(rows=most, lifetimes_s=lifetimes)


# --- the life of a storage ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """How a storage keeps its history: see `HistoryStore` and `StorageNode`."""

    directory: Path
    limits: Limits
    indexed: Mapping[str, Kind] = field(default_factory=dict)
    seal_after_s: float | None = SEAL_AFTER_S
    forget: bool = False

    def open(self, *, mend: bool) -> HistoryStore:
        """Takes its time."""
        from reefcast.history.store import HistoryStore as Store

        return Store(self.directory, _report, self.limits, self.indexed, mend=mend)


Following = Callable[["StorageNode"], Coroutine[Any, Any, None]]


async def forever(node: StorageNode) -> None:
    """Follows nothing."""
    await asyncio.Event().wait()


def run_store(
    url: str,
    topics: Sequence[str],
    keeping: Keeping,
    joining: Sequence[str] = (),
    *,
    name: str = "storage",
    network: str = "",
    until_eof: bool = False,
    ready: Callable[[StorageNode], None],
    following: Following = forever,
) -> None:
    """The life of a process that is a storage, until it is told to stop (`server.process.run`).

    `ready` is called whenever it has said for what it answers; `following` runs beside it, and ends
    it when it returns. Damage is mended, as far as it can be, and fetched from other storages.
    """
    from reefcast.server.process import run

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")

    async def attached(store: HistoryStore, stop: asyncio.Event) -> None:
        from reefcast.client import connect
        from reefcast.client.storage_node import StorageNode as Node

        # A storage waits for its broker as long as that takes; publishers wait a while for it.
        async with connect(
            url,
            name=name,
            network=network,
            reconnect_timeout_s=math.inf,
            queue_policy="block",
        ) as client:
            forget, seal_after_s = keeping.forget, keeping.seal_after_s
            node = Node(client, store, topics, joining, forget=forget, seal_after_s=seal_after_s)
            await first_of(node.run(partial(ready, node)), stop.wait(), following(node))

    async def serve(stop: asyncio.Event) -> None:
        mends = 0
        while True:
            store = await asyncio.to_thread(keeping.open, mend=mends > 0)
            try:
                await attached(store, stop)
                break
            except SlowConsumerError as error:
                log.error("%s. It connects again, and asks others for what it lacks", error)
            except DamagedError as error:
                if mends == MOST_MENDS:
                    raise
                mends += 1
                log.error("%s. The history is opened again, and mended", error)
            finally:
                await asyncio.to_thread(store.close)

    run(serve, until_eof=until_eof)


async def first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Until one of them ends, which ends the others; raises what that raises, or they."""
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


def _report(error: DamagedError) -> None:
    log.error("%s", error)
