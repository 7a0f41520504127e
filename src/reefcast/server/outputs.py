"""A broker's output: to neighbours over links, to clients over their connections.

A link outlives its connections, and so does its queue (`LinkQueue`); so does a client's port
(`client_port`)."""

from __future__ import annotations

from typing import Protocol

from reefcast.model import wire
from reefcast.model.messages import LinkName, Publish
from reefcast.model.wire import Codec, Congestion, FrameKind
from reefcast.network.sections import LimitsSection
from reefcast.protocol.batches import Batch
from reefcast.protocol.credit import CongestionControl
from reefcast.protocol.window import SendWindow, decoded
from reefcast.server.client_port import ClientPort
from reefcast.server.outbox import Outbox
from reefcast.server.tracing import Journal


class LinkEnd(Protocol):
    """What a queue knows of this end of its link. `overlay`: whether it is a link of the overlay,
    not a soft link."""

    @property
    def overlay(self) -> bool: ...


class LinkQueue:
    """The frames for the neighbour `name`: written at once while there is a connection, and kept
    until they are acknowledged. `end`: this end of the link, which may be replaced
    (`overlay_links`).

    Nothing waits for a neighbour. While it is up, a queue beyond `link_high` is congestion (see
    `credit`); while it is away, at most `link_buffer` publications are kept for it."""

    def __init__(
        self,
        name: str,
        limits: LimitsSection,
        congestion: CongestionControl,
        journal: Journal,
        codec: Codec,
    ) -> None:
        self.name = name
        self.end: LinkEnd | None = None
        self.window = SendWindow(codec)
        self._codec = codec
        self._outbox: Outbox | None = None
        self.limit(limits)
        self._crowded = False
        self._congestion = congestion
        self._journal = journal

    def limit(self, limits: LimitsSection) -> None:
        """Take over other limits; they count for what is sent from now on."""
        self._high, self._buffer = limits.link_high, limits.link_buffer

    # --- connections ------------------------------------------------------------------------------

    def connect(self, outbox: Outbox) -> None:
        """Connect the queue, and send everything unacknowledged, in order."""
        self._outbox = outbox
        for frame in self.window.resume():
            outbox.push_data(frame)

    def disconnect(self) -> None:
        self._outbox = None
        self._relieve()

    def start_anew(self) -> list[Publish]:
        """Start again for a neighbour without memory of this link; return the publications that it
        has not acknowledged (see `SendWindow.publications`)."""
        kept, self.window = self.window.publications(), SendWindow(self._codec)
        self._relieve()
        return kept

    def give_up(self) -> None:
        """Give up a neighbour that stayed away for too long; what waited for it is lost."""
        for publish in self.start_anew():
            self._journal.lost(publish, "link_lost", self.name)

    # --- what is sent -----------------------------------------------------------------------------

    def send_publication(self, frame: bytes, publish: Publish) -> None:
        outbox, window = self._outbox, self.window
        if outbox is None:
            dropped = window.add_waiting(frame, publish, self._buffer)
            if dropped is not None:
                self._journal.lost(dropped, "link_lost", self.name)
            return
        window.add_sent(frame, publish)
        outbox.push_data(frame)
        if window.queue_len > self._high:
            self._see_crowd()

    def send_batch(self, batch: Batch) -> None:
        """Send each publication of a batch, as `send_publication` does."""
        if self._outbox is None:
            for frame, publish in decoded(batch, self._codec):
                self.send_publication(frame, publish)
            return
        self.window.add_sent_batch(batch)
        self._outbox.push_data(batch.data)
        self._see_crowd()

    def _see_crowd(self) -> None:
        if self.window.queue_len > self._high and not self._crowded:
            self._crowded = True
            self._congestion.full(self.name)

    def send_control(self, frame: bytes) -> None:
        if self._outbox is None:
            self.window.add_waiting(frame, None, 0)
            return
        self.window.add_sent(frame, None)
        self._outbox.push_data(frame)

    def send_notice(self, frame: bytes) -> None:
        """Send a congestion notice; one that is lost will be sent again."""
        if self._outbox is not None:
            self._outbox.push_urgent(frame)

    def acknowledged(self, number: int) -> None:
        """Handle an acknowledgement of all frames up to `number`."""
        self.window.acknowledged(number)
        if self._crowded and self.window.queue_len <= self._high // 2:
            self._relieve()

    def _relieve(self) -> None:
        if self._crowded:
            self._crowded = False
            self._congestion.relieved(self.name)


class Outputs:
    """All outputs of one broker, by the name of the other end. `links`: all links, of the overlay
    and soft ones; there is no other list of them. `clients`: the ports of all clients with a
    session; the core learns a little later that a session ended."""

    def __init__(self) -> None:
        self.links: dict[LinkName, LinkQueue] = {}
        self.clients: dict[LinkName, ClientPort] = {}

    def queue_len(self, link: LinkName) -> int:
        """Return how many publications wait on `link` (see `routing.links.LinkQueues`)."""
        queue = self.links.get(link)
        if queue is not None:
            return queue.window.queue_len
        port = self.clients.get(link)
        return 0 if port is None else port.queue_len

    def grant(self, client: LinkName, credit: int) -> None:
        port = self.clients.get(client)
        if port is not None:
            port.grant(credit)

    def flood(self, notice: Congestion, from_link: LinkName | None) -> None:
        """Send a notice of congestion to all neighbours except the one that it came from. Not over
        soft links: a notice over a soft link would not tell which neighbour leads to the
        congestion."""
        frame = wire.encode(FrameKind.CONGESTION, notice)
        for name, queue in self.links.items():
            if name != from_link and queue.end is not None and queue.end.overlay:
                queue.send_notice(frame)
