"""CloudEvents in requests and answers: which they are, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence

from reefcast.client.event import publication_of
from reefcast.client.owed import OwedEvent
from reefcast.cloudevents.context import CloudEventError
from reefcast.cloudevents.events import CloudEvent, essence_of
from reefcast.cloudevents.http_modes import Mode, UnknownFormatError, decode_binary, mode_of
from reefcast.cloudevents.json_format import (
    BATCH_TYPE,
    STRUCTURED_TYPE,
    decode_event,
    encode_event,
    split_batch,
)
from reefcast.cloudevents.mapping import attributes_of, event_of, topics_of
from reefcast.http.bodies import EventsQuery, FetchQuery, PublishQuery
from reefcast.http.content import Posted
from reefcast.http.problems import Problem, problem, refused
from reefcast.model.publication import Publication
from reefcast.server.http.asking import Asked
from reefcast.sessions.events import EXPIRES
from reefcast.timing import now_us

POSITION, DELIVERIES = "reefcastposition", "reefcastdeliveries"
"""Extensions of events of a durable session: texts, for a position may exceed 32 bits."""
_NO_BREAKS = bytes.maketrans(b"\r\n", b"  ")


# --- in ------------------------------------------------------------------------------------------


def mode_asked(asked: Asked) -> Mode | None:
    """Return how a request carries CloudEvents, None if it does not. Raises `HttpError`."""
    try:
        return mode_of(asked.request.headers.items())
    except UnknownFormatError as error:
        headers = {"Accept": f"{STRUCTURED_TYPE}, {BATCH_TYPE}"}
        where = "header Content-Type"
        raise refused(415, "content-type", str(error), where=where, headers=headers) from None


async def read_cloudevents(
    asked: Asked, mode: Mode, query: PublishQuery
) -> tuple[list[Posted | Problem], bool]:
    """Return the CloudEvents of a request, or what is wrong with each, and whether they are a
    batch. Raises `HttpError`."""
    body, _ = await asked.body(of_any_type=True)
    if mode is not Mode.BATCHED:
        return [_posted(asked, mode, body, query)], False
    try:
        documents = split_batch(body)
    except CloudEventError as error:
        raise refused(400, "cloudevent", str(error), where="body") from None
    return [_posted(asked, mode, each, query) for each in documents], True


def _posted(asked: Asked, mode: Mode, body: bytes, query: PublishQuery) -> Posted | Problem:
    try:
        if mode is Mode.BINARY:
            event = decode_binary(asked.request.headers.items(), body)
        else:
            event = decode_event(body)
    except CloudEventError as error:
        return problem(400, "cloudevent", str(error))
    attributes = attributes_of(event, now_us())
    if query.expires_s is not None:
        attributes[EXPIRES] = query.expires_s
    return Posted(attributes, tuple(query.topic) or topics_of(event), event.data)


# --- out -----------------------------------------------------------------------------------------


def wants_cloudevents(asked: Asked, query: EventsQuery | FetchQuery) -> bool:
    """Return whether a request wants events as CloudEvents."""
    accepted = asked.request.headers.get("Accept", "").split(",")
    named = {essence_of(each) for each in accepted} & {STRUCTURED_TYPE, BATCH_TYPE}
    return query.format == "cloudevents" or bool(named)


def as_cloudevent(publication: Publication) -> bytes:
    """Return an event as a CloudEvent in JSON, in one line."""
    return encode_event(event_of(publication)).translate(_NO_BREAKS)


def owed_cloudevent(event: OwedEvent) -> bytes:
    """Return an event of a session as a CloudEvent in JSON, in one line."""
    made = event_of(publication_of(event))
    context = dict(made.context)
    context[POSITION], context[DELIVERIES] = str(event.position), str(event.deliveries)
    return encode_event(CloudEvent(context, made.data)).translate(_NO_BREAKS)


def owed_batch(events: Sequence[OwedEvent]) -> bytes:
    """Return events of a session as a batch of CloudEvents."""
    return b"[" + b",".join(map(owed_cloudevent, events)) + b"]"
