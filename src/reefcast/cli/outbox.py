"""`reefcast outbox`: what a publisher's outbox file holds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from reefcast.cli.options import json_option
from reefcast.model.publication import Publication


@click.command()
@click.argument("outbox", type=click.Path(dir_okay=False, path_type=Path))
@json_option("the publisher, the last number, and the ids and times of what waits")
def command(outbox: Path, as_json: bool) -> None:
    """Show what a publisher's outbox file holds.

        reefcast outbox orders.outbox

    These events are published but not confirmed; the next program that publishes with this file
    sends them again. No program may have the file open meanwhile.
    """
    from reefcast.client.outbox_file import read_outbox

    left = read_outbox(outbox)
    waiting = left.publications()
    if as_json:
        rows = [{"seq": each.seq, "time": _time(each)} for each in waiting]
        found = {"publisher": left.identity.id, "last_seq": left.last_seq, "waiting": rows}
        click.echo(msgspec.json.encode(found))
        return
    count = f"{len(waiting)} event{'s' * (len(waiting) != 1)}"
    click.echo(f"{left.identity.id} has published {left.last_seq}, of which {count} wait")
    for each in waiting:
        click.echo(f"{_time(each)}  {each.publisher}#{each.seq}  {_attributes(each)}")


def _time(publication: Publication) -> str:
    at = datetime.fromtimestamp(publication.time_us / 1e6, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _attributes(publication: Publication) -> str:
    return "  ".join(f"{name}={value}" for name, value in publication.attributes.items())
