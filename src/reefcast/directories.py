"""Directories and files that are written to during a run."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from reefcast.errors import ConfigurationError


def state_directory() -> Path:
    """Return the directory in which programs of this user keep what outlives them: as the XDG base
    directories say, and on macOS and Windows where those have it. It may not exist yet."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "reefcast"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "reefcast"
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (given if given.is_absolute() else home / ".local" / "state") / "reefcast"


def make_directory(directory: Path, what: str) -> None:
    """Create a directory unless it exists. Raises `ConfigurationError`, which names `what` was to
    be written there, if it cannot be written to: better at the start than at the first flush."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
    else:
        reason = "" if os.access(directory, os.W_OK | os.X_OK) else "permission denied"
    if reason:
        raise ConfigurationError(f"no {what} can be written to {directory}: {reason}")


def make_private(path: Path) -> None:
    """Create an empty file that only its owner may read, unless it exists: it keeps the mode that
    it has. Whoever opens it next says what is wrong if it cannot be made."""
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
