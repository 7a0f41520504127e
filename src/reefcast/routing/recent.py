"""A bounded memory of recent ids."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

REMEMBERED = 100_000

T = TypeVar("T", bound=Hashable)


class RecentIds(Generic[T]):
    """At least the last `remembered` ids, at most twice as many: in two generations, so that
    forgetting costs nothing per id."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._young: set[T] = set()
        self._old: set[T] = set()

    def __contains__(self, id: object) -> bool:
        return id in self._young or id in self._old

    def is_new(self, id: T) -> bool:
        """Return whether the id is new, and remember it."""
        if id in self:
            return False
        if len(self._young) >= self._remembered:
            self._old, self._young = self._young, set()
        self._young.add(id)
        return True
