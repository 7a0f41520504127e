"""Batches of events, encoded by columns: the same as `encoding.encode_event` in a loop.

Nearly all events of a batch have the same attributes, of classes that travel as they are. So what
all of them share is encoded once, and one call of the encoder for each event does the rest. Batches
that are not that plain take the readable path, `_one_by_one`; only that path reports errors, with
the row. The tests compare both."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgspec

from reefcast.client.blocks import Block, Special
from reefcast.client.encoding import check_payload, check_topics, encode_event
from reefcast.client.rows import blocks_of
from reefcast.errors import InvalidValueError
from reefcast.model import wire
from reefcast.model.flat import form_of_class
from reefcast.model.publication import INT64_MAX, INT64_MIN, MAX_PAYLOAD_BYTES, PublicationId

_PLAIN = frozenset((int, float, bool, str, type(None)))
_FIELDS = 6
"""The number of fields of a `Publication`."""
_encode = msgspec.msgpack.Encoder().encode
_NOTHING = msgspec.Raw(b"")
_ONE_BYTE, _THREE_BYTES, _FIVE_BYTES = (
    struct.Struct(">B"),
    struct.Struct(">BH"),
    struct.Struct(">BI"),
)


class Published(NamedTuple):
    """The ids of the events of one batch: `publisher`, and `size` numbers from `first_seq` on, in
    the order of the rows."""

    publisher: str
    first_seq: int
    size: int

    @property
    def ids(self) -> list[PublicationId]:
        """Return the id of each row's event."""
        return [(self.publisher, self.first_seq + row) for row in range(self.size)]


class WrongRowError(InvalidValueError):
    """A row of a batch that cannot be an event."""

    def __init__(self, row: int, error: InvalidValueError) -> None:
        super().__init__(f"row {row}: {error}; nothing was published")
        self.row = row


def encode_batch(
    publisher: str, first_seq: int, time_us: int, events: object, special: Special
) -> list[bytes]:
    """Encode events (see `rows.blocks_of`) as PUBLISH frames, numbered from `first_seq` on. Raises
    `InvalidValueError`."""
    return encode_blocks(publisher, first_seq, time_us, blocks_of(events, special))


def encode_blocks(
    publisher: str, first_seq: int, time_us: int, blocks: Iterable[Block]
) -> list[bytes]:
    """Encode a batch as PUBLISH frames in the order of its rows; each row is in one of `blocks`.
    Raises `WrongRowError` for the first row that is no event."""
    found: list[tuple[Sequence[int], list[bytes]]] = []
    first: WrongRowError | None = None
    for block in blocks:
        if first is not None and block.rows[0] > first.row:
            break
        stamped = _Stamped(publisher, first_seq, time_us, block)
        try:
            found.append((block.rows, _together(stamped) or _one_by_one(stamped)))
        except WrongRowError as error:
            first = error if first is None or error.row < first.row else first
    if first is not None:
        raise first
    if len(found) == 1:
        return found[0][1]
    frames = [b""] * sum(len(rows) for rows, _ in found)
    for rows, some in found:
        if isinstance(rows, range) and rows.step == 1:
            frames[rows.start : rows.stop] = some
            continue
        for row, frame in zip(rows, some, strict=True):
            frames[row] = frame
    return frames


class _Stamped(NamedTuple):
    publisher: str
    first_seq: int
    time_us: int
    block: Block


# --- one by one -----------------------------------------------------------------------------------


def _one_by_one(stamped: _Stamped) -> list[bytes]:
    publisher, first_seq, time_us, block = stamped
    values: Iterable[tuple[Any, ...]] = zip(*block.columns, strict=True)
    if not block.columns:
        values = repeat(())
    frames = []
    for row, some, topics, payload in zip(
        block.rows, values, block.topics, block.payloads, strict=False
    ):
        attributes = dict(zip(block.names, some, strict=True))
        try:
            frames.append(
                encode_event(
                    (publisher, first_seq + row),
                    time_us,
                    attributes,
                    _topics_of_cell(topics),
                    b"" if payload is None else payload,
                )
            )
        except InvalidValueError as error:
            raise WrongRowError(row, error) from error
    return frames


def _topics_of_cell(cell: Any) -> Iterable[str]:
    """Return the topics of one event: none, one, or several."""
    if cell is None:
        return ()
    if not isinstance(cell, str | tuple):
        raise InvalidValueError(
            f"its topics are of type {type(cell).__name__}; give a text, or a list of texts"
        )
    return (cell,) if isinstance(cell, str) else cell


# --- together -------------------------------------------------------------------------------------


def _together(stamped: _Stamped) -> list[bytes] | None:
    """Return the same frames; None if something is not plain."""
    try:
        pieces = _pieces(stamped)
        encoded = None if pieces is None else [*map(_encode, zip(*pieces, strict=False))]
    except (InvalidValueError, UnicodeEncodeError, OverflowError, TypeError):
        return None
    if not encoded or pieces is None:
        return None
    skip = len(_array_head(len(pieces)))
    heads = {size: wire.published_head(size - skip) for size in set(map(len, encoded))}
    if max(map(len, heads.values())) + max(heads) - skip > wire.MAX_FRAME_BYTES:
        return None
    return [heads[len(each)] + each[skip:] for each in encoded]


class _Pieces:
    """The pieces of encoded bodies: those that are the same in all events are joined, the others
    are not."""

    def __init__(self) -> None:
        self.pieces: list[Iterable[Any]] = []
        self._constant = b""

    def constant(self, data: bytes) -> None:
        self._constant += data

    def varying(self, values: Iterable[Any]) -> None:
        self._flush()
        self.pieces.append(values)

    def done(self) -> list[Iterable[Any]]:
        self._flush()
        return self.pieces

    def _flush(self) -> None:
        if self._constant:
            self.pieces.append(repeat(msgspec.Raw(self._constant)))
            self._constant = b""


def _pieces(stamped: _Stamped) -> list[Iterable[Any]] | None:
    publisher, first_seq, time_us, block = stamped
    columns = [_plain_column(*each) for each in zip(block.names, block.columns, strict=True)]
    if None in columns or not all(type(name) is str and name for name in block.names):
        return None
    body = _Pieces()
    body.constant(_array_head(_FIELDS) + _encode(publisher))
    body.varying(_seqs(block.rows, first_seq))
    body.constant(_encode(time_us))
    _add_attributes(body, block.names, [column for column in columns if column is not None])
    _add_topics(body, block.topics)
    return body.done() if _add_payloads(body, block.payloads) else None


def _seqs(rows: Sequence[int], first_seq: int) -> Sequence[int]:
    if isinstance(rows, range):
        return range(rows.start + first_seq, rows.stop + first_seq, rows.step)
    return [row + first_seq for row in rows]


def _plain_column(name: str, values: Sequence[Any]) -> Sequence[Any] | None:
    """Return values in the forms in which they travel; None if some are nested, or have none."""
    kinds = set(map(type, values))
    if not kinds <= _PLAIN:
        values = [value if type(value) in _PLAIN else _formed(name, value) for value in values]
        kinds = set(map(type, values))
        if not kinds <= _PLAIN:
            return None
    if int in kinds:
        whole = values if kinds == {int} else [value for value in values if type(value) is int]
        if min(whole) < INT64_MIN or max(whole) > INT64_MAX:
            return None
    return values


def _formed(name: str, value: object) -> object:
    kind: Any = type(value)  # which a checker takes for one that may not be hashable
    form = form_of_class(kind)
    return value if form is None else form(name, value)


def _add_attributes(body: _Pieces, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
    """Add a map; the name of a missing value is left out."""
    gaps = {i: [*map(_is_none, each)] for i, each in enumerate(columns) if None in each}
    if gaps:
        missing = [*map(sum, zip(*gaps.values(), strict=True))]
        heads = {count: msgspec.Raw(_map_head(len(names) - count)) for count in set(missing)}
        body.varying([heads[count] for count in missing])
    else:
        body.constant(_map_head(len(names)))
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        key = _encode(name)
        if i in gaps:
            raw = msgspec.Raw(key)
            body.varying([_NOTHING if gap else raw for gap in gaps[i]])
            body.varying([_NOTHING if value is None else value for value in column])
        else:
            body.constant(key)
            body.varying(column)


def _is_none(value: object) -> bool:
    return value is None


def _add_topics(body: _Pieces, cells: Sequence[Any]) -> None:
    if cells.count(None) == len(cells):
        body.constant(_array_head(0))
        return
    known: dict[Any, tuple[str, ...]] = {}
    found = []
    for cell in cells:
        if cell not in known:
            known[cell] = check_topics(_topics_of_cell(cell))
        found.append(known[cell])
    body.varying(found)


def _add_payloads(body: _Pieces, cells: Sequence[Any]) -> bool:
    """Add the payloads; return False if some are too large."""
    if cells.count(None) == len(cells):
        body.constant(_encode(b""))
        return True
    payloads = [b"" if cell is None else check_payload(cell) for cell in cells]
    body.varying(payloads)
    return max(map(len, payloads)) <= MAX_PAYLOAD_BYTES


def _array_head(count: int) -> bytes:
    return _count_head(count, 0x90, 0xDC)


def _map_head(count: int) -> bytes:
    return _count_head(count, 0x80, 0xDE)


def _count_head(count: int, fixed: int, wide: int) -> bytes:
    """Encode the head of a msgpack array or map of this length."""
    if count < 16:
        return _ONE_BYTE.pack(fixed | count)
    if count < 1 << 16:
        return _THREE_BYTES.pack(wide, count)
    return _FIVE_BYTES.pack(wide + 1, count)
