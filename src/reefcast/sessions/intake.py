"""How a publication gets into the queues of sessions: duplicates, limits, waiting for room."""

from __future__ import annotations

from reefcast.model.messages import Publish
from reefcast.model.publication import PublicationId
from reefcast.sessions.collecting import Collected
from reefcast.sessions.events import Event, Events, body_of, expiry_of
from reefcast.sessions.outcome import TAKEN, Told, Verdict
from reefcast.sessions.session import Session
from reefcast.sessions.waiting import Waiting
from reefcast.words import counted

MOST_WAITING = 10_000
"""Publications that wait for room in one queue; who publishes more without waiting for
confirmations loses what is more."""


class Intake:
    """Owes publications to sessions. `dedup_s`: a publication that was made longer ago may be a
    double that no session can recognise."""

    def __init__(self, collected: Collected, events: Events, dedup_s: float) -> None:
        self._collected = collected
        self._events = events
        self._dedup_s = dedup_s
        self._blocked: dict[PublicationId, set[int]] = {}

    def owe(
        self, publish: Publish, to: list[tuple[Session, tuple[int, ...]]], utc_s: float
    ) -> Verdict:
        """Owe a publication to these sessions, with the numbers of their subscriptions."""
        parcel, refused, blocked = _Parcel(publish), "", False
        id = parcel.id
        for session, subscriptions in to:
            if id in session.seen:
                continue
            if id in session.waiting:
                blocked = True
            elif 0 < parcel.expires_s <= utc_s:
                session.advise(Told.EXPIRED, id)
                session.queue.dropped += 1
            elif not session.waiting and session.queue.has_room(parcel.size):
                session.full = False
                self._take(session, parcel, subscriptions, utc_s)
            elif self._is_to_wait(session, parcel):
                session.waiting[id] = Waiting(publish, subscriptions)
                self._blocked.setdefault(id, set()).add(session.number)
                blocked = True
            elif session.queue.options.policy != "drop_oldest":
                refused = refused or _refusal(session, parcel.size)
            else:
                self._make_room(session, parcel)
                if parcel.size <= session.queue.options.max_bytes:
                    self._take(session, parcel, subscriptions, utc_s)
                else:
                    _drop(session, id, id)
        # What one session refuses, others may wait for: until these have it, who sent it keeps it.
        return Verdict(refused, blocked) if refused or blocked else TAKEN

    def _take(
        self, session: Session, parcel: _Parcel, subscriptions: tuple[int, ...], utc_s: float
    ) -> None:
        event = parcel.event
        if event is None:
            event = parcel.event = self._events.add(
                parcel.id, parcel.body, parcel.expires_s, self._collected
            )
        session.seen.add(parcel.id, utc_s, self._collected)
        late = utc_s - parcel.made_s > self._dedup_s
        session.added(session.queue.owe(event, subscriptions, utc_s, late=late))

    # --- full queues -----------------------------------------------------------------------------

    def _is_to_wait(self, session: Session, parcel: _Parcel) -> bool:
        """Return whether a publication for which there is no room waits for some; advise, once,
        that the queue is full."""
        if not session.full:
            session.full = True
            session.advise(Told.FULL, by=parcel.id, reason=session.queue.options.policy)
        options = session.queue.options
        fits = parcel.size <= options.max_bytes and len(session.waiting) < MOST_WAITING
        return options.policy == "block" and fits

    def _make_room(self, session: Session, parcel: _Parcel) -> None:
        queue = session.queue
        while not queue.has_room(parcel.size) and (oldest := queue.oldest) is not None:
            _drop(session, oldest.event.id, parcel.id)
            session.remove(oldest)

    def admit(self, session: Session, utc_s: float) -> None:
        """Owe what waits for room, as far as there is room now."""
        while session.waiting:
            id, waiting = next(iter(session.waiting.items()))
            parcel = _Parcel(waiting.publish)
            fits = parcel.size <= session.queue.options.max_bytes
            if fits and not session.queue.has_room(parcel.size):
                return
            del session.waiting[id]
            if not fits:
                _drop(session, id, id)
            elif 0 < parcel.expires_s <= utc_s:
                session.advise(Told.EXPIRED, id)
                session.queue.dropped += 1
            else:
                self._take(session, parcel, waiting.subscriptions, utc_s)
            self._unblock(id, session)
        session.full = False

    def abandon(self, session: Session) -> None:
        """Let go of what waits for room in a session that ends: nobody is owed it there."""
        while session.waiting:
            self._unblock(session.waiting.popitem(last=False)[0], session)

    def _unblock(self, id: PublicationId, session: Session) -> None:
        left = self._blocked.get(id, set())
        left.discard(session.number)
        if not left and self._blocked.pop(id, None) is not None:
            self._collected.taken.append(id)


class _Parcel:
    """A publication on its way into queues; its event is made when the first one takes it."""

    __slots__ = ("body", "event", "expires_s", "id", "made_s", "size")

    def __init__(self, publish: Publish) -> None:
        self.id = publish.publication.id
        self.made_s = publish.publication.time_us / 1e6
        self.body = body_of(publish)
        self.size = len(self.body)
        self.expires_s = expiry_of(publish)
        self.event: Event | None = None


def _drop(session: Session, id: PublicationId, by: PublicationId) -> None:
    session.advise(Told.DROPPED, id, by=by, reason="the queue is full")
    session.queue.dropped += 1


def _refusal(session: Session, size: int) -> str:
    name, options = session.record.name, session.queue.options
    if size > options.max_bytes:
        return f"session {name!r} takes no event of {size} bytes: its max_bytes is smaller"
    queue = session.queue
    return (
        f"session {name!r} is full ({counted(len(queue.entries), 'event')}, "
        f"{counted(queue.bytes, 'byte')}): publish again when its consumers have acknowledged some"
    )
