"""How many connections a broker lets in: those that have not been greeted yet, and those of a
user."""

from __future__ import annotations

from collections import deque
from typing import Protocol
from weakref import WeakSet

from reefcast.network.sections import LimitsSection
from reefcast.protocol.principal import Principal

SPARE_CONNECTIONS = 256
"""Connections beyond those of clients and those that were not greeted: neighbours and
administrators."""


def most_connections(limits: LimitsSection) -> int:
    """Return how many connections a broker has at most, of all kinds."""
    most = limits.max_clients + limits.max_greetings + SPARE_CONNECTIONS
    return limits.max_connections or most


class Arriving(Protocol):
    """A connection that may not have been greeted. `over`: whether it is closing, or closed."""

    greeted: bool
    principal: Principal

    @property
    def over(self) -> bool: ...

    def close(self, reason: str, *, retry: bool = False) -> None: ...


class Greetings:
    """The connections that have not been greeted yet, at most `most`. When there are more, the one
    that has waited longest is closed: an honest one says hello at once. So connections that say
    nothing keep nobody out."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: deque[Arriving] = deque()

    def began(self, connection: Arriving) -> None:
        """Note a new connection."""
        self._waiting.append(connection)
        if len(self._waiting) <= self.most:
            return
        self._waiting = deque(each for each in self._waiting if not (each.greeted or each.over))
        if len(self._waiting) > self.most:
            self._waiting.popleft().close(
                f"{self.most} newer connections to this broker wait for their greeting, which is "
                "the most (max_greetings in [limits])",
                retry=True,
            )


class UserConnections:
    """The connections of each proved user, at most `most`; 0: no limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._of: dict[str, WeakSet[Arriving]] = {}

    def objection(self, connection: Arriving) -> str:
        """Count a connection whose user is proved; or return why there must not be one more."""
        principal = connection.principal
        if not self.most or not principal.is_named:
            return ""
        of = self._of.setdefault(principal.user, WeakSet())
        if len(of) >= self.most:
            of = self._of[principal.user] = WeakSet(each for each in of if not each.over)
        if len(of) >= self.most:
            return (
                f"user {principal.user!r} has {self.most} connections to this broker already, "
                "which is the most (max_user_connections in [limits])"
            )
        of.add(connection)
        return ""

    def forget_old(self) -> None:
        """Forget users that have no connection any more."""
        for user in [user for user, of in self._of.items() if not of]:
            del self._of[user]
