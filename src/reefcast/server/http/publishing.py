"""POST /v1/events: what becomes of the events of a request, and how that is answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiohttp import web

from reefcast.http.bodies import Outcome, Published, PublishQuery
from reefcast.http.content import Posted, event_of, id_text, split
from reefcast.http.problems import HttpError, Problem, problem, refused
from reefcast.server.http.asking import Asked
from reefcast.server.http.cloudevents import mode_asked, read_cloudevents
from reefcast.server.http.inner import Fate

_STATUS = {"refused": 403, "invalid": 400, "too-large": 413}
CONFIRM_S = 30.0
"""How long a request waits for confirmations, or for a network that is congested."""


async def publish(asked: Asked) -> web.StreamResponse:
    """Publish the events of a request."""
    query: PublishQuery = asked.query()
    mode = mode_asked(asked)
    if mode is not None:
        read, is_list = await read_cloudevents(asked, mode, query)
        return await publish_read(asked, read, confirm=query.confirm, is_list=is_list)
    body, kind = await asked.body()
    items, is_list = split(body, kind)
    read = []
    for item in items:
        try:
            read.append(event_of(item, tuple(query.topic), query.expires_s))
        except HttpError as error:
            read.append(error.problem)
    return await publish_read(asked, read, confirm=query.confirm, is_list=is_list)


async def publish_read(
    asked: Asked, read: Sequence[Posted | Problem], *, confirm: bool, is_list: bool
) -> web.StreamResponse:
    """Publish what was read of a request, and answer it; `read`: its events, or what is wrong with
    them. Raises `HttpError` if none could be taken."""
    events = [each for each in read if isinstance(each, Posted)]
    fates: list[Fate] = []
    if events:
        async with asked.front.client_of(asked.principal, asked.shown) as client:
            fates = await client.publish_each(events, confirm=confirm, patience_s=CONFIRM_S)
    told = Published(accepted=0, refused=0, events=list(outcomes(read, iter(fates), confirm)))
    lost = [each for each in told.events if each.state == "refused"]
    if lost and len(lost) == len(told.events):
        raise _all_refused(read, fates, told.events, is_list=is_list)
    told = Published(accepted=len(read) - len(lost), refused=len(lost), events=told.events)
    unknown = any(each.state == "unknown" for each in told.events)
    status = 207 if lost else 202 if unknown or not confirm else 200
    return asked.json(told, status)


def outcomes(
    read: Iterable[Posted | Problem], fates: Iterable[Fate], confirm: bool
) -> Iterable[Outcome]:
    """Yield what became of each event."""
    fates = iter(fates)
    for item, each in enumerate(read):
        if isinstance(each, Problem):
            yield Outcome(item=item, state="refused", reason=each.detail)
            continue
        fate = next(fates)
        id = "" if fate.id is None else id_text(fate.id)
        if fate.refused:
            yield Outcome(item=item, state="refused", id=id, reason=fate.refused)
        elif not confirm:
            yield Outcome(item=item, state="accepted", id=id)
        else:
            yield Outcome(item=item, state="confirmed" if fate.known else "unknown", id=id)


def _all_refused(
    read: Sequence[Posted | Problem],
    fates: Sequence[Fate],
    outcomes: Sequence[Outcome],
    *,
    is_list: bool,
) -> HttpError:
    """Return the error of a request of which nothing was taken: that of its first event."""
    first = read[0]
    if not isinstance(first, Problem):
        fate = fates[0]
        first = problem(_STATUS[fate.kind], fate.kind, fate.refused)
    if not is_list:
        return HttpError(first)
    said = f"none of the {len(read)} events was taken; the first: {first.detail}"
    kind = first.type.rpartition(":")[2]
    return refused(first.status, kind, said, where="item 0", events=tuple(outcomes))
