"""The thread that writes what the core wants kept, and says when it is on disk.

What comes while a batch is being written is the next batch: one sync for all of it (*group
commit*). A disk that fails (full, broken) does not end the broker: nothing of the batch is
confirmed, the failure is logged, and the same batch is tried again until it succeeds or the broker
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from reefcast.keeping.interface import Bodies
from reefcast.model.keeping import Change, Contents, EventNumber


class Keeping(Protocol):
    """What a broker needs of its disk: `Keeper`, or the simulator's."""

    contents: Contents
    """What it held at the start. It may be cleared once it was read."""

    def listen(self, kept: Callable[[int], None], fetched: Callable[[Bodies], None]) -> None:
        """Set who is told, on the event loop's thread, that all changes up to those of a token are
        synced, and of bodies that were asked for; before the first `keep`."""
        ...

    def keep(self, changes: Sequence[Change], token: int) -> None:
        """Write changes behind all earlier ones. `token`: above those before; 0: nobody waits."""
        ...

    def fetch(self, events: Iterable[EventNumber]) -> None:
        """Read bodies of events; what was to be kept before is written first."""
        ...

    async def close(self) -> None:
        """Write what is left, and close the files."""
        ...
