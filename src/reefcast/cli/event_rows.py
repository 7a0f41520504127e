"""Events from files and standard input, for `reefcast publish`: rows as dicts, in batches."""

from __future__ import annotations

import asyncio
import csv
import io
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from reefcast.cli.options import INPUT_FILE
from reefcast.errors import InvalidValueError, LocalError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

Rows = list[dict[str, Any]]
F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("jsonl", "csv", "parquet")
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv"}
_BATCH_ROWS = 500
_READ_BYTES = 65536
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


topic_option = click.option(
    "--topic", "topics", multiple=True, help="Topic of every event; may be repeated."
)


def source_options(file_help: str) -> Callable[[F], F]:
    """Add `--file` and `--format` to a command that reads rows."""
    file = click.option("--file", "path", type=INPUT_FILE, help=file_help)
    format = click.option(
        "--format",
        "format",
        type=click.Choice(FORMATS),
        help="Format of the file or of standard input; by default what the file's name says.",
    )
    return lambda command: file(format(command))


def typed(text: str) -> object:
    """Return the value that a text is in JSON (12, 1.5, true, null, "12"); else the text itself."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return text if isinstance(value, (list, dict)) else value


def assignment(text: str) -> tuple[str, object]:
    """Parse `name=value`. Raises `InvalidValueError`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidValueError(f"{text!r} is not an attribute; write name=value")
    return name.strip(), typed(value.strip())


def given_events(arguments: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the events of JSON objects, or of NAME=VALUE pairs, which are one event."""
    objects = [each for each in arguments if each.lstrip().startswith("{")]
    if not objects:
        return [dict(map(assignment, arguments))]
    if len(objects) < len(arguments):
        raise click.UsageError("give events either as JSON objects or as NAME=VALUE, not both")
    return [_object(text, number) for number, text in enumerate(objects, start=1)]


def _object(text: str, number: int) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidValueError(
            f"event {number} is not a JSON object of attributes: {error}"
        ) from error


def format_of(path: Path) -> str:
    return "parquet" if path.suffix in (".parquet", ".pq") else _SUFFIXES.get(path.suffix, "jsonl")


def row_count(path: Path | None, format: str) -> int | None:
    """Return how many rows there are, where that costs nothing to know."""
    if path is None or format != "parquet":
        return None
    return int(_parquet_file(path).metadata.num_rows)


def read_rows(path: Path | None, format: str) -> Iterator[Rows]:
    """Yield batches of rows; `path` None is standard input, read as it comes. A missing value
    (null, an empty cell) is None. Raises `InvalidValueError` with the line that cannot be read."""
    if format == "parquet":
        if path is None:
            raise LocalError("Parquet cannot be read from standard input; name a file")
        yield from _parquet(path)
        return
    # Unbuffered: a reader that waits for more must not hold a lock of sys.stdin at exit.
    stream = io.FileIO(0, closefd=False) if path is None else io.FileIO(path)
    with stream:
        yield from _csv(stream) if format == "csv" else _json_lines(stream)


def _json_lines(stream: io.FileIO) -> Iterator[Rows]:
    number, rest = 0, b""
    while data := stream.read(_READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        rows = [_json_row(line, number + i) for i, line in enumerate(lines, 1) if line.strip()]
        number += len(lines)
        yield rows
    if rest.strip():
        yield [_json_row(rest, number + 1)]


def _json_row(line: bytes, number: int) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidValueError(
            f"line {number} is not a JSON object of attributes: {error}"
        ) from error


def _csv(stream: io.FileIO) -> Iterator[Rows]:
    text = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8", newline="")
    reader = csv.DictReader(text)
    while rows := _csv_rows(reader):
        for row in rows:
            if None in row or None in row.values():
                raise InvalidValueError(
                    f"line {reader.line_num}: the number of cells differs from the header's"
                )
        yield [{name: typed(cell) if cell else None for name, cell in row.items()} for row in rows]


def _csv_rows(reader: csv.DictReader[str]) -> Rows:
    """Return the next rows; none at the end."""
    try:
        return list(islice(reader, _BATCH_ROWS))
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidValueError(
            f"after line {reader.line_num}: this is not CSV in UTF-8: {error}"
        ) from error


def _parquet_file(path: Path) -> ParquetFile:
    """Open a Parquet file. Raises `InvalidValueError`."""
    from pyarrow import ArrowInvalid, parquet

    try:
        return parquet.ParquetFile(path)
    except ArrowInvalid as error:
        raise InvalidValueError(f"{path} is not a Parquet file: {error}") from error


def _parquet(path: Path) -> Iterator[Rows]:
    for batch in _parquet_file(path).iter_batches(_BATCH_ROWS):
        rows = batch.to_pylist()
        yield [{name: _attribute(value) for name, value in row.items()} for row in rows]


def _attribute(value: object) -> object:
    """Return times as int64 microseconds UTC, days as ISO text, decimals as floats, and other
    values as they are."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


async def read_in_thread(batches: Iterator[Rows]) -> AsyncIterator[Rows]:
    """Yield the same batches, read in a thread of their own while the loop serves the connection; a
    few are read ahead. The thread does not keep the program alive."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Rows | Exception | None] = asyncio.Queue(maxsize=4)

    def hand_over(item: Rows | Exception | None) -> None:
        asyncio.run_coroutine_threadsafe(queue.put(item), loop).result()

    def read() -> None:
        try:
            for batch in batches:
                hand_over(batch)
            hand_over(None)
        except Exception as error:
            hand_over(error)

    threading.Thread(target=read, daemon=True, name="reefcast rows").start()
    while (item := await queue.get()) is not None:
        if isinstance(item, Exception):
            raise item
        yield item
