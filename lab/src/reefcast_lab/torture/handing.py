"""What must hold of an event that a consumer is handed."""

from __future__ import annotations

from collections.abc import Iterator

from reefcast.model.keeping import Contents
from reefcast.model.publication import PublicationId
from reefcast.sessions.messages import Owed
from reefcast_lab.torture.lives import Life


def check_handed(
    life: Life, owed: Owed, id: PublicationId, synced: Contents, consumer: str, now: float
) -> Iterator[str]:
    """Yield what is wrong with an event that goes to a consumer, and note that it does."""
    position, tries = owed.position, owed.tries
    yield from _check_disk(life, owed, synced)
    if position in life.done:
        yield "P2: it was acknowledged, on disk, and comes again"
    if not owed.late and id not in life.again and life.handed.setdefault(id, position) != position:
        yield f"P2: it was at {life.handed[id]} before"
    if tries <= life.tries.get(position, 0) or (position, tries) in life.given:
        yield f"P2: it was handed out before, for the {life.tries[position]}. time"
    most = life.options.max_deliveries
    if most and tries > most:
        yield f"rule 10: it is a dead letter after {most} times"
    holder, since_s = life.holders.get(position, (consumer, 0.0))
    if holder != consumer and now < since_s + life.options.ack_wait_s:
        yield f"rule 11: {holder} has it"
    if now < life.delays.pop(position, 0.0):
        yield "rule 10: it was rejected, and its delay is not over"
    life.tries[position] = tries
    life.given.add((position, tries))
    life.holders[position] = (consumer, now)


def _check_disk(life: Life, owed: Owed, synced: Contents) -> Iterator[str]:
    """Check that the disk knows the event, and that it may have been handed out."""
    for stored in synced.sessions.values():
        if stored.record.link == life.link:
            entry = stored.owed.get(owed.position)
            if entry is None:
                yield "rule 10: it is handed out before it is on disk"
            elif owed.tries == 1 and stored.mark < owed.position:
                yield "P2: a restart would take it for new"
            elif owed.tries > 1 and entry.tries < owed.tries:
                yield "P2: a restart would hand it out under the same count"
            return
    yield "rule 10: its session is not on disk"
