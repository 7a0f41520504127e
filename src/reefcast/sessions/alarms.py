"""When each session has something to do by the clock."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf

from reefcast.model.keeping import SessionNumber
from reefcast.sessions.session import Session

_SLACK = 1000


class Alarms:
    """The earliest time of each session, in seconds UTC."""

    def __init__(self) -> None:
        self._set: dict[SessionNumber, float] = {}
        self._heap: list[tuple[float, SessionNumber, Session]] = []

    def set(self, session: Session, at_s: float) -> None:
        """Set the time of a session in the place of what was set before; inf: none."""
        if at_s == inf:
            self._set.pop(session.number, None)
        elif self._set.get(session.number) != at_s:
            self._set[session.number] = at_s
            heappush(self._heap, (at_s, session.number, session))
            if len(self._heap) > 2 * len(self._set) + _SLACK:
                self._heap = [each for each in self._heap if self._set.get(each[1]) == each[0]]
                heapify(self._heap)

    def first(self) -> tuple[float, Session] | None:
        """Return the earliest time, and whose it is."""
        while self._heap:
            at_s, number, session = self._heap[0]
            if self._set.get(number) == at_s:
                return at_s, session
            heappop(self._heap)
        return None
