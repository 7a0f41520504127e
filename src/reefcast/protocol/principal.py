"""Who is at the other end of a connection, and what that user may be here."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from reefcast.errors import ProtocolError


class UserRole(StrEnum):
    """What a user may be. CLIENT: publishes, subscribes, asks for history. STORAGE: a client that
    answers for history. BROKER: one of the network file. PEER: a broker that is in no file.
    ADMINISTRATOR: moves links."""

    CLIENT = "client"
    STORAGE = "storage"
    BROKER = "broker"
    PEER = "peer"
    ADMINISTRATOR = "administrator"


ALL_ROLES = frozenset(UserRole)


class Principal(NamedTuple):
    """A user, as an authenticator has proved it. `proof`: how, in a word. `roles`: those that are
    granted, whatever the connection says that it is."""

    user: str
    roles: frozenset[UserRole]
    proof: str

    def require(self, role: UserRole) -> None:
        """Raise `ProtocolError`, with a sentence for the user, unless `role` is granted."""
        if role not in self.roles:
            raise ProtocolError(f"user {self.user!r} is not granted the role {role.value!r} here")


NOBODY = Principal("", frozenset(), "")
"""Whose connection has not been greeted yet."""
