"""`reefcast storage`: one storage of a network file."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reefcast.cli.options import json_option, network_argument
from reefcast.cli.store import kinds, limits
from reefcast.network.file import load_network
from reefcast.network.storages import storage_named

if TYPE_CHECKING:
    from reefcast.network.sections import StorageEntry
    from reefcast.storage_node.node import StorageNode
    from reefcast.storage_node.process import Keeping


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
    from reefcast.storage_node.following import Following
    from reefcast.storage_node.process import run_store

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
        follow=Following(network, entry).follow,
    )


def _keeping(entry: StorageEntry) -> Keeping:
    from reefcast.storage_node.process import Keeping as Made

    return Made(
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
