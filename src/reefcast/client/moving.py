"""A client that goes to another broker because its own is drained, without a gap in its events.

Rules
-----
- The broker that it left keeps its session, and what comes for it, until the client comes back for
  it (the feature "move").
- Deliveries of the new broker are held here until all subscriptions have settled there: from then
  on, it delivers everything. Then the client collects what the former broker has: over a connection
  of its own, on which it says only which session that is. That broker closes it when all is
  written, and ends the session.
- What was collected comes first, then what was held, each event once. An event that was published
  when both brokers knew the client may come once more, later: so the next `CHECKED` deliveries are
  looked up among the recent ones.
- If the former broker cannot be reached, or has no session any more, or all of this takes longer
  than `PATIENCE_S`, the client goes on without, as after any other loss of a connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from reefcast.client.address import Address
from reefcast.client.connection import Connection, Handler, open_connection
from reefcast.client.inbox import Holding
from reefcast.client.recent import REMEMBERED
from reefcast.client.secure import Security
from reefcast.errors import ReefcastError
from reefcast.model.wire import FrameKind, Hello
from reefcast.protocol.registrations import Registration, State

PATIENCE_S = 10.0
CHECKED = REMEMBERED
_DELIVERIES = (int(FrameKind.DELIVER), int(FrameKind.DELIVER_AGAIN))
_NUMBERED = (*_DELIVERIES, int(FrameKind.CONTROL), int(FrameKind.DROPPED))
_log = logging.getLogger("reefcast.client")

Owners = Mapping[int, Registration[Holding]]
"""Subscriptions by the numbers that a broker knows them by."""


class Left(NamedTuple):
    """A session at a broker that was left: its address, and what its hello and the client's said.
    `taken`: numbered frames taken over from it."""

    address: Address
    broker_session: str
    ticket: str
    taken: int
    owners: Owners


class Moving:
    """The moves of one client. `put` is given deliveries in their order, and by which numbers they
    know subscriptions; None: by those of now."""

    def __init__(self, put: Callable[[Iterable[bytes], Owners | None], None]) -> None:
        self._put = put
        self.left: Left | None = None
        self.held: list[bytes] | None = None
        self.check = 0
        self._awaited: set[Registration[Holding]] = set()
        self._settled: asyncio.Future[None] | None = None

    # --- what the session says --------------------------------------------------------------------

    def leaves(self, left: Left) -> None:
        """Note that the client leaves a broker, where it has subscriptions."""
        if left.ticket and any(not each.advertises for each in left.owners.values()):
            self.left = left

    def arrived(self, registrations: Iterable[Registration[Holding]]) -> None:
        """Hold what the new broker delivers, until these have settled and all is collected."""
        if self.left is not None:
            self.held = []
            self._awaited = {each for each in registrations if not each.advertises}
            self._settled = asyncio.get_running_loop().create_future()
            self.answered()

    def answered(self) -> None:
        """Note that some registration was answered."""
        if self._settled is None or self._settled.done():
            return
        self._awaited = {each for each in self._awaited if each.state is State.PENDING}
        if not self._awaited:
            self._settled.set_result(None)

    def lost(self) -> None:
        """Note that the connection is gone: the application gets what is held."""
        if self._settled is not None:
            self._settled.cancel()
            self._settled = None
        self._release()

    def _release(self) -> None:
        held, self.held = self.held, None
        if held:
            self._put(held, None)

    # --- collecting -------------------------------------------------------------------------------

    async def collect(
        self, hello: Callable[[], Hello], handler: Handler, security: Security | None
    ) -> None:
        """Collect what the broker that was left has for this client; then go on."""
        left, settled = self.left, self._settled
        if left is None or settled is None:
            return
        found: list[bytes] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                await settled
                await _fetch(left, hello(), handler, security, found)
        except asyncio.CancelledError:
            if settled is not self._settled:
                return  # the connection is gone; this begins again with the next one
            raise
        except (ReefcastError, OSError, TimeoutError) as error:
            _log.info("nothing more is collected from %s: %s", left.address, error)
        if settled is self._settled:
            self.left = self._settled = None
            self.check = CHECKED
            self._put(found, left.owners)
            self._release()


async def _fetch(
    left: Left, hello: Hello, handler: Handler, security: Security | None, found: list[bytes]
) -> None:
    """Append the deliveries that wait in a session at a broker that was left, and end it."""
    taken = left.taken

    def on_hello(answer: Hello, connection: Connection) -> None:
        if not answer.resumed:
            connection.close("the session that the client comes for is gone")

    def on_frames(frames: Iterable[tuple[int, Any]]) -> None:
        nonlocal taken
        for kind, payload in frames:
            taken += kind in _NUMBERED
            if kind in _DELIVERIES:
                found.append(payload)

    said = msgspec.structs.replace(
        hello, peer_session=left.broker_session, received=left.taken, ticket=left.ticket
    )
    reading = Handler(
        on_hello, on_frames, lambda: None, lambda: taken, handler.silence_s, handler.credentials
    )
    connection = await open_connection(left.address, reading, said, PATIENCE_S, security)
    try:
        await asyncio.shield(connection.lost)
    finally:
        connection.abort()
