"""One connection of one client: what it may send, and what happens when its queue is full.

The queue of deliveries is the connection's outbox. When it is full, the policy that the client
asked for is applied: `block` (its publishers get no credit, see `credit`), `drop_oldest`,
`disconnect`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from reefcast.errors import InternalError, ProtocolError
from reefcast.model import wire
from reefcast.model.messages import FIRST_HOP, ControlMessage, Publish, ServiceMessage, TableChange
from reefcast.model.wire import Hello
from reefcast.server.connection import Connection, End
from reefcast.server.credit import Account
from reefcast.server.host import Host
from reefcast.storage.history.messages import CLIENT_CODEC, Request


class ClientSession(End):
    """`left(session, received)` is called when the connection is gone, with the number of frames
    taken over from it. `last_seq`: the number of its last publication."""

    what: ClassVar[str] = "a client"
    codec = CLIENT_CODEC

    def __init__(
        self,
        host: Host,
        connection: Connection,
        hello: Hello,
        account: Account,
        left: Callable[[ClientSession, int], None],
        last_seq: int = 0,
    ) -> None:
        limits = host.limits
        self.name = hello.name
        self.key = hello.session
        self.connection = connection
        self.outbox = connection.outbox
        self.policy = hello.queue_policy or limits.queue_policy
        self.dropped = 0
        self.last_seq = last_seq
        self._host = host
        self._account = account
        self._left = left
        self.outbox.limit = min(hello.queue_limit or limits.queue_limit, limits.queue_limit)
        self.outbox.on_crowded = {
            "block": self._block,
            "drop_oldest": self._drop_oldest,
            "disconnect": self._disconnect,
        }[self.policy]
        self.outbox.on_drained = self._drained

    def publications(self, batch: list[Publish]) -> None:
        if not self._account.take(len(batch)):
            raise ProtocolError(
                f"{-self._account.allowance} publications more than the credit allows; "
                f"a client may send {self._account.window}, and more as CREDIT comes"
            )
        if fresh := self._fresh(batch):
            self._host.driver.handle_publications(fresh, self.name)
        if self.connection.end is self:
            self._host.congestion.settle(self.name, self._account)

    def _fresh(self, batch: list[Publish]) -> list[Publish]:
        """Without what this broker has had: a publisher's numbers go up."""
        last = self.last_seq
        if batch[0].publication.seq <= last:
            batch = [publish for publish in batch if publish.publication.seq > last]
        if batch:
            self.last_seq = batch[-1].publication.seq
        return batch

    def control(self, message: ControlMessage) -> None:
        if not isinstance(message, TableChange | ServiceMessage):
            raise ProtocolError(f"a client must not send {type(message).__name__}")
        if isinstance(message, TableChange) and message.token < 1:
            raise ProtocolError(f"{type(message).__name__} carries the token {message.token}")
        if not self._host.driver.handle(message, self.name):
            raise InternalError(f"the broker failed on this {type(message).__name__}; see its log")
        if isinstance(message, Request) and self._host.requests is not None:
            self._host.requests.asked(message)

    def lost(self, connection: Connection) -> None:
        self._left(self, connection.received)

    # --- a full queue -----------------------------------------------------------------------------

    def _block(self) -> None:
        self._host.congestion.full(self.name)

    def _drained(self) -> None:
        self._host.congestion.relieved(self.name)

    def _drop_oldest(self) -> None:
        _, body = wire.split_parts(self.outbox.drop_oldest()[wire.HEAD_BYTES :])
        self.dropped += 1
        publish = Publish(wire.decode_publication(body), FIRST_HOP, bytes(body))
        self._host.journal.lost(publish, "queue_full", self.name)

    def _disconnect(self) -> None:
        self.connection.goodbye(
            f"more than {self.outbox.limit} publications wait for this client, "
            "which asked to be disconnected then (queue_policy)"
        )

    def status(self) -> dict[str, object]:
        return {
            "client": self.name,
            "queue_len": self.outbox.queue_len,
            "queue_policy": self.policy,
            "queue_limit": self.outbox.limit,
            "dropped": self.dropped,
            "credit": self._account.allowance,
            "withheld_for": sorted(self._account.blockers),
        }
