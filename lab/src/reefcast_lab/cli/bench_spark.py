"""`reefcast-lab bench spark`: matching in Spark, and its connector."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from reefcast.cli.options import INPUT_FILE, OUTPUT_FILE, Whole, json_option, master_option
from reefcast.errors import LocalError
from reefcast_lab.cli.bench_tables import SPARK, SPARK_BYTES, SPARK_EVENTS, printed
from reefcast_lab.cli.options import data_option, events_option

MATCHING, CONNECTOR, BYTES = "matching", "connector", "bytes"
SIZES = (100, 1000, 10_000)
MOST_QUOTES = 20_000
"""Events that are read for their bytes: more say the same."""


class Asked(NamedTuple):
    """What is to be measured, with options of all parts."""

    sizes: Sequence[int]
    events: int
    data: Path
    master: str


class Part(NamedTuple):
    """A part of the benchmark. `measure`: yields its rows, and tells what it does; `columns`: of
    what is printed; `block`: its place in a page; `figures`: makes the table there."""

    measure: Callable[[Asked, Callable[[str], None]], Iterable[Any]]
    columns: dict[str, str]
    block: str
    figures: Callable[[Sequence[Any]], str]


def _matching(asked: Asked, tell: Callable[[str], None]) -> Iterable[Any]:
    from reefcast_lab.bench.spark import bench

    return bench(asked.sizes, asked.events, asked.data, asked.master, tell)


def _connector(asked: Asked, tell: Callable[[str], None]) -> Iterable[Any]:
    from reefcast_lab.bench.spark_events import bench

    return bench(asked.events, asked.master, tell)


def _bytes(asked: Asked, tell: Callable[[str], None]) -> Iterable[Any]:
    from reefcast_lab.bench.spark_bytes import bench_bytes

    tell("storing quotes")
    return bench_bytes(min(asked.events, MOST_QUOTES), asked.master)


def _parts() -> Mapping[str, Part]:
    from reefcast_lab.bench import spark_bytes_page, spark_events_page, spark_page

    events, sizes = spark_events_page, spark_bytes_page
    return {
        MATCHING: Part(_matching, SPARK, spark_page.FIGURES, spark_page.figures),
        CONNECTOR: Part(_connector, SPARK_EVENTS, events.FIGURES, events.figures),
        BYTES: Part(_bytes, SPARK_BYTES, sizes.FIGURES, sizes.figures),
    }


@click.command()
@click.option(
    "--part",
    "names",
    type=click.Choice([MATCHING, CONNECTOR, BYTES]),
    multiple=True,
    help="Measure only matching, or rows through the connector, or the bytes that it reads; by "
    "default all; may be repeated.",
)
@click.option(
    "--n",
    "sizes",
    type=Whole(1),
    multiple=True,
    help="Filters to match; by default 100, 1 000 and 10 000; may be repeated.",
)
@events_option("all")
@data_option
@master_option
@click.option(
    "--plot",
    type=OUTPUT_FILE,
    help="Write a plot of matching, the time over the number of subscriptions, to this file, as "
    "SVG.",
)
@click.option(
    "--page",
    "pages",
    type=INPUT_FILE,
    multiple=True,
    help="Write the tables into this file, between its marks: docs/explanation/spark-matching.md, "
    "docs/reference/spark-connector.md; may be repeated.",
)
@json_option("a list of rows, each with its part")
def spark(
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    events: int,
    data: Path,
    master: str,
    plot: Path | None,
    pages: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Measure matching in Spark, and its connector.

        reefcast-lab bench spark --part connector --master "local[1]"

    MATCHING: the baselines are what one would write without Reefcast, a join on
    columns of lower and upper bounds, and filters as columns, in chunks; on the
    same events, and all must find the same pairs. It takes some ten minutes, and
    what would take much longer is left out.

    CONNECTOR: as many events are read out of sealed segments and out of a
    database, as a batch and as a stream, and published, beside the same rows in
    Parquet.

    BYTES: what comes from the network of at most 20 000 events, by how one asks
    for them.
    """
    parts = {name: part for name, part in _parts().items() if name in names or not names}
    _check_pages(pages, parts)
    asked = Asked(sizes or SIZES, events, data, master)
    found = {name: _measured(name, part, asked, as_json) for name, part in parts.items()}
    if as_json:
        rows = [{"part": name, **asdict(row)} for name, some in found.items() for row in some]
        click.echo(json.dumps(rows))
    if plot is not None and MATCHING in found:
        from reefcast_lab.bench import spark_page

        plot.write_text(spark_page.plot(found[MATCHING]), encoding="utf-8")
    for page in pages:
        _fill(page, parts, found)


def _measured(name: str, part: Part, asked: Asked, as_json: bool) -> Sequence[Any]:
    """Measure a part, and print its rows as they come, unless they are printed as JSON."""
    rows = part.measure(asked, partial(click.echo, err=True))
    if as_json:
        return list(rows)
    click.echo(f"{name}:")
    return printed(rows, part.columns, False)


def _check_pages(pages: Iterable[Path], parts: Mapping[str, Part]) -> None:
    """Raise `LocalError` for a page that has no place for any of the parts, before anything is
    measured."""
    for page in pages:
        if not _blocks(page, parts):
            blocks = ", ".join(part.block for part in parts.values())
            raise LocalError(f"{page} has a place for none of these: {blocks}")


def _blocks(page: Path, parts: Mapping[str, Part]) -> list[str]:
    """Return the names of the parts whose tables the page has."""
    text = page.read_text(encoding="utf-8")
    return [name for name, part in parts.items() if f"<!-- end of {part.block} -->" in text]


def _fill(page: Path, parts: Mapping[str, Part], found: Mapping[str, Sequence[Any]]) -> None:
    from reefcast_lab.bench.page_tables import fill

    for name in _blocks(page, parts):
        fill(page, parts[name].block, parts[name].figures(found[name]), f"spark --part {name}")
