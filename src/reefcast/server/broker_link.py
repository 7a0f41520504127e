"""A link to a neighbouring broker: it outlives its connections.

Rules
-----
- The broker whose name sorts first dials; the other refuses to be dialled by anyone else.
- The link is *resumed* when each hello names the other's session: what is not acknowledged is sent
  again, and the core hears nothing. Otherwise one end has no memory of the link (first contact, a
  restart, or patience that ran out): both start to count anew, what was under way is lost and
  counted, and the core gets `LinkUp`.
- A connection that breaks is no input of the core, until `link_patience_s` later.
- What goes to the neighbour is in `outputs.LinkQueue`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.messages import (
    ControlMessage,
    LinkDown,
    LinkKind,
    LinkUp,
    PeerMessage,
    Publish,
    Refused,
    TableChange,
)
from reefcast.model.wire import Congestion, FrameKind, Hello, Role
from reefcast.server.connection import Connection, End
from reefcast.server.host import Host
from reefcast.server.outputs import LinkQueue


class BrokerLink(End):
    """`name`: the neighbour. `state`: "up", "broken" (within its patience) or "away"."""

    what: ClassVar[str] = "a broker"

    def __init__(self, host: Host, queue: LinkQueue) -> None:
        self.name = queue.name
        self.queue = queue
        self.codec = host.codec
        self.connection: Connection | None = None
        self.reconnects = -1
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._peer_session = ""
        self._received = 0
        self._patience: asyncio.TimerHandle | None = None

    @property
    def state(self) -> str:
        if self.connection is not None:
            return "up"
        return "broken" if self._peer_session else "away"

    @property
    def dials(self) -> bool:
        """Whether it is for this broker to make the connection."""
        return self._host.me.name < self.name

    # --- connections ------------------------------------------------------------------------------

    def hello(self) -> Hello:
        """What this end says first on each connection; one that seemed to live is left."""
        if self.connection is not None:
            self.connection.goodbye("a newer connection took the place of this one")
        return msgspec.structs.replace(
            self._host.me, peer_session=self._peer_session, received=self._received
        )

    def greeted(self, connection: Connection, hello: Hello) -> None:
        """The other end's hello is here, ours has been sent: resume the link or start it anew."""
        me = self._host.me
        resumed = hello.session == self._peer_session and hello.peer_session == me.session
        if resumed:
            self.queue.acknowledged(hello.received)
        else:
            self._start_anew(hello.session)
            connection.forget_received()
        self.connection = connection
        self.reconnects += 1
        self.close()
        self.queue.connect(connection.outbox)
        if not resumed:
            self._host.driver.handle(LinkUp(LinkKind.BROKER), self.name)

    def _start_anew(self, peer_session: str) -> None:
        self.queue.start_anew()
        self._peer_session = peer_session
        self._received = 0

    def lost(self, connection: Connection) -> None:
        if connection is not self.connection:
            return
        self._received = connection.received
        self.connection = None
        self.queue.disconnect()
        self._patience = self._loop.call_later(self._host.limits.link_patience_s, self._give_up)

    def _give_up(self) -> None:
        self._patience = None
        self._start_anew("")
        self._host.driver.handle(LinkDown(), self.name)

    def close(self) -> None:
        """Nobody waits for the neighbour any more: it is here, or this broker ends."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    # --- from the neighbour -----------------------------------------------------------------------

    def publications(self, batch: list[Publish]) -> None:
        self._host.driver.handle_publications(batch, self.name)

    def control(self, message: ControlMessage) -> None:
        done = self._host.driver.handle(message, self.name)
        if not done and isinstance(message, TableChange | PeerMessage):
            # Somebody waits for the answer; only the log can say more.
            reason = (
                f"broker {self._host.me.name} failed on this {type(message).__name__}; see its log"
            )
            self.queue.send_control(wire.encode(FrameKind.CONTROL, Refused(message.token, reason)))

    def acknowledged(self, number: int) -> None:
        self.queue.acknowledged(number)

    def congestion(self, notice: Congestion) -> None:
        self._host.congestion.notice(notice, self.name, self._loop.time())

    def status(self) -> dict[str, object]:
        return {
            "link": self.name,
            "state": self.state,
            "reconnects": max(self.reconnects, 0),
            "peer_session": self._peer_session,
        }


def link_for(hello: Hello, me: Hello, links: Mapping[str, BrokerLink]) -> BrokerLink:
    """Which of this broker's links `hello` is for; `ProtocolError` if there is none."""
    if hello.network != me.network:
        raise ProtocolError(
            f"broker {me.name} belongs to the network {me.network!r}, "
            f"not to {hello.network!r}; give both brokers the same network file"
        )
    if hello.role is not Role.BROKER or hello.name not in links:
        raise ProtocolError(
            f"broker {me.name} has no link to {hello.name!r}; "
            "give both brokers the same network file"
        )
    return links[hello.name]
