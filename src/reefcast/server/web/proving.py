"""Who asks over HTTP: the same authenticator decides as for the native protocol.

A request shows a user and a password (Basic, RFC 7617), a token (Bearer, RFC 6750), nothing, or a
certificate by its connection. What it shows stands in for the PROOF frame with which a native
client answers (`server.proving`), so the same rules hold: passwords and tokens only where nobody
else can read them, failures slowed down and counted."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Coroutine

from reefcast.errors import ProtocolError
from reefcast.model.wire import Hello
from reefcast.protocol.principal import Principal
from reefcast.protocol.privacy import Shown
from reefcast.protocol.proofs import Answer, Method, Question, decode_asked, encode_proof
from reefcast.server.greeting import Authenticator, Greeting


class RequestGreeting(Greeting):
    """The greeting of one request, which shows `answer`. `accepted`: the methods that the broker
    asked for, as it said."""

    def __init__(self, hello: Hello, shown: Shown, answer: Answer) -> None:
        super().__init__(hello, shown=shown, write=_never, go_on=lambda: None)
        self._shows = answer
        self.accepted: tuple[str, ...] = ()

    def send(self, payload: bytes) -> None:
        asked = decode_asked(payload)
        if isinstance(asked, Question):
            self.accepted = asked.methods

    async def receive(self) -> bytes:
        return encode_proof(self._shows)


def _never(frame: bytes) -> None:
    raise AssertionError("a request is asked nothing by frames")


async def prove(authenticator: Authenticator, greeting: RequestGreeting) -> Principal:
    """Return who asks. Raises `ProtocolError` with a sentence for him, and `BusyError` if he has to
    come again later."""
    proved = authenticator.prove(greeting)
    return await proved if isinstance(proved, Coroutine) else proved


def shown_in(authorization: str | None) -> Answer:
    """Return what the header of that name shows. Raises `ProtocolError` for one that cannot be
    read."""
    if not authorization:
        return Answer(Method.NOTHING)
    scheme, _, rest = authorization.partition(" ")
    rest = rest.strip()
    if scheme.lower() == "bearer" and rest:
        return Answer(Method.TOKEN, secret=rest)
    if scheme.lower() == "basic":
        try:
            user, colon, password = base64.b64decode(rest, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            colon = ""
        if colon:
            return Answer(Method.PASSWORD, user, password)
    raise ProtocolError(
        "the header Authorization is neither Basic with a user and a password, nor Bearer with a "
        "token"
    )


def challenges(greeting: RequestGreeting | None, network: str) -> list[str]:
    """Return what a request that proved nobody may show (the header WWW-Authenticate)."""
    accepted = () if greeting is None else greeting.accepted
    realm = f"reefcast {network}".replace("\\", "").replace('"', "")
    realm = realm.encode("ascii", "replace").decode()
    known = {
        Method.PASSWORD: f'Basic realm="{realm}", charset="UTF-8"',
        Method.TOKEN: f'Bearer realm="{realm}"',
    }
    return [words for method, words in known.items() if method in accepted]
