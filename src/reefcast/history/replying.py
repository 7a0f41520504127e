"""A storage's answer to one request, as a state machine: stored events in order, then new ones. The
methods return the messages for the broker.

Rules
-----
- Rows that were found are sent as far as there is credit; the rest waits, and nothing more should
  be read.
- With a handover the answer stays open for that long, and then until everything was found: events
  stored in that time are late. Later events reach the asking client live. - The end is sent when
  nothing waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import accumulate, islice

from reefcast.history.messages import End, Items, Request
from reefcast.history.projection import Projection
from reefcast.history.rows import topics_of
from reefcast.model.filters import parse_filter
from reefcast.model.messages import ServiceMessage
from reefcast.model.patterns import is_topic_match
from reefcast.model.publication import Publication

ITEMS = 1024
"""Publications in one message."""
ITEMS_BYTES = 1 << 20


class Reply:
    """The answer to one request, which came by its path to the storage `me`. Raises
    `FilterSyntaxError`."""

    def __init__(self, request: Request, me: str) -> None:
        self.request = request
        self.filter = parse_filter(request.filter)
        self.projection = Projection(request.attributes, payload=request.payload)
        self.over = False
        self._path = (*request.path, me)
        self._credit = request.window
        self._sent = 0
        self._found: deque[bytes] = deque()
        self._late: deque[bytes] = deque()
        self._all_found = self._is_late = self._closed = False

    @property
    def waits(self) -> bool:
        """Whether something waits for credit."""
        return bool(self._found) or (self._is_late and bool(self._late))

    def found(self, bodies: Sequence[bytes]) -> list[ServiceMessage]:
        """Add the next stored bodies, in the order of their positions and cut down to what is
        wanted, and return what can be sent now."""
        self._found.extend(bodies)
        return self._ready()

    def all_found(self) -> list[ServiceMessage]:
        """Note that nothing more is stored, and return what can be sent now."""
        self._all_found = True
        self._closed = self._closed or not self.request.handover_s
        return self._ready()

    def close(self) -> list[ServiceMessage]:
        """Note that the time of the handover is over, and return what can be sent now."""
        self._closed = True
        return self._ready()

    def grant(self, count: int) -> list[ServiceMessage]:
        """Allow this many more publications, and return what can be sent now."""
        self._credit += count
        return self._ready()

    def came(self, publication: Publication, body: bytes) -> list[ServiceMessage]:
        """Add an event that has just been stored. Reading may find it as well, if it was stored
        meanwhile."""
        if self._closed or not self._wants(publication):
            return []
        self._late.extend(self.projection.cut([body]))
        return self._ready()

    def fail(self, reason: str) -> list[ServiceMessage]:
        """End the answer with an error."""
        return [] if self.over else [self._end(reason)]

    def _wants(self, publication: Publication) -> bool:
        request, time_us = self.request, publication.time_us
        if not request.handover_s:
            return False
        if request.since_us is not None and time_us < request.since_us:
            return False
        if request.until_us is not None and time_us >= request.until_us:
            return False
        topics = topics_of(publication)
        asked = any(is_topic_match(t, p) for t in topics for p in request.topics)
        return asked and self.filter.matches(publication)

    def _ready(self) -> list[ServiceMessage]:
        said: list[ServiceMessage] = []
        if self.over:
            return said
        while self._found and self._credit > 0:
            said.append(self._items(self._found))
        if self._found or not self._all_found:
            return said
        if self.request.handover_s and not self._is_late:
            self._is_late = True
            said.append(self._items(deque()))  # all that was stored has been said
        while self._late and self._credit > 0:
            said.append(self._items(self._late))
        if self._closed and not self._late:
            said.append(self._end(""))
        return said

    def _items(self, waiting: deque[bytes]) -> Items:
        """Return as many of the waiting bodies as fit into one message."""
        before = self._sent
        bodies = _begin_of(waiting, min(ITEMS, self._credit))
        self._sent += len(bodies)
        self._credit -= len(bodies)
        return Items(
            id=self.request.id,
            path=self._path,
            at=len(self._path) - 2,
            before=before,
            bodies=tuple(bodies),
            late=self._is_late,
        )

    def _end(self, reason: str) -> End:
        self.over = True
        at = len(self._path) - 2
        return End(id=self.request.id, path=self._path, at=at, before=self._sent, reason=reason)


def _begin_of(waiting: deque[bytes], most: int) -> list[bytes]:
    """Remove and return at most `most` bodies, with `ITEMS_BYTES` together unless the first one is
    larger."""
    bodies = list(islice(waiting, most))
    if sum(map(len, bodies)) > ITEMS_BYTES:
        ends = accumulate(map(len, bodies))
        bodies = bodies[: max(sum(end <= ITEMS_BYTES for end in ends), 1)]
    for _ in bodies:
        waiting.popleft()
    return bodies
