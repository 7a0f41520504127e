"""What is stored, as bytes with a checksum of what they are and where they stand.

A value is sealed: 4 bytes CRC-32 of its key and of the value, then the value, in msgpack. A value
that is damaged, or stands under another key, is found out when it is read.
"""

from __future__ import annotations

from typing import TypeVar
from zlib import crc32

import msgspec

from reefcast.errors import DamagedError
from reefcast.model.keeping import (
    PutEvent,
    PutOwed,
    PutSeen,
    PutTries,
    SessionRecord,
    StoredEvent,
    StoredOwed,
)

T = TypeVar("T")

_CHECK_BYTES = 4
_MIX, _MASK = 0x9E3779B1, 0xFFFFFFFF
_encode = msgspec.msgpack.Encoder().encode
_session = msgspec.msgpack.Decoder(SessionRecord)
_event = msgspec.msgpack.Decoder(tuple[str, int, float, int])
_owed = msgspec.msgpack.Decoder(tuple[int, float, tuple[int, ...], bool])
_tries = msgspec.msgpack.Decoder(tuple[int, str])
_mark = msgspec.msgpack.Decoder(int)
_note = msgspec.msgpack.Decoder(str)
_seen = msgspec.msgpack.Decoder(tuple[bytes, float])


def sealed(value: bytes, *key: object) -> bytes:
    """Return a value with its checksum in front."""
    return crc32(value, hash_of(*key)).to_bytes(_CHECK_BYTES, "little") + value


def opened(data: bytes, *key: object) -> bytes:
    """Return what was sealed under this key. Raises `DamagedError` if it is not that any more."""
    value = data[_CHECK_BYTES:]
    if crc32(value, hash_of(*key)) != int.from_bytes(data[:_CHECK_BYTES], "little"):
        raise DamagedError(f"what is stored under {key} is damaged")
    return value


def hash_of(*key: object) -> int:
    """Return 32 bits of a key: numbers, texts, bytes."""
    found = 0
    for part in key:
        if isinstance(part, int):
            found = (found * _MIX + part) & _MASK
        else:
            found = crc32(part if isinstance(part, bytes) else str(part).encode(), found)
    return found


def _decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes, *key: object) -> T:
    try:
        return decoder.decode(opened(data, *key))
    except msgspec.DecodeError as error:
        raise DamagedError(f"what is stored under {key} is damaged: {error}") from error


def _is_a(kind: type, key: object) -> None:
    """Check the type of a part of a key: SQLite takes any type in any column, and a text has the
    checksum of its bytes. Raises `DamagedError`."""
    if not isinstance(key, kind):
        raise DamagedError(f"the key {key!r} is damaged: it is no {kind.__name__}")


# --- each kind of value --------------------------------------------------------------------------


def pack_session(number: int, record: SessionRecord) -> bytes:
    """Encode a session's record."""
    return sealed(_encode(record), "session", number)


def read_session(number: int, data: bytes) -> SessionRecord:
    """Decode what `pack_session` made. Raises `DamagedError`, as all that follow."""
    return _decoded(_session, data, "session", number)


def pack_mark(number: int, position: int) -> bytes:
    """Encode a session's mark."""
    return sealed(_encode(position), "mark", number)


def read_mark(number: int, data: bytes) -> int:
    """Decode what `pack_mark` made."""
    return _decoded(_mark, data, "mark", number)


def pack_event(change: PutEvent) -> tuple[bytes, bytes]:
    """Encode an event: its head, and its body."""
    publisher, seq = change.id
    body, salt = change.body, change.event & _MASK  # without a call: there are many events
    head = _encode((publisher, seq, change.expires_s, len(body)))
    return (
        crc32(head, salt).to_bytes(_CHECK_BYTES, "little") + head,
        crc32(body, salt).to_bytes(_CHECK_BYTES, "little") + body,
    )


def read_event(number: int, head: bytes) -> StoredEvent:
    """Decode the head of an event."""
    publisher, seq, expires_s, size = _decoded(_event, head, number)
    return StoredEvent((publisher, seq), expires_s, size)


def read_body(number: int, body: bytes) -> bytes:
    """Return the body of an event."""
    return opened(body, number)


def pack_owed(change: PutOwed) -> bytes:
    """Encode what a session owes."""
    value = _encode((change.event, change.at_s, change.subscriptions, change.late))
    salt = (change.session * _MIX + change.position) & _MASK  # without a call, as above
    return crc32(value, salt).to_bytes(_CHECK_BYTES, "little") + value


def read_owed(session: int, position: int, data: bytes) -> StoredOwed:
    """Decode what `pack_owed` made."""
    return StoredOwed(*_decoded(_owed, data, session, position))


def pack_tries(change: PutTries) -> bytes:
    """Encode how often an event was handed out."""
    value = (change.tries, change.dead)
    return sealed(_encode(value), change.session, change.position)


def read_tries(session: int, position: int, data: bytes) -> tuple[int, str]:
    """Decode what `pack_tries` made."""
    return _decoded(_tries, data, session, position)


def pack_seen(change: PutSeen) -> bytes:
    """Encode which ids a session has had."""
    key = change.session, change.publisher, change.chunk
    return sealed(_encode((change.bits, change.at_s)), *key)


def read_seen(session: int, publisher: str, chunk: int, data: bytes) -> tuple[bytes, float]:
    """Decode what `pack_seen` made."""
    _is_a(str, publisher)
    return _decoded(_seen, data, session, publisher, chunk)


def pack_note(session: int, key: bytes, text: str) -> bytes:
    """Encode a note. Its key is stored as bytes: what SQLite does with texts that hold a zero is
    not defined."""
    return sealed(_encode(text), "note", session, key)


def read_note(session: int, key: bytes, data: bytes) -> tuple[str, str]:
    """Return the key and the text of a note."""
    _is_a(bytes, key)
    return key.decode(), _decoded(_note, data, "note", session, key)


def pack_row(table: str, key: bytes, row: bytes) -> bytes:
    """Seal a row of the core."""
    return sealed(row, table, key)


def read_row(table: str, key: bytes, data: bytes) -> bytes:
    """Return what `pack_row` was given."""
    _is_a(str, table)
    _is_a(bytes, key)
    return opened(data, table, key)
