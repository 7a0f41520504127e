"""The session of one client: what it may send, what waits for it, and what happens when that is too
much.

A session outlives its connections. When a connection breaks, the session is *detached*: its rows
stay, and its deliveries wait in its port (`client_port`), within the policy of the queue, until the
client is back or `session_s` have passed. These end a session at once: a client that closes, a
client that the broker disconnects for good, and a client that cannot say what it has received (an
older version).

When the queue is full, the client is *slow* until half of the queue is left. The policy that the
client asked for applies:

- `drop_oldest`: the client is told how many were dropped, at the place where they are missing
  (DROPPED);
- `block`: the client's publishers get no credit (see `credit`), for `block_s` at most; then as
  `disconnect`. Publishers do not wait for a client that is away: its oldest deliveries are dropped,
  and it is told;
- `disconnect`: the client gets CLOSE. It may read that late, or never: so `Clients` tells it again
  when it comes back.

A user that publishes faster than `[limits]` allows gets its credit later (`rates`); a publication
that is too large is refused. What waits for all clients together is limited, too: `_give_way` is
called when this client's queue is the longest of too many (`queue_memory`).

The log names a slow client when it becomes slow, and when that is over. With `block` it does so
only after `STALL_S`, because delaying publishers for a moment is what `block` is for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import ClassVar, get_args

import msgspec

from reefcast.errors import FilterSyntaxError, InternalError, LimitError, ProtocolError
from reefcast.history import messages as history
from reefcast.history.messages import CLIENT_CODEC, FROM_STORAGES, Request
from reefcast.logs import part
from reefcast.model.filters import parse_filter
from reefcast.model.grants import Right
from reefcast.model.messages import (
    Away,
    ControlMessage,
    Publish,
    Refused,
    Regrant,
    Subscribe,
    TableChange,
)
from reefcast.model.reserved import RESERVED, any_reserved, names_reserved
from reefcast.model.subjects import Subject
from reefcast.model.wire import MAX_FRAME_BYTES, Hello, decode_publication
from reefcast.protocol.credit import Account
from reefcast.protocol.principal import Principal, UserRole
from reefcast.protocol.replies import reply_address
from reefcast.retaining import messages as retaining
from reefcast.server.asking import LIMITED, admit, check_for_others, refusal, small_enough
from reefcast.server.client_port import ClientPort, Line
from reefcast.server.end import End, NativeLine
from reefcast.server.going import Going
from reefcast.server.host import Host
from reefcast.server.passage import Run
from reefcast.server.rates import Rates, payer_of
from reefcast.server.rights import require_right, subject_of
from reefcast.sessions import messages as sessions
from reefcast.sessions.messages import AboutSession, AddFilter, Failed, ListSessions
from reefcast.timing import MACHINE

STALL_S = 1.0
MAY_SEND = (
    *get_args(TableChange),
    *history.FROM_CLIENTS,
    *sessions.FROM_CLIENTS,
    *retaining.FROM_CLIENTS,
)
"""What clients say: all else comes from brokers only."""
ABOUT_OWNERS = (AboutSession, ListSessions)
"""What clients ask about durable sessions of a user."""
WITH_FILTERS = (Subscribe, AddFilter, Request)
"""What asks for events."""
NO_ADVISORIES = (
    "this network publishes no advisory events: set advisories = true in [sessions] of its network "
    "file"
)

log = part("clients")


class ClientSession(End):
    """The session of a client. `principal`: its user. `port`: its queue. `away(session)` is called
    when the session has lost its line, and `ended(session)` when it is over. `taken`: numbered
    frames taken over from the client, on all of its lines. `last_seq`: the number of its last
    publication. `going`: to other brokers. `rates`: how fast users may publish. `slow_since_s`:
    since when it is slow. `cut_off`: why it was disconnected."""

    what: ClassVar[str] = "a client"
    codec = CLIENT_CODEC

    def __init__(
        self,
        host: Host,
        port: ClientPort,
        hello: Hello,
        principal: Principal,
        account: Account,
        rates: Rates,
        away: Callable[[ClientSession], None],
        ended: Callable[[ClientSession], None],
    ) -> None:
        limits = host.limits
        self.name = hello.name
        self.key = hello.session
        self.attempt = hello.attempt
        self.principal = principal
        self.inbox = reply_address(hello.name, hello.session)
        self.port = port
        self.policy = hello.queue_policy or limits.queue_policy
        self.ticket = MACHINE.get().token(8)
        self.cut_off = ""
        self.taken = 0
        self.last_seq, self.going = 0, Going()
        self._host, self._account = host, account
        self._rates = rates
        self._throttle: asyncio.TimerHandle | None = None
        self._away = away
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self.path = None if host.passage is None else host.passage.compiled_path(self.codec)
        self.slow_since_s: float | None = None
        self._said_slow = False
        self._dropped_before = 0
        self._patience: asyncio.TimerHandle | None = None
        port.limit = min(hello.queue_limit or limits.queue_limit, limits.queue_limit)
        port.on_crowded = {
            "block": self._block,
            "drop_oldest": self._drop_oldest,
            "disconnect": self._disconnect,
        }[self.policy]
        port.on_drained = self._drained
        port.on_overdue = self._overdue
        port.on_refused = self._was_refused
        port.on_overfull = self._give_way

    # --- lines ------------------------------------------------------------------------------------

    def is_newer(self, hello: Hello) -> bool:
        """Return whether the same program said `hello` before that of its present connection. A
        broker that was frozen finds several hellos, and reads them in any order."""
        return self.key == hello.session and hello.attempt < self.attempt

    def attach(self, line: Line, *, paused: bool = False) -> None:
        """Attach the line of a client that has been greeted."""
        self.port.attach(line, paused=paused)

    def lost(self, connection: NativeLine) -> None:
        self.left(connection, connection.received, for_good=connection.left)

    def left(self, line: Line, taken: int, *, for_good: bool) -> None:
        """Handle the loss of this line, over which `taken` frames were taken over (in all).
        `for_good`: there was a CLOSE."""
        if self.port.line is not line:
            return
        self.taken = taken
        self.port.detach()
        if for_good or self.cut_off or not self.port.keeps:
            self.end()
        else:
            self._host.congestion.relieved(self.name)
            self._slow_no_more("went away")
            self._away(self)
            self._host.driver.handle(Away(), self.name)

    def end(self) -> None:
        """End the session, and keep nothing of it."""
        self._slow_no_more("was disconnected" if self.cut_off else "left")
        if self._throttle is not None:
            self._throttle.cancel()
        self._ended(self)

    # --- what comes from it -----------------------------------------------------------------------

    def publications(self, batch: list[Publish]) -> None:
        self._spend(len(batch))
        if self._rates.limited:
            self._charge(len(batch), sum(len(publish.body) for publish in batch))
        if fresh := self._fresh(batch):
            if (limits := self._host.limits).publication_bytes < MAX_FRAME_BYTES:
                fresh = small_enough(fresh, limits, self.port.tell)
            self._host.driver.handle_publications(fresh, self.name)
        self._settle()

    def run(self, run: Run) -> None:
        if self.path is None:
            raise self._out_of_place("PUBLISH")
        if run.size > self._host.limits.publication_bytes:
            self.publications(run.fresh(0, run.count))  # one of them may be too large
            return
        self._spend(run.count)
        if self._rates.limited:
            self._charge(run.count, run.size)
        run.last = self.last_seq
        try:
            self._host.driver.handle_run(run, self.path, self.name)
        finally:
            self.last_seq = run.last
        self._settle()

    def _spend(self, count: int) -> None:
        if not self._account.spend(count):
            raise ProtocolError(
                f"{-self._account.allowance} publications more than the credit allows; "
                f"a client may send {self._account.window}, and more as CREDIT comes"
            )

    # --- how fast it publishes -------------------------------------------------------------------

    def begin_throttled(self) -> None:
        """Give a new client no credit if its user has sent too much already."""
        if self._rates.limited:
            self._charge(0, 0)
            if self._account.throttled:
                self._account.owed = self._account.window

    def _charge(self, count: int, size: int) -> None:
        """Withhold credit if the user sends faster than it may."""
        now = self._loop.time()
        bucket = self._rates.bucket(payer_of(self.principal, self.name), now)
        wait_s = bucket.take(count, size, now)
        self._account.throttled = wait_s > 0
        if wait_s > 0 and self._throttle is None:
            self._throttle = self._loop.call_later(wait_s, self._may_go_on)

    def _may_go_on(self) -> None:
        self._throttle = None
        self._charge(0, 0)
        self._settle()

    def _settle(self) -> None:
        if self.port.line is not None:
            self._host.congestion.settle(self.name, self._account)

    def _fresh(self, batch: list[Publish]) -> list[Publish]:
        """Return the publications that this broker has not had: a publisher's numbers only go up.
        Publications that are to be confirmed come again until they are."""
        fresh, last = [], self.last_seq
        for publish in batch:
            if publish.publication.seq > last or publish.confirm:
                fresh.append(publish)
                last = max(last, publish.publication.seq)
        self.last_seq = last
        return fresh

    def control(self, message: ControlMessage) -> None:
        if not isinstance(message, MAY_SEND):
            raise ProtocolError(f"a client must not send {type(message).__name__}")
        if isinstance(message, FROM_STORAGES):
            self._require(Right.PLACE, UserRole.STORAGE)
            self.going.stores = True
        if isinstance(message, ABOUT_OWNERS):
            try:
                message = self._owned(message)
            except ProtocolError as error:
                self.port.tell(Failed(token=message.token, reason=str(error)))
                what = {"message": type(message).__name__, "owner": message.owner}
                self._host.audit.limited(
                    "session_refused", **self._who(), **what, reason=str(error)
                )
                return
        if isinstance(message, TableChange) and message.token < 1:
            raise ProtocolError(f"{type(message).__name__} carries the token {message.token}")
        read = None
        if isinstance(message, LIMITED):
            client = self._host.core.clients.get(self.name)
            try:
                read = admit(message, self._host.limits, client)
            except (LimitError, FilterSyntaxError) as error:
                self._host.journal.counters["over_limit"] += 1
                what = {"message": type(message).__name__, "reason": str(error)}
                self._host.audit.limited("limit_refused", **self._who(), **what)
                self.port.tell(refusal(message, str(error), self._host.me.name, self.name))
                return
        if isinstance(message, WITH_FILTERS) and self._is_refused(message):
            return
        if not self._host.driver.handle(message, self.name):
            raise InternalError(f"the broker failed on this {type(message).__name__}; see its log")
        del read  # not earlier: to parse it again would take as long as the rest together
        if isinstance(message, Request) and self._host.requests is not None:
            self._host.requests.asked(message)

    def _is_refused(self, asked: Subscribe | AddFilter | Request) -> bool:
        """Return whether this asks for advisory events, and was refused: they are for users
        with the right `status`. Raises `ProtocolError` if they are asked for of storages."""
        try:
            if not _names_advisories(asked):
                return False
            self._require(Right.STATUS)
            known = self._host.core.reserve.guards or isinstance(asked, Request)
            objection = "" if known else NO_ADVISORIES
        except FilterSyntaxError:
            return False  # which the broker explains
        except ProtocolError as error:
            objection = f"advisory events are for administrators: {error}"
        if objection:
            self._host.audit.limited("subscription_refused", **self._who(), reason=objection)
        if objection and isinstance(asked, Subscribe):
            self.port.tell(Refused(asked.token, objection))
        elif objection and isinstance(asked, AddFilter):
            self.port.tell(Failed(token=asked.token, reason=objection))
        elif objection:
            raise ProtocolError(objection)
        return bool(objection)

    def _owned(self, asked: AboutSession | ListSessions) -> AboutSession | ListSessions:
        """Return the request with the owner of the sessions filled in. A request about another
        user's sessions needs a right. Raises `ProtocolError`."""
        user = self.principal.user
        if asked.owner not in ("", user):
            right = Right.STATUS if isinstance(asked, ListSessions) else Right.DRAIN
            self._require(right)
            check_for_others(asked, self._host.core.granting.of(self.subject))
            what = {"message": type(asked).__name__, "owner": asked.owner}
            self._host.audit.write("session", **self._who(), **what)
            return asked
        return msgspec.structs.replace(asked, owner=user)

    def _require(self, right: Right, role: UserRole = UserRole.ADMINISTRATOR) -> None:
        require_right(self.principal, right, self._host.core.granting.grants, role)

    def _was_refused(self, message: ControlMessage) -> None:
        """Write into the audit log what the core has refused."""
        name, reason = type(message).__name__, getattr(message, "reason", "")
        self._host.audit.limited("request_refused", **self._who(), message=name, reason=reason)

    def _who(self) -> dict[str, object]:
        """Return who this is, for the audit log."""
        return {"name": self.name, "user": self.principal.user}

    # --- what it may do ---------------------------------------------------------------------------

    @property
    def subject(self) -> Subject | None:
        """Its user for the roles of the network file; None: nothing restricts it."""
        return subject_of(self.principal)

    def proved_again(self, principal: Principal) -> None:
        before, self.principal = self.principal, principal
        if before != principal:
            self.regrant()

    def regrant(self) -> None:
        """Apply what the present roles and the principal allow the client's user. What it must not
        see any more is dropped, unless the operating system has it already."""
        core, subject = self._host.core, self.subject
        client = core.clients.get(self.name)
        if client is None or client.grant == core.granting.of(subject):
            return
        self._host.driver.handle(Regrant(subject), self.name)
        self.port.withdraw(lambda body: client.sees(decode_publication(body)))
        self.say_what_is_missing()

    def say_what_is_missing(self) -> None:
        """Log which roles grant the client's user nothing because a value that they need is
        missing."""
        grant = self._host.core.granting.of(self.subject)
        for lack in () if grant is None else grant.missing:
            words = "client %s of user %s: %s"
            self._log("grants_missing", words, self.name, self.principal.user, lack)

    def acknowledged(self, number: int) -> None:
        if not self.port.keeps:
            raise self._out_of_place("ACK")
        self.port.acknowledged(number)

    # --- a full queue -----------------------------------------------------------------------------

    def _drop_oldest(self) -> None:
        oldest = self.port.drop_oldest()
        self._host.journal.dropped(partial(self.port.body_of, oldest), self.name)
        if self.slow_since_s is None:
            self.slow_since_s = self._loop.time()
            self._dropped_before = self.port.dropped - 1
            self._say_slow("the oldest are dropped")

    def _block(self) -> None:
        if self.port.line is None:  # nobody waits for an absent client; it will be told
            self._drop_oldest()
        elif self.slow_since_s is None:
            self.slow_since_s = self._loop.time()
            self._host.congestion.full(self.name)
            first_s = min(STALL_S, self._host.limits.block_s)
            self._patience = self._loop.call_later(first_s, self._stalls)

    def _stalls(self) -> None:
        limit_s = self._host.limits.block_s
        left_s = max(0.0, limit_s - STALL_S)
        self._patience = self._loop.call_later(left_s, self._out_of_patience)
        self._say_slow(f"who publishes for it waits, for {limit_s:g} s at most")

    def _disconnect(self) -> None:
        self._say_slow("it is disconnected")
        self._cut_off(
            f"more than {self.port.limit} publications waited for this client, "
            "which asked to be disconnected then (queue_policy)"
        )

    def _overdue(self) -> None:
        self._cut_off(
            "too much was kept for this client that it neither acknowledged nor came back for"
        )

    def _give_way(self) -> None:
        """Make room: this queue is the longest of all, which are too long together."""
        before = self.port.held_bytes
        if self.policy == "drop_oldest" and self.port.queue_bytes > before // 2:
            while self.port.queue_len and self.port.queue_bytes > before // 2:
                self._drop_oldest()
            return
        self._cut_off(
            f"{before} bytes were kept for this client, more than for any other, and "
            f"{self._host.limits.queue_bytes} are the most for all (queue_bytes in [limits])"
        )

    def _out_of_patience(self) -> None:
        self._cut_off(
            f"publishers waited {self._host.limits.block_s:g} s for this client, and may not wait "
            f"longer (block_s); it had not read half of its queue of {self.port.limit}"
        )

    def _cut_off(self, reason: str) -> None:
        self.cut_off = reason
        if self.port.line is None:
            self.end()
        else:
            self.port.close(reason, too_slow=True)

    def _drained(self) -> None:
        self._host.congestion.relieved(self.name)
        self._slow_no_more("keeps up again")

    def _say_slow(self, consequence: str) -> None:
        self._said_slow = True
        what = "does not keep up" if self.port.line is not None else "is away"
        words = f"client %s {what}: %d publications wait for it, and %s"
        self._log("slow_clients", words, self.name, self.port.queue_len, consequence)

    def _slow_no_more(self, what: str) -> None:
        if self.slow_since_s is None:
            return
        if self._patience is not None:
            self._patience.cancel()
        took_s, self.slow_since_s = self._loop.time() - self.slow_since_s, None
        if self._said_slow:
            self._said_slow = False
            dropped = self.port.dropped - self._dropped_before
            lost = f"; {dropped} publications for it were dropped" if dropped else ""
            words = "client %s %s, after %.1f s%s"
            self._log("slow_clients_over", words, self.name, what, took_s, lost)

    def _log(self, kind: str, words: str, *args: object) -> None:
        about = {"client": self.name, "user": self.subject.user if self.subject else ""}
        self._host.journal.floods.log(log, logging.WARNING, kind, words, *args, about=about)

    def _grant_status(self) -> dict[str, object] | None:
        """Return what its user may do; None: everything."""
        grant = self._host.core.granting.of(self.subject)
        if grant is None:
            return None
        told = {"publish": grant.publish.text, "subscribe": grant.subscribe.text}
        return {**told, "rights": sorted(grant.rights), "missing": list(grant.missing)}

    def status(self) -> dict[str, object]:
        return {
            "client": self.name,
            "user": self.principal.user,
            "roles": sorted(self.principal.granted),
            "grant": self._grant_status(),
            "connected": self.port.line is not None,
            "queue_len": self.port.queue_len,
            "queue_policy": self.policy,
            "queue_limit": self.port.limit,
            "slow": self.slow_since_s is not None,
            "dropped": self.port.dropped,
            "credit": self._account.allowance,
            "queue_bytes": self.port.held_bytes,
            "withheld_for": sorted(self._account.blockers),
            "throttled": self._account.throttled,
        }


def _names_advisories(asked: Subscribe | AddFilter | Request) -> bool:
    """Return whether this asks for advisory events. Raises `FilterSyntaxError`."""
    if isinstance(asked, Request) and any_reserved(asked.topics):
        return True
    return RESERVED in asked.filter and names_reserved(parse_filter(asked.filter))
