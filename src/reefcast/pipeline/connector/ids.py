"""Ids of events: their times, hashes, publishers and numbers, in columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reefcast.matching.columnar.tables import Bodies, Table, Texts, Wanted, known
from reefcast.model.wire import decode_publication

Hashes = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]

_IDS = Wanted(times=True, seqs=True, publishers=True)
_TOPICS = Wanted(topics=True)


class Ids(NamedTuple):
    """The ids of events in the order of their times: microseconds, hashes of the ids, hashes of
    their publishers, and the numbers that these gave them."""

    times: Times
    hashes: Hashes
    publishers: Hashes
    seqs: Times

    def between(self, since_us: int, until_us: int) -> Ids:
        first, end = np.searchsorted(self.times, (since_us, until_us))
        return self.where(slice(first, end))

    def first(self, count: int) -> Ids:
        return self.where(slice(count))

    def where(self, chosen: npt.NDArray[Any] | slice) -> Ids:
        """Return those that are chosen: by truth values, by their places, or as a slice."""
        times, hashes, publishers, seqs = self
        return Ids(times[chosen], hashes[chosen], publishers[chosen], seqs[chosen])

    def within(self, hashes: Hashes) -> Ids:
        return self.where(np.isin(self.hashes, hashes))

    def without(self, hashes: Hashes) -> Ids:
        return self.where(~np.isin(self.hashes, hashes))


def no_ids() -> Ids:
    times, hashes = np.empty(0, np.int64), np.empty(0, np.uint64)
    return Ids(times, hashes, hashes, times)


def ids_of(bodies: Sequence[bytes]) -> Ids:
    """Return the ids of events, which are in the order of their times, as they are encoded."""
    table = Table(_IDS, Bodies.of(bodies))
    times, seqs = known(table.times), known(table.seqs)
    publishers = _of_publishers(known(table.publishers))
    return Ids(times, _hashed(times, publishers, seqs), publishers, seqs)


def hashes_of(bodies: Sequence[bytes]) -> Hashes:
    """Return the hashes of encoded events."""
    return ids_of(bodies).hashes


def without(bodies: list[bytes], topics: Sequence[str]) -> list[bytes]:
    """Return the events without those that are on one of these topics besides the topic that they
    were found by."""
    if not topics:
        return bodies
    ends, _ = known(Table(_TOPICS, Bodies.of(bodies)).topics)
    several = np.flatnonzero(np.diff(ends) > 1).tolist()
    others = {i for i in several if not set(topics).isdisjoint(_topics_of(bodies[i]))}
    return [body for i, body in enumerate(bodies) if i not in others] if others else bodies


def _topics_of(body: bytes) -> tuple[str, ...]:
    return decode_publication(body).topics


def joined(parts: Iterable[Ids]) -> Ids:
    some = list(parts)
    if not some:
        return no_ids()
    return Ids(*(np.concatenate(each) for each in zip(*some, strict=True)))


def _of_publishers(texts: Texts) -> Hashes:
    """Return a number for each name; only different names are looked at one by one."""
    import pyarrow as pa

    names = pa.StringArray.from_buffers(
        len(texts.ends) - 1, pa.py_buffer(texts.ends), pa.py_buffer(texts.data)
    ).dictionary_encode()
    numbers = [_of_publisher(name) for name in names.dictionary.to_pylist()]
    found: Hashes = np.array(numbers, np.uint64)[names.indices.to_numpy()]
    return found


@lru_cache(maxsize=1 << 16)
def _of_publisher(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


def _hashed(times: Times, publishers: Hashes, seqs: Times) -> Hashes:
    return mixed(mixed(mixed(times.view(np.uint64)) ^ publishers) + seqs.view(np.uint64))


def mixed(values: Hashes) -> Hashes:
    """Apply the finalizer of splitmix64: every bit of the result depends on every bit of the
    value."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
