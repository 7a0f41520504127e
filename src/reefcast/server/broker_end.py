"""What the ends of all links between brokers share."""

from __future__ import annotations

from typing import ClassVar

from reefcast.model import wire
from reefcast.model.messages import ControlMessage, PeerMessage, Publish, Refused, TableChange
from reefcast.model.wire import FrameKind
from reefcast.protocol.principal import Principal
from reefcast.server.connection import Connection
from reefcast.server.end import End
from reefcast.server.host import Host
from reefcast.server.outputs import LinkQueue
from reefcast.server.passage import MOST_HOPS, Run


class BrokerEnd(End):
    """This end of a link to broker `name`. `queue` holds the frames for that broker, and has this
    as its end from now on."""

    overlay: ClassVar[bool]

    def __init__(self, host: Host, queue: LinkQueue) -> None:
        self.name = queue.name
        self.queue = queue
        self.codec = host.codec
        self.connection: Connection | None = None
        self.path = (
            None if host.passage is None else host.passage.compiled_path(host.codec, MOST_HOPS)
        )
        self._host = host
        queue.end = self
        self.limit()

    def limit(self) -> None:
        """Apply the broker's present limits; they count for the next connection."""
        self.silence_s = self._host.limits.silence_s
        self.ping_s = min(self.silence_s / 5, type(self).ping_s)

    def attach(self, connection: Connection) -> None:
        """Attach a connection to the link, and send everything unacknowledged, in order."""
        self.connection = connection
        self.queue.connect(connection.outbox)

    def detach(self) -> None:
        """Detach the link from its connection."""
        self.connection = None
        self.queue.disconnect()

    @property
    def user(self) -> str:
        """The proved user at the other end; "" without a connection."""
        return "" if self.principal is None else self.principal.user

    @property
    def principal(self) -> Principal | None:
        """The principal at the other end, while there is a connection."""
        return None if self.connection is None else self.connection.principal

    def publications(self, batch: list[Publish]) -> None:
        self._host.driver.handle_publications(batch, self.name)

    def run(self, run: Run) -> None:
        if self.path is None:
            raise self._out_of_place("PUBLISH")
        self._host.driver.handle_run(run, self.path, self.name)

    def control(self, message: ControlMessage) -> None:
        done = self._host.driver.handle(message, self.name)
        if not done and isinstance(message, TableChange | PeerMessage):
            # A caller waits for the answer; only the log can say more.
            reason = (
                f"broker {self._host.me.name} failed on this {type(message).__name__}; see its log"
            )
            self.queue.send_control(wire.encode(FrameKind.CONTROL, Refused(message.token, reason)))

    def acknowledged(self, number: int) -> None:
        self.queue.acknowledged(number)
