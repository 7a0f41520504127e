"""A client's side of retained values as a state machine: what it has its broker retain and clear,
and what it asks. No I/O, no clock.

Rules
-----
- What is retained or cleared (`Order`) is answered once. If the connection breaks before that, it
  is said again to a broker that knows nothing of it, under the same version: nothing changes
  twice.
- A question (`Recalling`) that a broker knows nothing of has to be begun again: whoever asked it
  sees to that, for his subscription has to settle there first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from reefcast.client.signal import Signal
from reefcast.errors import ReefcastError, RefusedError
from reefcast.model.messages import ControlMessage, ServiceMessage
from reefcast.model.wire import decode_publication
from reefcast.retaining.messages import (
    Clear,
    Entry,
    Forget,
    NotRetained,
    Recall,
    Recalled,
    RecallOn,
    Retain,
    Retained,
)


class Order:
    """Something that the broker is to retain or to clear. `over`: it was answered, or never will
    be; `error`: why it is not done."""

    __slots__ = ("changed", "error", "message", "over")

    def __init__(self, message: Retain | Clear) -> None:
        self.message = message
        self.changed = Signal()
        self.over = False
        self.error: ReefcastError | None = None

    def finish(self, error: ReefcastError | None = None) -> None:
        """Note the answer."""
        self.over, self.error = True, error
        self.changed.fire()


class Recalling:
    """A question about retained values. `watch_s`: see `Recall`. `entries`: what has come and was
    not taken; `late`: what is no part of the answer, but came behind it. `asked`: the broker knows
    the question; `complete`: it has said all that it had when it was asked; `error`: why no more
    comes. `changed` fires with every change."""

    def __init__(self, retaining: Retaining, filter: str, watch_s: float, changed: Signal) -> None:
        self.entries: deque[Entry] = deque()
        self.late: deque[Entry] = deque()
        self.asked = self.complete = False
        self.changed = changed
        self.error: ReefcastError | None = None
        self._retaining = retaining
        self._filter = filter
        self._watch_s = watch_s
        self._token = 0
        self._has_more = False

    def start(self) -> None:
        """Ask, now that the subscription has settled."""
        self.asked, self.complete = True, False
        self._token = self._retaining.begin(self)
        if self.error is None:
            message = Recall(token=self._token, filter=self._filter, watch_s=self._watch_s)
            self._retaining.tell(message)

    def take(self) -> list[Entry]:
        """Return what has come, and ask for the rest of the answer."""
        entries = list(self.entries)
        self.entries.clear()
        if self._has_more:
            self._has_more = False
            self._retaining.tell(RecallOn(token=self._token))
        return entries

    def take_late(self) -> list[Entry]:
        """Return what has come that is no part of the answer."""
        entries = list(self.late)
        self.late.clear()
        return entries

    def cancel(self) -> None:
        """Cancel the question."""
        self.entries.clear()
        self.late.clear()
        self._retaining.forget(self._token)

    def came(self, message: Recalled) -> None:
        """Take what the broker said."""
        (self.late if message.late else self.entries).extend(message.entries)
        if not message.late:
            self._has_more, self.complete = message.more, not message.more
        self.changed.fire()

    def unknown(self) -> None:
        """Note that the broker knows nothing of the question."""
        self.asked = self.complete = self._has_more = False
        self.changed.fire()

    def fail(self, error: ReefcastError) -> None:
        """Note why nothing more comes."""
        self.error = error
        self.changed.fire()


class Retaining:
    """All orders and questions of one client. `tell`: sends a message to the broker, or keeps it
    for one that has this client's session still. `latest_us`: when it last published something that
    is retained."""

    def __init__(self, tell: Callable[[ControlMessage], None]) -> None:
        self.tell = tell
        self.latest_us = 0
        self._last = 0
        self._ended: ReefcastError | None = None
        self._orders: dict[int, Order] = {}
        self._recalls: dict[int, Recalling] = {}

    def next_token(self) -> int:
        """Return a token that nothing had."""
        self._last += 1
        return self._last

    def order(self, message: Retain | Clear) -> Order:
        """Have something retained or cleared."""
        order = Order(message)
        if isinstance(message, Retain):
            self.latest_us = decode_publication(message.body).time_us
        if self._ended is not None:
            order.finish(self._ended)
            return order
        self._orders[message.token] = order
        self.tell(message)
        return order

    def begin(self, recalling: Recalling) -> int:
        """Return a new token for a question, which has had none or is asked again."""
        token = self.next_token()
        if self._ended is not None:
            recalling.fail(self._ended)
        else:
            self._recalls[token] = recalling
        return token

    def forget(self, token: int) -> None:
        """Cancel a question."""
        if self._recalls.pop(token, None) is not None:
            self.tell(Forget(token=token))

    def again(self) -> list[ControlMessage]:
        """Return the orders to send to a new broker; fail the questions that are open."""
        recalls, self._recalls = self._recalls, {}
        for recalling in recalls.values():
            recalling.unknown()
        return [order.message for order in self._orders.values()]

    def end(self, why: ReefcastError) -> None:
        """End all of them, because the client ended."""
        self._ended = why
        for order in self._orders.values():
            order.finish(why)
        for recalling in self._recalls.values():
            recalling.fail(why)
        self._orders, self._recalls = {}, {}

    def handle(self, message: ServiceMessage) -> None:
        """Handle what the broker said; what comes for nobody any more is ignored."""
        if isinstance(message, Recalled):
            recalling = self._recalls.get(message.token)
            if recalling is not None:
                recalling.came(message)
        elif isinstance(message, Retained | NotRetained):
            error = RefusedError(message.reason) if isinstance(message, NotRetained) else None
            order = self._orders.pop(message.token, None)
            if order is not None:
                order.finish(error)
            elif error is not None and message.token in self._recalls:
                self._recalls.pop(message.token).fail(error)
