"""`reefcast topology`: design overlays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.command_line import Group
from reefcast.cli.options import OUTPUT_FILE, clusters_option, json_option, tree_option
from reefcast.errors import ConfigurationError

if TYPE_CHECKING:
    from reefcast.overlay.scot import Scot


@click.group(cls=Group)
def command() -> None:
    """Design an overlay: classify it, draw it, write its network file.

        reefcast topology scot --tree path:3 --clusters 4 --draw scot.svg

    A network file with any other overlay can be written by hand.
    """


@command.command()
@tree_option()
@clusters_option()
@click.option(
    "--routing",
    metavar="NAME",
    default="idr",
    show_default=True,
    help="Routing that the network file is to name.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:7301",
    show_default=True,
    help="Address of the first broker in the network file; the others take the ports after it.",
)
@click.option("--out", type=OUTPUT_FILE, help="Write the network file to this file.")
@click.option("--draw", type=OUTPUT_FILE, help="Write a drawing to this file, as SVG.")
@json_option("what it consists of")
def scot(
    tree: str,
    clusters: int,
    routing: str,
    listen: str,
    out: Path | None,
    draw: Path | None,
    as_json: bool,
) -> None:
    """Make a structured cyclic overlay: a tree times a complete graph of clusters.

        reefcast topology scot --tree path:3 --clusters 4 --out scot.toml

    Every cluster is a copy of the tree (its links are aLinks); the brokers at one place of the tree
    are a region, all linked with one another (iLinks). It prints the classes of brokers and links.
    """
    from reefcast.network.tree_sources import tree_of
    from reefcast.overlay.scot import scot as scot_from

    made = scot_from(tree_of(tree), clusters)
    if out:
        write_network(made, out, routing, listen)
    if draw:
        from reefcast.pipeline.scot_figure import scot_figure

        draw.write_text(scot_figure(made), encoding="utf-8")
    described = classification(made)
    if as_json:
        click.echo(json.dumps(described))
    else:
        _print(described, made)
        for written in filter(None, (out, draw)):
            click.echo(f"wrote {written}")


def write_network(made: Scot, out: Path, routing: str, listen: str) -> None:
    """Write the network file of a SCOT. Raises `ConfigurationError` for an unknown routing or a
    wrong address."""
    from reefcast.network.file import dump_network, scot_network
    from reefcast.routing.registry import routing_named

    routing_named(routing)
    addresses = _addresses(listen, len(made.graph))
    network = scot_network(made, addresses, routing=routing)
    out.write_text(dump_network(network), encoding="utf-8")


def _addresses(first: str, count: int) -> list[str]:
    host, _, port = first.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigurationError(
            f'--listen {first}: write host:port, for instance "127.0.0.1:7301"'
        )
    last = int(port) + count - 1
    if not 0 < int(port) <= last < 65536:
        raise ConfigurationError(
            f"--listen {first}: {count} brokers need the ports {port} to {last}; there are 1 to "
            "65535"
        )
    return [f"{host}:{int(port) + i}" for i in range(count)]


def classification(made: Scot) -> dict[str, Any]:
    """Return what the overlay consists of, as plain data; see `overlay.scot` for the words."""
    brokers = [
        {
            "broker": name,
            "region": place.region,
            "cluster": place.cluster,
            "kind": "edge" if made.is_edge(name) else "inner",
            "primary": list(made.neighbours(name).primary),
            "secondary": list(made.neighbours(name).secondary),
        }
        for name, place in made.places.items()
    ]
    return {
        "regions": list(made.tree),
        "clusters": made.clusters,
        "edge": sum(row["kind"] == "edge" for row in brokers),
        "inner": sum(row["kind"] == "inner" for row in brokers),
        "a_links": len(made.a_links),
        "i_links": len(made.i_links),
        "diameter": made.diameter,
        "brokers": brokers,
    }


def _print(described: dict[str, Any], made: Scot) -> None:
    from rich.table import Table

    from reefcast.cli.terminal import plain_console

    table = Table("region", "kind", "linked in the tree with", "brokers, cluster by cluster")
    for label, around in made.tree.items():
        brokers = made.region(label)
        kind = "edge" if made.is_edge(brokers[0]) else "inner"
        table.add_row(label, kind, ", ".join(around), ", ".join(brokers))
    plain_console().print(table)
    click.echo(
        f"{len(described['regions'])} regions x {described['clusters']} clusters = "
        f"{len(made.graph)} brokers ({described['edge']} edge, {described['inner']} inner), "
        f"{described['a_links']} aLinks, {described['i_links']} iLinks, "
        f"diameter {described['diameter']}"
    )
