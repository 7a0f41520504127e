"""The audit log of a broker or a storage: JSON lines that say who connected, what was refused and
why, and what administrators did.

Rules
-----
- A line is written before anything else happens, with one `write`; it is on disk as soon as the
  system writes it there.
- A file that is full (`audit_bytes`) is renamed to `NAME.1.jsonl`, the former one to
  `NAME.2.jsonl`, and so on; the last one is deleted.
- Lines that anybody may cause are limited, those of connections that came and went among them: at
  most `MOST_LINES` of each kind in `PERIOD_S`. Lines at the end of the period say how many are
  missing.
- Nothing that others sent is written but names, in at most `MOST_CHARS` characters; never a
  password, a token or a key.
- A line that cannot be written is counted and reported, and the broker goes on."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from reefcast.errors import ConfigurationError
from reefcast.logs import part
from reefcast.timing import now_us

MOST_LINES, PERIOD_S = 1000, 10.0
MOST_CHARS = 300
log = part("security")


class Audit:
    """The audit log of one broker or storage. This one writes nothing: see `AuditFile`."""

    def write(self, event: str, **fields: object) -> None:
        """Write a line about something that only few can cause."""

    def limited(self, event: str, **fields: object) -> None:
        """Write a line about something that anybody may cause, or count it."""

    def tick(self, now: float) -> None:
        """Note that it is `now` (seconds)."""

    def close(self) -> None:
        """Close the log; later lines are ignored."""


class AuditFile(Audit):
    """The audit log in a file of `directory`; `most_bytes`, `most_files`: see `SecuritySection`;
    `kind`: "broker" or "storage".
    `failed`: lines that could not be written. Raises `ConfigurationError` if there can be no such
    file."""

    def __init__(
        self, directory: Path, name: str, most_bytes: int, most_files: int, kind: str = "broker"
    ) -> None:
        self.failed = 0
        self._whose = {kind: name}
        self._file = directory / f"{name}.jsonl"
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._counts: Counter[str] = Counter()
        self._until_s = 0.0
        self._closed = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._open()
        except OSError as error:
            raise ConfigurationError(
                f"the audit log {self._file} cannot be written: {error.strerror}"
            ) from error

    def _open(self) -> int:
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._bytes = os.fstat(descriptor).st_size
        return descriptor

    def write(self, event: str, **fields: object) -> None:
        if self._closed:  # its descriptor may be that of something else by now
            return
        at = datetime.fromtimestamp(now_us() / 1e6, UTC).isoformat(timespec="milliseconds")
        plain = {"at": at, **self._whose, "event": event}
        said = {name: _short(value) for name, value in fields.items()}
        line = msgspec.json.encode(plain | said) + b"\n"
        try:
            if self._bytes and self._bytes + len(line) > self._most_bytes:
                self._rotate()
            self._bytes += os.write(self._descriptor, line)
        except OSError as error:
            self.failed += 1
            log.error("a line of the audit log %s is lost: %s", self._file, error.strerror)

    def limited(self, event: str, **fields: object) -> None:
        self._counts[event] += 1
        if self._counts[event] <= MOST_LINES:
            self.write(event, **fields)

    def tick(self, now: float) -> None:
        if now < self._until_s:
            return
        self._until_s = now + PERIOD_S
        self._sum_up()

    def _sum_up(self) -> None:
        counts, self._counts = self._counts, Counter()
        for event, count in counts.items():
            if count > MOST_LINES:
                self.write("left_out", of=event, count=count - MOST_LINES)

    def _rotate(self) -> None:
        full = self._descriptor
        files = [self._file, *(self._numbered(n) for n in range(1, self._most_files + 1))]
        files[-1].unlink(missing_ok=True)
        for older, newer in zip(reversed(files), reversed(files[:-1]), strict=False):
            if newer.exists():
                newer.rename(older)
        self._descriptor = self._open()
        os.close(full)

    def _numbered(self, number: int) -> Path:
        return self._file.with_suffix(f".{number}.jsonl")

    def close(self) -> None:
        if not self._closed:
            self._sum_up()
            self._closed = True
            os.close(self._descriptor)


def _short(value: object) -> Any:
    if isinstance(value, str) and len(value) > MOST_CHARS:
        return value[:MOST_CHARS] + "..."
    return value


def open_audit(
    directory: str, name: str, most_bytes: int, most_files: int, kind: str = "broker"
) -> Audit:
    """Return the audit log in this directory, or one that writes nothing if there is none. Raises
    `ConfigurationError`."""
    if not directory:
        return Audit()
    return AuditFile(Path(directory), name, most_bytes, most_files, kind)
