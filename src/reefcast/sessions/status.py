"""What brokers say of their sessions."""

from __future__ import annotations

from typing import NamedTuple

from reefcast.model.keeping import SessionOptions
from reefcast.model.messages import LinkName
from reefcast.model.subjects import Subject
from reefcast.sessions.outcome import ConsumerName
from reefcast.sessions.session import Session


class SessionStatus(NamedTuple):
    """What `list` and `show` say of a session. `oldest_s`: since when the oldest event is owed, 0
    if there is none. Times are seconds UTC. `subject`: see `SessionRecord`."""

    owner: str
    name: str
    link: LinkName
    options: SessionOptions
    subscriptions: dict[int, str]
    consumers: dict[ConsumerName, int]
    """-> how many events it has not acknowledged."""
    events: int
    bytes: int
    out: int
    dead_letters: int
    waiting: int
    """Publications that are blocked, for the queue is full."""
    dropped: int
    """Since the broker started, by limits and age."""
    oldest_s: float
    created_s: float
    subject: Subject | None
    notes: int


def status_of(session: Session) -> SessionStatus:
    """Return the status of a session."""
    queue, record, oldest = session.queue, session.record, session.queue.oldest
    return SessionStatus(
        owner=record.owner,
        name=record.name,
        link=record.link,
        options=record.options,
        subscriptions=record.subscriptions,
        consumers={each.name: len(each.out) for each in session.consumers.by_name.values()},
        events=len(queue.entries),
        bytes=queue.bytes,
        out=sum(len(each.out) for each in session.consumers.by_name.values()),
        dead_letters=len(queue.dead),
        waiting=len(session.waiting),
        dropped=queue.dropped,
        oldest_s=oldest.at_s if oldest is not None else 0.0,
        created_s=record.created_s,
        subject=record.subject,
        notes=len(session.notes.texts),
    )
