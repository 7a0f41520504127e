"""Where compiled code is kept, between one start and the next.

The first that applies: the directory that `REEFCAST_CACHE_DIR` names, and then no other; that of
numba's `NUMBA_CACHE_DIR`; one beside the package; one in the user's home; one of the user's own
among the temporary files. The last is announced by a warning, because code that does not last must
be compiled again."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path

from reefcast.errors import ConfigurationError

VARIABLE, NUMBAS = "REEFCAST_CACHE_DIR", "NUMBA_CACHE_DIR"
_log = logging.getLogger("reefcast.matching")


def named() -> Path | None:
    """Return the directory that the environment names, if any."""
    directory = os.environ.get(VARIABLE)
    return Path(directory).absolute() if directory else None


def lasting() -> list[Path]:
    """Return the directories where code may lie and stay, the first choice first; they may not
    exist."""
    only = named()
    if only is not None:
        return [only]
    numbas = os.environ.get(NUMBAS)
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    found = [Path(__file__).parent / "__pycache__", Path(home, "reefcast")]
    return [Path(numbas).absolute(), *found] if numbas else found


def writable() -> Path:
    """Return the first directory that can be written to; create it if needed.

    Raises `ConfigurationError` if there is none."""
    for directory in lasting():
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            failed: OSError = error
            continue
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
        failed = PermissionError("permission denied")
    if (only := named()) is not None:
        raise ConfigurationError(
            f"{VARIABLE} is {str(only)!r}, where nothing can be written: {failed}"
        ) from failed
    return temporary()


@cache
def temporary() -> Path:
    """Return a directory among the temporary files, and warn that it may not last. Its files are
    run as machine code: nobody else may have put them there.

    Raises `ConfigurationError` if nothing can be written there either."""
    import tempfile

    try:
        directory = Path(tempfile.gettempdir()) / f"reefcast-{os.getuid()}"
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.lstat()
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not shared:
            safe = directory
        else:
            safe = Path(tempfile.mkdtemp(prefix="reefcast-"))
    except OSError as error:
        raise ConfigurationError(
            f"compiled kernels cannot be kept anywhere, as nothing can be written ({error}); name "
            f"a directory with {VARIABLE}"
        ) from error
    _log.warning(
        "compiled kernels are kept in %s: neither the directory of the package nor the home "
        "directory can be written to; %s names another one",
        safe,
        VARIABLE,
    )
    return safe
