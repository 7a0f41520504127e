"""`reefcast certificates`: a private authority, and certificates from it, for a network file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reefcast.cli.command_line import Group
from reefcast.cli.options import Whole, json_option, network_argument
from reefcast.network.file import read_network
from reefcast.network.rewriting import rewrite_text

if TYPE_CHECKING:
    from reefcast.network.certifying import Issued


@click.group(cls=Group)
def command() -> None:
    """Make certificates for a network of brokers, from an authority of its own.

        reefcast certificates make net.toml

    They are for trying out, and for networks that have no other authority. NETWORK is the network
    file.
    """


@command.command()
@network_argument
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="Make one for a client, known as CN=NAME; may be repeated.",
)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    metavar="HOST",
    help="Make one for peers that listen on this host; may be repeated.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME=HOST",
    help="Another name or address on which a broker, or the admin listener of a storage, is "
    "reached, besides that on which it listens; may be repeated.",
)
@click.option(
    "--days",
    type=Whole(1),
    default=365,
    show_default=True,
    help="For how long new certificates are valid; the authority is for ten years.",
)
@click.option(
    "--renew",
    is_flag=True,
    help="Replace certificates that are there, from the same authority; by default they stay.",
)
@json_option("what there is now, and what of it is new")
def make(
    *,
    network: Path,
    clients: tuple[str, ...],
    peers: tuple[str, ...],
    hosts: tuple[str, ...],
    days: int,
    renew: bool,
    as_json: bool,
) -> None:
    """Make an authority and a certificate for each broker and storage of NETWORK.

        reefcast certificates make net.toml --client billing

    The files are where [tls] in NETWORK says; a NETWORK without that section gets one, so that its
    brokers speak TLS from their next start on. Keys can be read by you alone. What is there already
    stays as it is, so you may call this again for what has become missing. Running brokers use
    renewed certificates for new connections, without a restart.
    """
    from reefcast.network.certifying import Asked, certify, with_tls
    from reefcast.tls.making import now

    asked = Asked(clients, peers, _by_member(hosts), days, renew)
    text = network.read_bytes().decode()
    described = read_network(with_tls(text))
    described.tls = described.tls.below(network.parent)
    issued = certify(described, asked, now())
    changed = with_tls(text) != text
    if changed:
        rewrite_text(network, with_tls)
    if as_json:
        rows = [_row(each) for each in issued]
        click.echo(json.dumps({"network_changed": changed, "certificates": rows}))
        return
    for each in issued:
        click.echo(_in_words(each))
    if changed:
        click.echo(f"{network} has a section [tls] now")
    _say_what_else(issued[0])


def _by_member(hosts: tuple[str, ...]) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for text in hosts:
        member, _, host = text.rpartition("=")
        if not member or not host:
            raise click.UsageError(f"--host {text}: write it as NAME=HOST")
        named.setdefault(member, []).append(host)
    return named


def _row(issued: Issued) -> dict[str, object]:
    return {
        "for": issued.who,
        "certificate": str(issued.certificate),
        "key": str(issued.key),
        "ends": issued.ends.isoformat(),
        "made": issued.made,
    }


def _in_words(issued: Issued) -> str:
    done = "made" if issued.made else "kept"
    return f"{done} {issued.certificate} for {issued.who}, until {issued.ends:%Y-%m-%d}"


def _say_what_else(authority: Issued) -> None:
    click.echo(
        f"Clients need {authority.certificate}: --authority, or REEFCAST_AUTHORITY. "
        f"{authority.key} makes members of the network: keep it off the brokers' machines."
    )
