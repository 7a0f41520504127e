"""What a proved user may do at a broker: between principals and grants."""

from __future__ import annotations

from collections.abc import Callable

from reefcast.model.grants import Grants, Right, required
from reefcast.model.subjects import Subject
from reefcast.protocol.principal import Principal, UserRole

Renew = Callable[[Subject], Subject | None]
"""Returns what a user is now; None if there is no such user any more."""
TRUSTED = frozenset({UserRole.STORAGE, UserRole.ADMINISTRATOR})
"""Roles of whom no grant restricts: storages, which keep everything; and everybody, where nobody
proves who he is."""
OF_THE_NETWORK = frozenset({UserRole.BROKER, UserRole.PEER, UserRole.STORAGE})
"""Roles of what belongs to the network, and may ask for its status."""


def subject_of(principal: Principal) -> Subject | None:
    """Return who a user is for the roles of the network file; None for one whom nothing
    restricts."""
    if not TRUSTED.isdisjoint(principal.roles):
        return None
    return Subject(principal.user, principal.proof, principal.granted, dict(principal.claims))


def require_right(
    principal: Principal, right: Right, grants: Grants, role: UserRole = UserRole.ADMINISTRATOR
) -> None:
    """Raise `ProtocolError`, with a sentence for the user, unless he has a right, or this `role`,
    which alone counts where there are no `[[role]]`s."""
    if not grants:
        principal.require(role)
    elif role not in principal.roles:
        required(grants.rights_of(principal.granted), right, principal.user)


def require_status(principal: Principal, grants: Grants) -> None:
    """Raise `ProtocolError` unless a user may ask for the status: what belongs to the network may,
    and every proved user where there are no `[[role]]`s."""
    if grants and OF_THE_NETWORK.isdisjoint(principal.roles):
        require_right(principal, Right.STATUS, grants)
