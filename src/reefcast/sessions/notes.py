"""The notes of one session: small texts under keys, which its user's clients leave with it.

What they mean is the clients'. They are in memory as well as on the home's disk: whoever reads them
does so when a client is back, and then all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reefcast.errors import LimitError
from reefcast.sessions.messages import (
    MOST_KEY_BYTES,
    MOST_NOTES,
    MOST_NOTES_BYTES,
    MOST_TEXT_BYTES,
)

PART_BYTES = 256 * 1024
"""What one message carries of notes, unless a single one has more."""


class Notebook:
    """`texts`: key -> text."""

    __slots__ = ("_bytes", "texts")

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self._bytes = sum(_size(key, text) for key, text in texts.items())

    def put(self, notes: Mapping[str, str | None]) -> None:
        """Keep these notes in the place of those with the same keys; None removes one. Raises
        `LimitError` if they are too long or too many; then nothing changes."""
        texts, count, size = self.texts, len(self.texts), self._bytes
        for key, text in notes.items():
            if (before := texts.get(key)) is not None:
                count, size = count - 1, size - _size(key, before)
            if text is not None:
                _check(key, text)
                count, size = count + 1, size + _size(key, text)
        if count > MOST_NOTES or size > MOST_NOTES_BYTES:
            raise LimitError(
                f"with these, the session has {count} notes of {size} bytes; it may have "
                f"{MOST_NOTES} of {MOST_NOTES_BYTES} bytes together: remove some"
            )
        self._bytes = size
        for key, text in notes.items():
            if text is None:
                texts.pop(key, None)
            else:
                texts[key] = text

    def beginning(self, prefix: str) -> dict[str, str]:
        """Return a copy of the notes whose keys begin so."""
        return {key: text for key, text in self.texts.items() if key.startswith(prefix)}


def parts_of(notes: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield notes as many at a time as one message carries; of none, one empty part."""
    part: dict[str, str] = {}
    size = 0
    for key, text in notes.items():
        own = _size(key, text)
        if part and size + own > PART_BYTES:
            yield part
            part, size = {}, 0
        part[key] = text
        size += own
    yield part


def _check(key: str, text: str) -> None:
    if len(key.encode()) > MOST_KEY_BYTES:
        raise LimitError(
            f"the key of a note has {len(key.encode())} bytes; it may have {MOST_KEY_BYTES}"
        )
    if len(text.encode()) > MOST_TEXT_BYTES:
        raise LimitError(
            f"note {key[:100]!r} has {len(text.encode())} bytes; it may have {MOST_TEXT_BYTES}"
        )


def _size(key: str, text: str) -> int:
    return len(key.encode()) + len(text.encode())
