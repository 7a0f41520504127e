"""A link to a neighbouring broker: it outlives its connections.

Rules
-----
- The broker whose name sorts first dials; the other refuses to be dialled by anyone else.
- The link is *resumed* when each hello names the other's session: what is not acknowledged is sent
  again, and the core hears nothing. Otherwise one end has no memory of the link (first contact, a
  restart, or patience that ran out): both start to count anew, what was under way is lost and
  counted, and the core gets `LinkUp(fresh)`.
- A connection that breaks is no input of the core, until `link_patience_s` later.
- Nothing waits for a neighbour. While it is up, its queue beyond `link_high` is congestion (see
  `credit`); while it is away, at most `link_buffer` publications are kept for it.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.messages import (
    ControlMessage,
    Discard,
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
from reefcast.server.window import SendWindow


class BrokerLink(End):
    """`name`: the neighbour. `state`: "up", "broken" (within its patience) or "away"."""

    what: ClassVar[str] = "a broker"

    def __init__(self, host: Host, name: str) -> None:
        self.name = name
        self.window = SendWindow()
        self.connection: Connection | None = None
        self.reconnects = -1
        self._host = host
        self._limits = host.network.limits
        self._peer_session = ""
        self._received = 0
        self._crowded = False
        self._patience: asyncio.TimerHandle | None = None

    @property
    def state(self) -> str:
        if self.connection is not None:
            return "up"
        return "broken" if self._peer_session else "away"

    @property
    def dials(self) -> bool:
        """Whether it is for this broker to make the connection."""
        return self._host.name < self.name

    @property
    def drained(self) -> bool:
        """Whether there is nothing to wait for: the neighbour has acknowledged all, or is away."""
        return self.connection is None or self.window.all_acknowledged

    # --- connections ------------------------------------------------------------------------------

    def hello(self) -> Hello:
        """What this end says first on each connection; one that seemed to live is left."""
        if self.connection is not None:
            self.connection.goodbye("a newer connection took the place of this one")
        return Hello(
            version=wire.VERSION,
            role=Role.BROKER,
            name=self._host.name,
            network=self._host.network.network.name,
            session=self._host.session,
            peer_session=self._peer_session,
            received=self._received,
        )

    def greeted(self, connection: Connection, hello: Hello) -> None:
        """The other end's hello is here, ours has been sent: resume the link or start it anew."""
        resumed = hello.session == self._peer_session and hello.peer_session == self._host.session
        if resumed:
            self.window.acknowledged(hello.received)
        else:
            self._start_anew(hello.session)
            connection.forget_received()
        self.connection = connection
        self.reconnects += 1
        self._stop_patience()
        for frame in self.window.resume():
            connection.outbox.push_data(frame)
        if not resumed:
            self._host.input(LinkUp(LinkKind.BROKER, fresh=True), self.name)

    def _start_anew(self, peer_session: str) -> None:
        lost, self.window = self.window.publications(), SendWindow()
        for publish in lost:
            self._host.discarded(Discard(publish, "link_lost"), self.name)
        self._relieve()
        self._peer_session = peer_session
        self._received = 0

    def lost(self, connection: Connection) -> None:
        if connection is not self.connection:
            return
        self._received = connection.received
        self.connection = None
        self._relieve()
        if not self._host.stopping:
            self._patience = self._host.loop.call_later(self._limits.link_patience_s, self._give_up)

    def _give_up(self) -> None:
        self._patience = None
        self._start_anew("")
        self._host.input(LinkDown(), self.name)

    def close(self) -> None:
        """The broker ends."""
        self._stop_patience()

    def _stop_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    # --- to the neighbour -------------------------------------------------------------------------

    def send_publication(self, frame: bytes, publish: Publish) -> None:
        connection = self.connection
        if connection is None:
            dropped = self.window.add_waiting(frame, publish, self._limits.link_buffer)
            if dropped is not None:
                self._host.discarded(Discard(dropped, "link_lost"), self.name)
            return
        self.window.add_sent(frame, publish)
        connection.outbox.push_data(frame)
        if self.window.queue_len > self._limits.link_high and not self._crowded:
            self._crowded = True
            self._host.congestion.full(self.name)

    def send_control(self, frame: bytes) -> None:
        if self.connection is None:
            self.window.add_waiting(frame, None, 0)
            return
        self.window.add_sent(frame, None)
        self.connection.outbox.push_data(frame)

    def send_notice(self, frame: bytes) -> None:
        """A congestion notice; one that is lost will be said again."""
        if self.connection is not None:
            self.connection.outbox.push_urgent(frame)

    def _relieve(self) -> None:
        if self._crowded:
            self._crowded = False
            self._host.congestion.relieved(self.name)

    # --- from the neighbour -----------------------------------------------------------------------

    def publications(self, batch: list[Publish]) -> None:
        self._host.publications(batch, self.name)

    def control(self, message: ControlMessage) -> None:
        done = self._host.input(message, self.name)
        if not done and isinstance(message, TableChange | PeerMessage):
            # Somebody waits for the answer; only the log can say more.
            reason = (
                f"broker {self._host.name} failed on this {type(message).__name__}; see its log"
            )
            self.send_control(wire.encode(FrameKind.CONTROL, Refused(message.token, reason)))

    def acknowledged(self, number: int) -> None:
        self.window.acknowledged(number)
        if self._crowded and self.window.queue_len <= self._limits.link_high // 2:
            self._relieve()

    def congestion(self, notice: Congestion) -> None:
        self._host.congestion.notice(notice, self.name, self._host.loop.time())

    def status(self) -> dict[str, object]:
        return {
            "link": self.name,
            "state": self.state,
            "queue_len": self.window.queue_len,
            "reconnects": max(self.reconnects, 0),
            "peer_session": self._peer_session,
        }


def check_neighbour(
    name: str, network: str, hello: Hello, links: dict[str, BrokerLink]
) -> BrokerLink:
    """The link of broker `name` that this hello is for; `ProtocolError` if there is none."""
    if hello.network != network:
        raise ProtocolError(
            f"broker {name} belongs to the network {network!r}, "
            f"not to {hello.network!r}; give both brokers the same network file"
        )
    if hello.role is not Role.BROKER or hello.name not in links:
        raise ProtocolError(
            f"broker {name} has no link to {hello.name!r}; give both brokers the same network file"
        )
    return links[hello.name]


def notice_frame(notice: Congestion) -> bytes:
    return wire.encode(FrameKind.CONGESTION, notice)
