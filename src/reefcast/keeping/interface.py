"""What a store does, whichever it is; `sqlite.py` has the real one, the simulator another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from reefcast.model.keeping import Change, Contents, EventNumber


class Bodies(NamedTuple):
    """`found`: event -> body; `missing`: those that are not there, or damaged."""

    found: dict[EventNumber, bytes]
    missing: tuple[EventNumber, ...]


class Store(Protocol):
    """A broker's store. All calls but `close` raise `OSError` if the disk fails (full, broken): the
    same call may succeed later. One thread at a time."""

    def load(self) -> Contents:
        """Return all that is on disk but for the bodies, once it is synced; before any `commit`."""
        ...

    def commit(self, changes: Sequence[Change]) -> None:
        """Write the changes in their order, all or none, behind all earlier ones. They are synced
        when this returns, unless the store was asked for less."""
        ...

    def sync(self) -> None:
        """Sync what was committed, where commits are not synced by themselves."""
        ...

    def bodies(self, events: Iterable[EventNumber]) -> Bodies:
        """Read the bodies of events."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...
