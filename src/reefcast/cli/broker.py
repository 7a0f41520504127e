"""`reefcast broker`: one broker, alone or of a network file."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

import click

from reefcast.cli.options import DIRECTORY, INPUT_FILE, Whole, json_option
from reefcast.client.address import DEFAULT_PORT, Address
from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile, load_network
from reefcast.network.sections import BrokerEntry, SessionsSection

if TYPE_CHECKING:
    from reefcast.server.node import Node

ALONE, LOOPBACK = "b1", "127.0.0.1"
"""The name of a broker that is in no network file, and the host on which it listens."""

COMPILING = "preparing the matching index: it is compiled at the first start (some 20 seconds)"

FIRST_STEPS = """\
broker {name} listens on {listen}, for programs on this machine only (Ctrl-C ends it)

To see the events that match a filter, type in a second terminal:
    reefcast subscribe {url} "price < 100"

To publish an event, type in a third one:
    reefcast publish {url} symbol=IBM price=99"""


@click.command()
@click.argument("network", type=INPUT_FILE, required=False)
@click.argument("name", required=False)
@click.option(
    "--port",
    type=Whole(0, 65535),
    help=f"Without NETWORK, listen on this port; by default {DEFAULT_PORT}; 0: any free port.",
)
@click.option(
    "--directory",
    type=DIRECTORY,
    help="Without NETWORK, keep durable sessions in this directory; by default nothing is kept.",
)
@click.option("--verbose", is_flag=True, help="Log on standard error who connects and disconnects.")
@click.option("--until-eof", is_flag=True, help="Stop when standard input ends, too.")
@json_option("a line when it is ready")
def command(
    *,
    network: Path | None,
    name: str | None,
    port: int | None,
    directory: Path | None,
    verbose: bool,
    until_eof: bool,
    as_json: bool,
) -> None:
    """Run one broker: alone, or one of a network file.

        reefcast broker

    Alone it serves programs on this machine, with the defaults of a network file, and prints how to
    subscribe and publish.

        reefcast broker net.toml north

    NAME is the name of the broker in the network file NETWORK. The broker prints one line when it
    is ready.

    Either runs until SIGTERM or SIGINT; then it drains its queues, closes its clients' connections,
    and ends.
    """
    _check(network, name, port, directory)
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format=f"%(asctime)s {name or ALONE} %(levelname)s %(message)s",
    )
    if network is not None and name is not None:
        _run(network, name, until_eof=until_eof, as_json=as_json)
    else:
        sessions = SessionsSection(directory="" if directory is None else str(directory))
        _run_alone(
            DEFAULT_PORT if port is None else port, sessions, until_eof=until_eof, as_json=as_json
        )


def _check(
    network: Path | None, name: str | None, port: int | None, directory: Path | None
) -> None:
    """Raise `UsageError` for a part of what only makes sense together."""
    if network is not None and name is None:
        raise click.UsageError(
            f"give the NAME of a broker in {network}, or give neither, for a broker alone"
        )
    if network is not None and port is not None:
        raise click.UsageError(
            f"--port is for a broker alone; {network} says where broker {name} listens"
        )
    if network is not None and directory is not None:
        raise click.UsageError(
            f"--directory is for a broker alone; for broker {name} say so in {network}: "
            "directory in [sessions]"
        )


def _run(file: Path, name: str, *, until_eof: bool, as_json: bool) -> None:
    """Run one broker of a network."""
    from reefcast.server.process import run_broker

    network = load_network(file)
    entry = network.entry(name)
    text = f"broker {name} listens on {entry.listen}"
    run_broker(network, name, lambda _: _say(entry, text, as_json), file=file, until_eof=until_eof)


def _run_alone(port: int, sessions: SessionsSection, *, until_eof: bool, as_json: bool) -> None:
    """Run a broker that is in no network file; `port`: 0 for any free port.

    Raises `ConfigurationError` if it cannot listen there."""
    from reefcast.server.process import run_broker
    from reefcast.server.supervisor import LOADING_S, free_ports

    entry = BrokerEntry(ALONE, f"{LOOPBACK}:{port or free_ports(1)[0]}")
    network = NetworkFile(broker=[entry], sessions=sessions).validate()
    patience = Timer(LOADING_S, click.echo, (COMPILING,), {"err": True})

    def ready(node: Node) -> None:
        patience.cancel()
        _say(entry, _first_steps(entry), as_json)

    patience.start()
    try:
        run_broker(network, ALONE, ready, until_eof=until_eof)
    except ConfigurationError as error:
        # All but the address is as by default.
        raise ConfigurationError(
            f"{error}; choose another port with --port, or --port 0 for any that is free"
        ) from error
    finally:
        patience.cancel()


def _first_steps(entry: BrokerEntry) -> str:
    """Return what a newcomer needs to know: where the broker listens, and what to type next."""
    url = Address(*entry.address)
    return FIRST_STEPS.format(name=entry.name, listen=entry.listen, url=url)


def _say(entry: BrokerEntry, text: str, as_json: bool) -> None:
    told = {"broker": entry.name, "listen": entry.listen}
    click.echo(json.dumps(told) if as_json else text)
