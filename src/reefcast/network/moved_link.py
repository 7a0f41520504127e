"""A network file after a link has moved: one entry is changed, all else as somebody wrote it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reefcast.errors import ConfigurationError
from reefcast.network.file import load_network, read_network


def write_moved_link(file: Path, broker: str, old: str, new: str) -> None:
    """In `file` the link of `broker` to `old` leads to `new` from now on. Whoever reads the file
    meanwhile gets it as it was or as it is then; who writes another move waits.

    Raises `ConfigurationError` if there is no such link, or if the file would be wrong then, and
    `OSError` if it cannot be written; the file is as it was then."""
    file = file.resolve()
    with _alone_in(file.parent):
        load_network(file)
        text = with_moved_link(file.read_bytes().decode(), broker, old, new)
        read_network(text)
        _replace(file, text)


def with_moved_link(text: str, broker: str, old: str, new: str) -> str:
    """The text of such a file; raises `ConfigurationError` if it has no such link."""
    import tomlkit

    document = tomlkit.parse(text)
    for link in document.get("link", []):
        between = link["between"]
        if sorted(between) == sorted((broker, old)):
            between[list(between).index(old)] = new
            return tomlkit.dumps(document)
    raise ConfigurationError(f"the network file has no [[link]] between {broker} and {old}")


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Nobody else does this in the folder at the same time; the file itself will be another one."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(file: Path, text: str) -> None:
    mode = file.stat().st_mode
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    written = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode())
        written.chmod(mode)
        written.replace(file)
    except BaseException:
        written.unlink()
        raise
