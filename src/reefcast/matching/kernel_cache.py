"""Where compiled kernels are kept, between one start and the next.

Modules with kernels take numba's `njit` from here, so that the directory is settled before the
first of them. It is, in this order: the one that `REEFCAST_CACHE_DIR` names; where numba would put
it (`NUMBA_CACHE_DIR`, beside the package, in the user's home); one of the user's own among the
temporary files, which is told in a warning, for kernels compile for long where it does not last.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import config, njit

from reefcast.errors import ConfigurationError

__all__ = ["VARIABLE", "njit"]

VARIABLE = "REEFCAST_CACHE_DIR"
_log = logging.getLogger("reefcast.matching")


def _settle(numba: Any) -> None:
    """`numba`: its settings, which have no types."""
    named = os.environ.get(VARIABLE)
    if named:
        numba.CACHE_DIR = _named(Path(named))
    elif not _numba_finds_one():
        numba.CACHE_DIR = _temporary()
        _log.warning(
            "compiled kernels are kept in %s: neither the directory of the package nor the home "
            "directory can be written to; %s names another one",
            numba.CACHE_DIR,
            VARIABLE,
        )


def _named(directory: Path) -> str:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise ConfigurationError(
            f"{VARIABLE} is {str(directory)!r}, where nothing can be written: {error}"
        ) from error
    return str(directory.absolute())


def _numba_finds_one() -> bool:
    try:
        njit(cache=True)(_nothing)
    except RuntimeError:  # "cannot cache function"
        return False
    return True


def _nothing() -> None:
    """A kernel that is never compiled."""


def _temporary() -> str:
    """What lies there is run as machine code: nobody else may have put it there."""
    try:
        directory = Path(tempfile.gettempdir()) / f"reefcast-{os.getuid()}"
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.lstat()
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not shared:
            return str(directory)
        return tempfile.mkdtemp(prefix="reefcast-")
    except OSError as error:
        raise ConfigurationError(
            f"compiled kernels cannot be kept anywhere, as nothing can be written ({error}); name "
            f"a directory with {VARIABLE}"
        ) from error


_settle(config)
