"""`reefcast peer`: a broker that is in no network file."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from reefcast import logs
from reefcast.cli.filter_arguments import check_filters
from reefcast.cli.options import INPUT_FILE, json_option, log_options
from reefcast.cli.secured import client_options, connect, own_files
from reefcast.cli.subscribe import json_line, text_line
from reefcast.client import Event, Subscription
from reefcast.security.credentials import NETWORK_KEY
from reefcast.server.peer import Peer
from reefcast.tls.environment import completed
from reefcast.tls.files import TlsFiles


@click.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:7301",
    show_default=True,
    help="The address on which others reach it; also the peer's name.",
)
@click.option(
    "--join",
    metavar="HOST:PORT,...",
    default="",
    help="Brokers or peers of the network, tried until one answers. By default the peer starts a "
    "network of its own.",
)
@client_options
@click.option(
    "--network-key",
    type=INPUT_FILE,
    help="The file with the network's key, if it has one; clients of the peer must show it, too. "
    "The environment variable REEFCAST_NETWORK_KEY_FILE may name it as well.",
)
@click.option(
    "--subscribe",
    "filters",
    multiple=True,
    metavar="FILTER",
    help="Print the events that match this; may be repeated.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Allow addresses that other machines can reach, although there is no encryption.",
)
@click.option(
    "--admin",
    metavar="HOST:PORT",
    default="",
    help="Answer operators over HTTP on this address: /metrics, /status, /healthz, /readyz.",
)
@log_options
@json_option("a line when it is ready, and one for each event")
def command(
    *,
    listen: str,
    join: str,
    network_key: Path | None,
    filters: tuple[str, ...],
    insecure: bool,
    admin: str,
    log_format: str | None,
    log_levels: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a peer: a broker of routing gossip that is in no network file.

        reefcast peer --listen 127.0.0.1:7411 --join 127.0.0.1:7301

    It asks one broker or peer for what it must know. Clients use it like any broker:
    reefcast://127.0.0.1:7411. It prints one line when it is ready, and runs until SIGTERM or
    SIGINT; then it leaves its topics, closes its clients' connections, and ends.
    """
    from reefcast.server.process import run

    check_filters(filters)
    logs.set_up(logs.Settings().changed(log_format, log_levels), broker=listen)
    addresses = [address.strip() for address in join.split(",") if address.strip()]
    files = _files(own_files())
    key = str(network_key or os.environ.get(NETWORK_KEY, ""))
    peer = Peer(
        listen,
        join=addresses,
        certificate=files.certificate,
        key=files.key,
        authority=files.authority,
        insecure=insecure,
        network_key=key,
        admin=admin,
    )
    run(partial(_serve, peer, filters, as_json))


def _files(given: TlsFiles) -> TlsFiles:
    """Return what the peer shows and trusts, by the command line and the environment. An authority
    in the environment alone is for clients, and gives a peer no TLS."""
    said = completed(given._asdict())
    if not said["certificate"]:
        return given
    return TlsFiles(said["authority"], said["certificate"], said["key"])


async def _serve(
    peer: Peer, filters: tuple[str, ...], as_json: bool, told_to_stop: asyncio.Event
) -> None:
    from reefcast.server.process import reload_at_hangup

    async with peer:
        reload_at_hangup(peer.node.reload)
        network = peer.node.network.network.name
        if as_json:
            click.echo(json.dumps({"peer": peer.name, "network": network}))
        else:
            click.echo(f"peer {peer.name} is in network {network}")
        if filters:
            await _print_events(peer, filters, as_json, told_to_stop)
        else:
            await told_to_stop.wait()


async def _print_events(
    peer: Peer, filters: tuple[str, ...], as_json: bool, told_to_stop: asyncio.Event
) -> None:
    """Print events until the peer is told to stop."""
    stopping = asyncio.create_task(told_to_stop.wait())
    async with connect(peer.url, name="peer", network_key=peer.network_key) as client:
        subscription = await client.subscribe(*filters)
        click.echo("reefcast: subscribed", err=True)
        printing = asyncio.create_task(_print(subscription, json_line if as_json else text_line))
        await asyncio.wait((printing, stopping), return_when=asyncio.FIRST_COMPLETED)
    await printing  # it ended with the client, or fails
    stopping.cancel()


async def _print(subscription: Subscription, line: Callable[[Event], str]) -> None:
    async for event in subscription:
        click.echo(line(event))
