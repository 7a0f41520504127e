"""The promises of `delivery.md`, checked from outside the brokers: each checker yields a sentence
for whatever broke one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reefcast.model.publication import PublicationId
from reefcast.simulation.torture.clients import Brokers
from reefcast.simulation.torture.durable import Wanted


def queue_of(network: Brokers, wanted: Wanted) -> list[PublicationId]:
    """Return the events that a session owes, as its home's disk has them after a power cut now."""
    contents = network.on_disk(wanted.home)
    for stored in contents.sessions.values():
        if stored.record.name == wanted.name:
            return [contents.events[owed.event].id for owed in stored.owed.values()]
    return []


def check_loss(
    network: Brokers,
    publisher: str,
    seq: int,
    to: Iterable[str],
    sessions: Mapping[str, Wanted],
) -> Iterator[str]:
    """Check P1 when a confirmation arrives."""
    for name in to:
        if (publisher, seq) not in queue_of(network, sessions[name]):
            yield f"P1: {publisher}#{seq} is confirmed, and session {name} does not have it"
