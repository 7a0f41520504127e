"""Files that hold secrets."""

from __future__ import annotations

import stat
from pathlib import Path

from reefcast.errors import ConfigurationError
from reefcast.logs import part

MOST_BYTES = 4 * 1024 * 1024
LEAST_KEY_BYTES = 32
log = part("security")


def read_file(file: Path, what: str) -> bytes:
    """Return the content of a file. `what`: what it holds, for the `ConfigurationError` that is
    raised if it cannot be read."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{what} {file} cannot be read: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise ConfigurationError(f"{what} {file} is larger than {MOST_BYTES} bytes")
    return content


def read_secret(file: Path, what: str) -> str:
    """Return the text of a file that holds one secret, without the white space around it. Raises
    `ConfigurationError` if it cannot be read or is empty."""
    try:
        secret = read_file(file, what).decode().strip()
    except UnicodeDecodeError:
        raise ConfigurationError(f"{what} {file} is no text") from None
    if not secret:
        raise ConfigurationError(f"{what} {file} is empty")
    return secret


def read_key(file: Path) -> bytes:
    """Return the network's key. Raises `ConfigurationError` if it cannot be read or is too
    short."""
    key = read_secret(file, "the network's key").encode()
    if len(key) < LEAST_KEY_BYTES:
        raise ConfigurationError(
            f"the network's key {file} has {len(key)} characters, and must have "
            f"{LEAST_KEY_BYTES} or more: make one with `openssl rand -hex 32`"
        )
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        log.warning("others can read the network's key %s: chmod 600 %s", file, file)
    return key
