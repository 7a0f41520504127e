"""Requests and their replies: ordinary publications, tied together by three attributes. No I/O.

Rules
-----
- A request is a publication that carries `reply.to`, the address of the client that asks
  (`protocol.replies`), and `reply.number`, that client's number for the request. An address is
  never used again.
- A reply carries the address as `reply.for`, and the same `reply.number`. So a client has one
  subscription for the replies to all of its requests: `reply.for = '<address>'`.
- That subscription has settled before a request leaves. After a reconnect to a broker that does not
  know it any more, new requests wait until it has settled again.
- A reply for which nobody waits (any more) is dropped and counted: `late`.
- A client that advertises may only publish within its advertisements. Before its first reply it
  advertises `reply.for IS NOT NULL`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from reefcast.client.event import FOR, NUMBER, TO, Event
from reefcast.client.handles import Advertisement, Inflow
from reefcast.client.inbox import Holding
from reefcast.client.session import Session
from reefcast.client.signal import Signal
from reefcast.errors import (
    ConfigurationError,
    InvalidValueError,
    LocalError,
    NoReplyError,
    ProtocolError,
    ReefcastError,
    RefusedError,
)
from reefcast.model.expression import literal_to_sql

TIMEOUT_S = 2.0
NO_RECEIVER = (
    "a client with on_deliveries gets replies there, too, so that none can be waited for; "
    "use another client for requests"
)


class WaitingRequest:
    """A request whose caller waits. `replies`: those that came and wait to be taken; `taken`: how
    many were; `error`: why no more will come; `seq`: the publication's number, 0 until it has
    one."""

    __slots__ = ("changed", "error", "number", "replies", "seq", "taken")

    def __init__(self, number: int) -> None:
        self.number = number
        self.seq = 0
        self.taken = 0
        self.replies: deque[Event] = deque()
        self.error: ReefcastError | None = None
        self.changed = Signal()

    def refused(self, reason: str) -> None:
        """End the wait: the broker did not take the request."""
        self.error = RefusedError(f"request {self.number} was refused: {reason}")
        self.changed.fire()


class Requests(Holding):
    """The requests of one client, and what its broker keeps for their replies.

    `address`: where replies go. `late`: how many replies nobody waited for (any more)."""

    def __init__(self, session: Session, address: str) -> None:
        super().__init__()
        self.address = address
        self.late = 0
        self._session = session
        self._inflow: Inflow | None = None
        self._advertisement: Advertisement | None = None
        self._waiting: dict[int, WaitingRequest] = {}
        self._last = 0

    @property
    def filter(self) -> str:
        """The filter of all replies to this client."""
        return f"{FOR} = {literal_to_sql(self.address)}"

    async def until_settled(self) -> None:
        """Wait until replies find this client from everywhere. Raises as `Subscription.settled`."""
        if self._session.settings["on_deliveries"] is not None:
            raise LocalError(NO_RECEIVER)
        if self._inflow is None or self.error is not None:  # what was refused is tried again
            self.error = None
            self._inflow = Inflow(self._session, self, self.filter)
        await self._inflow.settled()

    @contextmanager
    def open(self) -> Iterator[WaitingRequest]:
        """Open a request: number it, and keep its replies inside the `with` block."""
        self._last += 1
        waiting = WaitingRequest(self._last)
        self._waiting[waiting.number] = waiting
        try:
            yield waiting
        finally:
            del self._waiting[waiting.number]
            self._session.awaited.pop(waiting.seq, None)
            self.late += len(waiting.replies)

    def attributes_of(
        self, waiting: WaitingRequest, attributes: Mapping[str, object]
    ) -> dict[str, object]:
        """Return a request's attributes with where to reply. Raises `InvalidValueError`."""
        return {**_free(attributes), TO: self.address, NUMBER: waiting.number}

    def left(self, waiting: WaitingRequest, seq: int) -> None:
        """Note the number of the publication that is the request."""
        waiting.seq = seq
        self._session.awaited[seq] = waiting.refused

    async def next_reply(self, waiting: WaitingRequest) -> Event:
        """Wait for the next reply and return it. Raises `RefusedError` for a request that was
        refused, and the reason if the client has ended."""
        with self._session.awaiting_answer():
            while not waiting.replies:
                if waiting.error is not None:
                    raise waiting.error
                if self._session.ended:
                    raise self._session.ending()
                await waiting.changed.wait()
        waiting.taken += 1
        return waiting.replies.popleft()

    def answer(self, request: Event, attributes: Mapping[str, object]) -> dict[str, object]:
        """Return the attributes of a reply. Raises `LocalError` if the event asks for none, and
        `InvalidValueError`."""
        address, number = request.reply_to, request.get(NUMBER)
        if address is None:
            raise LocalError(
                f"event {request.seq} of {request.publisher!r} asks for no reply: it has no "
                f"attribute {TO}, as those have that Client.request publishes"
            )
        return {**_free(attributes), FOR: address, NUMBER: number}

    def allow_replies(self) -> None:
        """Advertise replies if this client advertises at all."""
        if self._advertisement is None and self._session.outbox.advertised:
            self._advertisement = Advertisement(self._session, f"{FOR} IS NOT NULL")

    # --- as its registration's owner --------------------------------------------------------------

    def put(self, bodies: Sequence[bytes]) -> None:
        """Give replies to the requests that wait for them."""
        for body in bodies:
            reply = self._session.event_type(body, self._session.replier)
            waiting = self._waiting.get(_number_of(reply))
            if waiting is None:
                self.late += 1
            else:
                waiting.replies.append(reply)
                waiting.changed.fire()

    def end(self, error: ReefcastError | None = None) -> None:
        """End all waits: the client has ended."""
        super().end(error)
        for waiting in self._waiting.values():
            waiting.changed.fire()


def _number_of(reply: Event) -> int:
    """Return which request it answers; 0 if that cannot be read."""
    try:
        number = reply.get(NUMBER)
    except ProtocolError:
        return 0
    return number if type(number) is int else 0


def _free(attributes: Mapping[str, object]) -> Mapping[str, object]:
    """Return attributes none of which requests and replies use themselves. Raises
    `InvalidValueError` for one that they use."""
    for name in (TO, FOR, NUMBER):
        if name in attributes:
            raise InvalidValueError(
                f"attribute {name!r} is what requests and replies carry; give yours another name"
            )
    return attributes


def check_timeout(timeout_s: float | None) -> float | None:
    """Return how long to wait for replies. Raises `ConfigurationError` for what is no such time."""
    if timeout_s is not None and not timeout_s > 0:
        raise ConfigurationError(
            f"timeout_s {timeout_s!r} is no time to wait for a reply: give seconds above 0, or None"
        )
    return timeout_s


def no_reply(timeout_s: float | None) -> NoReplyError:
    """Return the error for a request that nobody answered in time."""
    return NoReplyError(
        f"no reply within {timeout_s:g} s: nobody has a subscription that matches the request, or "
        "who has one did not answer in time (timeout_s)"
    )


def not_left(timeout_s: float | None) -> NoReplyError:
    """Return the error for a request that was not even published in time."""
    return NoReplyError(
        f"the request could not leave within {timeout_s:g} s: there is no connection, the broker "
        "gives no credit, or the subscription to replies has not settled (is a broker down?)"
    )
