"""A link to a neighbouring broker: it outlives its connections.

Rules
-----
- The broker whose name sorts first dials; the other refuses to be dialled by anyone else.
- A link is *resumed* if each hello names the other end's session and the ticket that the dialled
  broker drew when the link last began: unacknowledged frames are sent again, and the core is not
  told. Otherwise one end has no memory of the link (first contact, a restart, or the patience ran
  out): both restart their numbers, and the core gets `LinkUp` with the unacknowledged publications.
  It sends them when the neighbour has relearned.
- Sessions alone do not suffice: a late hello may restart the link at one end only, while the other
  end continues with the old numbers.
- If an end dials several connections, only the last one counts.
- The core hears at once that the connection is gone (`Away`), and that a link is resumed (`Back`);
  it loses the neighbour (`LinkDown`) only after `link_patience_s`.
- A soft link may become one of these, and one of these a soft link: see `overlay_links`.
- `outputs.LinkQueue` holds the frames for the neighbour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

import msgspec

from reefcast.model.messages import Away, Back, LinkKind, LinkUp, Publish
from reefcast.model.wire import Congestion, Hello
from reefcast.server.broker_end import BrokerEnd
from reefcast.server.connection import Connection
from reefcast.server.end import NativeLine
from reefcast.server.host import Host
from reefcast.server.outputs import LinkQueue
from reefcast.timing import MACHINE

MOMENT_S = 1.0
"""In this time a broken connection is made again, if both ends live."""


class BrokerLink(BrokerEnd):
    """A link to a neighbour. `name`: the neighbour. `state`: "up", "broken" (within its patience)
    or "away"; `away` is called with the link when it goes away. `peer_session`: the other end's
    session, "" if unknown. `ticket`: identifies the link's last beginning; `dialled`: the last
    connection that this end began."""

    what: ClassVar[str] = "a broker"
    overlay: ClassVar[bool] = True

    def __init__(self, host: Host, queue: LinkQueue, away: Callable[[BrokerLink], None]) -> None:
        super().__init__(host, queue)
        self.reconnects = -1
        self.peer_session = ""
        self.ticket = ""
        self.dialled: Connection | None = None
        self._away = away
        self._loop = asyncio.get_running_loop()
        self._near_until_s = 0.0
        self._received = 0
        self._patience: asyncio.TimerHandle | None = None

    @property
    def state(self) -> str:
        if self.connection is not None:
            return "up"
        return "broken" if self.peer_session else "away"

    @property
    def near(self) -> bool:
        """Whether the neighbour is connected, or may be connected again in a moment."""
        return self.connection is not None or self._loop.time() < self._near_until_s

    @property
    def dials(self) -> bool:
        """Whether this broker makes the connection."""
        return self._host.me.name < self.name

    # --- connections ------------------------------------------------------------------------------

    def hello(self) -> Hello:
        """Return the hello for a new connection; close a connection that seemed to live."""
        if self.connection is not None:
            self.connection.close("a newer connection took the place of this one")
        return msgspec.structs.replace(
            self._host.me,
            peer_session=self.peer_session,
            received=self._received,
            ticket=self.ticket,
        )

    def answer(self, hello: Hello) -> Hello:
        """Return the answer to `hello`, from a neighbour that dialled."""
        if not self.knows(hello):
            self.ticket = MACHINE.get().token(8)
        return self.hello()

    def greeted(self, connection: Connection, hello: Hello) -> None:
        """Resume the link, or restart it: both hellos have been sent."""
        resumed, kept = self.knows(hello), tuple[Publish, ...]()
        if resumed:
            self.queue.acknowledged(hello.received)
        else:
            kept = tuple(self.queue.start_anew())
            self._begin(hello.session, self.ticket if not self.dials else hello.ticket)
            connection.forget_received()
        self.reconnects += 1
        self.close()
        self.attach(connection)
        item = Back() if resumed else LinkUp(LinkKind.BROKER, kept)
        self._host.driver.handle(item, self.name)

    def knows(self, hello: Hello) -> bool:
        """Return whether both ends remember the same beginning of the link. (A broker that sends no
        ticket remembers none.)"""
        me = self._host.me.session
        same = hello.ticket in ("", self.ticket)
        return same and hello.session == self.peer_session and hello.peer_session == me

    def give_up(self) -> None:
        """Give the neighbour up; what waited for it is lost."""
        self.queue.give_up()
        self._begin("", "")

    def _begin(self, peer_session: str, ticket: str) -> None:
        """Restart the numbers of both ends at 1."""
        self.peer_session, self.ticket = peer_session, ticket
        self._received = 0

    def take_over(self, connection: Connection, peer_session: str) -> None:
        """Continue with the connection of a soft link."""
        self.connection, self.peer_session = connection, peer_session
        self.reconnects = 0
        connection.end = self

    def leave(self, reason: str = "") -> None:
        """End the link, whatever its state at the other end."""
        connection = self.connection
        self.detach()
        if connection is not None:
            said = reason or f"broker {self._host.me.name} has lost this link"
            connection.close(said, retry=True)

    def lost(self, connection: NativeLine) -> None:
        if connection is not self.connection:
            return
        self._received = connection.received
        self._near_until_s = 0.0 if connection.left else self._loop.time() + MOMENT_S
        self.detach()
        self._patience = self._loop.call_later(self._host.limits.link_patience_s, self._give_up)
        self._host.driver.handle(Away(), self.name)

    def _give_up(self) -> None:
        self._patience = None
        self._away(self)

    def close(self) -> None:
        """Stop waiting for the neighbour: it is connected, or this broker ends."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    # --- from the neighbour -----------------------------------------------------------------------

    def congestion(self, notice: Congestion) -> None:
        self._host.congestion.notice(notice, self.name, self._loop.time())

    def status(self) -> dict[str, object]:
        return {
            "link": self.name,
            "state": self.state,
            "user": self.user,
            "reconnects": max(self.reconnects, 0),
            "peer_session": self.peer_session,
        }
