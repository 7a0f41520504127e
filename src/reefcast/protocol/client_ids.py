"""Ids of clients, under which nobody else can publish or subscribe.

Rules
-----
- A client's id is a name, a dash, and `DIGITS` digits of a hash of this name and a secret. The
  client shows both in its hellos. So each broker can tell by itself that the id is the client's
  own, wherever else clients are connected.
- Everybody may see the id, which goes with each event. It does not tell a secret that nobody can
  guess. Who does not know it would have to try 2^84 others, and none of these would serve for an id
  with another name.
- One program has an id at a time. An outbox file keeps the secret for the next one.

Source: self-certifying names (Mazieres and others, "Separating key management from file system
security", SOSP 1999)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import NamedTuple

DIGITS = 14
"""Digits of six bits each: with as many of them, an id is short and still nobody's else."""
SECRET_BYTES = 16
"""Random bytes of a secret."""


class Identity(NamedTuple):
    """A client's id, and the secret that it follows from; "" if it follows from none, which only
    brokers take where all clients may do everything."""

    id: str
    secret: str = ""

    def __repr__(self) -> str:
        return f"Identity({self.id!r})"  # secrets stay out of logs


def identity_of(name: str, secret: str) -> Identity:
    """Return the identity of the client with this secret; `name` is how its id begins."""
    digest = sha256(f"client {name}/{secret}".encode()).digest()
    return Identity(f"{name}-{urlsafe_b64encode(digest)[:DIGITS].decode()}", secret)


def is_own(identity: Identity) -> bool:
    """Return whether the id follows from the secret."""
    return identity_of(identity.id[: -DIGITS - 1], identity.secret) == identity
