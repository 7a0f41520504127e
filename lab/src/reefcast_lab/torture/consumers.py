"""Consumers of durable sessions in a tortured network: they attach, take, acknowledge, reject,
detach and die, and hold the home to what it promises them.

A consumer does as the client library does: it attaches again, under a new number, whenever its home
or its connection was gone, and says again what it has acknowledged without an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from reefcast.model import wire
from reefcast.model.filters import parse_filter
from reefcast.model.messages import Away, LinkDown, LinkKind, LinkUp
from reefcast.sessions.home import TAKEN_OVER
from reefcast.sessions.messages import (
    Acknowledge,
    Attach,
    ConsumerEnded,
    Detach,
    Done,
    Failed,
    Handed,
    Notes,
    Owed,
    Reject,
    Resize,
)
from reefcast_lab.torture.clients import Brokers
from reefcast_lab.torture.durable import Wanted
from reefcast_lab.torture.handing import check_handed
from reefcast_lab.torture.lives import Life
from reefcast_lab.torture.note_writers import NoteWriter


class Consumer:
    """`window`, `filter`: as in `Attach`; `greedy`: it acknowledges all it gets, as soon as it can.

    - `has`: the positions that it was handed and has not given back, with the count of each.
    - `is_attached`, `is_gone`: it is attached to its session; it will never be again.
    - `newest`: the highest position that it was handed for the first time.
    """

    def __init__(
        self, network: Brokers, wanted: Wanted, name: str, window: int, filter: str = ""
    ) -> None:
        self._network = network
        self.wanted, self.name = wanted, name
        self.window, self.filter = window, filter
        self.greedy = False
        self.has: dict[int, int] = {}
        self.is_attached = self.is_gone = False
        self.newest = 0
        self._linked = False
        self._number = self._last_token = 0
        self._unanswered: dict[int, tuple[int, ...]] = {}
        self._notes = NoteWriter(network, wanted)

    # --- what it does -----------------------------------------------------------------------------

    def attach(self) -> None:
        """Attach under a new number, if the home is up; say again what is acknowledged."""
        home = self.wanted.home
        self.is_gone = self.is_gone or self.wanted.ended
        if self.is_attached or self.is_gone or home not in self._network.cores:
            return
        if not self._linked:
            self._linked = True
            self._network.put(home, LinkUp(LinkKind.CLIENT), self.name)
        self._number += 1
        alone = self._network.notes and self._number % 2 == 0
        self.is_attached, self.newest = True, 0
        if self.wanted.life is not None:
            self.wanted.life.attach(self.name)
        self._say(
            Attach(
                token=self._token(),
                session=self.wanted.name,
                consumer=self._number,
                window=self.window,
                filter=self.filter,
                alone=alone,
            )
        )
        if alone and self.is_attached and self.wanted.life is not None:
            self._network.problems += self._check_alone(self.wanted.life)
        if self.is_attached and (asked := self._notes.read(self._token)):
            self._say(asked)
        again, self._unanswered = self._unanswered, {}
        for positions in again.values():
            if self.is_attached:
                self._acknowledge(positions, positions)

    def _check_alone(self, life: Life) -> Iterator[str]:
        """Check that there are no other consumers, unless the home has not found the session."""
        hosting = self._network.cores[self.wanted.home].delivering.hosting
        if not hosting.has(("", self.wanted.name)):
            return
        if others := life.attached - {self.name}:
            yield f"rule 11: {self.name} took over, and {sorted(others)} are still attached"

    def acknowledge(self, *positions: int) -> None:
        """Acknowledge events that it has."""
        if self.is_attached:
            self._gives_back(positions)
            if note := self._notes.before(self._token, self._writer, self._number):
                self._say(note)
            self._acknowledge(positions, positions)

    def acknowledge_up_to(self, position: int) -> None:
        """Acknowledge an event that it has, and all before it; of these only those count that the
        home has not given to somebody else since."""
        life, now = self.wanted.life, self._network.now
        if life is not None and self.is_attached:
            which = {position, *life.held(self.name, now)}
            self._gives_back([each for each in self.has if each <= position])
            life.acknowledged.add(position)
            counts = tuple(sorted(each for each in which if each <= position))
            self._acknowledge((position,), counts, up_to=True)

    def _gives_back(self, positions: Iterable[int]) -> None:
        life = self.wanted.life
        for position in positions:
            self.has.pop(position, None)
            if life is not None:
                life.holders.pop(position, None)
                life.acknowledged.add(position)

    def _acknowledge(
        self, positions: tuple[int, ...], counts: tuple[int, ...], *, up_to: bool = False
    ) -> None:
        """Acknowledge positions; `counts`: those of which the home's answer says that it knows."""
        number, token = self._number, self._token()
        self._unanswered[token] = counts
        self._notes.acknowledges(token, positions, self._writer)
        self._say(Acknowledge(token=token, consumer=number, positions=positions, up_to=up_to))

    def reject(self, position: int, delay_s: float) -> None:
        """Give an event back."""
        life, now = self.wanted.life, self._network.now
        if self.is_attached and life is not None:
            self.has.pop(position, None)
            if position in life.held(self.name, now):
                del life.holders[position]
                life.delays[position] = now + delay_s
            number, token = self._number, self._token()
            self._say(Reject(token=token, consumer=number, position=position, delay_s=delay_s))

    def resize(self, window: int) -> None:
        """Ask for another window."""
        self.window = window
        if self.is_attached:
            self._say(Resize(token=self._token(), consumer=self._number, window=window))

    def detach(self) -> None:
        """Leave the session, for now."""
        if self.is_attached:
            number, token = self._number, self._token()
            self._lose()
            self._say(Detach(token=token, consumer=number))

    def break_off(self) -> None:
        """Lose the connection, and what was read of it."""
        if self._linked:
            self._lose()
            self._network.put(self.wanted.home, Away(), self.name)

    def die(self) -> None:
        """Leave for good, without a word."""
        self.is_gone = True
        self._lose()
        if self._linked:
            self._linked = False
            self._network.put(self.wanted.home, LinkDown(), self.name)

    def _lose(self) -> None:
        self.has.clear()
        if self.is_attached and self.wanted.life is not None:
            self.wanted.life.detach(self.name, self._network.now)
        self.is_attached = False

    @property
    def _writer(self) -> str:
        """The name under which it leaves notes."""
        return f"{self.name}#{self._number}"

    def _token(self) -> int:
        self._last_token += 1
        return self._last_token

    def _say(self, what: Any) -> None:
        self._network.put(self.wanted.home, what, self.name)

    def step(self) -> None:
        """Acknowledge everything, as a greedy one does."""
        self.acknowledge(*self.has)

    # --- what it hears ----------------------------------------------------------------------------

    def started(self, broker: str) -> None:
        """Attach again, if it was its home that started."""
        if broker == self.wanted.home:
            self.attach()

    def killed(self, broker: str) -> None:
        """Note that the home is down, if it was this one."""
        if broker == self.wanted.home:
            self._linked = False
            self._lose()

    def told(self, broker: str, message: Any) -> None:
        """Handle what the home says."""
        if isinstance(message, Handed) and message.consumer == self._number and self.is_attached:
            for owed in message.events:
                self._network.problems += self._handed(owed)
        elif isinstance(message, Done):
            self._is_done(message.token)
        elif isinstance(message, Failed):
            self._failed(message)
        elif isinstance(message, Notes):
            self._network.problems += self._notes.have_come(message)
        elif isinstance(message, ConsumerEnded) and message.consumer == self._number:
            self._end(message.reason)

    def _end(self, reason: str) -> None:
        self._lose()
        if reason == TAKEN_OVER:
            return
        self.is_gone = True
        if not self.wanted.ended:
            self._network.problems.append(
                f"P1: session {self.wanted.name} ended, and nobody wanted it to"
            )

    def _failed(self, failed: Failed) -> None:
        self._unanswered.pop(failed.token, None)
        if failed.again:  # it broke off while its session was still being made
            self._lose()
            return
        if failed.gone:
            self.is_gone = self.wanted.ended
            self._lose()
        if not (failed.gone and self.wanted.ended):
            said = f"session {self.wanted.name} to {self.name}: {failed.reason}"
            self._network.problems.append(said)

    def _is_done(self, token: int) -> None:
        """Note that acknowledgements are on disk: they are never to come again."""
        self._network.problems += self._notes.done(token)
        positions = self._unanswered.pop(token, ())
        if self.wanted.life is not None:
            self.wanted.life.done.update(positions)

    def _handed(self, owed: Owed) -> Iterator[str]:
        life, now = self.wanted.life, self._network.now
        if life is None:
            yield f"session {self.wanted.name} hands out events, and is not on disk"
            return
        publication = wire.decode_publication(owed.body)
        where = f"session {self.wanted.name}, {publication.publisher}#{publication.seq}"
        disk = self._network.disks[self.wanted.home]
        for problem in check_handed(life, owed, publication.id, disk.synced, self.name, now):
            yield f"{problem}: {where} at {owed.position}, time {owed.tries}"
        if len(life.held(self.name, now)) > self.window:
            yield f"rule 10: {self.name} has more than its window of {self.window}: {where}"
        if self.filter and not parse_filter(self.filter).matches(publication):
            yield f"rule 11: {self.name} wants only {self.filter}: {where}"
        if owed.tries == 1 and owed.position <= self.newest:
            yield f"P3: {self.name} had position {self.newest} before: {where}"
        if owed.tries == 1:
            self.newest = owed.position
        self.has[owed.position] = owed.tries
