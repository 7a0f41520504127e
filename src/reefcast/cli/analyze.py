"""`reefcast analyze`: a trace, simulated or live, becomes tables and an HTML report."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reefcast.cli.options import DIRECTORY, OUTPUT_FILE, json_option, master_option

if TYPE_CHECKING:
    from reefcast.pipeline.analysis import Analysis


@click.command()
@click.argument("directory", type=DIRECTORY)
@click.option("--out", type=OUTPUT_FILE, help="Write an HTML report to this file.")
@click.option(
    "--tables", type=DIRECTORY, help="Write all figures into this directory, as Parquet tables."
)
@click.option("--title", default="", help="Title of the report; by default it names the network.")
@master_option
@json_option("all figures")
def command(
    directory: Path,
    out: Path | None,
    tables: Path | None,
    title: str,
    master: str,
    as_json: bool,
) -> None:
    """Turn a trace into tables and an HTML report, with Spark.

        reefcast analyze out/trace --out report.html

    DIRECTORY holds the trace, of the simulator or of live brokers. It shows delays, load, tables,
    queues and discards. docs/reference/spark-tables.md has the columns of each table.
    """
    from reefcast.pipeline.session import spark_session
    from reefcast.traces.files import read_run

    read_run(directory)  # says at once, not after Spark has started, that there is no trace
    with spark_session("reefcast analyze", master) as spark:
        from reefcast.pipeline.analysis import analyze

        analysis = analyze(spark, directory)
    if tables is not None:
        from reefcast.pipeline.analysis import write_tables

        write_tables(analysis, tables)
    if out is not None:
        from reefcast.pipeline.report import Report, write_report

        write_report(Report(title or title_of(analysis.run), analysis), out)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(analysis)))
    else:
        print_tables(analysis)
        for what, where in (("report", out), ("tables", tables)):
            if where is not None:
                click.echo(f"{what}: {where}")


def title_of(run: dict[str, Any]) -> str:
    """Return the title of a report to which nobody gave one."""
    from reefcast.pipeline.units import counted

    how = "Simulated run" if run["simulated"] else "Run"
    return f"{how} of {run.get('network') or counted(len(run['brokers']), 'broker')}"


def print_tables(analysis: Analysis) -> None:
    """Print the main figures as tables."""
    from rich.table import Table

    from reefcast.cli.terminal import plain_console
    from reefcast.pipeline.units import count, counted, duration, size

    console, delays = plain_console(), analysis.delays
    console.print(
        f"{counted(len(analysis.run['brokers']), 'broker')}, routing {analysis.run['routing']}; "
        f"{count(delays['count'])} deliveries to clients: 50 % within {duration(delays['p50'])}, "
        f"99 % within {duration(delays['p99'])}, longest {duration(delays['max'])}",
        highlight=False,
        soft_wrap=True,
    )
    links = Table("link", "publications", "control", "bytes")
    for link in analysis.links:
        cells = (count(link["publications"]), count(link["control"]), size(link["size_bytes"]))
        links.add_row(f"{link['a']} - {link['b']}", *cells)
    brokers = Table("broker", "published", "sent on", "delivered")
    for row in analysis.brokers:
        brokers.add_row(
            row["broker"], *(count(row[k]) for k in ("published", "sent", "deliveries"))
        )
    state = Table("broker", "table", "rows at the end", "at most")
    for row in analysis.tables:
        state.add_row(row["broker"], row["table"], count(row["rows"]), count(row["most"]))
    for table in (links, brokers, state):
        console.print(table)
