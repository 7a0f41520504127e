"""A memory of the publications that this client has received recently. No I/O.

Brokers mark a delivery as *again* when another one failed that may have sent it before (see
`Publish.again`). Only then is the memory consulted, so it must cost little for all others: the
deliveries of a read are added in one call, by the hash of the bytes with the publication's id."""

from __future__ import annotations

from collections.abc import Iterable

from reefcast.model import wire

REMEMBERED = 50_000


class RecentDeliveries:
    """Holds at least the last `remembered` publications, at most twice as many."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._young: set[int] = set()
        self._old: set[int] = set()

    def note(self, keys: Iterable[int]) -> None:
        """Remember the publications with these keys (`wire.delivery_keys`, `wire.body_keys`)."""
        self._young.update(keys)
        if len(self._young) >= self._remembered:
            self._old, self._young = self._young, set()

    def is_new(self, delivery: bytes) -> bool:
        """Return whether the publication in this payload of a DELIVER frame has not arrived
        recently, and remember it. Raises `ProtocolError` if it cannot be read."""
        (key,) = wire.delivery_keys((delivery,))
        if key in self._young or key in self._old:
            return False
        self.note((key,))
        return True
