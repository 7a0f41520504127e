"""Sealing: a stretch of the database becomes a Parquet file (see `segments`)."""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reefcast.errors import DamagedError
from reefcast.history.limits import Topic
from reefcast.history.merging import Source
from reefcast.history.reading import DatabaseSource
from reefcast.history.segments import (
    FOOTER,
    HIDDEN,
    ROWS,
    Extent,
    Footer,
    Segment,
    Segments,
    open_segment,
    schema_of,
    verify,
)
from reefcast.model.publication import INT64_MIN, Value
from reefcast.model.values import Kind, kind_of
from reefcast.model.wire import decode_publication

_FETCHED = 2048
_FIRST = "SELECT min(time_us) FROM message INDEXED BY by_time WHERE time_us >= ?"


def closed(database: sqlite3.Connection, segments: Segments, before_us: int) -> list[int]:
    """Return the starts of the stretches that end by `before_us` and have rows. While rows of a
    written file are still being dropped, its stretch waits."""
    busy = {segment.footer.since_us for segment in segments.all if segments.is_dropping(segment)}
    found: list[int] = []
    length_us, since_us = segments.length_us, INT64_MIN
    while True:
        (first_us,) = database.execute(_FIRST, (since_us,)).fetchone()
        if first_us is None:
            return found
        since_us = first_us // length_us * length_us
        if since_us + length_us > before_us:
            return found
        if since_us not in busy:
            found.append(since_us)
        since_us += length_us


def export(
    segments: Segments,
    since_us: int,
    sources: Sequence[Source],
    topics: Sequence[Topic],
    report: Callable[[DamagedError], None],
    pause: Callable[[], None],
) -> Segment | None:
    """Write one stretch into a segment and verify it; None if there are no rows. `sources`: one for
    each of the topics, which are sorted by name."""
    folder = segments.folder / f"since_us={since_us}"
    folder.mkdir(parents=True, exist_ok=True)
    taken = [int(Path(name).stem) for name in segments.names(since_us)]
    target = folder / f"{max(taken, default=-1) + 1:06d}.parquet"
    hidden = target.with_name(HIDDEN + target.name)
    writer = _File(hidden, segments.indexed)
    try:
        for source, topic in zip(sources, topics, strict=True):
            for row in _rows(source, report, pause):
                writer.add(topic.name, row)
        footer = writer.close(since_us, since_us + segments.length_us)
        if not footer.rows:
            return None
        verify(hidden, footer)
        hidden.rename(target)
        _to_disk(folder)
    finally:
        writer.abandon()
        hidden.unlink(missing_ok=True)
    return open_segment(segments.folder, target, segments.indexed)


def _rows(
    source: Source, report: Callable[[DamagedError], None], pause: Callable[[], None]
) -> Iterator[tuple[Any, ...]]:
    """Yield the raw rows of one source; damaged ones stay in the database."""
    assert isinstance(source, DatabaseSource)
    while not source.done:
        source.fetch(_FETCHED)
        rows = source.read_until(None)
        if any(row[4] is None for row in rows):
            report(DamagedError(f"history: {source.where()}: what is damaged was not sealed"))
        yield from (
            raw
            for raw, row in zip(source.raw, rows, strict=False)  # damaged pages have no raw rows
            if row[4] is not None
        )
        pause()


class _File:
    """A Parquet file that is being written."""

    def __init__(self, path: Path, indexed: Mapping[str, Kind]) -> None:
        import pyarrow.parquet as pq

        self._path, self._indexed = path, indexed
        self._schema = schema_of(indexed)
        self._columns: list[list[Any]] = [[] for _ in self._schema]
        self._extents: dict[str, Extent] = {}
        self._rows = 0
        self._last_expiry: float = -math.inf
        self._writer = pq.ParquetWriter(
            path, self._schema, compression="zstd", write_page_checksum=True
        )

    def add(self, topic: str, raw: tuple[Any, ...]) -> None:
        time_us, publisher, seq, expiry_us, check, body = raw
        attributes = decode_publication(body).attributes
        indexed = (_of_kind(attributes.get(name), kind) for name, kind in self._indexed.items())
        known = (topic, time_us, publisher.decode(), seq, expiry_us, check)
        for column, value in zip(
            self._columns, (*known, *indexed, as_json(attributes), body), strict=True
        ):
            column.append(value)
        first = self._extents[topic].first if topic in self._extents else self._rows
        last = (time_us, known[2], seq)
        self._extents[topic] = Extent(topic, first, self._rows - first + 1, last)
        self._rows += 1
        self._last_expiry = max(self._last_expiry, math.inf if expiry_us is None else expiry_us)
        if len(self._columns[0]) == ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._columns[0]:
            self._writer.write_table(pa.table(self._columns, schema=self._schema), ROWS)
            self._columns = [[] for _ in self._schema]

    def close(self, since_us: int, until_us: int) -> Footer:
        self._flush()
        footer = Footer(
            since_us,
            until_us,
            self._rows,
            None if math.isinf(self._last_expiry) else int(self._last_expiry),
            tuple(self._extents.values()),
        )
        self._writer.add_key_value_metadata({FOOTER: msgspec.json.encode(footer)})
        self._writer.close()
        _to_disk(self._path)
        return footer

    def abandon(self) -> None:
        """Close the writer after a failure."""
        self._writer.close()


def _of_kind(value: Value | None, kind: Kind) -> Any:
    if value is None or kind_of(value) is not kind:
        return None
    return float(value) if kind is Kind.NUMBER else value


def as_json(attributes: Mapping[str, Value]) -> str:
    """Return the attributes as a JSON object; NaN and the infinities, which JSON lacks, become
    strings."""
    return msgspec.json.encode(
        {name: _finite(value) for name, value in attributes.items()}
    ).decode()


def _finite(value: Value) -> Value:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _to_disk(path: Path) -> None:
    """Flush the contents of a file or a folder to disk, so that they survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
