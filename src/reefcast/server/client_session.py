"""Clients: one session for each connection, and what is remembered between connections.

Rules
-----
- A client that lost its connection and comes back to the same broker process within `session_s`
  learns from the hello how many of its numbered frames were taken over. Its subscriptions and
  advertisements went with the connection (the core got LinkDown), so it makes them anew.
- A second connection with the same id takes over; the first one gets GOODBYE.
- Each client has a queue of deliveries and a policy for when it is full: `block` (its publishers
  get no credit, see `credit`), `drop_oldest`, `disconnect`.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.messages import (
    FIRST_HOP,
    ControlMessage,
    Discard,
    LinkDown,
    LinkKind,
    LinkUp,
    Publish,
    TableChange,
)
from reefcast.model.wire import Hello, Role
from reefcast.overlay.network_file import QUEUE_POLICIES
from reefcast.server.connection import Connection, End
from reefcast.server.credit import Account
from reefcast.server.host import Host

MAX_NAME_CHARS = 200


class ClientSession(End):
    """One connection of one client."""

    what: ClassVar[str] = "a client"

    def __init__(self, host: Host, connection: Connection, hello: Hello, account: Account) -> None:
        limits = host.network.limits
        self.name = hello.name
        self.key = hello.session
        self.connection = connection
        self.outbox = connection.outbox
        self.policy = hello.queue_policy or limits.queue_policy
        self.dropped = 0
        self._host = host
        self._account = account
        self.outbox.limit = min(hello.queue_limit or limits.queue_limit, limits.queue_limit)
        self.outbox.on_crowded = {
            "block": self._block,
            "drop_oldest": self._drop_oldest,
            "disconnect": self._disconnect,
        }[self.policy]
        self.outbox.on_drained = self._drained

    @staticmethod
    def decode_publish(payload: bytes) -> Publish:
        """Its header holds nothing yet: what brokers tell one another there (hops, clusters to
        reach, trees) would be believed."""
        publish = wire.decode_publish(payload)
        if publish.header is not FIRST_HOP:
            raise ProtocolError(
                "a client's publication has the header of one that is on its way between brokers; "
                "a client writes a hop count of 0 and nothing else"
            )
        return publish

    def publications(self, batch: list[Publish]) -> None:
        if not self._account.take(len(batch)):
            raise ProtocolError(
                f"{-self._account.allowance} publications more than the credit allows; "
                f"a client may send {self._account.window}, and more as CREDIT comes"
            )
        self._host.publications(batch, self.name)
        if self.connection.end is self:
            self._host.congestion.settle(self.name, self._account)

    def control(self, message: ControlMessage) -> None:
        if not isinstance(message, TableChange):
            raise ProtocolError(f"a client must not send {type(message).__name__}")
        if message.token < 1:
            raise ProtocolError(f"{type(message).__name__} carries the token {message.token}")
        if not self._host.input(message, self.name):
            raise ProtocolError(f"the broker failed on this {type(message).__name__}; see its log")

    def lost(self, connection: Connection) -> None:
        self._host.clients.left(self, connection.received)

    # --- a full queue -----------------------------------------------------------------------------

    def _block(self) -> None:
        self._host.congestion.full(self.name)

    def _drained(self) -> None:
        self._host.congestion.relieved(self.name)

    def _drop_oldest(self) -> None:
        _, body = wire.split_parts(self.outbox.drop_oldest()[wire.HEAD_BYTES :])
        self.dropped += 1
        publish = Publish(wire.decode_publication(body), FIRST_HOP, bytes(body))
        self._host.discarded(Discard(publish, "queue_full"), self.name)

    def _disconnect(self) -> None:
        self.connection.goodbye(
            f"more than {self.outbox.limit} publications wait for this client, "
            "which asked to be disconnected then (queue_policy)"
        )

    def status(self) -> dict[str, object]:
        return {
            "client": self.name,
            "queue_len": self.outbox.queue_len,
            "policy": self.policy,
            "limit": self.outbox.limit,
            "dropped": self.dropped,
            "credit": self._account.allowance,
            "withheld_for": sorted(self._account.blockers),
        }


class Memory(NamedTuple):
    key: str
    received: int
    until_s: float


class Clients:
    """All clients of one broker, by id; and those that left lately."""

    def __init__(self, host: Host) -> None:
        self.sessions: dict[str, ClientSession] = {}
        self._host = host
        self._memories: dict[str, Memory] = {}

    def arrive(self, connection: Connection, hello: Hello) -> ClientSession:
        """A client said hello; raises `ProtocolError` if it cannot be let in."""
        self._check(hello)
        before = self.sessions.get(hello.name)
        if before is not None:
            before.connection.goodbye("another connection with this client's id took over")
        host = self._host
        memory = self._memories.pop(hello.name, None)
        known = memory if memory is not None and memory.key == hello.session else None
        accounts = host.congestion.accounts
        account = accounts.get(hello.name) if known else None
        if account is None:
            account = accounts[hello.name] = Account(host.network.limits.credit)
        session = self.sessions[hello.name] = ClientSession(host, connection, hello, account)
        connection.say_hello(
            Hello(
                version=wire.VERSION,
                role=Role.BROKER,
                name=host.name,
                network=host.network.network.name,
                session=host.session,
                peer_session=known.key if known else "",
                received=known.received if known else 0,
                queue_policy=session.policy,
                queue_limit=session.outbox.limit,
                credit=account.reopen(),
            )
        )
        host.input(LinkUp(LinkKind.CLIENT), hello.name)
        return session

    def _check(self, hello: Hello) -> None:
        network = self._host.network
        if hello.network not in ("", network.network.name):
            raise ProtocolError(
                f"this broker belongs to the network {network.network.name!r}, "
                f"not to {hello.network!r}"
            )
        if not 0 < len(hello.name) <= MAX_NAME_CHARS:
            raise ProtocolError(f"a client's id has 1 to {MAX_NAME_CHARS} characters")
        if hello.name in network.names:
            raise ProtocolError(f"{hello.name!r} is the name of a broker; choose another id")
        if hello.queue_policy not in ("", *QUEUE_POLICIES) or hello.queue_limit < 0:
            raise ProtocolError(
                f"queue_policy {hello.queue_policy!r} with queue_limit {hello.queue_limit}: "
                f"the policy is one of {', '.join(QUEUE_POLICIES)}, the limit is not negative"
            )
        limit = network.limits.max_clients
        if hello.name not in self.sessions and len(self.sessions) >= limit:
            raise ProtocolError(f"this broker has {limit} clients already, which is its limit")

    def left(self, session: ClientSession, received: int) -> None:
        """The connection of `session` is gone, and all that it had asked for with it."""
        host = self._host
        del self.sessions[session.name]
        until_s = host.loop.time() + host.network.limits.session_s
        self._memories[session.name] = Memory(session.key, received, until_s)
        host.congestion.relieved(session.name)
        host.input(LinkDown(), session.name)

    def forget_old(self, now: float) -> None:
        """Drops the memories whose time is over."""
        old = [name for name, memory in self._memories.items() if memory.until_s <= now]
        for name in old:
            del self._memories[name]
            self._host.congestion.accounts.pop(name, None)
