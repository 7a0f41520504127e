"""What sessions have on disk, and what they should have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reefcast.model import wire
from reefcast.model.publication import PublicationId
from reefcast.model.wire import Codec, FrameKind
from reefcast.routing.custody import CUSTODY
from reefcast.routing.registry import routing_named
from reefcast_lab.torture.clients import Brokers
from reefcast_lab.torture.disks import Disk
from reefcast_lab.torture.durable import Wanted


def queue_of(network: Brokers, wanted: Wanted) -> list[PublicationId]:
    """Return the events that a session owes, as its home's disk has them after a power cut now;
    those that may be duplicates are left out."""
    contents = network.disks[wanted.home].synced
    for stored in contents.sessions.values():
        if wanted.life is not None and stored.record.link == wanted.life.link:
            return [
                contents.events[each.event].id
                for each in stored.owed.values()
                if not (each.dead or each.late)
            ]
    return []


def is_in_custody(disks: Iterable[Disk], routing: str, id: PublicationId) -> bool:
    """Return whether a broker has an event in custody, as the disks are after a power cut now."""
    codec = Codec(header=routing_named(routing).header)
    frames = [row for disk in disks for row in disk.synced.rows.get(CUSTODY, {}).values()]
    kind = FrameKind.PUBLISH_CONFIRM
    bodies = (codec.decode_publish(frame[wire.HEAD_BYTES :], kind) for frame in frames)
    return any(publish.publication.id == id for publish in bodies)


def is_owed(wanted: Wanted, filters: Iterable[str]) -> bool:
    """Return whether a session is still to have what these subscriptions asked for."""
    return not wanted.ended and any(each not in wanted.removed for each in filters)


def missing_in(
    network: Brokers, id: PublicationId, to: Mapping[Wanted, Iterable[str]]
) -> Iterator[Wanted]:
    """Yield the sessions that do not have an event on disk, and never had, of those that are to
    have it by these subscriptions. What leaves a queue is judged when it does (`watch`)."""
    for wanted, filters in to.items():
        link = "" if wanted.life is None else wanted.life.link
        if is_owed(wanted, filters) and id not in network.disks[wanted.home].had.get(link, {}):
            yield wanted


def newer_in(
    had: Iterable[PublicationId],
    id: PublicationId,
    wanted: Wanted,
    made: Mapping[int, Mapping[Wanted, Iterable[str]]],
) -> Iterator[str]:
    """Yield that P3 is broken if a session had newer events of a publisher before this one came, by
    subscriptions that had settled before they were `made`."""
    if is_owed(wanted, made[id[1]].get(wanted, ())):
        its = [seq for name, seq in had if name == id[0] and wanted in made[seq]]
        if its and max(its) > id[1]:
            yield f"P3: session {wanted.name} has {id[0]}#{max(its)} before {id[1]}"
