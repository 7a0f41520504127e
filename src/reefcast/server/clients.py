"""All clients of one broker: a session for each, and what the broker remembers of ended ones.

Rules
-----
- A client whose connection broke, and that returns to the same broker process within `session_s`,
  finds its session as it left it (see `client_session`): subscriptions and advertisements stand;
  each end says in its hello how many of the other's numbered frames it has taken over, and sends
  the others again.
- A client that cannot say that (it does not know the feature) makes its subscriptions again, and
  learns only how many of its own frames were taken over.
- Another program with the id of a client that is away, or that left within `session_s`, numbers its
  frames from 1. A publication whose number is not above the last one under this id is acknowledged,
  and passed on to nobody: a program that was killed may publish everything again (see
  `client.numbered`).
- Where clients may be of several users, a client's id must follow from the secret that it shows
  (see `protocol.client_ids`): nobody else can use it, at whatever broker.
- A second connection with the same id takes over, if it is of the same user; the first one gets
  CLOSE. At two brokers a program may be connected twice under its id; both connections stay.
- A client that was disconnected for being slow is told so again if the same program comes back:
  maybe it never read the first CLOSE, and took the end for a failure of the network.
- What the broker keeps of absent clients is bounded: sessions and memories by `max_clients`. The
  oldest are dropped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from reefcast.errors import ProtocolError
from reefcast.logs import part
from reefcast.model.messages import SESSION_MARK, LinkDown, LinkKind, LinkUp, is_durable
from reefcast.model.wire import MAX_NAME_CHARS, MOVE, QUEUE_POLICIES, RESUME, Hello
from reefcast.protocol.client_ids import Identity, is_own
from reefcast.protocol.credit import Account
from reefcast.protocol.principal import UserRole
from reefcast.server.client_port import ClientPort, Line
from reefcast.server.client_session import ClientSession
from reefcast.server.connection import Connection
from reefcast.server.host import Host
from reefcast.server.native_port import NativePort, SharedFrames
from reefcast.server.queue_memory import QueueMemory
from reefcast.server.rates import Rates
from reefcast.server.rights import Renew, subject_of

log = part("clients")

MOST_CUT_OFF = 1000
"""How many clients the broker remembers as disconnected for being slow: the latest ones."""


class Memory(NamedTuple):
    """What the broker remembers of an ended session: its user, the run of its program, the number
    of frames taken over from it, and the number of its last publication."""

    user: str
    key: str
    taken: int
    last_seq: int
    until_s: float


class Welcome(NamedTuple):
    """What an admitted client is told. `known`: whether its numbered frames continue; `resumed`:
    whether its session does; `credit`: publications that it may send at once."""

    known: bool
    resumed: bool
    credit: int


class Clients:
    """The sessions by client id. `is_broker`: whether a name is a broker's, which no client may
    have. `own_ids`: whether ids must follow from the secrets that clients show."""

    def __init__(
        self, host: Host, is_broker: Callable[[str], bool], *, own_ids: bool = False
    ) -> None:
        self.sessions: dict[str, ClientSession] = {}
        self._host = host
        self.is_broker = is_broker
        self._own_ids = own_ids
        self._away: dict[str, float] = {}  # until when; the first that left comes first
        self._memories: dict[str, Memory] = {}  # the oldest first
        self._cut_off: dict[str, tuple[str, str]] = {}  # the program's session, and why
        self._shared = SharedFrames()
        self._closing = self._drained = ""
        self._elsewhere: Callable[[], tuple[str, ...]] | None = None
        self._leaving: set[ClientSession] = set()
        self._rates = Rates(host.limits)
        self.memory = QueueMemory(host.limits.queue_bytes, host.outputs.clients)

    def arrive(self, connection: Connection, hello: Hello) -> ClientSession | None:
        """Admit a client that said hello in the native protocol; see `admit`."""
        keeps = RESUME in connection.link.agreed.features

        def welcome(session: ClientSession, how: Welcome) -> None:
            connection.say_hello(
                msgspec.structs.replace(
                    self._host.me,
                    peer_session=hello.session if how.known else "",
                    received=session.taken,
                    resumed=how.resumed,
                    ticket=session.ticket if keeps else "",
                    queue_policy=session.policy,
                    queue_limit=session.port.limit,
                    credit=how.credit,
                )
            )
            session.going.collects = MOVE in connection.link.agreed.features
            connection.use(session.port)
            if how.resumed:  # after the frames that are sent again: a refusal must come before
                connection.link.acknowledge()

        def make_port() -> NativePort:
            return NativePort(connection.flusher, self._shared, keeps=keeps)

        return self.admit(connection, hello, make_port, welcome)

    def admit(
        self,
        line: Line,
        hello: Hello,
        make_port: Callable[[], ClientPort],
        welcome: Callable[[ClientSession, Welcome], None],
    ) -> ClientSession | None:
        """Admit a client of any protocol. Return its session, which has this line from now on; None
        if the client was turned away.

        `make_port`: makes the port of a new session. `welcome`: tells the client its state, before
        anything else goes to it. Raises `ProtocolError` for a hello that no client may send."""
        line.principal.require(UserRole.CLIENT)
        if self._closing:
            line.close(self._closing, retry=True)
            return None
        self._check(hello)
        if self._elsewhere is not None and not self._returns(hello):
            line.close(self._drained, retry=True, elsewhere=self._elsewhere())
            return None
        if hello.collecting and not self._returns(hello):
            line.close("nothing is kept here for this client", retry=True)
            return None
        user = line.principal.user
        if self._owner(hello.name) not in (None, user):
            raise ProtocolError(f"the client id {hello.name!r} is in use by another user")
        cut_off = self._cut_off.get(hello.name)
        if cut_off is not None and cut_off[0] == hello.session:
            line.close(cut_off[1], too_slow=True)
            return None
        session = self.sessions.get(hello.name)
        if session is not None and session.is_newer(hello):
            line.close("a newer connection of this client is here", retry=True)
            return None
        if session is not None and session.port.keeps and session.ticket == hello.ticket:
            return self._go_on(session, line, hello, welcome)
        if session is not None:
            session.port.close("another connection with this client's id took over")
            self._give_up(session, session.port.kept)
        if not self._has_room():
            limit = self._host.limits.max_clients
            full = f"this broker has {limit} clients already, the most (max_clients in [limits])"
            line.close(full, retry=True)
            return None
        self._cut_off.pop(hello.name, None)
        return self._begin(hello, line, make_port(), welcome)

    def _go_on(
        self,
        session: ClientSession,
        line: Line,
        hello: Hello,
        welcome: Callable[[ClientSession, Welcome], None],
    ) -> ClientSession:
        session.port.check(hello.received)
        session.port.close("another connection of this client took over", retry=True)
        session.proved_again(line.principal)
        session.port.again_from(hello.received)
        session.attempt = hello.attempt
        session.going.moved, session.going.collecting = False, hello.collecting
        del self._away[session.name]
        credit = self._host.congestion.accounts[session.name].reopen()
        welcome(session, Welcome(known=True, resumed=True, credit=credit))
        session.attach(line)
        return session

    def _begin(
        self,
        hello: Hello,
        line: Line,
        port: ClientPort,
        welcome: Callable[[ClientSession, Welcome], None],
    ) -> ClientSession:
        name, memory = hello.name, self._memories.pop(hello.name, None)
        known = memory is not None and memory.key == hello.session
        account = self._account(name, known=known)
        session = ClientSession(
            *(self._host, port, hello, line.principal, account, self._rates),
            *(self._is_away, self._ended),
        )
        session.begin_throttled()
        port.memory = self.memory
        if memory is not None:
            session.last_seq = memory.last_seq
            session.taken = memory.taken if known else 0
        self.sessions[name] = session
        self._host.outputs.clients[name] = port
        welcome(session, Welcome(known=known, resumed=False, credit=account.reopen()))
        session.attach(line)
        up = LinkUp(LinkKind.CLIENT, subject=session.subject, inbox=session.inbox)
        self._host.driver.handle(up, name)
        session.say_what_is_missing()
        return session

    def limit(self) -> None:
        """Apply the broker's present limits."""
        self._rates.limit(self._host.limits)
        self.memory.most = self._host.limits.queue_bytes

    def regrant(self, renewed: Renew) -> None:
        """Apply to all clients what their users may do now; disconnect those of removed users."""
        for session in list(self.sessions.values()):
            principal, subject = session.principal, subject_of(session.principal)
            now = None if subject is None else renewed(subject)
            if now is not None:
                granted = principal._replace(granted=now.granted, claims=now.claims)
                session.principal = granted
                session.regrant()
            elif subject is not None:
                session.port.close(f"there is no user {principal.user!r} any more")
                self._give_up(session, 0)

    def _account(self, name: str, *, known: bool) -> Account:
        accounts = self._host.congestion.accounts
        if not known or name not in accounts:
            accounts[name] = Account(self._rates.window)
        return accounts[name]

    def _check(self, hello: Hello) -> None:
        network = self._host.me.network
        if hello.network not in ("", network):
            raise ProtocolError(
                f"this broker belongs to the network {network!r}, not to {hello.network!r}"
            )
        if not 0 < len(hello.name) <= MAX_NAME_CHARS:
            raise ProtocolError(f"a client's id has 1 to {MAX_NAME_CHARS} characters")
        if is_durable(hello.name):
            raise ProtocolError(
                f"a client's id does not begin with {SESSION_MARK!r}, as {hello.name!r} does"
            )
        if self.is_broker(hello.name):
            raise ProtocolError(f"{hello.name!r} is the name of a broker; choose another id")
        if self._own_ids and not is_own(Identity(hello.name, hello.secret)):
            raise ProtocolError(
                f"the client id {hello.name!r} does not follow from the secret that is shown with "
                "it, so it may be another client's (clients and outboxes of older versions have "
                "such ids)"
            )
        if hello.queue_policy not in ("", *QUEUE_POLICIES) or hello.queue_limit < 0:
            raise ProtocolError(
                f"queue_policy {hello.queue_policy!r} with queue_limit {hello.queue_limit}: "
                f"the policy is one of {', '.join(QUEUE_POLICIES)}, the limit is not negative"
            )

    def _owner(self, name: str) -> str | None:
        """Return the user who has this client id, or had it recently."""
        if name in self.sessions:
            return self.sessions[name].principal.user
        return self._memories[name].user if name in self._memories else None

    def _has_room(self) -> bool:
        """Return whether there is room for one more; if need be, end the oldest session that is
        away."""
        if len(self.sessions) < self._host.limits.max_clients:
            return True
        if not self._away:
            return False
        self._give_up_longest_away()
        return True

    def _is_away(self, session: ClientSession) -> None:
        self._away[session.name] = asyncio.get_running_loop().time() + self._host.limits.session_s

    # --- other brokers take them ------------------------------------------------------------------

    def turn_away(self, reason: str, elsewhere: Callable[[], tuple[str, ...]]) -> None:
        """Take no new clients from now on, and `hand_over` those that there are: `elsewhere`
        returns where the next one is to go."""
        self._drained, self._elsewhere = reason, elsewhere

    def take_again(self) -> None:
        """Take new clients again; those that were about to go still do, and those that have gone
        collect nothing more."""
        self.hand_over()
        self._elsewhere = None
        for session in list(self.sessions.values()):
            if session.going.moved or session.going.collecting:
                session.port.close(self._drained, retry=True)
                self._give_up(session, session.port.kept)

    @property
    def handed_over(self) -> int:
        """How many clients are still here that are to go: all but storages."""
        return sum(not session.going.stores for session in self.sessions.values())

    def hand_over(self) -> None:
        """Stop reading from the clients that have come meanwhile, and close the connections of
        those that have everything. A session stays if its client comes back once more for what
        has come meanwhile (`Going`)."""
        if self._elsewhere is None:
            return
        for session in list(self.sessions.values()):
            line, client = session.port.line, self._host.core.clients.get(session.name)
            if session.going.stores or line is None:
                continue
            if session not in self._leaving:
                self._leaving.add(session)
                line.stop_reading()
            elif session.port.empty and not (client is not None and client.held):
                going, lost = session.going, session.port.unwritten
                comes = going.collects and not going.collecting
                going.moved = comes and client is not None and client.subscribed > 0
                session.port.close(self._drained, retry=True, elsewhere=self._elsewhere())
                if not going.moved:
                    self._give_up(session, lost)
        self._leaving.intersection_update(self.sessions.values())

    def _returns(self, hello: Hello) -> bool:
        """Return whether this hello continues a session that still exists."""
        session = self.sessions.get(hello.name)
        return session is not None and session.port.keeps and session.ticket == hello.ticket

    def refuse(self, reason: str) -> None:
        """Refuse new clients, and stop reading from the connected ones, because the broker is to
        stop; they still get what waits for them."""
        self._closing = reason
        for session in self.sessions.values():
            if session.port.line is not None:
                session.port.line.stop_reading()

    def end_all(self, reason: str) -> None:
        """End all sessions, because the broker stops and will not remember them."""
        for session in list(self.sessions.values()):
            port = session.port
            lost = port.kept if port.line is None else port.unwritten
            port.close(reason, retry=True)
            self._give_up(session, lost)

    def _give_up(self, session: ClientSession, lost: int) -> None:
        """End a session to which nobody comes back, if it has not ended; `lost` deliveries are
        lost."""
        if self.sessions.get(session.name) is not session:
            return
        if lost:
            gone = "did not come back" if session.port.line is None else "did not keep up"
            words = f"client %s {gone}: %d publications that waited for it are dropped"
            journal = self._host.journal
            journal.counters["session_lost"] += lost
            about = {"client": session.name, "count": lost, "reason": gone}
            names = session.name, lost
            journal.floods.log(log, logging.WARNING, "clients_lost", words, *names, about=about)
        session.end()

    def _give_up_longest_away(self) -> None:
        session = self.sessions[next(iter(self._away))]
        self._give_up(session, session.port.kept)

    def _ended(self, session: ClientSession) -> None:
        host, name = self._host, session.name
        if self.sessions.get(name) is not session:
            return
        del self.sessions[name]
        del host.outputs.clients[name]
        self._away.pop(name, None)
        until_s = asyncio.get_running_loop().time() + host.limits.session_s
        self._memories[name] = Memory(
            session.principal.user, session.key, session.taken, session.last_seq, until_s
        )
        if len(self._memories) > host.limits.max_clients:
            self._forget_oldest()
        if session.cut_off:
            self._cut_off[name] = (session.key, session.cut_off)
            if len(self._cut_off) > MOST_CUT_OFF:
                del self._cut_off[next(iter(self._cut_off))]
        host.congestion.relieved(name)
        host.driver.handle(LinkDown(), name)

    def forget_old(self, now: float) -> None:
        """End the sessions of clients that have been away for too long, and drop expired
        memories."""
        while self._away and next(iter(self._away.values())) <= now:
            self._give_up_longest_away()
        self._rates.forget_old(now)
        self.memory.weigh_all()
        while self._memories and next(iter(self._memories.values())).until_s <= now:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        name = next(iter(self._memories))
        del self._memories[name]
        if name not in self.sessions:
            self._host.congestion.accounts.pop(name, None)
