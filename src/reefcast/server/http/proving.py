"""Who sends a request: the rules of `server.web.proving`, and two ways for pages in browsers, which
cannot choose the headers of an EventSource or a WebSocket.

- A WebSocket may offer the subprotocol `reefcast.token.<token>` beside `reefcast`.
- Any request may have the parameter `access_token` (RFC 6750, section 2.3).

Both count over TLS only: such a token may be written into logs on the way, or into the history of a
browser. So give it a short life."""

from __future__ import annotations

from aiohttp import web

from reefcast.errors import BusyError, ProtocolError
from reefcast.http.problems import HttpError, error_of, refused
from reefcast.model import wire
from reefcast.model.wire import Role
from reefcast.protocol.principal import Principal, UserRole
from reefcast.protocol.privacy import address_of
from reefcast.protocol.proofs import Answer, Method
from reefcast.server.http.asking import shown_by
from reefcast.server.http.serving import ServingBroker
from reefcast.server.web.proving import RequestGreeting, challenges, prove, shown_in

SUBPROTOCOL = "reefcast"
TOKEN = f"{SUBPROTOCOL}.token."
"""How the subprotocol begins that is a token."""


async def who_asks(node: ServingBroker, request: web.BaseRequest) -> Principal:
    """Return who sends a request. Raises `HttpError` if that is not proved, or may be nobody's
    client."""
    greeting = None
    try:
        hello = wire.hello(Role.CLIENT, "http", node.network.network.name, node.host.me.session)
        greeting = RequestGreeting(hello, shown_by(request), _shown(request))
        principal = await prove(node.shared.authenticator, greeting)
    except BusyError as error:
        busy = error_of(error)
        assert busy is not None
        raise busy from None
    except HttpError:
        raise
    except ProtocolError as error:
        tried = {} if greeting is None or not greeting.tried else {"tried": greeting.tried}
        _note(node, request, str(error), **tried)
        asked = ", ".join(challenges(greeting, node.network.network.name))
        headers = {"WWW-Authenticate": asked} if asked else {}
        raise refused(401, "unproved", str(error), headers=headers) from None
    try:
        principal.require(UserRole.CLIENT)
    except ProtocolError as error:
        _note(node, request, str(error), user=principal.user)
        raise refused(403, "forbidden", str(error)) from None
    return principal


def _shown(request: web.BaseRequest) -> Answer:
    """Return what a request shows. Raises `ProtocolError` for what cannot be read, or may not be
    shown here."""
    header = request.headers.get("Authorization")
    token = request.query.get("access_token", "")
    offered = request.headers.get("Sec-WebSocket-Protocol", "")
    for each in map(str.strip, offered.split(",")):
        if each.startswith(TOKEN):
            token = each.removeprefix(TOKEN)
    if header or not token:
        return shown_in(header)
    if shown_by(request)("ssl_object") is None:
        raise ProtocolError(
            "a token in access_token or in a subprotocol counts over TLS only: send it in the "
            "header Authorization, or use https://"
        )
    return Answer(Method.TOKEN, secret=token)


def _note(node: ServingBroker, request: web.BaseRequest, reason: str, **who: object) -> None:
    """Write into the audit log who was refused."""
    shown = shown_by(request)
    place = {"role": "client", "address": address_of(shown), "tls": shown("ssl_object") is not None}
    node.host.audit.limited("refused", **place, **who, reason=reason)
