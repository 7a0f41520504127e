"""All durable sessions of one broker, which is their *home*.

Rules
-----
- Every call takes `now` (the core's clock) and changes the state at once; what it wants done
  collects until `take`. The driver calls `take(token)` after each input, writes the changes, and
  calls `kept(token)` when they are synced, and `take` again.
- Nothing is handed out before the disk knows it: neither an event that is not synced, nor one of
  which a restart would not know that it may have been handed out (`PutMark`, `PutTries`). If it
  were, and the broker died, the publisher or a neighbour would send it again, and a consumer that
  had acknowledged it would get it a second time as if it were new (P2). This holds for events
  without confirmation, too: neighbours send those again as well (P5).
- What a consumer was told is done (`reply`) is synced.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import inf

from reefcast.errors import LimitError, LocalError
from reefcast.model.filters import parse_filter
from reefcast.model.keeping import (
    Contents,
    EventNumber,
    Position,
    PutSession,
    SessionNumber,
    SessionOptions,
    SessionRecord,
    StoredSession,
)
from reefcast.model.messages import LinkName, Publish
from reefcast.model.subjects import Subject
from reefcast.sessions.alarms import Alarms
from reefcast.sessions.collecting import Collected
from reefcast.sessions.consumers import Consumer
from reefcast.sessions.events import Events
from reefcast.sessions.intake import Intake
from reefcast.sessions.outcome import ConsumerName, Ended, Outcome, Told, Verdict
from reefcast.sessions.reading import Reading
from reefcast.sessions.replies import Replies
from reefcast.sessions.session import Session
from reefcast.sessions.status import SessionStatus, status_of

TAKEN_OVER = "another client of this session took over"
LOST = "it cannot be read from the disk"
CLOCKS_S = 0.001
"""Seconds by which timers come later: the difference of two clocks is rounded."""


class Home:
    """`epoch_s`: what makes seconds UTC of `now`. `contents`: what the store held at the start.
    `dedup_s`: for how long ids are remembered. `memory_bytes`: how much of bodies that wait stays
    in memory."""

    def __init__(
        self,
        contents: Contents | None = None,
        *,
        epoch_s: float = 0.0,
        dedup_s: float = 3600.0,
        memory_bytes: int = 64 << 20,
        most_subscriptions: int = sys.maxsize,
        most_filter_bytes: int = sys.maxsize,
        now: float = 0.0,
    ) -> None:
        contents = contents or Contents()
        self.epoch_s = epoch_s
        self._dedup_s = dedup_s
        self.most_subscriptions, self.most_filter_bytes = most_subscriptions, most_filter_bytes
        self._collected = Collected()
        self._events = Events(contents.events, memory_bytes)
        self._intake = Intake(self._collected, self._events, dedup_s)
        self._reading = Reading(self._collected, self._events)
        self._replies = Replies()
        self._alarms = Alarms()
        self._sessions: dict[tuple[str, str], Session] = {}
        self._by_link: dict[LinkName, Session] = {}
        self._attached: dict[ConsumerName, Session] = {}
        self._unsynced: dict[Session, int] = {}
        self._touched: dict[Session, None] = {}
        self._utc_s = now + epoch_s
        self._expired: list[LinkName] = []
        self._tokens: deque[tuple[int, int]] = deque()
        stored = sorted(contents.sessions.items())
        for session in [self._add(number, each, now) for number, each in stored]:
            self._loaded(session, now)
        self._last = max(contents.sessions, default=0)
        for event in list(self._events.unowed()):
            self._events.forget(event, self._collected)

    def _loaded(self, session: Session, now: float) -> None:
        """Resume a stored session, once all of them are loaded: an event that it releases may be
        owed to others."""
        session.bury_returned()
        if damaged := session.queue.damaged:
            session.advise(Told.DAMAGED, count=len(damaged), reason=LOST)
        self._touch(session, now)

    def _add(self, number: SessionNumber, stored: StoredSession, now: float) -> Session:
        session = Session(
            number, stored, self._collected, self._events, self._dedup_s, now + self.epoch_s
        )
        self._sessions[stored.record.owner, stored.record.name] = session
        self._by_link[stored.record.link] = session
        return session

    # --- sessions --------------------------------------------------------------------------------

    def create(
        self,
        owner: str,
        name: str,
        link: LinkName,
        options: SessionOptions,
        now: float,
        *,
        subject: Subject | None = None,
        reply: object = None,
    ) -> None:
        """Create a session. `link`: the name that its rows have in the core, which no session had
        before. `subject`: who its owner is. Raises `LocalError` if there is one with this name.
        `reply` as in `Outcome`."""
        if (owner, name) in self._sessions:
            raise LocalError(f"there is a session {name!r} already; attach to it")
        self._last += 1
        record = SessionRecord(
            name=name,
            owner=owner,
            link=link,
            created_s=now + self.epoch_s,
            options=options,
            subject=subject,
        )
        session = self._add(self._last, StoredSession(record), now)
        self._collected.put(PutSession(session.number, record))
        session.advise(Told.CREATED)
        self._touch(session, now, reply)

    def configure(
        self, owner: str, name: str, options: SessionOptions, now: float, *, reply: object = None
    ) -> None:
        """Give a session other options; what exceeds them goes by its policy when the next event
        comes. Raises `LocalError` if there is no such session (as all calls do)."""
        session = self._session(owner, name)
        session.configure(options)
        self._touch(session, now, reply)

    def belongs_to(self, owner: str, name: str, subject: Subject | None, now: float) -> None:
        """Note who the owner of a session is from now on."""
        session = self._session(owner, name)
        session.belongs_to(subject)
        self._touch(session, now)

    def subscribe(
        self, owner: str, name: str, filter: str, now: float, *, reply: object = None
    ) -> int:
        """Note a subscription of a session and return its number, which is new for this session."""
        session = self._session(owner, name)
        self._check_room(session.record, filter)
        number = session.subscribe(filter)
        self._touch(session, now, reply)
        return number

    def _check_room(self, record: SessionRecord, filter: str) -> None:
        texts = [*record.subscriptions.values(), filter]
        if len(texts) > self.most_subscriptions:
            raise LimitError(
                f"session {record.name!r} has {self.most_subscriptions} subscriptions already, "
                "which is the most (max_subscriptions in [limits])"
            )
        size = sum(len(text.encode()) for text in texts)
        if size > self.most_filter_bytes:
            raise LimitError(
                f"with this one, the filters of session {record.name!r} have {size} bytes, and may "
                f"have {self.most_filter_bytes} (max_filter_bytes in [limits])"
            )

    def unsubscribe(
        self, owner: str, name: str, number: int, now: float, *, reply: object = None
    ) -> None:
        """Forget a subscription; what the session owes already for it stays owed."""
        session = self._session(owner, name)
        session.unsubscribe(number)
        self._touch(session, now, reply)

    def close(self, owner: str, name: str, now: float, *, reply: object = None) -> LinkName:
        """End a session with all that it owes, and return its link, whose rows are to go."""
        session = self._session(owner, name)
        self._end(session, f"session {name!r} was closed")
        session.advise(Told.CLOSED)
        self._replies.add(reply)
        return session.record.link

    def sessions(self) -> list[SessionStatus]:
        """Return the status of all sessions, by owner and name."""
        return [status_of(self._sessions[key]) for key in sorted(self._sessions)]

    def each(self) -> list[Session]:
        """Return all sessions, for figures that need no status of each."""
        return list(self._sessions.values())

    @property
    def stored_events(self) -> int:
        """How many different events it keeps."""
        return len(self._events)

    def has(self, owner: str, name: str) -> bool:
        """Return whether there is this session."""
        return (owner, name) in self._sessions

    def status(self, owner: str, name: str) -> SessionStatus:
        """Return the status of one session."""
        return status_of(self._session(owner, name))

    def expired(self) -> list[LinkName]:
        """Return, once, the links of sessions that ended by their `expiry_s`: their rows are to
        go."""
        expired, self._expired = self._expired, []
        return expired

    def drain(self, owner: str, name: str, now: float, *, reply: object = None) -> int:
        """Drop everything that a session owes but for dead letters; return how many events."""
        session = self._session(owner, name)
        entries = list(session.queue.entries.values())
        for entry in entries:
            session.remove(entry)
        self._touch(session, now, reply)
        return len(entries)

    def move_dead_letters(self, owner: str, name: str, now: float, *, reply: object = None) -> int:
        """Owe a session's dead letters again, behind all else and as if they were new; return how
        many."""
        session = self._session(owner, name)
        dead = sorted(session.queue.dead.values(), key=lambda each: each.position)
        for entry in dead:
            session.added(session.queue.revive(entry, now + self.epoch_s))
        self._touch(session, now, reply)
        return len(dead)

    def drop_dead_letters(self, owner: str, name: str, now: float, *, reply: object = None) -> int:
        """Forget a session's dead letters; return how many."""
        session = self._session(owner, name)
        dead = list(session.queue.dead.values())
        for entry in dead:
            session.remove(entry)
        self._touch(session, now, reply)
        return len(dead)

    def read(
        self, owner: str, name: str, after: Position, most: int, question: object, *, dead: bool
    ) -> None:
        """Read `most` events of the queue behind position `after`, or of the dead letters; the
        answer comes as `Read` with the `question`."""
        queue = self._session(owner, name).queue
        places = queue.dead if dead else queue.entries
        found = islice((places[each] for each in sorted(places) if each > after), most)
        self._reading.ask(question, list(found))

    def note(
        self,
        owner: str,
        name: str,
        notes: dict[str, str | None],
        now: float,
        *,
        consumer: ConsumerName = "",
        reply: object = None,
    ) -> None:
        """Keep notes of a session, key -> text; None removes one. Raises `LimitError` if they are
        too many, and `LocalError` if a `consumer` is named that is not attached to the session."""
        session = self._session(owner, name)
        if consumer and self._attached.get(consumer) is not session:
            raise LocalError(f"consumer {consumer!r} is not attached to session {name!r}")
        session.note(notes)
        self._touch(session, now, reply)

    def notes(self, owner: str, name: str, prefix: str = "") -> dict[str, str]:
        """Return the notes of a session whose keys begin with `prefix`; they may not be synced."""
        return self._session(owner, name).notes.beginning(prefix)

    # --- publications ----------------------------------------------------------------------------

    def owe(self, publish: Publish, to: Mapping[LinkName, Sequence[int]], now: float) -> Verdict:
        """Owe a publication to the sessions with the links in `to` (-> numbers of their matching
        subscriptions, ascending). Sessions that have had it before do not get it again. Links that
        are no session's are left out. `publish.body` is needed."""
        found, by_link = [], self._by_link
        for link, numbers in to.items():
            session = by_link.get(link)
            if session is not None:
                found.append((session, tuple(numbers)))
                self._touched[session] = None
        self._utc_s = now + self.epoch_s
        return self._intake.owe(publish, found, self._utc_s)

    def when_kept(self, owner: str, name: str, now: float, reply: object) -> None:
        """Give `reply` when all is synced that the session has been owed so far."""
        self._touch(self._session(owner, name), now, reply)

    # --- consumers -------------------------------------------------------------------------------

    def attach(
        self,
        owner: str,
        name: str,
        consumer: ConsumerName,
        window: int,
        now: float,
        *,
        filter: str = "",
        alone: bool = False,
        reply: object = None,
    ) -> None:
        """Attach a consumer, who may have `window` events that it has not acknowledged. `filter`: a
        further one, which an event must match to go to this consumer. Several consumers share the
        events; `alone`: all others end. Raises `LocalError` for a filter that is none, or a name
        that is taken."""
        session = self._session(owner, name)
        if consumer in self._attached:
            raise LocalError(f"consumer {consumer!r} is attached already")
        wanted = parse_filter(filter) if filter else None
        for other in list(session.consumers.by_name) if alone else ():
            self.detach(other, now)
            self._collected.ended.append(Ended(other, TAKEN_OVER))
        session.attach(consumer, window, wanted)
        self._attached[consumer] = session
        self._touch(session, now, reply)

    def resize(self, consumer: ConsumerName, window: int, now: float) -> None:
        """Change a consumer's window; 0 pauses it."""
        session, attached = self._consumer(consumer)
        session.consumers.resize(attached, window)
        self._touch(session, now)

    def detach(self, consumer: ConsumerName, now: float) -> None:
        """Detach a consumer; what it has not acknowledged is owed again at once. Nothing happens if
        it is not attached."""
        session = self._attached.pop(consumer, None)
        if session is not None:
            session.detach(consumer, now + self.epoch_s)
            self._touch(session, now)

    def acknowledge(
        self,
        consumer: ConsumerName,
        position: Position,
        now: float,
        *,
        up_to: bool = False,
        reply: object = None,
    ) -> None:
        """Take a consumer's acknowledgement of an event; `up_to`: and of all that were handed to it
        before. One that comes too late (the event is owed again) counts; of one that is owed no
        more nothing is left to do. Raises `LocalError` for a position that was never handed out,
        and for a consumer that is not attached."""
        session, attached = self._consumer(consumer)
        session.acknowledge(attached, position, up_to=up_to)
        self._touch(session, now, reply)

    def reject(
        self,
        consumer: ConsumerName,
        position: Position,
        now: float,
        *,
        delay_s: float = 0.0,
        reply: object = None,
    ) -> None:
        """Owe an event again that this consumer has, not before `delay_s` have passed. Nothing
        happens if it no longer has it. Raises as `acknowledge`."""
        session, attached = self._consumer(consumer)
        entry = session.find(position)
        if entry is not None and attached.out.get(position) is entry:
            session.give_back(entry, now + self.epoch_s + delay_s if delay_s > 0 else 0.0)
        self._touch(session, now, reply)

    # --- the driver's ----------------------------------------------------------------------------

    def take(self, token: int) -> Outcome:
        """Return what is to be done; `token`, greater than all before: what `kept` will say when
        these changes are synced. It counts only if there are changes."""
        touched = self._let_go_on()
        changes = self._collected.take_changes()
        closed = self._collected.batch - 1
        for session in touched:
            self._alarms.set(session, session.due_s)
        if changes:
            self._tokens.append((token, closed))
            self._unsynced |= dict.fromkeys(touched, closed)
        self._replies.close_batch(closed)
        first = self._alarms.first()
        return Outcome(
            changes=changes,
            fetch=self._events.take_wanted(),
            replies=self._replies.take(self._collected.synced),
            advisories=self._collected.take_advisories(),
            timer_s=None if first is None else first[0] - self.epoch_s + CLOCKS_S,
            **self._collected.take_rest(),
        )

    def kept(self, token: int, now: float) -> None:
        """Note that all changes up to those of `token` are synced."""
        while self._tokens and self._tokens[0][0] <= token:
            self._collected.synced = self._tokens.popleft()[1]
        for session, batch in list(self._unsynced.items()):
            if batch <= self._collected.synced:
                del self._unsynced[session]
            self._touch(session, now)

    def fetched(
        self, bodies: Mapping[EventNumber, bytes], missing: Iterable[EventNumber], now: float
    ) -> None:
        """Hand out entries whose bodies were read from the store; drop those whose bodies are
        `missing` (damaged), and report them."""
        missing = set(missing)
        for number, body in bodies.items():
            self._events.load(number, body)
        self._reading.fetched(bodies, missing)
        if lost := {number for number in missing if self._events.get(number) is not None}:
            self._lose(lost, now)
        for session in [each for each in self._sessions.values() if each.lacks_bodies]:
            self._touch(session, now)

    def _lose(self, lost: set[EventNumber], now: float) -> None:
        """Drop damaged events from all queues. It is rare, so all of them are searched."""
        for session in self._sessions.values():
            places = (*session.queue.entries.values(), *session.queue.dead.values())
            for entry in [each for each in places if each.event.number in lost]:
                session.advise(Told.DAMAGED, entry.event.id, reason=LOST)
                session.remove(entry)
            self._touch(session, now)

    def due(self, now: float) -> None:
        """Do what is due by the clock."""
        utc_s = now + self.epoch_s
        while (first := self._alarms.first()) is not None and first[0] <= utc_s:
            session = first[1]
            if session.ends_s <= utc_s:
                session.advise(Told.EXPIRED, reason="it had no consumers for too long")
                self._expired.append(session.record.link)
                self._end(session, "the session has expired")
            else:
                session.due(utc_s)
                self._touch(session, now)
                self._alarms.set(session, session.due_s)

    # --- inside ----------------------------------------------------------------------------------

    def _session(self, owner: str, name: str) -> Session:
        session = self._sessions.get((owner, name))
        if session is None:
            raise LocalError(f"there is no session {name!r} at this broker")
        return session

    def _consumer(self, name: ConsumerName) -> tuple[Session, Consumer]:
        session = self._attached.get(name)
        if session is None:
            raise LocalError(f"consumer {name!r} is attached to no session")
        return session, session.consumers.by_name[name]

    def _end(self, session: Session, reason: str) -> None:
        """Forget a session, and let its consumers know."""
        self._intake.abandon(session)
        for consumer in session.consumers.by_name:
            del self._attached[consumer]
            self._collected.ended.append(Ended(consumer, reason))
        for entry in (*session.queue.entries.values(), *session.queue.dead.values()):
            self._events.release(entry.event, self._collected)
        self._collected.drop_session(session.number)
        del self._sessions[session.record.owner, session.record.name]
        del self._by_link[session.record.link]
        self._unsynced.pop(session, None)
        self._touched.pop(session, None)
        self._alarms.set(session, inf)

    def _touch(self, session: Session, now: float, reply: object = None) -> None:
        """Have `take` look at a session that has changed, and give `reply` when that is synced."""
        self._utc_s = now + self.epoch_s
        self._touched[session] = None
        self._replies.add(reply)

    def _let_go_on(self) -> dict[Session, None]:
        """Admit what waits for room, and hand out what can be handed out, in all sessions that have
        changed; return these. Called once for each input, which may have brought a hundred
        acknowledgements."""
        touched, self._touched = self._touched, {}
        for session in touched:
            self._intake.admit(session, self._utc_s)
            session.hand_out(self._utc_s)
        self._events.synced(self._collected.synced)
        return touched
