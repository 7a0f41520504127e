"""A file that may change while it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


class Watched(Generic[T]):
    """The file at this path. `read`: reads it, and raises `ConfigurationError` if it is wrong."""

    def __init__(self, file: Path, read: Callable[[Path], T]) -> None:
        self.file = file
        self._read = read
        self._seen: tuple[int, ...] = ()

    def _signature(self) -> tuple[int, ...]:
        try:
            found = self.file.stat()
        except OSError:
            return (0,)
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def look(self) -> T | None:
        """Return what the file holds if it has changed since the last look; else None. Raises
        `ConfigurationError` for a file that cannot be read, once for each change."""
        signature = self._signature()
        if signature == self._seen:
            return None
        self._seen = signature
        return self._read(self.file)
