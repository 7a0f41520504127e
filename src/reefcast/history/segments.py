"""Sealed segments: the part of the history that is in Parquet files.

A segment has the publications of a stretch of time (a day, unless the store says otherwise), in
`segments/since_us=<start>/<number>.parquet`: a partition for Spark, which reads the whole folder as
one table and passes over files, row groups and pages that a condition excludes. Publications that
come late for a sealed stretch make another file of it later.

Rows are sorted by topic, time, publisher and seq. Columns: `topic` (a row for each of a
publication's), `time_us`, `publisher`, `seq`, `expiry_us` (null: never), `checksum` (`rows`), the
indexed attributes under their names (float64, string or bool; null where it is missing, or of
another kind), `attributes` (all of them, a JSON object; NaN and infinity as strings, as `from_json`
of Spark reads them) and `body`, the encoded publication. The file's footer says, under "reefcast",
where each topic's rows lie.

The files are the truth: a file that was renamed into place is complete, was verified, and belongs
to the history, after any crash. The database only records how many of its rows have been
dropped."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from reefcast.errors import ConfigurationError, DamagedError
from reefcast.history.limits import Topics
from reefcast.history.messages import Position
from reefcast.model.values import Kind

DAY_US = 86_400_000_000
ROWS = 8192
"""Rows of a row group."""
COLUMNS = ("topic", "time_us", "publisher", "seq", "expiry_us", "checksum", "attributes", "body")
FOOTER = b"reefcast"
HIDDEN = "."
SET_ASIDE = ".damaged"


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """The place of a topic's rows in the file, and the position of the last one."""

    topic: str
    first: int
    rows: int
    last: Position


class Footer(msgspec.Struct, frozen=True):
    """`until_us` is exclusive; `last_expiry_us` None: some row never expires."""

    since_us: int
    until_us: int
    rows: int
    last_expiry_us: int | None
    extents: tuple[Extent, ...]

    def fits(self, rows: int) -> bool:
        """Return whether a file with so many rows may have this footer."""
        first = 0
        for extent in self.extents:
            if extent.first != first or extent.rows < 1:
                return False
            first += extent.rows
        return first == self.rows == rows and self.since_us < self.until_us


class OtherAttributesError(DamagedError):
    """A segment has other indexed attributes."""


class Segment(NamedTuple):
    """`name`: relative to the folder. `metadata`: pyarrow's, of the file."""

    path: Path
    name: str
    bytes: int
    footer: Footer
    metadata: Any


def schema_of(indexed: Mapping[str, Kind]) -> Any:
    """Return pyarrow's schema of the segments of a history with these indexed attributes."""
    import pyarrow as pa

    types = {Kind.NUMBER: pa.float64(), Kind.STRING: pa.string(), Kind.BOOLEAN: pa.bool_()}
    required = {"nullable": False}
    return pa.schema(
        [
            pa.field("topic", pa.string(), **required),
            pa.field("time_us", pa.int64(), **required),
            pa.field("publisher", pa.string(), **required),
            pa.field("seq", pa.int64(), **required),
            pa.field("expiry_us", pa.int64()),
            pa.field("checksum", pa.int64(), **required),
            *(pa.field(name, types[kind]) for name, kind in indexed.items()),
            pa.field("attributes", pa.string(), **required),
            pa.field("body", pa.binary(), **required),
        ]
    )


def open_segment(folder: Path, path: Path, indexed: Mapping[str, Kind]) -> Segment:
    """Open a segment and read its footer. Raises `DamagedError` for a file that is no segment, or
    none with these indexed attributes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
        footer = msgspec.json.decode((metadata.metadata or {})[FOOTER], type=Footer)
        schema = metadata.schema.to_arrow_schema()
        names = ", ".join(schema.names)[:500]
    except (OSError, pa.ArrowException, KeyError, ValueError, msgspec.DecodeError) as error:
        raise DamagedError(f"{path} is not a sealed segment: {error}; it is skipped") from error
    if not schema.equals(schema_of(indexed)):
        always = [schema.field(name) for name in schema.names if name in COLUMNS]
        is_of_others = always == list(schema_of({}))
        problem = OtherAttributesError if is_of_others else DamagedError
        raise problem(f"{path} is no segment of this history: its columns are {names}")
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if min(sizes, default=1) < 1 or sum(sizes) != metadata.num_rows or not footer.fits(sum(sizes)):
        raise DamagedError(
            f"{path} is not a sealed segment: its footer does not fit; it is skipped"
        )
    return Segment(path, path.relative_to(folder).as_posix(), path.stat().st_size, footer, metadata)


def verify(path: Path, footer: Footer) -> None:
    """Read the whole file once, with the checksums of its pages. Raises `DamagedError`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        rows = sum(file.read_row_group(i).num_rows for i in range(file.num_row_groups))
        file.close()
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(f"{path} is not what was written: {error}") from error
    if rows != footer.rows:
        raise DamagedError(f"{path} has {rows} rows, not {footer.rows}")


class Segments:
    """The segments of one store. `most_bytes`: the limit for all files; the oldest is removed
    first."""

    def __init__(
        self,
        folder: Path,
        indexed: Mapping[str, Kind],
        segment_us: int,
        most_bytes: int | None,
        report: Callable[[DamagedError], None],
    ) -> None:
        if taken := sorted(set(indexed) & {*COLUMNS, "since_us"}):
            raise ConfigurationError(
                f"the attributes {', '.join(taken)} cannot be indexed: a history has columns of "
                "these names"
            )
        if segment_us <= 0:
            raise ConfigurationError(f"a segment cannot be {segment_us} microseconds long")
        self.folder = folder
        self.indexed = indexed
        self.length_us = segment_us
        self.most_bytes = most_bytes
        self.all: tuple[Segment, ...] = ()
        self.dropped: dict[str, int] = {}
        self.damaged: list[Path] = []
        others: DamagedError | None = None
        for path in sorted(folder.glob("since_us=*/*.parquet")):
            if path.name.startswith(HIDDEN):
                continue
            try:
                self.add(open_segment(folder, path, indexed))
            except DamagedError as error:
                self.damaged.append(path)
                report(error)
                others = error if isinstance(error, OtherAttributesError) else None
        if others is not None and not self.all:
            raise ConfigurationError(
                f"{others}. Was it made with other indexed attributes? Ask for those, or begin a "
                "new directory and let it catch up from a replica"
            )

    def verify(self, report: Callable[[DamagedError], None]) -> None:
        """Verify all segments, as far as they have checksums; leave out and report the damaged
        ones."""
        for segment in self.all:
            try:
                verify(segment.path, segment.footer)
            except DamagedError as error:
                self.damaged.append(segment.path)
                self._leave_out(segment)
                report(error)

    def set_aside(self) -> None:
        """Rename the damaged segments, so that nobody takes them for segments."""
        for path in self.damaged:
            path.replace(path.with_name(f"{HIDDEN}{path.name}{SET_ASIDE}"))
        self.damaged.clear()

    def load_dropped(self, database: sqlite3.Connection) -> list[str]:
        """Load how many rows of each segment have been dropped from the database; return the names
        of missing segments."""
        self.dropped = dict(database.execute("SELECT file, rows FROM dropped"))
        return sorted(self.dropped.keys() - {segment.name for segment in self.all})

    def add(self, segment: Segment) -> None:
        others = [each for each in self.all if each.name != segment.name]
        self.all = tuple(sorted([*others, segment], key=lambda each: each.name))

    def _leave_out(self, segment: Segment) -> None:
        self.all = tuple(each for each in self.all if each is not segment)

    def remove_old(self, now_us: int, forgotten: Callable[[str], bool]) -> list[str]:
        """Remove segments of which the database has no rows left: those whose rows have all expired
        or whose topics are all forgotten, and the oldest beyond the limit. Return their names."""
        by_age = sorted(self.all, key=lambda each: each.footer.since_us)
        size = sum(each.bytes for each in by_age)
        removed = []
        for segment in by_age:
            footer = segment.footer
            too_much = (
                self.most_bytes is not None
                and size > self.most_bytes
                and not self.is_dropping(segment)
            )
            expired = footer.last_expiry_us is not None and footer.last_expiry_us <= now_us
            if too_much or expired or all(forgotten(each.topic) for each in footer.extents):
                size -= segment.bytes
                removed.append(segment.name)
                self._leave_out(segment)
                self.dropped.pop(segment.name, None)
                segment.path.unlink(missing_ok=True)
                with suppress(OSError):  # others are in there
                    segment.path.parent.rmdir()
        return removed

    def to_drop(self) -> tuple[Segment, int] | None:
        """Return a segment that the database still has rows of, and how many of its rows have been
        dropped there."""
        for segment in self.all:
            if self.is_dropping(segment):
                return segment, self.dropped.get(segment.name, 0)
        return None

    def is_dropping(self, segment: Segment) -> bool:
        """Return whether the database still has rows of this segment."""
        return self.dropped.get(segment.name, 0) < segment.footer.rows

    def tell(self, topics: Topics) -> None:
        """Tell `topics` which topics the segments have, as the database may not know them."""
        for segment in self.all:
            for extent in segment.footer.extents:
                time_us, publisher, seq = extent.last
                topics.sealed(extent.topic, (time_us, publisher.encode(), seq))

    def names(self, since_us: int) -> Sequence[str]:
        """Return the names of the files of one stretch."""
        return [each.path.name for each in self.all if each.footer.since_us == since_us]
