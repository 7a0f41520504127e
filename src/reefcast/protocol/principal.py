"""The principal at the other end of a connection: a user, and the roles granted to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from reefcast.errors import ProtocolError


class UserRole(StrEnum):
    """A role of a user. CLIENT: publishes, subscribes, asks for history. STORAGE: a client that
    answers for history. BROKER: a broker of the network file. PEER: a broker that is in no network
    file. ADMINISTRATOR: moves links."""

    CLIENT = "client"
    STORAGE = "storage"
    BROKER = "broker"
    PEER = "peer"
    ADMINISTRATOR = "administrator"


ALL_ROLES = frozenset(UserRole)
NO_CLAIMS: Mapping[str, Any] = MappingProxyType({})


ANONYMOUS = "anonymous"
"""The user of all who have proved no user."""
NETWORK = "$network"
"""The user of storages, operators and clients with the network's key, or a broker's certificate."""


class Principal(NamedTuple):
    """A user, as an authenticator has proved it. `proof`: how, in a word. `roles`: the granted
    roles, whatever role the connection claims. `granted`: the names of the `[[role]]`s of the
    network file that the user has; `claims`: what its token says of it. `expires_at_s`: when the
    proof ends, in seconds since 1970; `signed_by`: what the proof rests on, "" if on nothing that
    may change."""

    user: str
    roles: frozenset[UserRole]
    proof: str
    granted: tuple[str, ...] = ()
    claims: Mapping[str, Any] = NO_CLAIMS
    expires_at_s: float = math.inf
    signed_by: str = ""

    @property
    def is_named(self) -> bool:
        """Whether this is a user of its own, which was proved: limits of a user count for all of
        its connections. Many share the user of the network."""
        return self.user not in ("", ANONYMOUS, NETWORK)

    def require(self, role: UserRole) -> None:
        """Raise `ProtocolError`, with a sentence for the user, unless `role` is granted."""
        if role not in self.roles:
            raise ProtocolError(f"user {self.user!r} is not granted the role {role.value!r} here")


NOBODY = Principal("", frozenset(), "")
"""The principal of a connection that has not been greeted yet."""
