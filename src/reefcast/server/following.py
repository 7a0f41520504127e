"""Following what a network file says of users while a broker runs: who they are, and what they
may."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar, Protocol

from msgspec.structs import replace

from reefcast.errors import ConfigurationError
from reefcast.logs import about, part
from reefcast.network.file import NetworkFile, load_network
from reefcast.network.watching import Watched

log = part("security")

FOLLOW_S = 0.2
"""Seconds between two looks at the network file."""


class Follower(Protocol):
    """A broker, or a storage with an admin listener (`kind`), whose users are those of a network
    file."""

    network: NetworkFile
    name: str
    kind: ClassVar[str]

    def become(self, network: NetworkFile) -> None:
        """Authenticate users, and grant them rights, as this network file says."""


async def follow_users(node: Follower, file: Path) -> None:
    """Apply `[security]`, the `[[certificate]]`s and the `[[role]]`s of the file whenever the file
    changes, until cancelled. A file that cannot be read changes nothing; nor does one without
    roles, or without `[security]`, where all users might do everything: it may be half written. So
    it takes a restart to do without, and to begin with them; and the audit log stays where it
    is."""
    watched = Watched(file, load_network)
    while True:
        try:
            network = watched.look()
            if network is not None:
                known = node.network
                _check(known, network)
                now = users_of(known, network)
                if now != known:
                    node.become(now)
                    _say(node, known, now)
        except ConfigurationError as error:
            words = f"{node.kind} %s: roles and users stay as they are: %s"
            log.error(words, node.name, error, extra=about(**{node.kind: node.name}))
        await asyncio.sleep(FOLLOW_S)


def users_of(known: NetworkFile, network: NetworkFile) -> NetworkFile:
    """Return the network that is `known`, with the users of another one; the audit log stays where
    it is."""
    before, now = known.security, network.security
    if before is not None and now is not None:
        kept = {name: getattr(before, name) for name in ("audit", "audit_bytes", "audit_files")}
        now = replace(now, **kept)
    return replace(known, security=now, certificate=network.certificate, role=network.role)


def _check(known: NetworkFile, network: NetworkFile) -> None:
    """Raise `ConfigurationError` for what only a restart changes."""
    if known.role and not network.role:
        raise ConfigurationError(
            "the network file has no [[role]] any more; restart the brokers to do without"
        )
    if (known.security is None) is not (network.security is None):
        how = "has no" if network.security is None else "has a new"
        raise ConfigurationError(
            f"the network file {how} section [security]; restart the brokers for that"
        )


def _say(node: Follower, before: NetworkFile, now: NetworkFile) -> None:
    changed = [
        what
        for what, differs in (
            ("the roles", before.role != now.role),
            ("[security]", before.security != now.security),
            ("the certificates of users", before.certificate != now.certificate),
        )
        if differs
    ]
    words = f"{node.kind} %s: %s of the network file changed"
    log.warning(words, node.name, " and ".join(changed), extra=about(**{node.kind: node.name}))
