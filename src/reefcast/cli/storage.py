"""`reefcast storage`: one storage of a network file."""

from __future__ import annotations

import asyncio
import json
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from reefcast.cli.options import json_option, network_argument
from reefcast.cli.store import Keeping, kinds, limits, run_store
from reefcast.errors import ConfigurationError
from reefcast.network.file import load_network
from reefcast.network.storages import storage_named
from reefcast.network.watching import Watched

if TYPE_CHECKING:
    from reefcast.client.storage_node import StorageNode
    from reefcast.network.sections import StorageEntry

FOLLOW_S = 0.2
"""Between two looks at the network file."""
log = logging.getLogger("reefcast.storage")


@click.command()
@network_argument
@click.argument("name")
@click.option("--until-eof", is_flag=True, help="Stop when standard input ends, too.")
@json_option("a line when it runs, and whenever it answers for other topics")
def command(network: Path, name: str, until_eof: bool, as_json: bool) -> None:
    """Run one storage of a network file.

        reefcast storage net.toml s1

    NAME is the storage's in the network file NETWORK. It prints a line when it runs, and whenever
    it answers for other topics. These are always those that NETWORK gives it (`reefcast network
    place`); it ends when NETWORK has it no more, or at SIGTERM or SIGINT. What is committed
    survives a crash.
    """
    described = load_network(network)
    entry = storage_named(name, described.storage)
    host, port = described.address(entry.broker)
    run_store(
        f"reefcast://{f'[{host}]' if ':' in host else host}:{port}",
        entry.topics,
        _keeping(entry),
        entry.joining,
        name=name,
        network=described.network.name,
        until_eof=until_eof,
        ready=partial(_say, entry, as_json),
        following=Following(network, entry).follow,
    )


def _keeping(entry: StorageEntry) -> Keeping:
    return Keeping(
        directory=Path(entry.directory),
        limits=limits(entry.lifetime_s, entry.most),
        indexed=kinds([f"{attribute}={kind}" for attribute, kind in entry.index.items()]),
        seal_after_s=entry.seal_after_s,
        forget=entry.forget,
    )


def _say(entry: StorageEntry, as_json: bool, node: StorageNode) -> None:
    if as_json:
        told = {"storage": entry.name, "id": node.id, "at": entry.broker, "topics": node.answers}
        click.echo(json.dumps(told))
    else:
        about = (
            f"answers for {', '.join(node.answers)}" if node.answers else "answers for nothing yet"
        )
        click.echo(f"storage {entry.name} at {entry.broker} {about}")


class Following:
    """The storage does what its entry in the network file says; `entry`: as it was first."""

    def __init__(self, file: Path, entry: StorageEntry) -> None:
        self._watched = Watched(file)
        self._entry = entry

    async def follow(self, node: StorageNode) -> None:
        """Until there is no such entry any more."""
        node.change(self._entry.topics, self._entry.joining)
        while (entry := self._look()) is not None:
            if entry != self._entry:
                self._entry = entry
                node.change(entry.topics, entry.joining)
            await asyncio.sleep(FOLLOW_S)

    def _look(self) -> StorageEntry | None:
        before = self._entry
        try:
            network = self._watched.look()
        except ConfigurationError as error:
            log.warning("storage %s stays as it is: %s", before.name, error)
            return before
        if network is None:
            return before
        now = next((entry for entry in network.storage if entry.name == before.name), None)
        if now and replace(now, topics=before.topics, joining=before.joining) != before:
            log.warning("storage %s: all but its topics are as they were at its start", now.name)
        return now
