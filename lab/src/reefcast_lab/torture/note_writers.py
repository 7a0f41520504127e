"""Consumers in a tortured network as writers and readers of the notes of their sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from reefcast.sessions.messages import Note, Notes, ReadNotes
from reefcast_lab.torture.clients import Brokers
from reefcast_lab.torture.durable import Wanted
from reefcast_lab.torture.noting import NO_STEP, Noting, Step

Token = Callable[[], int]
"""Returns a token that the consumer has not used."""


class NoteWriter:
    """The notes of one consumer. Where the network has none, it says nothing."""

    def __init__(self, network: Brokers, wanted: Wanted) -> None:
        self._network, self._wanted = network, wanted
        self._steps: dict[int, tuple[Noting, Step]] = {}
        self._reads: dict[int, tuple[Noting, dict[str, int], dict[str, str]]] = {}
        self._acknowledged: dict[int, tuple[Noting, Step]] = {}
        self._last = NO_STEP

    def before(self, token: Token, writer: str, consumer: int) -> Note | None:
        """Return notes to leave before an acknowledgement."""
        noting = self._noting
        if noting is None:
            return None
        self._last, notes = noting.begin(writer)
        note = Note(token=token(), session=self._wanted.name, notes=notes, consumer=consumer)
        self._steps[note.token] = noting, self._last
        return note

    def acknowledges(self, token: int, positions: Iterable[int], writer: str) -> None:
        """Note that these are acknowledged behind what this writer has left so far."""
        if self._noting is not None:
            step = self._last if self._last[0] == writer else NO_STEP
            self._acknowledged[token] = self._noting, step
            for position in positions:
                self._noting.behind.setdefault(position, []).append(step)

    def read(self, token: Token) -> ReadNotes | None:
        """Return a question for all notes of the session."""
        noting = self._noting
        if noting is None:
            return None
        asked = ReadNotes(token=token(), session=self._wanted.name)
        self._reads[asked.token] = noting, dict(noting.done), {}
        return asked

    @property
    def _noting(self) -> Noting | None:
        life = self._wanted.life
        return life.noting if life is not None and self._network.notes else None

    def done(self, token: int) -> Iterator[str]:
        """Note that notes are on disk, or yield what is wrong if an acknowledgement is: what this
        is the token of."""
        if (known := self._steps.pop(token, None)) is not None:
            noting, step = known
            noting.is_done(step)
        elif (known := self._acknowledged.pop(token, None)) is not None:
            noting, step = known
            yield from noting.check_done(step)

    def have_come(self, answer: Notes) -> Iterator[str]:
        """Yield what is wrong with the notes that were read, when all have come."""
        noting, least, notes = self._reads[answer.token]
        notes |= answer.notes
        if not answer.more:
            del self._reads[answer.token]
            yield from noting.check(notes, least)
