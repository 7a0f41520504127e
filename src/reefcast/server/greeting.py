"""The greeting of a connection: an authenticator proves who the other end is, before anything is
granted to it.

Rules
-----
- The other end says in its hello what it wants to be. Its principal has the roles that it may have
  (`role_wanted`). Neither a name nor a pattern in it grants anything.
- An authenticator that decides at once returns the principal, and the connection loses no turn of
  the event loop. One that needs several steps returns a coroutine, which may exchange PROOF frames
  with the other end, look things up, and wait.
- The end that dialled answers, and never asks: the other end may have admitted it already, and no
  longer expects PROOF. So it judges by the connection itself (`Greeting.shown`), and by what the
  other end proved while it asked (`Greeting.respondent`).
- Bytes behind the hello wait, unread, until the greeting is over. An unexpected PROOF frame waits,
  too, so one read is the most that is kept.
- A greeting takes `connection.HELLO_S` at most, all steps together. It is cancelled when the
  connection is lost."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Coroutine
from typing import Any

from reefcast.errors import InternalError
from reefcast.model import wire
from reefcast.model.wire import FrameKind, Hello, Role
from reefcast.network.file import NetworkFile
from reefcast.protocol.principal import ALL_ROLES, ANONYMOUS, Principal, UserRole
from reefcast.protocol.privacy import Shown, address_of, is_loopback, is_private
from reefcast.protocol.proofs import Respondent
from reefcast.security.showing import NoCredentials, circumstances

LOCAL = Principal(ANONYMOUS, ALL_ROLES, "loopback")
"""Any user on this machine."""
UNPROVED = Principal(ANONYMOUS, ALL_ROLES, "nothing")
"""Any user who can reach a broker of an `insecure` network."""
STRANGER = Principal(ANONYMOUS, frozenset(), "nothing")


class Greeting:
    """One greeting, as an authenticator sees it. `hello`: what the other end says of itself, which
    proves nothing. `respondent`: what this end answered and learned, if it made the connection.
    `tried`: the user that the other end claims to be, if there is one of that name (a password in
    the wrong place is none), for the audit log.
    `shown(name)`: what the transport knows, such as a certificate; `write`
    puts a frame on the connection, `go_on` has it handle the bytes that wait."""

    def __init__(
        self,
        hello: Hello,
        *,
        shown: Shown,
        write: Callable[[bytes], None],
        go_on: Callable[[], None],
        respondent: Respondent | None = None,
    ) -> None:
        self.hello = hello
        self.respondent = respondent
        self.tried = ""
        self.shown = shown
        self._write = write
        self._go_on = go_on
        self._answer: asyncio.Future[bytes] | None = None

    @property
    def address(self) -> str:
        """The IP address of the other end, "" if unknown."""
        return address_of(self.shown)

    @property
    def dialled(self) -> bool:
        """Whether this end made the connection."""
        return self.respondent is not None

    @property
    def is_private(self) -> bool:
        """Whether nobody else can read the connection."""
        return is_private(self.shown)

    def send(self, payload: bytes) -> None:
        """Send a PROOF frame. The authenticator and the other end define its content."""
        if self.dialled:
            raise InternalError("only the end that was dialled exchanges PROOF frames")
        self._write(wire.frame(FrameKind.PROOF, payload))

    async def receive(self) -> bytes:
        """Return the content of the other end's next PROOF frame."""
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        loop.call_soon(self._go_on)
        return await self._answer

    @property
    def awaits_proof(self) -> bool:
        """Whether `receive` waits for a frame."""
        return self._answer is not None and not self._answer.done()

    def proof_came(self, payload: bytes) -> None:
        """Hand over the frame that `receive` waits for."""
        assert self._answer is not None
        self._answer.set_result(payload)


class Authenticator(ABC):
    """Proves who others are, by one method of many, and proves this broker to others."""

    @abstractmethod
    def prove(self, greeting: Greeting) -> Principal | Coroutine[Any, Any, Principal]:
        """Return the principal, or a coroutine that finds it in several steps. Both raise
        `ProtocolError` with a sentence for the other end if nothing is proved."""

    def respond(self, hello: Hello, shown: Shown, to: str) -> Respondent:
        """Return what answers the PROOF frames of broker `to`, which this one dialled, and said
        `hello` to."""
        return Respondent(NoCredentials(), circumstances(hello, shown), to)

    def ask_again(self, principal: Principal) -> bytes | None:
        """Return the content of a PROOF frame that asks for a newer proof, before the present one
        ends (`Principal.expires_at_s`); None if only a new connection can have one."""
        return None

    def renew(self, principal: Principal, payload: bytes) -> Principal:
        """Return the principal that the answer to `ask_again` proves: the same user. Raises
        `ProtocolError` with a sentence for the other end if it proves nothing."""
        raise InternalError("this authenticator asks nobody again")

    def for_network(self, network: NetworkFile) -> Authenticator:
        """Return the authenticator for what the network file says now, in the place of this one.
        Raises `ConfigurationError` if there can be none."""
        return self

    def look(self) -> bool:
        """Read again what may have changed; return whether principals must be reviewed."""
        return False

    def review(self, principal: Principal) -> Principal | None:
        """Return the principal as it is by now; None if its user is no longer there."""
        return principal

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """End what runs on behalf of this authenticator; it proves nobody any more."""


class Current(Authenticator):
    """An authenticator that may be exchanged for another one while connections are open."""

    def __init__(self, now: Authenticator) -> None:
        self.now = now

    def become(self, network: NetworkFile) -> None:
        """Prove others as the network file says now. Raises `ConfigurationError`, and changes
        nothing, if that is not possible."""
        self.now = self.now.for_network(network)

    def prove(self, greeting: Greeting) -> Principal | Coroutine[Any, Any, Principal]:
        return self.now.prove(greeting)

    def respond(self, hello: Hello, shown: Shown, to: str) -> Respondent:
        return self.now.respond(hello, shown, to)

    def ask_again(self, principal: Principal) -> bytes | None:
        return self.now.ask_again(principal)

    def renew(self, principal: Principal, payload: bytes) -> Principal:
        return self.now.renew(principal, payload)

    def look(self) -> bool:
        return self.now.look()

    def review(self, principal: Principal) -> Principal | None:
        return self.now.review(principal)

    def close(self) -> None:
        self.now.close()


class Anonymous(Authenticator):
    """Grants everything to everybody on loopback, or everywhere if `everywhere` is set. Nobody has
    a name."""

    def __init__(self, *, everywhere: bool = False) -> None:
        self._elsewhere = UNPROVED if everywhere else STRANGER

    def prove(self, greeting: Greeting) -> Principal:
        return LOCAL if is_loopback(greeting.address) else self._elsewhere


def role_wanted(hello: Hello, brokers: Container[str]) -> UserRole | None:
    """Return the role that this hello needs, None if it needs none: any proved user may ask for the
    status. `brokers`: the names in the network file."""
    if hello.role is Role.CLIENT:
        return UserRole.CLIENT
    if hello.role is Role.ADMIN:
        return None
    return UserRole.BROKER if hello.name in brokers else UserRole.PEER
