"""What the audit log says of a connection."""

from __future__ import annotations

import asyncio
from typing import Protocol

from reefcast.model.wire import Hello
from reefcast.protocol.principal import Principal
from reefcast.protocol.privacy import address_of


class Audited(Protocol):
    """A connection, as the audit log sees it. `hello`: what the other end said, None if nothing
    yet; `tried`: the user that it could not prove to be, if there is such a user."""

    transport: asyncio.Transport
    hello: Hello | None
    principal: Principal
    tried: str


def who(connection: Audited) -> dict[str, object]:
    """Return the fields of audit lines about a connection: what the other end says that it is, what
    it has proved, and its address."""
    shown, hello, principal = (
        connection.transport.get_extra_info,
        connection.hello,
        connection.principal,
    )
    says = {} if hello is None else {"role": hello.role.name.lower(), "name": hello.name}
    proved = {"user": principal.user, "proof": principal.proof, "roles": principal.granted}
    place = {"address": address_of(shown), "tls": shown("ssl_object") is not None}
    tried = {"tried": connection.tried} if connection.tried else {}
    return {**says, **(proved if principal.user else tried), **place}


def said_of(connection: Audited) -> dict[str, object]:
    """Return the fields of log lines about a connection: where the other end is, what it says that
    it is, and the user that is proved."""
    hello = connection.hello
    kind = "" if hello is None else hello.role.name.lower()
    at = connection.transport.get_extra_info("peername")
    address = f"{at[0]}:{at[1]}" if isinstance(at, tuple) and len(at) > 1 else str(at)
    says = {"client" if kind == "client" else "peer": "" if hello is None else hello.name}
    return {"connection": address, "role": kind, **says, "user": connection.principal.user}
