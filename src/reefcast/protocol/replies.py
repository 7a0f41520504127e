"""Addresses for replies.

A client's address follows from the random text that its hello calls session, which only its brokers
know: so a broker knows which address is a client's own, also after a reconnect to another one, and
who sees an address in a request can reply to it, but not receive what is sent there."""

from __future__ import annotations

from hashlib import sha256

DIGITS = 32


def reply_address(client_id: str, session: str) -> str:
    """Return the address of a client whose hello says this `session`."""
    digest = sha256(f"{client_id}/{session}".encode()).hexdigest()
    return f"{client_id}/{digest[:DIGITS]}"
