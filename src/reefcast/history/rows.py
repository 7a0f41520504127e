"""The rows of stored publications: the body as received, and the columns derived from it.

The checksum of a row covers the body and its place: topic, time, publisher, seq, expiry. So a row
that was moved by a flipped bit is as damaged as one whose body was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from reefcast.errors import InvalidValueError
from reefcast.model.filters import TOPIC
from reefcast.model.publication import INT64_MAX, INT64_MIN, Publication, Value
from reefcast.model.wire import decode_publication

_MASK = (1 << 64) - 1
_OF_SEQ, _OF_EXPIRY = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
"""Odd numbers, so that each bit of a factor counts."""

Key = tuple[int, bytes, int]
"""A position, as the database stores it."""
FIRST: Key = (INT64_MIN, b"", INT64_MIN)
ABOVE_ALL = b"\xff"
"""Greater than every publisher's name in UTF-8."""


TOGETHER = 32
"""Rows that are worth a check in one go."""


class Incoming(NamedTuple):
    """A publication to be stored: `body` as received (`model.wire`).

    `topics`: those of its topics under which it is to be stored; None: all that it has.
    `lifetime_us`: how long from its time on; None: as its topic says (`Limits.lifetimes_s`)."""

    body: bytes
    lifetime_us: int | None = None
    topics: Sequence[str] | None = None


Row = tuple[int, bytes, int, int, bytes | None]
"""A row that was read: position, source (distinguishes rows of the same position), body. In a
damaged row the body is None, and the position that of the row before."""


class Seeds(dict[bytes, int]):
    """Part of the checksum of each publisher's rows."""

    MOST = 100_000

    def __missing__(self, publisher: bytes) -> int:
        if len(self) >= self.MOST:
            self.clear()
        seed = self[publisher] = xxh3_64_intdigest(publisher, 1)
        return seed


def topic_seed(topic: str) -> int:
    """Return the topic's part of the checksum of its rows."""
    return xxh3_64_intdigest(topic.encode(), 2)


def checksum(seed: int, time_us: int, seq: int, expiry_us: int | None, body: bytes) -> int:
    """Return the checksum of a row: 63 bits, since SQLite has no more. `seed`: the topic's, XOR the
    publisher's."""
    seed ^= time_us ^ seq * _OF_SEQ ^ (expiry_us or 0) * _OF_EXPIRY
    return xxh3_64_intdigest(body, seed & _MASK) >> 1


def topics_of(publication: Publication) -> tuple[str, ...]:
    """Return the topics under which a publication can be found."""
    topics = publication.topics
    if topics:
        return topics if len(topics) == 1 else tuple(dict.fromkeys(topics))
    topic = publication.attributes.get(TOPIC)
    return (topic,) if isinstance(topic, str) else ()


def decoded(item: Incoming) -> tuple[Publication, tuple[str, ...]]:
    """Decode an item and return the publication with the topics under which it is stored. Raises
    `ProtocolError` for a body that is no publication, `InvalidValueError` for topics that it does
    not have."""
    publication = decode_publication(item.body)
    topics = has = topics_of(publication)
    if item.topics is not None:
        topics = tuple(dict.fromkeys(item.topics))
    if not topics or (topics is not has and not set(topics) <= set(has)):
        raise InvalidValueError(
            f"publication {publication.id} has the topics {list(has)} and cannot be stored under "
            f"{list(topics)}"
        )
    return publication, topics


def column_value(value: Value | None) -> Any:
    """Return a value as the column of an indexed attribute holds it (see `schema`)."""
    if value is None:
        return None
    if value != value:  # noqa: PLR0124 (true of NaN alone)
        return ""
    return int(value) if isinstance(value, bool) else value


def expiry_of(time_us: int, lifetime_us: int | None) -> int | None:
    """Return when a publication expires; None: never."""
    return None if lifetime_us is None else min(time_us + lifetime_us, INT64_MAX)


# --- reading -------------------------------------------------------------------------------------


def checked(
    raw: Sequence[tuple[Any, ...]], seed: int, seeds: Seeds, source: int, before: Key
) -> list[Row]:
    """Check rows of the topic with this seed, given in their order behind the position `before` as
    time, publisher, seq, expiry, checksum and body; a damaged row gets no body."""
    try:
        if len(raw) >= TOGETHER:
            rows = _checked_together(raw, seed, seeds, source)
        else:
            rows = _checked_each(raw, seed, seeds, source)
    except (TypeError, ValueError, OverflowError):  # something has another type than it had
        rows = []
    if len(rows) == len(raw):
        return rows
    return list(_with_damaged(raw, seed, seeds, source, before))


def _checked_each(
    raw: Sequence[tuple[Any, ...]], seed: int, seeds: Seeds, source: int
) -> list[Row]:
    return [
        (time_us, publisher, seq, source, body)
        for time_us, publisher, seq, expiry_us, check, body in raw
        if checksum(seed ^ seeds[publisher], time_us, seq, expiry_us, body) == check
    ]


def _checked_together(
    raw: Sequence[tuple[Any, ...]], seed: int, seeds: Seeds, source: int
) -> list[Row]:
    """Return the rows, in a third of the time; none if one of them is damaged."""
    times_us, publishers, seqs, expiries_us, checks, bodies = zip(*raw, strict=True)
    never = expiries_us.count(None) == len(raw)
    expected = checksums(
        seed,
        np.fromiter(map(seeds.__getitem__, publishers), np.uint64, len(raw)),
        np.array(times_us, np.int64),
        np.array(seqs, np.int64),
        np.zeros(len(raw), np.int64) if never else np.array([e or 0 for e in expiries_us]),
        bodies,
    )
    if not np.array_equal(expected, np.array(checks, np.int64)):
        return []
    return list(zip(times_us, publishers, seqs, repeat(source), bodies, strict=False))


def checksums(
    seed: int,
    of_publishers: npt.NDArray[np.uint64],
    times_us: npt.NDArray[np.int64],
    seqs: npt.NDArray[np.int64],
    expiries_us: npt.NDArray[np.int64],
    bodies: Sequence[bytes],
) -> npt.NDArray[np.int64]:
    """Return the `checksum` of each of many rows of a topic; an expiry of 0: none."""
    mixed = of_publishers ^ np.uint64(seed) ^ times_us.view(np.uint64)
    mixed ^= seqs.view(np.uint64) * np.uint64(_OF_SEQ)
    mixed ^= expiries_us.view(np.uint64) * np.uint64(_OF_EXPIRY)
    digests = map(xxh3_64_intdigest, bodies, mixed.tolist())
    return (np.fromiter(digests, np.uint64, len(bodies)) >> np.uint64(1)).view(np.int64)


def _with_damaged(
    raw: Iterable[tuple[Any, ...]], seed: int, seeds: Seeds, source: int, before: Key
) -> Iterator[Row]:
    for time_us, publisher, seq, expiry_us, check, body in raw:
        try:
            good = check == checksum(seed ^ seeds[publisher], time_us, seq, expiry_us, body)
        except TypeError:
            good = False
        if good:
            before = time_us, publisher, seq
        yield (*before, source, body if good else None)
