"""The rescue of a damaged database: its readable rows go into a new one.

SQLite finds its rows from the root of a tree, where one lost page takes many rows with it. So the
pages are read one by one, those of the log too, and anything that looks like a row is one if its
checksum is right. Nothing else in the file is trusted. This also finds rows on free pages: expired
ones expire as before, and those that had been removed for room are removed again. Each row of a
publication on several topics becomes a row by itself.

Source: SQLite's "Database File Format", sections 1.6 (pages of index trees, which tables without
rowids are) and 2.1 (records)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reefcast.errors import ProtocolError
from reefcast.history.rows import Incoming, Key, Seeds, checksum, topic_seed, topics_of
from reefcast.history.schema import PAGE_BYTES as PAGE
from reefcast.model.wire import MAX_FRAME_BYTES, decode_publication

if TYPE_CHECKING:
    from reefcast.history.writing import Writer

SET_ASIDE = ".damaged"
"""The ending of a database's name that was set aside; the latest is kept."""
_BATCH = 1024
_WAL_HEADER, _FRAME_HEADER = 32, 24
_INTERIOR, _LEAF = 2, 10
_LEAST_LOCAL = (PAGE - 12) * 32 // 255 - 23
_MOST_LOCAL = (PAGE - 12) * 64 // 255 - 23
_INTS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_MOST_BYTES = MAX_FRAME_BYTES + PAGE
"""No row has more: its publication came in a frame."""
_SHARED_COLUMNS, _MESSAGE_COLUMNS = 4, 9


class Saved(NamedTuple):
    """How many rows were saved."""

    rows: int
    damaged: int


def set_aside(path: Path) -> Path:
    """Rename the database and its log, and return the new name."""
    target = path.with_name(path.name + SET_ASIDE)
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        target.with_name(target.name + suffix).unlink(missing_ok=True)
        if source.exists():
            source.replace(target.with_name(target.name + suffix))
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    return target


def save(aside: Path, writer: Writer) -> Saved:
    """Save the readable rows of the old database into that of `writer`."""
    if not aside.exists():
        return Saved(0, 0)
    with closing(_Pages(aside)) as pages:
        salvage = _Salvage(pages)
        items = salvage.items()
        rows = 0
        while batch := list(islice(items, _BATCH)):
            rows += writer.append(batch).stored
    return Saved(rows, salvage.damaged)


class _Pages:
    """The pages of a database as they are, the later ones of its log before those of the file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        log = path.with_name(path.name + "-wal")
        self._log = log.read_bytes() if log.exists() else b""
        self._size = path.stat().st_size // PAGE
        frames = range(_WAL_HEADER, len(self._log) - PAGE, _FRAME_HEADER + PAGE)
        self._frames = {self._number(frame): frame + _FRAME_HEADER for frame in frames}

    def _number(self, frame: int) -> int:
        return int.from_bytes(self._log[frame : frame + 4], "big")

    def get(self, number: int) -> bytes:
        """Return the page with this number; empty if there is none."""
        start = self._frames.get(number)
        if start is not None:
            return self._log[start : start + PAGE]
        if not 0 < number <= self._size:
            return b""
        self._file.seek((number - 1) * PAGE)
        return self._file.read(PAGE)

    def close(self) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        for start in self._frames.values():
            yield self._log[start : start + PAGE]
        for number in range(1, self._size + 1):
            self._file.seek((number - 1) * PAGE)
            yield self._file.read(PAGE)


class _Salvage:
    def __init__(self, pages: _Pages) -> None:
        self._pages = pages
        self._seeds = Seeds()
        self._seen: set[int] = set()
        self.damaged = 0

    def items(self) -> Iterator[Incoming]:
        """Yield every sound row once."""
        shared: dict[Key, bytes] = {}
        waiting: list[tuple[Any, ...]] = []
        for page in self._pages:
            for row in self._records(page):
                if len(row) == _SHARED_COLUMNS and isinstance(row[3], bytes):
                    shared[row[:3]] = row[3]
                elif len(row) >= _MESSAGE_COLUMNS and row[7] is None:
                    waiting.append(row)
                elif len(row) >= _MESSAGE_COLUMNS:
                    yield from self._item(row, row[7])
        for row in waiting:
            yield from self._item(row, shared.get(row[1:4]))

    def _item(self, row: tuple[Any, ...], body: Any) -> Iterator[Incoming]:
        """Yield the item of a row; nothing for a row that is damaged, or was there before."""
        _, time_us, publisher, seq, expiry_us, check, *_ = row
        if check in self._seen:
            return
        try:
            seed = self._seeds[publisher]
            for name in topics_of(decode_publication(body)):
                if checksum(topic_seed(name) ^ seed, time_us, seq, expiry_us, body) == check:
                    self._seen.add(check)
                    lifetime_us = None if expiry_us is None else expiry_us - time_us
                    yield Incoming(body, lifetime_us, (name,))
                    return
        except (TypeError, ProtocolError):
            pass
        self.damaged += 1

    # --- pages -----------------------------------------------------------------------------------

    def _records(self, page: bytes) -> Iterator[tuple[Any, ...]]:
        """Yield anything that looks like a row on a page of an index tree."""
        if len(page) < PAGE or page[0] not in (_INTERIOR, _LEAF):
            return
        head = 12 if page[0] == _INTERIOR else 8
        cells = int.from_bytes(page[3:5], "big")
        for place in range(head, min(head + 2 * cells, PAGE), 2):
            start = int.from_bytes(page[place : place + 2], "big")
            try:
                yield _record(self._payload(page, start + head - 8))
            except (IndexError, KeyError):
                self.damaged += 1

    def _payload(self, page: bytes, start: int) -> bytes:
        size, start = _varint(page, start)
        if size <= _MOST_LOCAL:
            return page[start : start + size]
        local = _LEAST_LOCAL + (size - _LEAST_LOCAL) % (PAGE - 4)
        local = local if local <= _MOST_LOCAL else _LEAST_LOCAL
        parts = [page[start : start + local]]
        number = int.from_bytes(page[start + local : start + local + 4], "big")
        chain: set[int] = set()
        for _ in range(-(-(min(size, _MOST_BYTES) - local) // (PAGE - 4))):
            more = self._pages.get(number)
            if not more or number in chain:
                raise IndexError(f"no page {number} follows")
            chain.add(number)
            number = int.from_bytes(more[:4], "big")
            parts.append(more[4:])
        return b"".join(parts)[:size]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number, and where it ends."""
    number = 0
    for end in range(at, at + 8):
        number = number << 7 | data[end] & 0x7F
        if data[end] < 0x80:
            return number, end + 1
    return number << 8 | data[at + 8], at + 9


def _record(payload: bytes) -> tuple[Any, ...]:
    """Return the integers and blobs of a record; other values (of indexed attributes) as None."""
    end, at = _varint(payload, 0)
    start, values = end, []
    while at < end:
        kind, at = _varint(payload, at)
        value, start = _value(payload, kind, start)
        values.append(value)
    return tuple(values)


def _value(payload: bytes, kind: int, start: int) -> tuple[Any, int]:
    if kind in _INTS:
        end = start + _INTS[kind]
        return int.from_bytes(payload[start:end], "big", signed=True), end
    if kind >= 12:
        end = start + (kind - 12) // 2
        return None if kind % 2 else payload[start:end], end
    return {0: None, 7: None, 8: 0, 9: 1}[kind], start + (8 if kind == 7 else 0)
