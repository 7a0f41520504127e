"""Proofs that end while the connection is open: asking for a newer one in time, and ending the
connection of who has none.

The broker asks `LEAD_S` before the end, or when two thirds of the time that is left have passed. As
long as nothing newer comes it asks again, each time when half of the time has passed. An answer
that proves nothing changes nothing: the old proof counts until its end. Who has a certificate is
not asked: a newer one comes with a new connection only."""

from __future__ import annotations

import asyncio
from typing import Protocol

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.wire import FrameKind
from reefcast.protocol.principal import Principal
from reefcast.security.audit import Audit
from reefcast.server.auditing import Audited, who
from reefcast.server.greeting import Authenticator
from reefcast.server.outbox import Outbox
from reefcast.timing import now_us

LEAD_S = 30.0
SHORTEST_S = 0.2
"""The shortest pause between two questions."""


class Renewed(Audited, Protocol):
    """A connection whose proof ends."""

    outbox: Outbox

    def prove_again(self, principal: Principal) -> None: ...

    def close(
        self, reason: str, *, retry: bool = False, too_slow: bool = False, kind: str = ""
    ) -> None: ...


class Renewing:
    """The proof of one connection, which has just been admitted."""

    def __init__(self, connection: Renewed, authenticator: Authenticator, audit: Audit) -> None:
        self._connection = connection
        self._authenticator = authenticator
        self._audit = audit
        self._loop = asyncio.get_running_loop()
        self._asked = False
        self._reason = ""
        self._timer = self._set_timer()

    @property
    def _left_s(self) -> float:
        return self._connection.principal.expires_at_s - now_us() / 1e6

    def _set_timer(self) -> asyncio.TimerHandle:
        left_s = self._left_s
        return self._loop.call_later(max(left_s - LEAD_S, left_s * 2 / 3), self._due)

    def _due(self) -> None:
        left_s, principal = self._left_s, self._connection.principal
        if left_s <= 0:
            said = f"; the newer one was refused: {self._reason}" if self._reason else ""
            reason = f"the {principal.proof} of user {principal.user!r} has expired{said}"
            self._connection.close(reason, retry=True, kind="expired")
            return
        if left_s > SHORTEST_S:
            question = self._authenticator.ask_again(principal)
            if question is not None:
                self._asked = True
                self._connection.outbox.push_urgent(wire.frame(FrameKind.PROOF, question))
        self._timer = self._loop.call_later(max(left_s / 2, min(left_s, SHORTEST_S)), self._due)

    def proof_came(self, payload: bytes) -> None:
        """Handle the answer. Raises `ProtocolError` if nothing was asked."""
        if not self._asked:
            raise ProtocolError("a PROOF frame came that nobody asked for")
        self._asked = False
        before = self._connection.principal
        try:
            principal = self._authenticator.renew(before, payload)
        except ProtocolError as error:
            self._reason = str(error)
            self._audit.limited("not_proved_again", **who(self._connection), reason=str(error))
            return
        if principal.expires_at_s > before.expires_at_s:
            self._reason = ""
            self._connection.prove_again(principal)
            self.stop()
            self._timer = self._set_timer()

    def stop(self) -> None:
        """Stop checking; leave the connection open."""
        self._timer.cancel()
