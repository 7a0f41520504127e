"""What a broker writes, judged change by change, in the order in which it wants it on disk: nothing
leaves a queue without a reason, and nothing enters it twice.

The judge has no memory that a kill would falsify: it begins each life of a broker with what is
synced (`disks`), and goes on with what the broker wants written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from reefcast.model.keeping import (
    Change,
    Contents,
    DropOwed,
    DropSession,
    Position,
    PutNotes,
    PutOwed,
    PutSession,
    PutTries,
    SessionNumber,
    StoredOwed,
    StoredSession,
)
from reefcast.model.publication import PublicationId
from reefcast_lab.torture.disks import Disk, Had, note
from reefcast_lab.torture.lives import Life
from reefcast_lab.torture.stores import Stored, apply

_Gone = dict[Position, StoredOwed]
Told = Counter[tuple[str, str]]
"""(kind, session) -> of how many events the broker has said that."""


class Parties(Protocol):
    """The sessions and publishers, as a judge asks them."""

    def life_of(self, stored: StoredSession) -> Life:
        """Return the life of a session that is stored so."""

    def arrives(self, life: Life, id: PublicationId, had: Iterable[PublicationId]) -> Iterator[str]:
        """Yield what is wrong if this event enters a queue in which those were before."""

    def may_end(self, life: Life) -> bool:
        """Return whether a session may end now, and note that it has."""


class Watch:
    """The judge of one life of a broker that starts with what is on `disk`."""

    def __init__(self, disk: Disk, parties: Parties) -> None:
        self._stored = Stored()
        self._stored.contents = disk.load()
        self._had: Had = {link: dict(ids) for link, ids in disk.had.items()}
        self._parties = parties
        self._expiry: dict[int, float] = {}

    @property
    def contents(self) -> Contents:
        """What would be on disk if all were synced; it is not to be changed."""
        return self._stored.contents

    def judge(self, changes: tuple[Change, ...], told: Told, now: float) -> Iterator[str]:
        """Yield what is wrong with these changes, which a broker writes at once."""
        self._expiry.clear()
        gone: dict[SessionNumber, _Gone] = {}
        came: dict[SessionNumber, set[int]] = {}
        for change in changes:
            if isinstance(change, PutOwed):
                yield from self._check_arrival(change)
                came.setdefault(change.session, set()).add(change.event)
            elif isinstance(change, PutTries) and change.dead:
                yield from self._check_burial(change)
            elif isinstance(change, DropOwed):
                owed = self.contents.sessions[change.session].owed
                its = gone.setdefault(change.session, {})
                its |= {at: owed[at] for at in range(change.first, change.last + 1) if at in owed}
                self._expiry |= {
                    each.event: self.contents.events[each.event].expires_s for each in its.values()
                }
            elif isinstance(change, DropSession):
                yield from self._check_end(change)
            apply(change, self._stored)
            note(change, self.contents, self._had)
            if isinstance(change, PutNotes):
                stored = self.contents.sessions[change.session]
                yield from self._parties.life_of(stored).noting.check(stored.notes, {})
            if isinstance(change, PutSession):
                stored = self.contents.sessions[change.session]
                self._parties.life_of(stored).options = stored.record.options
        for session, its in gone.items():
            if session in self.contents.sessions:
                stored = self.contents.sessions[session]
                name = stored.record.name
                if (
                    not told["expired", name] + told["dropped", name]
                ):  # else it let go of some itself
                    living = [at for at, each in its.items() if not each.dead]
                    noting = self._parties.life_of(stored).noting
                    yield from noting.check_gone(living, stored.notes)
                yield from self._check_departures(session, its, came.get(session, set()), told, now)
        for session in came.keys() & self.contents.sessions.keys():
            yield from self._check_limits(self.contents.sessions[session])
        yield from self._check_bodies()

    # --- one change -------------------------------------------------------------------------------

    def _check_arrival(self, change: PutOwed) -> Iterator[str]:
        stored = self.contents.sessions.get(change.session)
        if stored is None:
            yield f"P1: an event goes into session {change.session}, which is not stored"
            return
        life, name = self._parties.life_of(stored), stored.record.name
        id = self.contents.events[change.event].id
        had = self._had.get(life.link, {})
        if any(each.dead and each.event == change.event for each in stored.owed.values()):
            life.again.add(id)
            if not life.moves:
                yield f"P2: a dead letter of session {name} comes back, and nobody wanted it to"
        elif not change.late:
            if id in had:
                yield f"P2: session {name} has {id[0]}#{id[1]} twice"
            yield from self._parties.arrives(life, id, had)

    def _check_burial(self, change: PutTries) -> Iterator[str]:
        stored = self.contents.sessions[change.session]
        self._parties.life_of(stored).holders.pop(change.position, None)
        most = stored.record.options.max_deliveries
        if change.position in stored.owed and not 0 < most <= change.tries:
            yield (
                f"rule 10: session {stored.record.name} makes a dead letter of "
                f"{change.position} after {change.tries} times"
            )

    def _check_end(self, change: DropSession) -> Iterator[str]:
        stored = self.contents.sessions.get(change.session)
        if stored is not None and not self._parties.may_end(self._parties.life_of(stored)):
            yield f"P1: session {stored.record.name} ends, and nobody wanted it to"

    # --- all changes of one input -----------------------------------------------------------------

    def _check_departures(
        self, session: SessionNumber, gone: _Gone, came: set[int], told: Told, now: float
    ) -> Iterator[str]:
        stored = self.contents.sessions[session]
        life, name = self._parties.life_of(stored), stored.record.name
        for position in gone:
            life.holders.pop(position, None)
        dead = {at: each for at, each in gone.items() if each.dead}
        yield from self._check_dead(stored, life, dead, came)
        left = {
            at: each
            for at, each in gone.items()
            if at not in dead and at not in life.acknowledged and at not in life.released
        }
        if len(left) > told["expired", name] + told["dropped", name]:
            yield f"rule 13: session {name} drops events, and does not count them: {sorted(left)}"
        fresh = [
            at
            for at, each in left.items()
            if not self._is_worthless(each, stored, now, begun=at in life.tries)
        ]
        if fresh:
            yield from self._check_dropped(stored, sorted(fresh))

    def _is_worthless(
        self, owed: StoredOwed, stored: StoredSession, now: float, *, begun: bool
    ) -> bool:
        options = stored.record.options
        most_s = options.max_age_s
        stays = begun and options.expires == "fresh"
        expires_s = 0.0 if stays else self._expiry.get(owed.event, 0.0)
        return 0 < expires_s <= now or (most_s > 0 and owed.at_s + most_s <= now)

    def _check_dropped(self, stored: StoredSession, dropped: list[Position]) -> Iterator[str]:
        """Check events that left a queue, and that no consumer has acknowledged."""
        options, name = stored.record.options, stored.record.name
        queue = sorted(at for at, each in stored.owed.items() if not each.dead)
        if options.policy != "drop_oldest":
            yield f"P1: session {name} ({options.policy}) loses {dropped}"
        elif len(queue) + len(dropped) <= options.max_events:
            yield f"P1: session {name} has room, and loses {dropped}"
        elif queue and max(dropped) > queue[0]:
            yield f"rule 13: session {name} drops {dropped}, and keeps the older {queue[0]}"

    def _check_dead(
        self, stored: StoredSession, life: Life, dead: _Gone, came: set[int]
    ) -> Iterator[str]:
        kept = sum(bool(each.dead) for each in stored.owed.values())
        many = kept >= stored.record.options.max_dead_letters
        for position, owed in dead.items():
            if not (life.drops or many or owed.event in came):
                yield f"P1: session {stored.record.name} loses its dead letter {position}"

    def _check_limits(self, stored: StoredSession) -> Iterator[str]:
        count = sum(not each.dead for each in stored.owed.values())
        life = self._parties.life_of(stored)
        if count > stored.record.options.max_events and not life.moves:
            yield f"rule 13: session {stored.record.name} has {count} events"

    def _check_bodies(self) -> Iterator[str]:
        events = self.contents.events
        for stored in self.contents.sessions.values():
            for position, owed in stored.owed.items():
                if owed.event not in events:
                    yield f"P1: session {stored.record.name} has lost the body of {position}"
