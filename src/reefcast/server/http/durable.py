"""Durable sessions over HTTP: they are made, looked at, subscribed, fetched from and ended."""

from __future__ import annotations

import warnings

from aiohttp import web

from reefcast.client.durable import DurableSession
from reefcast.client.event import publication_of
from reefcast.cloudevents.json_format import BATCH_TYPE
from reefcast.cloudevents.subscriptions import SESSION
from reefcast.errors import FilterWarning, RefusedError
from reefcast.http import bodies
from reefcast.http.content import told
from reefcast.http.problems import refused
from reefcast.http.reading import time_of
from reefcast.server.http.asking import Asked
from reefcast.server.http.cloudevents import owed_batch, wants_cloudevents
from reefcast.server.http.filters import admitted
from reefcast.server.http.inner import InnerClient
from reefcast.sessions.messages import MOST_NAME_CHARS


def named(asked: Asked) -> str:
    """Return the name of the session in the path. Raises `HttpError` for one that none can have."""
    name = asked.parts["session"]
    if len(name) > MOST_NAME_CHARS:
        said = f"the name of a session has at most {MOST_NAME_CHARS} characters"
        raise refused(400, "invalid", said, where="path")
    return name


async def list_sessions(asked: Asked) -> web.StreamResponse:
    """Answer with the sessions of the user at this broker."""
    asked.query()
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        rows = await client.sessions()
    return asked.json(bodies.SessionList(sessions=[bodies.state_of(row) for row in rows]))


async def open_session(asked: Asked) -> web.StreamResponse:
    """Make a session, or change it, and subscribe it."""
    asked.query()
    name = named(asked)
    if name.startswith(SESSION):
        said = f"sessions {SESSION}... are those of subscriptions: POST to /v1/subscriptions"
        raise refused(403, "refused", said, where="path")
    wish = await asked.body_as(bodies.SessionWish)
    kept = admitted(asked.front, wish.filters)
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        session = await _made(client, name, wish)
        for filter in wish.filters:
            await _subscribe(session, filter)
        row = await session.status()
    del kept
    return asked.json(bodies.state_of(row))


async def _made(client: InnerClient, name: str, wish: bodies.SessionWish) -> DurableSession:
    """Make the session, unless it exists, and return it. Raises `HttpError` for options that no
    session can have."""
    try:
        return await client.session(name, **wish.choices())
    except RefusedError as error:
        if error.gone:  # since it was to be made, and could not be
            raise refused(400, "invalid", str(error), where="body") from None
        raise


async def session_state(asked: Asked) -> web.StreamResponse:
    """Answer with the state of a session."""
    asked.query()
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        row = await client.session(named(asked)).status()
    return asked.json(bodies.state_of(row))


async def close_session(asked: Asked) -> web.StreamResponse:
    """End a session."""
    asked.query()
    name = named(asked)
    asked.consumers.forget(asked.principal, name)
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        await client.session(name).close()
    return asked.nothing()


# --- subscriptions -------------------------------------------------------------------------------


async def add_subscription(asked: Asked) -> web.StreamResponse:
    """Subscribe a session to what matches a filter."""
    asked.query()
    wish = await asked.body_as(bodies.SubscriptionWish)
    replay = time_of(wish.replay, "replay") if isinstance(wish.replay, str) else wish.replay
    kept = admitted(asked.front, [wish.filter])
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        session = client.session(named(asked))
        number = await _subscribe(
            session, wish.filter, retained=wish.retained, replay=replay or False
        )
    del kept
    made = bodies.SessionSubscription(id=number, filter=wish.filter)
    where = f"{asked.request.rel_url.raw_path}/{number}"
    return asked.json(made, 201, {"Location": where})


async def _subscribe(session: DurableSession, filter: str, **how: object) -> int:
    """Subscribe a session, with no word about filters that look like a mistake."""
    subscribing = session.subscribe(filter, **how)  # type: ignore[arg-type]  # as its caller says
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FilterWarning)
        return await subscribing


async def remove_subscription(asked: Asked) -> web.StreamResponse:
    """End a subscription of a session."""
    asked.query()
    text = asked.parts["subscription"]
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        session = client.session(named(asked))
        await session.unsubscribe(await _filter_of(session, text))
    return asked.nothing()


async def _filter_of(session: DurableSession, number: str) -> str:
    """Return the filter of the subscription with this number. Raises `HttpError` if there is
    none."""
    found = {str(each): text for each, text in (await session.status()).subscriptions.items()}
    if number not in found:
        said = f"session {session.name!r} has no subscription {number[:20]!r}"
        raise refused(404, "gone", said, where="path")
    return found[number]


# --- events --------------------------------------------------------------------------------------


async def fetch(asked: Asked) -> web.StreamResponse:
    """Answer with events that a session owes, when there are some."""
    query: bodies.FetchQuery = asked.query()
    name = named(asked)
    fetcher = await asked.consumers.fetcher(asked.principal, asked.shown, name)
    owed = await fetcher.fetch(query.max, query.wait_s)
    if wants_cloudevents(asked, query):
        return asked.bytes(owed_batch(owed), BATCH_TYPE)
    events = [told(publication_of(each), each.position, each.deliveries) for each in owed]
    return asked.json(bodies.Fetched(events=events))


async def acknowledge(asked: Asked) -> web.StreamResponse:
    """Acknowledge events of a session, or give them back."""
    asked.query()
    wish = await asked.body_as(bodies.Acknowledgements)
    name, who, shown = named(asked), asked.principal, asked.shown
    count = 0
    if wish.positions or wish.up_to:
        count = await asked.consumers.acknowledge(who, shown, name, wish.positions, wish.up_to or 0)
    for each in wish.reject:
        await asked.consumers.reject(who, shown, name, each.position, each.delay_s)
    return asked.json(bodies.Done(acknowledged=count, rejected=len(wish.reject)))
