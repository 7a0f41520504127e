"""`reefcast broker`: one broker of a network file."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import click

from reefcast.overlay.network_file import load_network

if TYPE_CHECKING:
    from reefcast.server.node import Node


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Say that it is ready as a JSON object.")
@click.option("--verbose", is_flag=True, help="Log who comes and goes, on standard error.")
@click.option("--until-eof", is_flag=True, help="Stop when standard input ends, too.")
def command(file: str, name: str, as_json: bool, verbose: bool, until_eof: bool) -> None:
    """Run the broker NAME of the network FILE until it is told to stop.

    It prints one line when it is ready. SIGTERM and SIGINT make it drain its
    queues, tell its clients, and end with exit code 0.
    """
    from reefcast.server.process import run_broker

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format=f"%(asctime)s {name} %(levelname)s %(message)s",
    )
    network = load_network(file)
    network.entry(name)

    def ready(node: Node) -> None:
        if as_json:
            click.echo(json.dumps({"broker": name, "listen": network.entry(name).listen}))
        else:
            click.echo(f"broker {name} listens on {network.entry(name).listen}")

    run_broker(network, name, ready, until_eof=until_eof)
