"""Changing a network file: in one step, by one writer at a time, and only into a valid file."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reefcast.network.file import NetworkFile, read_network


def rewrite(file: Path, change: Callable[[str, NetworkFile], str]) -> NetworkFile:
    """Replace the text of `file` by what `change` makes of the text and the network in it, as
    `rewrite_text` does. Raises `ConfigurationError` also if the file was wrong before."""
    return rewrite_text(file, lambda text: change(text, read_network(text)))


def rewrite_text(file: Path, change: Callable[[str], str]) -> NetworkFile:
    """Replace the text of `file` by what `change` makes of it; return the new network. Readers
    meanwhile see the old file or the new one; other writers wait.

    Raises `ConfigurationError` if the file would be wrong, `OSError` if it cannot be written, and
    what `change` raises; the file then stays as it was."""
    file = file.resolve()
    with alone_in(file.parent):
        text = file.read_bytes().decode()
        changed = change(text)
        after = read_network(changed)
        if changed != text:
            replace_text(file, changed)
    return after


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock the folder, so that nobody else rewrites a file in it; the file itself will be
    replaced."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_text(file: Path, text: str) -> None:
    """Replace the text of a file in one step; its mode stays."""
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
