"""A network file that may change while it is used."""

from __future__ import annotations

from pathlib import Path

from reefcast.network.file import NetworkFile, load_network


class Watched:
    """The file at this path."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._seen: tuple[int, ...] = ()

    def _signature(self) -> tuple[int, ...]:
        try:
            found = self.file.stat()
        except OSError:
            return (0,)
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def look(self) -> NetworkFile | None:
        """Return the network if its file has changed since the last look; else None. Raises
        `ConfigurationError` for a file that cannot be read, once for each change."""
        signature = self._signature()
        if signature == self._seen:
            return None
        self._seen = signature
        return load_network(self.file)
