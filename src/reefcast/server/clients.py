"""All clients of one broker: one session for each, and what is remembered between connections.

Rules
-----
- A client that lost its connection and comes back to the same broker process within `session_s`
  learns from the hello how many of its numbered frames were taken over. Its subscriptions and
  advertisements went with the connection (the core got LinkDown), so it makes them anew.
- Another program that comes with the id of one that left within `session_s` counts its frames from
  1. What it publishes under a number that is not above the last one under this id is taken over and
  passed on to nobody: a program that was killed may publish all again (see `client.numbered`).
- A second connection with the same id takes over, if it is of the same user; the first one gets
  GOODBYE.
- A client that was disconnected for being slow is told so again if it comes back (the same program,
  that is): maybe it never read the first GOODBYE, and took the end for a failure of the network.
- What is kept of clients that are gone is bounded: the memories by `max_clients`, the oldest go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from reefcast.errors import ProtocolError
from reefcast.model.messages import LinkDown, LinkKind, LinkUp
from reefcast.model.wire import MAX_NAME_CHARS, QUEUE_POLICIES, Hello
from reefcast.server.client_session import ClientSession
from reefcast.server.connection import Connection
from reefcast.server.credit import Account
from reefcast.server.host import Host

MOST_CUT_OFF = 1000
"""Clients of which is known that they were disconnected for being slow, the latest."""


class Memory(NamedTuple):
    """Of a client that left: the session of its program, the frames taken over from it, and the
    number of its last publication."""

    key: str
    received: int
    last_seq: int
    until_s: float


class Clients:
    """The sessions by client id. `is_broker`: of names, which no client may have then."""

    def __init__(self, host: Host, is_broker: Callable[[str], bool]) -> None:
        self.sessions: dict[str, ClientSession] = {}
        self._host = host
        self._is_broker = is_broker
        self._memories: dict[str, Memory] = {}  # the oldest first
        self._cut_off: dict[str, tuple[str, str]] = {}  # the program's session, and why

    def arrive(self, connection: Connection, hello: Hello) -> ClientSession | None:
        """A client said hello; None if it was turned away, as there are enough of them here. Raises
        `ProtocolError` for a hello that no client may say."""
        self._check(hello)
        before, limit = self.sessions.get(hello.name), self._host.limits.max_clients
        if before is not None and before.principal.user != connection.principal.user:
            raise ProtocolError(f"the client id {hello.name!r} is in use by another user")
        if before is None and len(self.sessions) >= limit:
            full = f"this broker has {limit} clients already, which is its limit"
            connection.goodbye(full, retry=True)
            return None
        cut_off = self._cut_off.get(hello.name)
        if cut_off is not None and cut_off[0] == hello.session:
            connection.goodbye(cut_off[1], too_slow=True)
            return None
        self._cut_off.pop(hello.name, None)
        if before is not None:
            before.connection.goodbye("another connection with this client's id took over")
        memory = self._memories.pop(hello.name, None)
        known = memory if memory is not None and memory.key == hello.session else None
        account = self._account(hello.name, known)
        last_seq = 0 if memory is None else memory.last_seq
        session = ClientSession(self._host, connection, hello, account, self._left, last_seq)
        self.sessions[hello.name] = session
        self._host.outputs.clients[hello.name] = session.outbox
        connection.say_hello(
            msgspec.structs.replace(
                self._host.me,
                peer_session=known.key if known else "",
                received=known.received if known else 0,
                queue_policy=session.policy,
                queue_limit=session.outbox.limit,
                credit=account.reopen(),
            )
        )
        self._host.driver.handle(LinkUp(LinkKind.CLIENT), hello.name)
        return session

    def _account(self, name: str, known: Memory | None) -> Account:
        accounts = self._host.congestion.accounts
        if known is None or name not in accounts:
            accounts[name] = Account(self._host.limits.credit)
        return accounts[name]

    def _check(self, hello: Hello) -> None:
        network = self._host.me.network
        if hello.network not in ("", network):
            raise ProtocolError(
                f"this broker belongs to the network {network!r}, not to {hello.network!r}"
            )
        if not 0 < len(hello.name) <= MAX_NAME_CHARS:
            raise ProtocolError(f"a client's id has 1 to {MAX_NAME_CHARS} characters")
        if self._is_broker(hello.name):
            raise ProtocolError(f"{hello.name!r} is the name of a broker; choose another id")
        if hello.queue_policy not in ("", *QUEUE_POLICIES) or hello.queue_limit < 0:
            raise ProtocolError(
                f"queue_policy {hello.queue_policy!r} with queue_limit {hello.queue_limit}: "
                f"the policy is one of {', '.join(QUEUE_POLICIES)}, the limit is not negative"
            )

    def _left(self, session: ClientSession, received: int) -> None:
        """The connection of `session` is gone, and all that it had asked for with it."""
        host, name = self._host, session.name
        del self.sessions[name]
        del host.outputs.clients[name]
        until_s = asyncio.get_running_loop().time() + host.limits.session_s
        self._memories[name] = Memory(session.key, received, session.last_seq, until_s)
        if len(self._memories) > host.limits.max_clients:
            self._forget_oldest()
        if session.cut_off:
            self._cut_off[name] = (session.key, session.cut_off)
            if len(self._cut_off) > MOST_CUT_OFF:
                del self._cut_off[next(iter(self._cut_off))]
        host.congestion.relieved(name)
        host.driver.handle(LinkDown(), name)

    def forget_old(self, now: float) -> None:
        """Drops the memories whose time is over."""
        while self._memories and next(iter(self._memories.values())).until_s <= now:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        name = next(iter(self._memories))
        del self._memories[name]
        self._host.congestion.accounts.pop(name, None)
