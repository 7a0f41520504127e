"""What a client has published and wants to hear about: kept until it is confirmed. No I/O.

Rules
-----
- A publication that asks (PUBLISH_CONFIRM) is kept, whatever the broker has acknowledged, until the
  answer says that all durable sessions that it is for have it, or that it was refused.
- After a reconnect to a broker that does not have this client's session any more all of them are
  sent again, in their order and before anything new, under the same ids; each time is an attempt of
  its own.
- Who waits has a `Group` of publications.

Source: `delivery.md`, rule 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from reefcast.client.signal import Signal
from reefcast.errors import ReefcastError
from reefcast.model import wire
from reefcast.model.messages import Confirmed
from reefcast.model.wire import FrameKind

MOST_UNCONFIRMED = 65_536
"""Publications that a client keeps so; further ones that ask wait."""
_KIND_AT = wire.LENGTH_BYTES
_ASKS = int(FrameKind.PUBLISH_CONFIRM)


class Group:
    """Publications that somebody waits for. `open`: how many are not answered; `refusals`: numbers
    and reasons of those that were refused; `ended`: why there will be no answer."""

    __slots__ = ("changed", "ended", "open", "refusals")

    def __init__(self) -> None:
        self.open = 0
        self.refusals: list[tuple[int, str]] = []
        self.ended: ReefcastError | None = None
        self.changed = Signal()

    def answered(self, count: int) -> None:
        """Note that so many are answered."""
        self.open -= count
        if not self.open:
            self.changed.fire()


class _Kept:
    """A publication under way: its frame, how often it was sent, and who waits. `groups`: until it
    is answered; `patient`: until it is done. `in_custody`: it was answered so, and is not done."""

    __slots__ = ("attempt", "frame", "groups", "in_custody", "patient")

    def __init__(self, frame: bytes, groups: tuple[Group, ...], attempt: int = 1) -> None:
        self.frame = frame
        self.attempt = attempt
        self.groups = groups
        self.patient: tuple[Group, ...] = ()
        self.in_custody = False


class Unconfirmed:
    """All of one client, by number. `asks`: the groups to which everything belongs that is
    published now. `expected`: groups of single publications that are still to be sent. `on_done`:
    if there is one, everything that is published asks, and it is called with the number of each
    that is done (see `outbox_file`). `former_attempts`: if the publisher may have had a former
    life that published the same, a number that is above all of its attempts."""

    def __init__(self) -> None:
        self.asks: tuple[Group, ...] = ()
        self.expected: dict[int, Group] = {}
        self.room = Signal()
        self.on_done: Callable[[int], None] | None = None
        self.former_attempts = 0
        self._kept: dict[int, _Kept] = {}

    def load(self, frames: Mapping[int, bytes], attempt: int = 0) -> None:
        """Begin with what a former life of the publisher left, by number; no attempt of it may
        have been above `attempt`."""
        self._kept |= {seq: _Kept(frame, (), attempt) for seq, frame in frames.items()}

    @property
    def asking(self) -> bool:
        """Whether what is published now asks for confirmation."""
        return bool(self.asks) or self.on_done is not None

    def __len__(self) -> int:
        return len(self._kept)

    def awaits(self, seq: int, group: Group) -> bool:
        """Return whether a group still waits for this publication."""
        kept = self._kept.get(seq)
        return kept is not None and group in kept.groups

    @property
    def full(self) -> bool:
        """Whether those that ask have to wait."""
        return len(self._kept) >= MOST_UNCONFIRMED

    # --- groups -----------------------------------------------------------------------------------

    def begin(self) -> Group:
        """Begin a group: whatever is published until `end` belongs to it."""
        group = Group()
        self.asks += (group,)
        return group

    def end(self, group: Group) -> None:
        """End a group; nothing more comes to it."""
        self.asks = tuple(each for each in self.asks if each is not group)

    def everything(self, *, until_done: bool) -> Group:
        """Return a group of all that is not answered; `until_done`: of all that is not done."""
        group = Group()
        for kept in self._kept.values():
            if until_done:
                kept.patient += (group,)
            elif not kept.in_custody:
                kept.groups += (group,)
            else:
                continue
            group.open += 1
        return group

    # --- frames -----------------------------------------------------------------------------------

    def add(self, seq: int, frame: bytes, *groups: Group) -> bytes:
        """Keep a publication; return the frame that asks for confirmation."""
        groups += self.asks
        former = self.former_attempts
        self._kept[seq] = _Kept(frame, groups, former + 1)
        for group in groups:
            group.open += 1
        return wire.asking(frame, former + 1, again=former > 0)

    def noted(self, first_seq: int, frames: Sequence[bytes]) -> Sequence[bytes]:
        """Return frames as they are to be sent; those that ask, or whose numbers are `expected`,
        are kept."""
        if not (self.asks or self.expected or self.on_done):
            return frames
        if not self.expected:
            return self._add_all(first_seq, frames)
        found = []
        for seq, frame in enumerate(frames, first_seq):
            expected = self.expected.pop(seq, None)
            if expected is not None:
                expected.open -= 1  # it stood for this one
                found.append(self.add(seq, frame, expected))
            else:
                found.append(self.add(seq, frame) if self.asking else frame)
        return found

    def _add_all(self, first_seq: int, frames: Sequence[bytes]) -> list[bytes]:
        """Do what `add` does with consecutive publications."""
        groups, former = self.asks, self.former_attempts
        for group in groups:
            group.open += len(frames)
        kept = (_Kept(frame, groups, former + 1) for frame in frames)
        self._kept.update(enumerate(kept, first_seq))
        return [wire.asking(frame, former + 1, again=former > 0) for frame in frames]

    def again(self) -> dict[int, bytes]:
        """Return all that is not confirmed as it is to be sent again, by number, in their order."""
        frames = {}
        for seq, kept in sorted(self._kept.items()):
            kept.attempt += 1
            frames[seq] = wire.asking(kept.frame, kept.attempt, again=True)
        return frames

    # --- answers ----------------------------------------------------------------------------------

    def answered(self, answer: Confirmed) -> None:
        """Handle the broker's answer. One that rests on a broker's custody (`kept`) lets who waits
        go on; the publication stays here until it is where it must be."""
        seqs = range(answer.seq, answer.seq + answer.more + 1)
        if not answer.kept or answer.refused:
            self._done(seqs, answer.refused)
            return
        for seq in seqs:
            self._let_go(seq)

    def refused(self, seq: int, reason: str) -> bool:
        """Handle that a publication is done, or was refused for a `reason`; return whether it was
        here."""
        return self._done((seq,), reason)

    def _done(self, seqs: Iterable[int], reason: str) -> bool:
        """Handle that publications are done, or were refused; return whether any was here."""
        told: dict[Group, int] = {}
        before = len(self._kept)
        for seq in seqs:
            kept = self._kept.pop(seq, None)
            if kept is None:
                continue
            for group in (*kept.groups, *kept.patient):
                told[group] = told.get(group, 0) + 1
                if reason:
                    group.refusals.append((seq, reason))
            if self.on_done is not None:
                self.on_done(seq)
        for group, count in told.items():
            group.answered(count)
        if len(self._kept) == before:
            return False
        if len(self._kept) < MOST_UNCONFIRMED:
            self.room.fire()
        return True

    def _let_go(self, seq: int) -> None:
        kept = self._kept.get(seq)
        if kept is not None:
            kept.in_custody = True
            groups, kept.groups = kept.groups, ()
            for group in groups:
                group.answered(1)

    def fail(self, error: ReefcastError) -> None:
        """Tell everybody who waits that no answer will come."""
        kept = self._kept.values()
        waiting = {group for each in kept for group in (*each.groups, *each.patient)}
        for group in waiting.union(self.expected.values(), self.asks):
            group.ended = error
            group.changed.fire()
        self.room.fire()
