"""What a client has of its outbox file. SQLite is loaded only if there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from reefcast.client.outbox_file import Left
    from reefcast.client.outbox_writer import OutboxWriter
    from reefcast.protocol.client_ids import Identity


class Storing(NamedTuple):
    """`left`: what the former life of the publisher left; `last_registration`: see
    `OutboxFile`."""

    left: Left
    last_registration: int
    writer: OutboxWriter


def open_outbox(path: str, new: Identity, written: Callable[[int], None]) -> Storing | None:
    """Open the file at `path`, or make it for the publisher `new`; None without a path. `written`:
    see `OutboxWriter`. Raises `ConfigurationError`."""
    if not path:
        return None
    from reefcast.client.outbox_file import OutboxFile
    from reefcast.client.outbox_writer import OutboxWriter

    file = OutboxFile(Path(path), new)
    return Storing(file.left, file.last_registration, OutboxWriter(file, written))
