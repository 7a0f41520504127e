"""The routes of the CloudEvents Subscriptions API."""

from __future__ import annotations

import warnings
from typing import Any

import msgspec
from aiohttp import web

from reefcast.cloudevents.filters import SubscriptionError
from reefcast.cloudevents.subscriptions import (
    SESSION,
    Subscription,
    kept_subscription,
    kept_text,
    read_subscription,
    told,
)
from reefcast.cloudevents.translating import prefilter_of
from reefcast.errors import FilterWarning, RefusedError
from reefcast.http.bodies import PermissionQuery
from reefcast.http.problems import HttpError, refused
from reefcast.server.http.asking import Asked
from reefcast.server.http.delivering import SUBSCRIPTION
from reefcast.server.http.filters import admitted
from reefcast.server.http.inner import InnerClient
from reefcast.server.http.noted import NotedSession
from reefcast.timing import MACHINE

ID_BYTES = 16
BEGUN_S = 60.0
"""For how many seconds a session lasts that is not made a subscription."""


async def get_subscriptions(asked: Asked) -> web.StreamResponse:
    """Answer with the subscriptions of the user at this broker."""
    asked.query()
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        names = [row.name for row in await client.sessions() if row.name.startswith(SESSION)]
        found = [await _kept(asked, client, name.removeprefix(SESSION)) for name in names]
    return asked.json([told(each) for each in found if each is not None])


async def create_subscription(asked: Asked) -> web.StreamResponse:
    """Make a subscription: a session, which first lasts for a moment only, then its note, then
    what it wants. So what breaks off leaves nothing behind."""
    asked.query()
    id = MACHINE.get().token(ID_BYTES)
    proposed = _proposed(asked, await _document(asked))
    made = msgspec.structs.replace(proposed, id=id)
    text = _prefilter(asked, made)
    most = made.config.attempts
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        await NotedSession(client, SESSION + id, most_deliveries=most, expiry_s=BEGUN_S)
        session = NotedSession(client, SESSION + id, most_deliveries=most)
        try:
            await session.note({SUBSCRIPTION: kept_text(made)})
            await _subscribe(session, text)
            await session
        except BaseException:
            await session.close()
            raise
    asked.deliveries.look()
    return asked.json(told(made), 201, {"Location": f"/v1/subscriptions/{id}"})


async def get_subscription(asked: Asked) -> web.StreamResponse:
    """Answer with a subscription."""
    asked.query()
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        return asked.json(told(await _found(asked, client)))


async def update_subscription(asked: Asked) -> web.StreamResponse:
    """Put another subscription in the place of one: first it wants what the new one wants, then it
    is the new one, then it wants nothing else. So no event is missed that both are for."""
    asked.query()
    document = await _document(asked)
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        former = await _found(asked, client)
        made = _proposed(asked, document, former)
        text = _prefilter(asked, made)
        name = SESSION + former.id
        session = NotedSession(client, name, most_deliveries=made.config.attempts)
        row = await session.status()
        here = asked.front.node.name
        if row.home != here:
            said = (
                f"broker {row.home} delivers this subscription, and changes it: ask it, not {here}"
            )
            raise refused(421, "elsewhere", said)
        await _subscribe(session, text)
        await session.note({SUBSCRIPTION: kept_text(made)})
        for other in row.subscriptions.values():
            if other != text:
                await session.unsubscribe(other)
        await session
        asked.deliveries.changed(row.owner, name)
    return asked.json(told(made))


async def delete_subscription(asked: Asked) -> web.StreamResponse:
    """End a subscription, with what it owes."""
    asked.query()
    async with asked.front.client_of(asked.principal, asked.shown) as client:
        ended = await _found(asked, client)
        await NotedSession(client, SESSION + ended.id).close()
    asked.deliveries.look()
    return asked.json(told(ended))


async def permit(asked: Asked) -> web.StreamResponse:
    """Permit deliveries, as the sink of a subscription asks by the callback of its handshake."""
    query: PermissionQuery = asked.query()
    rate = asked.request.headers.get("WebHook-Allowed-Rate", "")
    if not asked.deliveries.permit(asked.parts["subscription"], query.key, rate):
        raise refused(404, "gone", "there is no such subscription here, or its key is another one")
    return asked.nothing()


# --- what they share -----------------------------------------------------------------------------


async def _document(asked: Asked) -> Any:
    body, _ = await asked.body()
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refused(400, "unreadable", f"the body is no JSON: {error}", where="body") from None


def _proposed(asked: Asked, document: Any, former: Subscription | None = None) -> Subscription:
    try:
        return read_subscription(document, asked.deliveries.settings.allowed, former)
    except SubscriptionError as error:
        raise _invalid(error) from None


def _invalid(error: SubscriptionError) -> HttpError:
    return refused(400, "subscription", str(error), where=f"body: {error.where}")


def _prefilter(asked: Asked, subscription: Subscription) -> str:
    """Return the filter of Reefcast that a subscription's session has. Raises `LimitError` if it is
    more work than a filter may be."""
    text = prefilter_of(subscription.wanted).text
    admitted(asked.front, [text])
    return text


async def _subscribe(session: NotedSession, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FilterWarning)  # nobody wrote this filter
        await session.subscribe(text)


async def _found(asked: Asked, client: InnerClient) -> Subscription:
    """Return the subscription of the path. Raises `HttpError` if there is none."""
    id = asked.parts["subscription"]
    found = await _kept(asked, client, id) if len(id) <= 2 * ID_BYTES else None
    if found is None:
        raise refused(404, "gone", f"there is no subscription {id[:80]!r}", where="path")
    return found


async def _kept(asked: Asked, client: InnerClient, id: str) -> Subscription | None:
    """Return the subscription with this id; None if there is none. Of one whose sink is allowed no
    more, its id is left, and nothing is delivered."""
    try:
        text = (await NotedSession(client, SESSION + id).notes()).get(SUBSCRIPTION)
    except RefusedError as error:
        if error.gone:
            return None
        raise
    if text is None:
        return None
    try:
        return kept_subscription(text, id, asked.deliveries.settings.allowed)
    except SubscriptionError:
        return Subscription(id=id, sink="", protocol="HTTP")
