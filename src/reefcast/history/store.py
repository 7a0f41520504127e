"""The history of one storage: publications of its topics, in a directory of its own.

Files: `history.sqlite` (see `schema`) has the recent rows, `segments/` the sealed ones (see
`segments`), as Parquet; reads span both. `lock` keeps other processes out.

Concurrency: `append`, `clean`, `seal`, `keep`, `note_whole` and `rebuild` change the database, one
of them at a time. `read`, `lacking`, `whole_us`, `positions`, `counts`, `closed`, `export` and
`verify` may go on meanwhile, in any number and in any thread, each iterator in one thread at a
time: they have connections of their own. They never wait for the writer, nor the writer for them.
Every call blocks on files, so event loops call them in worker threads. After `close` nothing may be
called.

Damaged rows are never returned: rows have checksums (`rows`), and so have pages of Parquet. Damage
is reported as `DamagedError`, and the rest can be read. Appending a publication again repairs its
row; opening the history with `repair` saves the readable rows. `verify` looks for damage that no
read has met.

Rows that are missing here and may be in a replica are those later than `whole_us`, and about a
minute earlier, because publishers' clocks differ and events are under way for some time. The rows
of a replica are appended as `lacking` says, and then noted (`note_whole`). After damage, and for
topics that were forgotten (`keep`), `whole_us` is None: everything may be missing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from reefcast.errors import ConfigurationError, DamagedError, LocalError
from reefcast.history import salvage, schema, sealing
from reefcast.history.choosing import Chooser
from reefcast.history.conditions import demands, is_whole, may_hold
from reefcast.history.eras import Eras
from reefcast.history.limits import Kept, Limits, Topic, Topics
from reefcast.history.merging import Source
from reefcast.history.messages import Position
from reefcast.history.reading import Span, database_sources
from reefcast.history.resuming import blocks
from reefcast.history.rows import ABOVE_ALL, Incoming, Key, Seeds, decoded
from reefcast.history.segments import DAY_US, Segment, Segments
from reefcast.history.spread import Stretch
from reefcast.history.writing import Appended, Cleaned, Writer
from reefcast.model.filters import TRUE, Filter
from reefcast.model.patterns import topic_pattern_covers
from reefcast.model.publication import INT64_MAX, INT64_MIN
from reefcast.model.values import Kind

__all__ = ["Appended", "Cleaned", "HistoryStore", "Incoming", "Limits", "Segment"]

DATABASE = "history.sqlite"
LOCK = "lock"
SEGMENTS = "segments"
BATCH = 1024
"""Publications that a reader gets at once, unless it says otherwise."""
STEP = 2000
"""Rows that `clean` removes at once: some 20 ms."""
_IDLE_READERS = 8

Report = Callable[[DamagedError], None]


class TopicCounts(NamedTuple):
    """`rows`, `bytes` (of bodies): in the database; `expired`, `evicted`: gone so far."""

    rows: int
    bytes: int
    expired: int
    evicted: int


class Contents(NamedTuple):
    """What a history has. `rows`, `row_bytes` (of bodies): in the database, once for each topic;
    `segments`, `segment_rows`: sealed files, and their rows; `disk_bytes`: all files together;
    `newest_us`: when the newest publication that was ever stored was published, None if none
    was."""

    rows: int
    row_bytes: int
    segments: int
    segment_rows: int
    disk_bytes: int
    newest_us: int | None


class HistoryStore:
    """See the module's docstring for which calls go together.

    `indexed`: attributes by which publications are looked up, and the kind of value that each has
    in sealed segments (others are found all the same, not as quickly). `segment_us`: how long a
    time a sealed segment holds. `report` is called with the damage that other calls than `read`
    find; `damage` is the last of it since the store was opened. `repair`: damage has been found, so
    all segments are verified, the damaged ones set aside, and the database rebuilt.

    Raises `ConfigurationError` if the directory cannot be used: another process has it, or it was
    made with other indexed attributes. A database that is too damaged to be opened is set aside and
    reported, and its readable rows are saved into a new one, which takes a while."""

    def __init__(
        self,
        directory: Path | str,
        report: Report,
        limits: Limits | None = None,
        indexed: Mapping[str, Kind] | None = None,
        segment_us: int = DAY_US,
        *,
        repair: bool = False,
    ) -> None:
        self.directory = Path(directory)
        self._path = self.directory / DATABASE
        self._report = report
        self.damage: DamagedError | None = None
        self._limits = limits or Limits()
        self._indexed = dict(sorted((indexed or {}).items()))
        self._attributes = tuple(self._indexed)
        self._idle: list[sqlite3.Connection] = []
        self._make_directory()
        self._lock = _locked(self.directory / LOCK)
        try:
            self._begin(segment_us, repair=repair)
        except BaseException:
            self._lock.close()
            raise

    def _begin(self, segment_us: int, *, repair: bool) -> None:
        folder, most_bytes = self.directory / SEGMENTS, self._limits.sealed_bytes
        self._segments = Segments(folder, self._indexed, segment_us, most_bytes, self._report)
        if repair:
            self._segments.verify(self._report)
        self._topics = Topics(self._limits)
        self._segments.tell(self._topics)
        self._eras = Eras()
        try:
            if repair:
                self.rebuild()
            else:
                self._open()
        except (DamagedError, sqlite3.DatabaseError) as error:
            if not (isinstance(error, DamagedError) or schema.is_damage(error)):
                raise ConfigurationError(f"{self._path} cannot be opened: {error}") from error
            self.rebuild()
        if self._segments.damaged:
            self._set_whole({})
            self._segments.set_aside()

    # --- opening and closing ---------------------------------------------------------------------

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"no history can be kept in {self.directory}: {error}; give a directory that may "
                "be written to"
            ) from error

    def _open(self) -> None:
        self._database = schema.connect(self._path, writes=True)
        try:
            schema.prepare(self._database, self._path, self._indexed)
            self._topics.load(self._database)
        except BaseException:
            self._database.close()
            raise
        self._eras.load(self._database)
        self._whole: dict[str, int] = dict(self._database.execute("SELECT * FROM whole"))
        self._writer = Writer(self._database, self._topics, self._eras, self._attributes)
        for file in self._segments.load_dropped(self._database):
            self._writer.forget_file(file)

    def close(self) -> None:
        """Close the files, and unlock the directory for others."""
        self._close_readers()
        self._database.close()
        self._lock.close()

    def _close_readers(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def rebuild(self) -> None:
        """Rename the database, save what can be read of it into a new one, and report what was
        lost. For a database whose pages are damaged; no `read` may be under way."""
        self._close_readers()
        with suppress(AttributeError, sqlite3.Error):
            self._database.close()
        aside = salvage.set_aside(self._path)
        self._open()
        saved = salvage.save(aside, self._writer)
        self._report(
            DamagedError(
                f"{self._path} is damaged: {saved.rows} of its rows were saved into a new one, "
                f"{saved.damaged} were found damaged; it is kept as {aside.name}; let "
                "replicas tell what is lacking"
            )
        )

    # --- changes: one at a time ------------------------------------------------------------------

    def append(self, items: Sequence[Incoming]) -> Appended:
        """Store a batch; once it returns, the batch survives `kill -9`, and a batch that failed
        leaves nothing behind. What is stored already (the same topic, time, publisher and seq)
        stays as it is.

        Raises `ProtocolError` for a body that is no publication, `InvalidValueError` for one that
        has not the topics it is to be stored under, `DamagedError` (see `rebuild`), `LocalError`
        if nothing can be written.
        """
        with self._changing():
            return self._writer.append(items)

    def clean(self, now_us: int, most: int = STEP) -> Cleaned:
        """Remove rows that have expired or exceed the limits, at most `most`; call it again, now or
        later, while the result says `more`."""
        with self._changing():
            for file in self._segments.remove_old(now_us, self._topics.forgotten):
                self._writer.forget_file(file)
            cleaned = self._writer.clean(now_us, most)
            left = most - cleaned.expired - cleaned.evicted
            dropped = self._drop_sealed(left) if left > 0 else 0
        return cleaned._replace(dropped=dropped, more=cleaned.more or dropped > 0)

    def _drop_sealed(self, most: int) -> int:
        """Drop rows that a segment has as well; return how many of its rows were checked."""
        waiting = self._segments.to_drop()
        if waiting is None:
            return 0
        from reefcast.history.segment_reading import keys

        segment, done = waiting
        numbers = {topic.name: topic.id for topic in self._topics}
        try:
            found = keys(segment, done, most)
        except DamagedError as error:
            # the rows that the database still has stay there, and are sealed again
            self._segments.dropped[segment.name] = segment.footer.rows
            self._found(error)
            return 0
        done += len(found)
        rows = [(numbers[topic], *key) for topic, *key in found]
        self._writer.drop(segment.name, rows, done)
        self._segments.dropped[segment.name] = done
        return len(found)

    def seal(self, segment: Segment) -> None:
        """Read from this segment, which `export` wrote, from now on; `clean` drops its rows from
        the database in small steps."""
        self._segments.add(segment)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if schema.is_damage(error):
                raise DamagedError(
                    f"{self._path} is damaged ({error}): rebuild it, which saves what can be read"
                ) from error
            raise LocalError(
                f"{self._path} cannot be written to ({error}); nothing of this batch was stored"
            ) from error

    def _found(self, error: DamagedError) -> None:
        self.damage = error
        self._report(error)

    # --- topics, and what is lacking of them -----------------------------------------------------

    def keep(self, topics: Sequence[str], *, forget: bool = False) -> None:
        """Store only these topics (names or patterns) from now on; before the first call, all are
        stored. `forget`: `clean` removes the rows of other topics, and what is known of their
        completeness; a sealed file goes when it has nothing else."""
        with self._changing():
            if forget:
                marks = {topic: self.whole_us(topic) for topic in topics}
                self._set_whole({name: us for name, us in marks.items() if us is not None})
            self._topics.kept, self._topics.forgets = Kept(topics), forget

    def whole_us(self, topic: str) -> int | None:
        """Return the time (microseconds) up to which this storage lacks nothing of a topic or
        pattern that another storage has; None: it may lack anything."""
        covering = (us for known, us in self._whole.items() if topic_pattern_covers(known, topic))
        return max(covering, default=None)

    def note_whole(self, marks: Mapping[str, int]) -> None:
        """Note that these topics or patterns are complete up to these times."""
        with self._changing():
            self._set_whole({**self._whole, **marks})

    def _set_whole(self, marks: dict[str, int]) -> None:
        self._writer.save_whole(marks)
        self._whole = marks

    def lacking(self, bodies: Sequence[bytes]) -> list[Incoming]:
        """Return the bodies of a replica that no sealed segment has, for `append`, which finds out
        by itself what the database has."""
        if not self._segments.all:
            return list(map(Incoming, bodies))
        from reefcast.history.segment_reading import held

        found = []
        for body in bodies:
            publication, names = decoded(Incoming(body))
            key = publication.time_us, publication.publisher.encode(), publication.seq
            found.append((body, {name: (name, key) for name in names}))
        have = held(self._segments, self._topics, {at for _, on in found for at in on.values()})
        lacks = ((body, [name for name, at in on.items() if at not in have]) for body, on in found)
        return [Incoming(body, None, names) for body, names in lacks if names]

    # --- sealing ---------------------------------------------------------------------------------

    def closed(self, before_us: int) -> list[int]:
        """Return the starts (microseconds) of the stretches to be exported: they end by this time,
        and the database has rows of them that no segment has."""
        with self._reading() as database:
            return sealing.closed(database, self._segments, before_us)

    def export(
        self, since_us: int, now_us: int, pause: Callable[[], None] = lambda: None
    ) -> Segment | None:
        """Write the stretch that starts at `since_us` into a Parquet file and verify it; None if
        there are no rows. Does not block `append`; calls `pause`, which may wait, after every 2000
        rows or so. Reports damaged rows and leaves them out. Raises `LocalError` if no file can be
        written; the store stays as it was."""
        span = Span(
            (since_us - 1, ABOVE_ALL, INT64_MAX), since_us + self._segments.length_us - 1, now_us
        )
        topics = sorted(self._topics, key=lambda topic: topic.name)
        sources = database_sources(self._reading, topics, None, (), span, Seeds())
        try:
            return sealing.export(self._segments, since_us, sources, topics, self._found, pause)
        except OSError as error:
            raise LocalError(f"{self._segments.folder}: nothing can be sealed: {error}") from error

    # --- reads: at any time ----------------------------------------------------------------------

    def read(
        self,
        topics: Iterable[str],
        now_us: int,
        *,
        filter: Filter = TRUE,
        since_us: int | None = None,
        until_us: int | None = None,
        after: Position | None = None,
        limit: int = 0,
        batch: int = BATCH,
        report: Report | None = None,
    ) -> Iterator[list[bytes]]:
        """Yield in batches the bodies stored under these topics (names or patterns) for which the
        filter holds, ordered by (time, publisher, seq), each once.

        `since_us` (inclusive), `until_us` (exclusive) and `now_us` (what has expired by then is
        left out) are microseconds; `after`: only what is behind this position; `limit`: at most so
        many, 0 for all. Between two batches nothing is held, so the iterator may rest as long as
        it likes. All that was appended before its first batch was asked for is read; what is
        appended meanwhile may be.

        Where something is damaged `DamagedError` is raised, after all that lies before it has been
        handed out; with `report` it is reported instead, and the rest is read.
        """
        span = _span(since_us, until_us, after, now_us)
        named = [t for t in self._topics.matching(topics) if may_hold(filter, t.name)]
        wanted = None if all(is_whole(filter, topic.name) for topic in named) else filter
        chooser = Chooser(wanted, limit, report)
        sources_of = partial(self._sources, named, wanted)
        for block, sources in blocks(self._segments, sources_of, span, batch):
            if bodies := chooser.choose(block, sources):
                yield bodies
            if chooser.full:
                return
            chooser.raise_damage()

    def stretches(
        self,
        topics: Iterable[str],
        now_us: int,
        *,
        filter: Filter = TRUE,
        since_us: int | None = None,
        until_us: int | None = None,
        most: int,
    ) -> list[Stretch]:
        """Return about how many of the events that `read` would hand out lie where: some `most`
        stretches, in the order of time. Raises `DamagedError`."""
        from reefcast.history.stretches import stretches

        named = [t for t in self._topics.matching(topics) if may_hold(filter, t.name)]
        span = _span(since_us, until_us, None, now_us)

        def read(first_us: int, end_us: int) -> Iterator[list[bytes]]:
            names = [topic.name for topic in named]
            return self.read(names, now_us, filter=filter, since_us=first_us, until_us=end_us)

        try:
            return stretches(self._segments, self._reading, named, filter, span, most, read)
        except sqlite3.DatabaseError as error:
            raise DamagedError(f"{self._path} cannot be counted: {error}") from error

    def _sources(self, topics: list[Topic], filter: Filter | None, span: Span) -> list[Source]:
        seeds = Seeds()
        wanted = None if filter is None else demands(filter, self._attributes)
        eras = self._eras.between(span.before[0], span.last_us)
        found = database_sources(self._reading, topics, wanted, eras, span, seeds)
        if not self._segments.all:
            return found
        from reefcast.history.segment_reading import segment_sources

        return found + segment_sources(self._segments, topics, filter, span, seeds, len(found))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Take a connection for the `with` block, and give it back."""
        try:
            database = self._idle.pop()
        except IndexError:
            database = schema.connect(self._path)
        try:
            yield database
        finally:
            if len(self._idle) < _IDLE_READERS:
                self._idle.append(database)
            else:
                database.close()

    def verify(self) -> list[DamagedError]:
        """Return all damage, wherever it lies: read all rows, and have SQLite compare its indexes
        with its tables. Takes minutes for millions of rows. `rebuild` repairs damage in the indexes
        as it does damaged pages."""
        found: list[DamagedError] = []
        try:
            with self._reading() as database:
                problems = database.execute("PRAGMA integrity_check").fetchall()
        except sqlite3.DatabaseError as error:
            problems = [(str(error),)]
        for (problem,) in problems:
            if problem != "ok":
                found.append(DamagedError(f"{self._path}: {problem}"))
        for _ in self.read([t.name for t in self._topics], INT64_MIN, report=found.append):
            pass
        return found

    def positions(self, topics: Iterable[str] | None = None) -> dict[str, Position]:
        """Return the last position ever stored of each of these topics (None: of all)."""
        return {
            topic.name: (topic.last[0], topic.last[1].decode(), topic.last[2])
            for topic in (self._topics if topics is None else self._topics.matching(topics))
            if topic.last is not None
        }

    def contents(self) -> Contents:
        """Return how much there is of everything; looks at each topic, not at rows."""
        segments = self._segments.all
        times_us = [topic.last[0] for topic in self._topics if topic.last is not None]
        sizes = [each.bytes for each in segments]
        for ending in ("", "-wal"):
            with suppress(OSError):
                sizes.append(Path(f"{self._path}{ending}").stat().st_size)
        return Contents(
            rows=self._topics.rows,
            row_bytes=self._topics.bytes,
            segments=len(segments),
            segment_rows=sum(each.footer.rows for each in segments),
            disk_bytes=sum(sizes),
            newest_us=max(times_us, default=None),
        )

    def counts(self) -> dict[str, TopicCounts]:
        """Return the counts of each topic."""
        return {t.name: TopicCounts(t.rows, t.bytes, t.expired, t.evicted) for t in self._topics}


def _span(since_us: int | None, until_us: int | None, after: Position | None, now_us: int) -> Span:
    before: Key = (INT64_MIN, b"", INT64_MIN)
    if since_us is not None:
        before = (since_us - 1, ABOVE_ALL, INT64_MAX)
    if after is not None:
        before = max(before, (after[0], after[1].encode(), after[2]))
    return Span(before, INT64_MAX if until_us is None else until_us - 1, now_us)


def _locked(path: Path) -> sqlite3.Connection:
    """Lock the directory until the connection is closed, or the process dies."""
    lock = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
    try:
        lock.execute("PRAGMA journal_mode = MEMORY")
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        lock.close()
        _refuse(path, error)
    return lock


def _refuse(path: Path, error: Exception) -> NoReturn:
    raise ConfigurationError(
        f"the history {path.parent} is in use by another process, or cannot be written to "
        f"({error}); give each storage a directory of its own"
    ) from error
