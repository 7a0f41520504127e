"""`reefcast store`: a storage, which keeps what is published and answers for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reefcast.cli.broker_url import split_words, words_argument
from reefcast.cli.options import DIRECTORY, Number, Whole, json_option
from reefcast.errors import ConfigurationError

if TYPE_CHECKING:
    from reefcast.history.limits import Limits
    from reefcast.model.values import Kind
    from reefcast.storage_node.node import StorageNode

SEAL_AFTER_S = 3600.0


@click.command()
@words_argument("TOPIC...")
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
    words: tuple[str, ...],
    directory: Path,
    indexed: tuple[str, ...],
    lifetime_s: float | None,
    most: int | None,
    seal_after_s: float,
    forget: bool,
    as_json: bool,
) -> None:
    """Keep what is published under some topics, and answer for it.

        reefcast store fx "a/#" --directory history

    TOPIC is a topic or an MQTT pattern. What is committed survives a crash. It runs until SIGTERM
    or SIGINT. See `reefcast history`. URL is the broker's that the storage attaches to,
    reefcast://host:port; by default what REEFCAST_URL says, or a broker on this machine.
    """
    url, topics = split_words(words, "TOPIC...")
    from reefcast.storage_node.process import Keeping, run_store

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
