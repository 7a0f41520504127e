"""The files that an end of a connection shows and trusts, and how changed ones are noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from reefcast.errors import ConfigurationError

T = TypeVar("T")
Signature = tuple[tuple[int, ...], ...]


class TlsFiles(NamedTuple):
    """The paths of PEM files. `authority`: certificates of the authorities that others must have
    theirs from; "" stands for those of the operating system. `certificate`: what this end shows,
    with the authorities between it and a known one behind it; "": nothing. `key`: its private key;
    "" if that is in the file of the certificate."""

    authority: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def own(self) -> tuple[str, ...]:
        """The files that prove who this end is."""
        return tuple(filter(None, (self.certificate, self.key)))


NOTHING = TlsFiles()


class Reloading(Generic[T]):
    """What `load` makes of some files, again whenever they change. Raises `ConfigurationError` if
    they are wrong at first; later wrong files change nothing."""

    def __init__(self, files: TlsFiles, load: Callable[[TlsFiles], T]) -> None:
        self.files = files
        self._load = load
        self._seen = self._doubted = signature(files)
        self.value = load(files)

    def look(self, *, again: bool = False) -> str:
        """Load the files again if they have changed; return what is wrong with them, "" if nothing
        is or if that was said before. `again`: load and say it in any case.

        Several files change one after the other. So what is wrong is said only when they are found
        unchanged at a second look."""
        now = signature(self.files)
        if now == self._seen and not again:
            return ""
        try:
            self.value = self._load(self.files)
        except ConfigurationError as error:
            if now != self._doubted and not again:
                self._doubted = now
                return ""
            self._seen = now
            return str(error)
        self._seen = now
        return ""


def signature(files: TlsFiles) -> Signature:
    """Return what changes whenever one of the files does."""
    return tuple(_signature(Path(each)) for each in files if each)


def _signature(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
