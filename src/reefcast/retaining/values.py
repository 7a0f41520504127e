"""The retained values of one broker: a register for each key, in which the last one wins.

Rules
-----
- *Last* is the one with the greatest version: the later time of publication, as its publisher's
  clock says; of equal times the greater publisher, then the greater number. This order is total, so
  brokers end with the same values whatever order they come in; what a publisher sends later
  replaces what it sent before, wherever it has moved meanwhile; and what is sent again changes
  nothing, which a time given by brokers could not promise. Its price: a publisher whose clock is
  ahead wins until the others' clocks have caught up, so a broker takes nothing from a client that
  lies more than `max_ahead_s` in its future.
- A key that was cleared keeps a *tombstone* with the version of that, so that an older value which
  comes late, from a broker that was cut off, does not come back. It is forgotten `tombstone_s`
  after its version's time: a broker that was cut off for longer can bring back what was cleared. A
  value that expires leaves one, too.
- The limits hold where a value enters the network; brokers take from each other what there is, or
  they would not agree. Of more than `max_values` tombstones, those that came first are forgotten.

Digests: keys fall into `BUCKETS` parts; the digest of a part is the exclusive or of a hash of each
key with its version, kept with every change.

Costs: a dictionary entry of some 400 bytes beside the body; a change takes two hashes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import chain, count
from zlib import crc32

import msgspec

from reefcast.model.keeping import Change, DropRow, PutRow
from reefcast.model.messages import Publish
from reefcast.model.publication import Publication
from reefcast.model.wire import decode_publication
from reefcast.retaining.messages import BUCKETS, DIGEST_BYTES, Entry
from reefcast.sessions.events import expiry_of

TABLE = "retained"
"""The name of the table on disk."""
MIB = 1 << 20
FEW = 1000
Write = Callable[[Change], None]

_encode = msgspec.msgpack.Encoder().encode
_decode_row = msgspec.msgpack.Decoder(Entry).decode


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """See `[retained]` of the network file."""

    max_values: int = 1_000_000
    max_bytes: int = 256 * MIB
    max_value_bytes: int = MIB
    tombstone_s: float = 604_800.0
    max_ahead_s: float = 60.0


class LastValues:
    """`values`, `size`: how many values there are, and the bytes of their bodies."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.values = self.size = 0
        self._parts: list[dict[bytes, Entry]] = [{} for _ in range(BUCKETS)]
        self._digests = [0] * BUCKETS
        self._tombstones: dict[bytes, None] = {}
        self._due: list[tuple[float, int, Entry]] = []
        self._order = count()
        self._write: Write | None = None

    # --- the disk ---------------------------------------------------------------------------------

    def restore(self, rows: Mapping[bytes, bytes], write: Write) -> None:
        """Enter what was on disk, and write from now on what changes."""
        for row in rows.values():
            self._enter(_decode_row(row))
        self._write = write

    # --- changes ----------------------------------------------------------------------------------

    def put(self, entry: Entry, utc_s: float) -> bool:
        """Take an entry if it is later than what is there; return whether it is."""
        known = self.get(entry.key)
        if known is not None and known.version >= entry.version:
            return False
        if entry.body and 0 < self._expiry(entry) <= utc_s:
            entry = _emptied(entry)
        if not entry.body and self._forgotten_s(entry) <= utc_s:
            if known is not None:
                self._remove(entry.key)
            return known is not None
        self._enter(entry)
        if len(self._tombstones) > self.limits.max_values:
            self._remove(next(iter(self._tombstones)))
        return True

    def objection(self, entry: Entry, utc_s: float) -> str:
        """Return why a client's value is not taken, "" if it is."""
        limits, known = self.limits, self.get(entry.key)
        ahead_s = entry.version[0] / 1e6 - utc_s
        if ahead_s > limits.max_ahead_s:
            return (
                f"it was published {ahead_s:.1f} s in the future by this broker's clock, and would "
                f"hide what others publish until then; max_ahead_s allows {limits.max_ahead_s:g}: "
                "set the clock of the publisher"
            )
        size, before = len(entry.body), len(known.body) if known is not None else 0
        if size > limits.max_value_bytes:
            return (
                f"it has {size} bytes, and a retained value at most {limits.max_value_bytes} "
                "(max_value_bytes)"
            )
        if size and not before and self.values >= limits.max_values:
            return (
                f"{self.values} values are retained already, which is the limit (max_values): "
                "clear some that nobody needs"
            )
        if size > before and self.size - before + size > limits.max_bytes:
            return (
                f"retained values have {self.size} bytes already, and may have {limits.max_bytes} "
                "(max_bytes): clear some that nobody needs"
            )
        return ""

    def expire(self, utc_s: float) -> None:
        """Drop the bodies of what has expired, and tombstones that are old enough."""
        while self._due and self._due[0][0] <= utc_s:
            entry = heapq.heappop(self._due)[-1]
            key = entry.key
            if self.get(key) is not entry:
                continue
            if not entry.body or self._forgotten_s(entry) <= utc_s:
                self._remove(key)
            else:
                self._enter(_emptied(entry))

    def _enter(self, entry: Entry) -> None:
        key, part = entry.key, _part_of(entry.key)
        self._count(self._parts[part].pop(key, None), part, -1)
        self._parts[part][key] = entry  # behind all others: those before are older
        self._count(entry, part, 1)
        if entry.body:
            due_s = self._expiry(entry)
        else:
            due_s = self._forgotten_s(entry)
            self._tombstones[key] = None
        if due_s:
            heapq.heappush(self._due, (due_s, next(self._order), entry))
            self._tidy()
        if self._write is not None:
            self._write(PutRow(TABLE, key, _encode(entry)))

    def _remove(self, key: bytes) -> None:
        part = _part_of(key)
        self._count(self._parts[part].pop(key), part, -1)
        if self._write is not None:
            self._write(DropRow(TABLE, key))

    def _count(self, entry: Entry | None, part: int, by: int) -> None:
        if entry is None:
            return
        self._digests[part] ^= _hash_of(entry)
        if entry.body:
            self.values += by
            self.size += by * len(entry.body)
        else:
            self._tombstones.pop(entry.key, None)

    def _tidy(self) -> None:
        """Drop what is due of entries that were replaced, before it is more than the others."""
        if len(self._due) > FEW and len(self._due) > 2 * len(self):
            self._due = [due for due in self._due if self.get(due[-1].key) is due[-1]]
            heapq.heapify(self._due)

    def _expiry(self, entry: Entry) -> float:
        return expiry_of(Publish(decode_publication(entry.body)))

    def _forgotten_s(self, entry: Entry) -> float:
        return entry.version[0] / 1e6 + self.limits.tombstone_s

    # --- what there is ----------------------------------------------------------------------------

    def get(self, key: bytes) -> Entry | None:
        return self._parts[_part_of(key)].get(key)

    def __len__(self) -> int:
        """Return the number of values and tombstones."""
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over values and tombstones."""
        return chain.from_iterable(part.values() for part in self._parts)

    def keys(self) -> list[bytes]:
        """Return the keys that have a value."""
        return [entry.key for entry in self if entry.body]

    def digests(self) -> bytes:
        """Return the digests of all parts."""
        return b"".join(digest.to_bytes(DIGEST_BYTES) for digest in self._digests)

    def differing(self, digests: bytes) -> Iterable[bytes]:
        """Return the keys of all parts that another broker, whose digests these are, has not as
        they are here."""
        ours = self.digests()
        for part, entries in enumerate(self._parts):
            at = slice(part * DIGEST_BYTES, (part + 1) * DIGEST_BYTES)
            if ours[at] != digests[at]:
                yield from entries


def publication_of(entry: Entry) -> Publication:
    """Return the publication of an entry that has one."""
    return decode_publication(entry.body)


def _emptied(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, body=b"")


def _part_of(key: bytes) -> int:
    return crc32(key) % BUCKETS


def _hash_of(entry: Entry) -> int:
    said = _encode((entry.key, entry.version))
    return int.from_bytes(blake2b(said, digest_size=DIGEST_BYTES).digest())
