"""Consumers that are connected to any broker of a tortured network, and move: they reach the home
of their session through the network.

They use the client library's own state machine. What they are handed may have been on its way for
long; so they are held to less than `consumers`: the same event under the same count comes to one of
them only, and what the home said that it has on disk does not come again to the consumer that
acknowledged it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from reefcast.client.consuming import Attachment, Consuming
from reefcast.model import wire
from reefcast.model.filters import parse_filter
from reefcast.model.messages import Away, LinkDown, LinkKind, LinkUp
from reefcast.sessions.messages import Acknowledge, Attach, Done, Failed, Handed, Notes, Owed
from reefcast_lab.torture.clients import Brokers
from reefcast_lab.torture.durable import Wanted
from reefcast_lab.torture.note_writers import NoteWriter


class Traveller:
    """`entry`: the broker that it is connected to; `window`, `filter`: as in `Attach`; `greedy`: it
    acknowledges all it gets, as soon as it can. `to_say`: what it has not sent yet."""

    def __init__(
        self, network: Brokers, wanted: Wanted, name: str, entry: str, window: int, filter: str = ""
    ) -> None:
        self._network = network
        self.wanted, self.name, self.entry, self.filter = wanted, name, entry, filter
        self.greedy = self.is_gone = False
        self.to_say: deque[Any] = deque()
        self.window = window
        self._linked = False
        self._pauses: list[Callable[[], None]] = []
        self._acknowledging: dict[int, tuple[int, ...]] = {}
        self._done: set[int] = set()
        self._consuming = Consuming(self.to_say.append, self._pauses.append)
        self._attachment = self._new_attachment()
        self._notes = NoteWriter(network, wanted)
        self._connect()

    def _new_attachment(self) -> Attachment:
        return Attachment(self._consuming, self.wanted.name, "", self.window, self.filter)

    # --- what it does -----------------------------------------------------------------------------

    @property
    def may_act(self) -> bool:
        """Whether it can do something by itself now. A session of the same name that is made when
        its own has ended is not for it."""
        if self.wanted.ended:
            return False
        said = bool(self.to_say) and self._linked
        return said or (self.greedy and bool(self._attachment.waiting or self._attachment.in_hand))

    def step(self) -> None:
        """Send a message, or handle an event."""
        if self.to_say and self._linked:
            message = self.to_say.popleft()
            if isinstance(message, Acknowledge):
                self._acknowledging[message.token] = message.positions
                self._note(message)
            self._network.put(self.entry, message, self.name)
            token = self._consuming.next_token
            if isinstance(message, Attach) and (asked := self._notes.read(token)):
                self._network.put(self.entry, asked, self.name)
        elif self._attachment.waiting:
            self.take()
        else:
            self.acknowledge(*self._attachment.in_hand)

    def _note(self, message: Acknowledge) -> None:
        """Leave notes with the session before an acknowledgement goes out."""
        writer, token = f"{self.name}#{message.consumer}", self._consuming.next_token
        if note := self._notes.before(token, writer, message.consumer):
            self._network.put(self.entry, note, self.name)
        self._notes.acknowledges(message.token, (), writer)

    def take(self) -> None:
        """Take the next event into its hands, if there is one."""
        if self._attachment.waiting:
            self._attachment.pop()

    @property
    def in_hand(self) -> list[int]:
        """The positions that it has and has not given back."""
        return list(self._attachment.in_hand)

    def acknowledge(self, *positions: int) -> None:
        """Acknowledge events that it has in its hands."""
        if self.wanted.life is not None:
            self.wanted.life.acknowledged.update(positions)
        self._attachment.acknowledge(positions)

    def reject(self, position: int, delay_s: float) -> None:
        """Give an event back."""
        self._attachment.reject(position, delay_s)

    def resize(self, window: int) -> None:
        """Ask for another window."""
        self.window = window
        self._attachment.resize(window)

    @property
    def is_attached(self) -> bool:
        """Whether it is a consumer, as far as it knows."""
        return self._attachment.was_attached and not self._attachment.ended

    def is_named(self, consumer: str) -> bool:
        """Return whether a home means this one by the name of a consumer."""
        return f"{self.name}@" in consumer or f"{self.name}#" in consumer

    def attach(self) -> None:
        """Attach again, if its broker could not find the home."""
        if self._attachment.ended and not self.is_gone:
            self._attachment = self._new_attachment()

    def detach(self) -> None:
        """Leave the session, and attach anew."""
        self._attachment.detach()
        self.attach()

    def break_off(self) -> None:
        """Lose the connection, and come back to a broker that remembers it."""
        if self._linked:
            self._consuming.lost()
            self._network.put(self.entry, Away(), self.name)
            self._consuming.established(resumed=True)

    def move(self, entry: str) -> None:
        """Go to another broker."""
        self._disconnect()
        self.entry = entry
        self._connect()

    def die(self) -> None:
        """Leave for good, without a word."""
        self.is_gone = True
        self._disconnect()

    def pause_is_over(self) -> None:
        """Go on with what was to wait."""
        due, self._pauses[:] = list(self._pauses), []
        for each in due:
            each()
        self.attach()

    def _connect(self) -> None:
        if self.entry in self._network.cores and not self.is_gone:
            self._linked = True
            self._network.put(self.entry, LinkUp(LinkKind.CLIENT), self.name)
            self._consuming.established(resumed=False)

    def _disconnect(self) -> None:
        if self._linked:
            self._forget_connection()
            self._network.put(self.entry, LinkDown(), self.name)

    def _forget_connection(self) -> None:
        self._linked = False
        self.to_say.clear()
        self._consuming.lost()

    # --- what it hears ----------------------------------------------------------------------------

    def started(self, broker: str) -> None:
        """Connect again, if it was its broker that started."""
        if broker == self.entry and not self._linked:
            self._connect()

    def killed(self, broker: str) -> None:
        """Note that its broker is down, if it was this one."""
        if broker == self.entry and self._linked:
            self._forget_connection()

    def told(self, broker: str, message: Any) -> None:
        """Handle what its broker says."""
        self.is_gone = self.is_gone or self.wanted.ended
        if self.is_gone or broker != self.entry:
            return
        if isinstance(message, Done):
            self._done.update(self._acknowledging.pop(message.token, ()))
            self._network.problems += self._notes.done(message.token)
        elif isinstance(message, Notes):
            self._network.problems += self._notes.have_come(message)
        elif isinstance(message, Failed):
            self._acknowledging.pop(message.token, None)
            self._check_failure(message)
        elif isinstance(message, Handed):
            for owed in message.events:
                self._check(owed)
        self._consuming.handle(message)

    def _check_failure(self, failed: Failed) -> None:
        """Check that a session that has not ended is found, or its home cannot be asked."""
        if failed.gone and "not attached" not in failed.reason:
            said = f"rule 12: {self.name} at {self.entry}: {failed.reason}"
            self._network.problems.append(said)

    def _check(self, owed: Owed) -> None:
        life = self.wanted.life
        publication = wire.decode_publication(owed.body)
        where = f"{publication.publisher}#{publication.seq} at {owed.position}, time {owed.tries}"
        said = self._network.problems
        if life is None:
            said.append(f"session {self.wanted.name} hands out events, and is not on disk")
            return
        if owed.position in self._done and publication.id not in life.again:
            said.append(f"P2: {self.name} has acknowledged it, and has it again: {where}")
        if (owed.position, owed.tries) in life.given:
            said.append(f"P2: {self.name} is not the first who has it: {where}")
        life.given.add((owed.position, owed.tries))
        if self.filter and not parse_filter(self.filter).matches(publication):
            said.append(f"rule 11: {self.name} wants only {self.filter}: {where}")
