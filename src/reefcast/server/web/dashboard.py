"""What the dashboard's page asks: the network as it is now, pages of long lists, the paths of
publications, why a filter matches, and wishes of who has the right to them.

Everything comes from `server.view`, which asks all brokers as operators do, with the credentials of
the network; what a user may ask, and see of publications, is decided here, by his own grants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import msgspec
from aiohttp import web

from reefcast.errors import InvalidValueError, LimitError, LocalError, PeerError, ProtocolError
from reefcast.model.doubts import doubts_about
from reefcast.model.explanation import explain, record_of
from reefcast.model.flat import as_sent
from reefcast.model.grants import Right
from reefcast.model.looks import AnyLook, Page
from reefcast.model.messages import Wish
from reefcast.protocol.principal import ALL_ROLES, NETWORK, Principal
from reefcast.server.admin import meet, owner_of
from reefcast.server.looks.answering import Looks, narrowed
from reefcast.server.metrics.observed import ObservedBroker
from reefcast.server.rights import require_right, require_status
from reefcast.server.view import Asker, Following, NetworkView, OwnAsker, askers_of
from reefcast.server.web.http import text
from reefcast.server.web.streams import stream
from reefcast.server.web.visits import Visits
from reefcast.timing import now_us

LIVE_S, FOLLOW_S, QUIET_S = 1.0, 0.5, 5.0
"""Seconds between two states of the network, between two questions about publications, and without
news after which a follower hears that there is none."""
MOST_FOLLOWERS = 8
MARK = "X-Reefcast"
"""The header of the page's own requests: a page of another site cannot send it."""
T = TypeVar("T")


class OperatedBroker(ObservedBroker, Protocol):
    """A broker, as the dashboard sees it."""

    looks: Looks


class Explained(msgspec.Struct):
    """What is to be explained: `event`, the text of a JSON object."""

    filter: str
    event: str = "{}"
    topics: list[str] = msgspec.field(default_factory=list)


class Wished(msgspec.Struct):
    """A wish, and of which broker."""

    broker: str
    wish: Wish


Answering = Callable[[web.BaseRequest, Principal], Awaitable[web.StreamResponse]]


class Dashboard:
    """Answers the page of one broker. `gets`, `posts`: by path; `place`: says from where a request
    comes, for the audit log."""

    def __init__(
        self,
        broker: OperatedBroker,
        visits: Visits,
        place: Callable[[web.BaseRequest], dict[str, object]],
    ) -> None:
        self._broker = broker
        self._visits = visits
        self._place = place
        self._view: NetworkView | None = None
        self._encoded = (0, b"")
        self._followers = 0
        self.gets: dict[str, Answering] = {
            "/api/me": self._me,
            "/api/live": self._live,
            "/api/page": self._page,
            "/api/storages": self._storages,
            "/api/follow": self._follow,
        }
        self.posts: dict[str, Answering] = {
            "/api/explain": self._explain,
            "/api/wish": self._wish,
        }

    async def close(self) -> None:
        """End what connects to other brokers."""
        if self._view is not None:
            await self._view.close()

    @property
    def view(self) -> NetworkView:
        """The network, as this broker sees it."""
        if self._view is None:
            self._view = self._new_view()
        return self._view

    def _new_view(self) -> NetworkView:
        broker, network = self._broker, self._broker.network
        own = network.tls.files(broker.name)
        askers: dict[str, Asker] = {}
        if len(network.names) > 1:
            askers = askers_of(network, owner_of(network), own, operator=False)
        askers[broker.name] = OwnAsker(self._look, self._do)
        return NetworkView(network, askers)

    async def _look(self, look: AnyLook) -> dict[str, Any]:
        me = Principal(NETWORK, ALL_ROLES, "own")  # what its user may was decided before
        return await self._broker.looks.answer(look, me)

    def _do(self, wish: Wish) -> dict[str, Any]:
        self._broker.host.driver.wish(wish)
        return {}

    # --- who asks ---------------------------------------------------------------------------------

    async def _me(self, request: web.BaseRequest, principal: Principal) -> web.Response:
        grant = self._broker.looks.grant_of(principal)
        told = {
            "user": principal.user,
            "broker": self._broker.name,
            "network": self._broker.network.network.name,
            "rights": [right for right in Right if self._has(principal, right)],
            "sees": None if grant is None else grant.subscribe.text,
        }
        return _json(told)

    def _has(self, principal: Principal, right: Right) -> bool:
        try:
            require_right(principal, right, self._broker.host.core.granting.grants)
        except ProtocolError:
            return False
        return True

    def _objection(self, principal: Principal) -> Callable[[], str]:
        """Return a function that says why a user may not go on looking, "" while he may."""

        def ended() -> str:
            now = self._broker.shared.authenticator.review(principal)
            if now is None or now_us() / 1e6 > principal.expires_at_s:
                return "what you signed in with no longer counts: sign in again"
            try:
                require_status(now, self._broker.host.core.granting.grants)
            except ProtocolError as error:
                return str(error)
            return ""

        return ended

    # --- the network ------------------------------------------------------------------------------

    async def _live(self, request: web.BaseRequest, principal: Principal) -> web.StreamResponse:
        async def events() -> AsyncIterator[tuple[str, bytes]]:
            while True:
                yield "network", await self._overview()
                await asyncio.sleep(LIVE_S)

        return await stream(request, self._visits, events(), self._objection(principal))

    async def _overview(self) -> bytes:
        """Return the state of the network, encoded once for all who look."""
        told = await self.view.overview()
        if told["number"] != self._encoded[0]:
            self._encoded = (told["number"], msgspec.json.encode(told))
        return self._encoded[1]

    async def _page(self, request: web.BaseRequest, principal: Principal) -> web.Response:
        query = {**request.query, "look": "page"}
        broker = query.pop("broker", "")
        asked = msgspec.convert(query, Page, strict=False)
        if not broker and asked.kind != "table":
            return await _answered(self.view.page(asked))
        return await _answered(self.view.look(broker, asked))

    async def _storages(self, request: web.BaseRequest, principal: Principal) -> web.Response:
        return await _answered(self.view.storages())

    # --- publications -----------------------------------------------------------------------------

    async def _follow(self, request: web.BaseRequest, principal: Principal) -> web.StreamResponse:
        grant, limits = self._broker.looks.grant_of(principal), self._broker.host.limits
        filter = narrowed(request.query.get("filter", ""), grant, limits)
        if self._followers >= MOST_FOLLOWERS:
            raise LimitError(f"{MOST_FOLLOWERS} others follow publications here, the most at once")
        following = Following(self.view, filter.text)
        ended = self._objection(principal)

        def over() -> str:
            if self._broker.looks.grant_of(principal) != grant:
                return "what you may see has changed: follow again"
            return ended()

        self._followers += 1
        try:
            return await stream(request, self._visits, _news(following), over)
        finally:
            self._followers -= 1

    async def _explain(self, request: web.BaseRequest, principal: Principal) -> web.Response:
        asked = await _body(request, Explained)
        filter = narrowed(asked.filter, None, self._broker.host.limits)
        try:
            event = msgspec.json.decode(asked.event or "{}", type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise InvalidValueError(
                f"the event is not a JSON object of attributes: {error}"
            ) from None
        told = record_of(explain(filter, as_sent(event), asked.topics))
        return _json({**told, "doubts": doubts_about(filter)})

    # --- wishes -----------------------------------------------------------------------------------

    async def _wish(self, request: web.BaseRequest, principal: Principal) -> web.Response:
        asked = await _body(request, Wished)
        self.view.asker(asked.broker)
        who = {**self._place(request), "user": principal.user, "broker": asked.broker}
        grants, audit = self._broker.host.core.granting.grants, self._broker.host.audit
        meet(asked.wish, principal, grants, lambda wish: None, audit, who)
        await self.view.wish(asked.broker, asked.wish)
        return _json({"done": True})


async def _news(following: Following) -> AsyncIterator[tuple[str, bytes]]:
    """Yield what is new of publications; without news, yield an empty update now and then."""
    loop = asyncio.get_running_loop()
    said_s, before = 0.0, None
    while True:
        update = await following.update()
        state = (update.share, update.silent)
        if update.paths or update.missed or state != before or loop.time() - said_s > QUIET_S:
            said_s, before = loop.time(), state
            yield "paths", msgspec.json.encode(update._asdict())
        await asyncio.sleep(FOLLOW_S)


async def _body(request: web.BaseRequest, kind: type[T]) -> T:
    """Return what a request says. Raises `ProtocolError` for one that is not the page's."""
    if request.headers.get(MARK) != "1":
        raise ProtocolError(f"requests that do something need the header {MARK}: 1")
    return msgspec.json.decode(await request.read(), type=kind)


async def _answered(asked: Coroutine[Any, Any, object]) -> web.Response:
    return _json(await asked)


def _json(told: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(told), content_type="application/json")


def refusal_of(error: Exception) -> web.Response | None:
    """Return the answer to a request that failed for a reason that its sender can understand."""
    if isinstance(error, msgspec.DecodeError):
        return text(400, f"this request cannot be read: {error}")
    if isinstance(error, LimitError):
        return text(429, str(error))
    if isinstance(error, ProtocolError):
        return text(403, str(error))
    if isinstance(error, LocalError):
        return text(400, str(error))
    return text(502, str(error)) if isinstance(error, PeerError) else None
