"""`reefcast storage`: keeps what is published and answers for it, by a network file or alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reefcast import logs
from reefcast.cli.broker_url import split_words
from reefcast.cli.options import DIRECTORY, Number, Whole, json_option, log_options
from reefcast.cli.secured import client_options, given
from reefcast.client.address import Address
from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile, load_network
from reefcast.network.sections import StorageEntry
from reefcast.network.storages import storage_named
from reefcast.protocol.privacy import is_loopback

if TYPE_CHECKING:
    from reefcast.client import Options
    from reefcast.history.limits import Limits
    from reefcast.model.values import Kind
    from reefcast.storage_node.node import StorageNode
    from reefcast.storage_node.process import Keeping

SEAL_AFTER_S = 3600.0
ALONE = "storage"
"""The name of a storage that is in no network file."""


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="NETWORK NAME | [URL] TOPIC...")
@client_options
@click.option(
    "--directory",
    type=DIRECTORY,
    help="The directory of a storage without a network file; created if needed.",
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
    help="Delete other topics from DIRECTORY; by default they stay there.",
)
@click.option(
    "--session",
    metavar="NAME",
    default="",
    help="Get new events from a durable session of this name, so that what is confirmed is stored "
    "whatever is killed; by default from a subscription.",
)
@click.option(
    "--admin",
    metavar="HOST:PORT",
    default="",
    help="With --directory, answer operators on this machine over HTTP, such as at 127.0.0.1:9466.",
)
@log_options
@click.option("--until-eof", is_flag=True, help="Stop when standard input ends, too.")
@json_option("a line whenever the topics that it serves change")
@click.pass_context
def command(
    context: click.Context,
    *,
    words: tuple[str, ...],
    directory: Path | None,
    indexed: tuple[str, ...],
    lifetime_s: float | None,
    most: int | None,
    seal_after_s: float,
    forget: bool,
    session: str,
    admin: str,
    log_format: str | None,
    log_levels: tuple[str, ...],
    until_eof: bool,
    as_json: bool,
) -> None:
    """Run a storage, which stores the events of some topics, and serves them later.

        reefcast storage net.toml s1

    NAME is the name of the storage in the network file NETWORK. It follows its entry there (see
    `reefcast network move-storages`), and ends when the entry is removed.

        reefcast storage fx "a/#" --directory history

    With --directory it needs no network file. TOPIC is a topic or an MQTT pattern. URL is the
    broker's, reefcast://host:port; by default that of REEFCAST_URL, or of a broker on this machine.

    It prints a line when it runs, and whenever its topics change, and runs until SIGTERM or SIGINT.
    Committed events survive a crash. See `reefcast history`.
    """
    if directory is None:
        _check_named(context, words)
        file, name = words
        described = load_network(file)
        logs.set_up(described.log.settings.changed(log_format, log_levels), storage=name)
        _run_named(described, Path(file), name, until_eof=until_eof, as_json=as_json)
        return
    logs.set_up(logs.Settings().changed(log_format, log_levels), storage=str(directory))
    from reefcast.storage_node.process import Keeping, Shown, run_store

    url, topics = split_words(words, "TOPIC...")
    entry = StorageEntry(ALONE, url, list(topics), str(directory), admin=admin)
    _check_alone(entry)
    keeping = Keeping(
        directory=directory,
        indexed=kinds(indexed),
        limits=limits(lifetime_s, most),
        seal_after_s=seal_after_s,
        forget=forget,
        session=session,
    )
    said = partial(_say, as_json)
    run_store(
        *(url, topics, keeping),
        shown=given(),
        operators=Shown(NetworkFile(), entry),
        until_eof=until_eof,
        ready=said,
    )


def _check_named(context: click.Context, words: tuple[str, ...]) -> None:
    """Raise `UsageError` for words or options that a storage of a network file does not take."""
    given = click.core.ParameterSource.COMMANDLINE
    for option in ("indexed", "lifetime_s", "most", "seal_after_s", "forget", "session", "admin"):
        if context.get_parameter_source(option) == given:
            flag = next(p.opts[0] for p in context.command.params if p.name == option)
            raise click.UsageError(
                f"{flag} goes with --directory; a network file says that of its storages"
            )
    if len(words) != 2:
        raise click.UsageError(
            "give NETWORK and NAME; or topics, and --directory for where they are kept"
        )


def _check_alone(entry: StorageEntry) -> None:
    """Raise `ConfigurationError` for an admin address that others can reach: without a network file
    nobody would have to prove who he is."""
    address = entry.admin_address
    if address is not None and not is_loopback(address[0]):
        raise ConfigurationError(
            f"--admin {entry.admin}: the storage would show its status on {address[0]}, which "
            "others can reach; choose a loopback address such as 127.0.0.1:9466, or describe the "
            "storage in a network file with [tls] and [security]"
        )


def _say(as_json: bool, node: StorageNode) -> None:
    if as_json:
        click.echo(json.dumps({"storage": node.id, "topics": node.answers}))
    elif node.answers:
        click.echo(f"storage {node.id} answers for {', '.join(node.answers)}")


def kinds(indexed: Sequence[str]) -> dict[str, Kind]:
    """Return the kinds of attributes to be indexed, written as `price=number`."""
    from reefcast.model.values import Kind as Kinds

    found = {}
    for text in indexed:
        name, _, kind = text.rpartition("=")
        if not name or kind.upper() not in Kinds.__members__:
            raise ConfigurationError(f"--index {text}: write it as price=number")
        found[name] = Kinds[kind.upper()]
    return found


def limits(lifetime_s: float | None, most: int | None) -> Limits:
    """Return the limits of all topics together."""
    from reefcast.history.limits import Limits as Made

    lifetimes = {} if lifetime_s is None else {"#": lifetime_s}
    return Made(rows=most, lifetimes_s=lifetimes)


# --- of a network file ----------------------------------------------------------------------------


def _run_named(
    described: NetworkFile, network: Path, name: str, *, until_eof: bool, as_json: bool
) -> None:
    from reefcast.storage_node.following import Following
    from reefcast.storage_node.process import Shown, run_store

    entry = storage_named(name, described.storage)
    run_store(
        str(Address(*described.address(entry.broker), described.tls.on)),
        entry.topics,
        _keeping(entry),
        entry.joining,
        name=name,
        network=described.network.name,
        shown={**_tls(described, name), **_key(described)},
        operators=Shown(described, entry, network),
        until_eof=until_eof,
        ready=partial(_say_named, entry, as_json),
        follow=Following(network, entry).follow,
    )


def _tls(network: NetworkFile, name: str) -> Options:
    """Return what the storage shows and trusts, by the network file and the command line."""
    files, told = network.tls.files(name), given()
    if not network.tls.on:
        return told
    if "certificate" in told:
        files = files._replace(certificate="", key="")
    named: Options = {
        "authority": files.authority,
        "certificate": files.certificate,
        "key": files.key,
    }
    return {**named, **told}


def _key(network: NetworkFile) -> Options:
    """Return what proves that the storage is a part of the network: its key, if that is at hand."""
    from reefcast.server.admin import key_at_hand

    key = key_at_hand(network)
    return {"network_key": key} if key else {}


def _keeping(entry: StorageEntry) -> Keeping:
    from reefcast.storage_node.process import Keeping as Made

    return Made(
        directory=Path(entry.directory),
        limits=limits(entry.lifetime_s, entry.most),
        indexed=kinds([f"{attribute}={kind}" for attribute, kind in entry.index.items()]),
        seal_after_s=entry.seal_after_s,
        forget=entry.forget,
        session=entry.session,
    )


def _say_named(entry: StorageEntry, as_json: bool, node: StorageNode) -> None:
    if as_json:
        told = {"storage": entry.name, "id": node.id, "at": entry.broker, "topics": node.answers}
        click.echo(json.dumps(told))
    else:
        about = (
            f"answers for {', '.join(node.answers)}" if node.answers else "answers for nothing yet"
        )
        click.echo(f"storage {entry.name} at {entry.broker} {about}")
