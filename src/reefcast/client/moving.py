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
- If a connection breaks meanwhile, this goes on with the next one; what is held goes to the
  application then, unless the client is collecting just now. A new broker may be drained as well
  before that is over: then there are several to collect from, one after the other.
- Nobody waits for the answers to subscriptions for longer than `PATIENCE_S`, and so for the former
  broker. If that has no session any more, the client goes on without, as after any other loss of a
  connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec

from reefcast.client.address import Address
from reefcast.client.connection import Handler, open_connection
from reefcast.client.inbox import Holding
from reefcast.client.recent import REMEMBERED
from reefcast.client.secure import Security
from reefcast.errors import ConnectionLostError, ReefcastError
from reefcast.model.wire import FrameKind, Hello
from reefcast.protocol.registrations import Registration, State

PATIENCE_S, PAUSE_S, MOST_TRIES = 10.0, 0.02, 5
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
    know subscriptions; None: by those of now. `reading`: the client reads from its connection
    while that is entered. `held`: what the new broker has delivered; None where nothing is held.
    `check`: how many deliveries are still to be looked up."""

    def __init__(
        self,
        put: Callable[[Iterable[bytes], Owners | None], None],
        reading: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._put = put
        self._reading = reading
        self.held: list[bytes] | None = None
        self.check = 0
        self._left: list[Left] = []
        self._awaited: set[Registration[Holding]] = set()
        self._settled: asyncio.Future[None] | None = None
        self._one_by_one = asyncio.Lock()
        self._fetching = self._over = False

    @property
    def under_way(self) -> bool:
        """Whether there is a broker to collect from."""
        return bool(self._left)

    # --- what the session says --------------------------------------------------------------------

    def leaves(self, left: Left) -> None:
        """Note that the client leaves a broker, where it has subscriptions."""
        if left.ticket and any(not each.advertises for each in left.owners.values()):
            self._left.append(left._replace(owners=dict(left.owners)))

    def arrived(self, registrations: Iterable[Registration[Holding]]) -> None:
        """Hold what the new broker delivers, until these have settled and all is collected."""
        if self._left:
            self.held = self.held or []
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
        """Note that the connection is gone; what is held goes to the application, unless something
        is to come before it in a moment."""
        if self._settled is not None:
            self._settled.cancel()
            self._settled = None
        if not self._fetching:
            self._release()

    def end(self) -> None:
        """Give the application what is held, because the client ends."""
        self._release()
        self._over = True

    def _release(self) -> None:
        held, self.held = self.held, None
        if held:
            self._put(held, None)

    # --- collecting -------------------------------------------------------------------------------

    async def collect(
        self, hello: Callable[[], Hello], handler: Handler, security: Security | None
    ) -> None:
        """Collect what the brokers that were left have for this client; then go on."""
        async with self._one_by_one:
            settled = self._settled
            if settled is None or not self._left:
                return
            with self._reading():  # or the answers would not be read, if the program is slow
                await asyncio.wait([settled], timeout=PATIENCE_S)
            if settled.cancelled():
                return  # the connection is gone, and this begins again with the next one
            self._fetching, lefts = True, list(self._left)
            found = [(left, await _fetched(left, hello, handler, security)) for left in lefts]
            self._fetching = False
            del self._left[: len(lefts)]
            self._come(found)

    def _come(self, found: Iterable[tuple[Left, list[bytes]]]) -> None:
        """Pass on what was collected, and behind it what was held, unless more is to be
        collected."""
        if self._over:
            return
        self.check = CHECKED
        for left, deliveries in found:
            self._put(deliveries, left.owners)
        if not self._left:
            self._release()


async def _fetched(
    left: Left, hello: Callable[[], Hello], handler: Handler, security: Security | None
) -> list[bytes]:
    """Return the deliveries that wait in a session at a broker that was left, and end it; try again
    while the connection breaks."""
    fetch = _Fetch(left, handler)
    try:
        async with asyncio.timeout(PATIENCE_S):
            # A pause before each further attempt; nobody signals when one is worthwhile.
            while not await fetch.is_done(hello(), security):  # noqa: ASYNC110
                await asyncio.sleep(PAUSE_S)
    except (ReefcastError, OSError, TimeoutError) as error:
        _log.info("nothing more is collected from %s: %s", left.address, error)
    return fetch.found


class _Fetch:
    """What is fetched from one broker, over one connection or several. `found`: deliveries;
    `handler`: that of the client."""

    def __init__(self, left: Left, handler: Handler) -> None:
        self.found: list[bytes] = []
        self._left = left
        self._taken, self._tries = left.taken, 0
        self._handler = handler._replace(
            on_hello=lambda answer, connection: None,
            on_frames=self._on_frames,
            on_writable=lambda: None,
            taken=lambda: self._taken,
            on_elsewhere=lambda brokers: None,
        )

    def _on_frames(self, frames: Iterable[tuple[int, Any]]) -> None:
        for kind, payload in frames:
            self._taken += kind in _NUMBERED
            if kind in _DELIVERIES:
                self.found.append(payload)

    async def is_done(self, hello: Hello, security: Security | None) -> bool:
        """Fetch what is there; return whether the broker has said that this is all. Raises what
        `open_connection` raises, but `MOST_TRIES` times for a connection that breaks."""
        left = self._left
        said = msgspec.structs.replace(
            hello,
            peer_session=left.broker_session,
            received=self._taken,
            ticket=left.ticket,
            collecting=True,
        )
        try:
            connection = await open_connection(
                left.address, self._handler, said, PATIENCE_S, security
            )
        except (ConnectionLostError, OSError):
            self._tries += 1
            if self._tries > MOST_TRIES:
                raise
            return False
        try:
            await asyncio.shield(connection.lost)
        finally:
            connection.abort()
        return connection.closed
