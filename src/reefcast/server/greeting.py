"""The greeting of a connection: an authenticator proves who the other end is, and only then is
anything granted to it.

Rules
-----
- The other end says in its hello what it wants to be; its principal has the roles that it may have
  (`role_wanted`). Neither a name nor a pattern in it grants anything.
- An authenticator that knows at once returns the principal, and the connection loses no turn of the
  event loop. One that needs steps returns a coroutine; it may exchange PROOF frames with the other
  end, look things up, and wait.
- Who dialled answers, and never asks: the other end has let it in already, maybe, and no longer
  expects PROOF. So it judges by what the connection itself shows (`Greeting.shown`).
- What comes behind the hello waits, unread, until the greeting is over. A PROOF frame that nobody
  waits for waits as well, so one read is the most that is kept.
- A greeting takes `connection.HELLO_S` at most, all steps together. It is cancelled when the
  connection goes.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Coroutine
from typing import Any

from reefcast.errors import InternalError, ProtocolError
from reefcast.model import wire
from reefcast.model.wire import FrameKind, Hello, Role
from reefcast.network.file import is_loopback
from reefcast.protocol.principal import ALL_ROLES, Principal, UserRole

LOCAL = Principal("anonymous", ALL_ROLES, "loopback")
"""Whoever is on this machine."""
UNPROVED = Principal("anonymous", ALL_ROLES, "nothing")
"""Whoever can reach a broker of an `insecure` network."""
STRANGER = Principal("anonymous", frozenset(), "nothing")


class Greeting:
    """One greeting, as an authenticator sees it. `hello`: what the other end says of itself, which
    proves nothing. `dialled`: whether this end made the connection. `shown(name)`: what the
    transport knows (`asyncio.BaseTransport.get_extra_info`), as its certificate; `write` puts a
    frame on the connection, `go_on` has it handle what waits."""

    def __init__(
        self,
        hello: Hello,
        *,
        dialled: bool,
        shown: Callable[[str], Any],
        write: Callable[[bytes], None],
        go_on: Callable[[], None],
    ) -> None:
        self.hello = hello
        self.dialled = dialled
        self.shown = shown
        self._write = write
        self._go_on = go_on
        self._answer: asyncio.Future[bytes] | None = None

    @property
    def address(self) -> str:
        """The IP address of the other end, "" if it is not known."""
        peer = self.shown("peername")
        return str(peer[0]) if isinstance(peer, tuple) else ""

    def send(self, payload: bytes) -> None:
        """Send a PROOF frame. What it holds is a matter of the authenticator and the other end."""
        if self.dialled:
            raise InternalError("only the end that was dialled exchanges PROOF frames")
        self._write(wire.frame(FrameKind.PROOF, payload))

    async def receive(self) -> bytes:
        """Return what the next PROOF frame of the other end holds."""
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
    """Proves who others are, one way of many, and to other brokers who this one is."""

    @abstractmethod
    def prove(self, greeting: Greeting) -> Principal | Coroutine[Any, Any, Principal]:
        """Return the principal, or a coroutine that finds it out in several steps. Either raises
        `ProtocolError` with a sentence for the other end if nothing is proved."""

    def answer(self, question: bytes) -> bytes:
        """Answer the PROOF frame of a broker that this one dialled; raise `ProtocolError` if there
        is no answer."""
        raise ProtocolError("this broker was asked for a proof of who it is, and has none")


class Anonymous(Authenticator):
    """Grants everything to everybody on loopback, and `everywhere` if so. Nobody has a name."""

    def __init__(self, *, everywhere: bool = False) -> None:
        self._elsewhere = UNPROVED if everywhere else STRANGER

    def prove(self, greeting: Greeting) -> Principal:
        return LOCAL if is_loopback(greeting.address) else self._elsewhere


def role_wanted(hello: Hello, brokers: Container[str]) -> UserRole | None:
    """Return the role that who says this hello needs, None if it needs none: whoever was proved may
    ask for the status. `brokers`: the names that the network file has."""
    if hello.role is Role.CLIENT:
        return UserRole.CLIENT
    if hello.role is Role.ADMIN:
        return None
    return UserRole.BROKER if hello.name in brokers else UserRole.PEER
