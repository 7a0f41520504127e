"""The version of the protocol and the features that the two ends of a connection use.

Rules
-----
- Each hello offers the newest and the oldest version that its sender speaks, and features by name.
- Both speak the newest version that both know. Without one, the end that finds that out says so in
  a CLOSE that names what both offer.
- A feature is used if both offer it.
- A hello of any version is a map with `version`, and with `oldest` and `features` unless they have
  these defaults. A field that somebody does not know is skipped; so what a later version adds to a
  message is a field with a default, and what it adds to the conversation is said only if the
  version or feature that it belongs to is agreed.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from reefcast.errors import ProtocolError


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The offer of one end: it speaks the versions from `oldest` to `version`."""

    version: int
    oldest: int = 1
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.oldest == self.version:
            return f"version {self.version}"
        return f"versions {self.oldest} to {self.version}"


class Agreed(NamedTuple):
    """The version and the features in use on a connection."""

    version: int
    features: frozenset[str]


def agree(mine: Offer, theirs: Offer) -> Agreed:
    """Return the version and the features that both ends have. Raises `ProtocolError` if they have
    no version in common."""
    version = min(mine.version, theirs.version)
    if version < max(mine.oldest, theirs.oldest):
        raise ProtocolError(
            f"the other end speaks {theirs} of the protocol, this one {mine}; upgrade the older one"
        )
    return Agreed(version, frozenset(mine.features) & frozenset(theirs.features))
