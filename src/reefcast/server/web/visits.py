"""The connections to an HTTP listener, and what they may cost.

Rules
-----
- There are at most `most` connections. One more ends the one whose last answer is the longest ago
  (its beginning, if it got none), so that connections that say nothing, or do not read, keep nobody
  out.
- A connection has `ANSWER_S` for each request: from its beginning, or from the last answer, until
  the next one is answered. It may send `most_bytes` meanwhile; more ends it, and so does an answer
  that it does not read in that time.
- A connection that is held, because its answer goes on, has all the time, may send what it likes,
  and gives way to nobody; if all are held, a further one is ended at once. Who holds it limits it.
- What stands in one line of a head is limited by aiohttp (`LINE_BYTES`, `FIELD_BYTES`, `FIELDS`);
  bodies are read by whoever needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

ANSWER_S = 75.0
"""Longer than the usual time between two scrapes, so that connections stay."""
MOST_BYTES = 1 << 16
LINE_BYTES, FIELD_BYTES, FIELDS = 4096, 1 << 15, 64


class Visit(asyncio.Protocol):
    """A connection to an HTTP listener: passes everything to `inner`, which speaks HTTP."""

    def __init__(self, visits: Visits, inner: asyncio.Protocol) -> None:
        self._visits = visits
        self._inner = inner
        self._left = visits.most_bytes
        self._until_s = 0.0
        self.held = False
        self.transport: asyncio.Transport | None = None
        self.known = ""
        """The user whose visit is in the audit log already."""

    def begin_anew(self, until_s: float) -> None:
        """Allow one more request, which must be answered by then."""
        self._left, self._until_s = self._visits.most_bytes, until_s
        self.held = False

    def is_late(self, now: float) -> bool:
        """Return whether it has taken too long."""
        return not self.held and now > self._until_s

    def end(self) -> None:
        """End the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    # --- asyncio ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._visits.began(self)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._left -= 0 if self.held else len(data)
        if self._left < 0:
            self.end()
        else:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._visits.ended(self)
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class Visits:
    """All connections of one listener; `evicted` is called when one had to give way. `most_bytes`:
    what may be sent for one answer."""

    def __init__(
        self, most: int, evicted: Callable[[], None], *, most_bytes: int = MOST_BYTES
    ) -> None:
        self.most_bytes = most_bytes
        self._most = most
        self._evicted = evicted
        self._loop = asyncio.get_running_loop()
        self._all: dict[asyncio.BaseTransport, Visit] = {}  # the longest unanswered first

    def __len__(self) -> int:
        return len(self._all)

    def began(self, visit: Visit) -> None:
        """Note a new connection."""
        assert visit.transport is not None
        self._all[visit.transport] = visit
        visit.begin_anew(self._loop.time() + ANSWER_S)
        if len(self._all) > self._most:
            self._evicted()
            oldest = next(transport for transport, each in self._all.items() if not each.held)
            self._all.pop(oldest).end()

    def answered(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that a request of this connection has been answered."""
        visit = None if transport is None else self._all.pop(transport, None)
        if visit is not None and transport is not None:
            self._all[transport] = visit
            visit.begin_anew(self._loop.time() + ANSWER_S)

    def hold(self, transport: asyncio.BaseTransport | None) -> None:
        """Hold a connection until its next answer."""
        visit = self.of(transport)
        if visit is not None:
            visit.held = True

    def of(self, transport: asyncio.BaseTransport | None) -> Visit | None:
        """Return the visit with this transport, if it goes on."""
        return None if transport is None else self._all.get(transport)

    def ended(self, visit: Visit) -> None:
        """Forget a connection that is gone."""
        if visit.transport is not None:
            self._all.pop(visit.transport, None)

    def tick(self, now: float) -> None:
        """End the connections that have taken too long; `now`: seconds of the loop."""
        for visit in [visit for visit in self._all.values() if visit.is_late(now)]:
            visit.end()

    def end_all(self) -> None:
        """End all connections."""
        for visit in list(self._all.values()):
            visit.end()
