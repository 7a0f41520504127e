"""`reefcast broker`: one broker of a network file."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reefcast.cli.options import json_option, network_argument
from reefcast.network.file import load_network

if TYPE_CHECKING:
    from reefcast.server.node import Node


@click.command()
@network_argument
@click.argument("name")
@click.option("--verbose", is_flag=True, help="Log who comes and goes, on standard error.")
@click.option("--until-eof", is_flag=True, help="Stop when standard input ends, too.")
@json_option("a line when it is ready")
def command(network: Path, name: str, verbose: bool, until_eof: bool, as_json: bool) -> None:
    """Run one broker of a network file.

        reefcast broker net.toml north

    NAME is the broker's in the network file NETWORK. It prints one line when it is ready, and runs
    until SIGTERM or SIGINT: then it drains its queues, tells its clients, and ends.
    """
    from reefcast.server.process import run_broker

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format=f"%(asctime)s {name} %(levelname)s %(message)s",
    )
    described = load_network(network)
    listen = described.entry(name).listen

    def ready(node: Node) -> None:
        if as_json:
            click.echo(json.dumps({"broker": name, "listen": listen}))
        else:
            click.echo(f"broker {name} listens on {listen}")

    run_broker(described, name, ready, until_eof=until_eof)
