"""Looking into queues: what is asked waits until all bodies have been read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reefcast.model.keeping import EventNumber
from reefcast.sessions.collecting import Collected
from reefcast.sessions.events import Entry, Events
from reefcast.sessions.outcome import Letter, Read


class _Question:
    def __init__(self, question: object, entries: list[Entry]) -> None:
        self.question = question
        self.entries = entries
        self.bodies = {each.event.number: each.event.body for each in entries if each.event.body}
        self.lacks = {each.event.number for each in entries} - self.bodies.keys()


class Reading:
    """The questions that are not answered yet."""

    def __init__(self, collected: Collected, events: Events) -> None:
        self._collected = collected
        self._events = events
        self._open: list[_Question] = []

    def ask(self, question: object, entries: list[Entry]) -> None:
        """Answer with these entries when their bodies are in memory."""
        asked = _Question(question, entries)
        self._events.want(each.event for each in entries)
        self._open.append(asked)
        self._answer()

    def fetched(self, bodies: Mapping[EventNumber, bytes], missing: Iterable[EventNumber]) -> None:
        """Take what was read; what is missing is left out."""
        gone = set(missing)
        for asked in self._open:
            found = asked.lacks & bodies.keys()
            asked.bodies |= {number: bodies[number] for number in found}
            asked.lacks -= found | gone
        self._answer()

    def _answer(self) -> None:
        still = []
        for asked in self._open:
            if asked.lacks:
                still.append(asked)
            else:
                self._collected.read.append(Read(asked.question, tuple(_letters(asked))))
        self._open = still


def _letters(asked: _Question) -> Iterable[Letter]:
    for entry in asked.entries:
        body = asked.bodies.get(entry.event.number)
        if body is not None:
            yield Letter(
                entry.position,
                entry.event.id,
                entry.at_s,
                entry.tries,
                entry.late,
                entry.dead,
                body,
            )
