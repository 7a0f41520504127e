"""The table of all that can be asked over HTTP. The listener serves by it, and the OpenAPI document
is made of it, so nothing is in one and not in the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from reefcast.cloudevents.json_format import BATCH_TYPE, STRUCTURED_TYPE
from reefcast.cloudevents.subscriptions import Subscription
from reefcast.http import bodies
from reefcast.http.content import NDJSON_TYPE, Told
from reefcast.http.problems import refused
from reefcast.http.streams import EVENT_STREAM
from reefcast.model.json_attributes import JSON_TYPE

_NAME = re.compile(r"\{(\w+)\}")


class Answer(NamedTuple):
    """An answer that is no problem. `about`: when it comes; `body`: what it says, as JSON unless
    `content_type` is another; None: nothing."""

    about: str
    body: Any = None
    content_type: str = JSON_TYPE


class Route(NamedTuple):
    """Something that can be asked. `name`: what handles it, in camel case for OpenAPI; `query`: the
    struct of its parameters; `takes`: what the body may be, by content type; `answers`: by status;
    `open`: whether nobody is asked who he is."""

    method: str
    path: str
    name: str
    about: str
    answers: Mapping[int, Answer]
    query: type[bodies.Query] = bodies.NoQuery
    takes: Mapping[str, Any] = {}
    open: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the parts of the path that vary."""
        return _NAME.findall(self.path)


_EVENT = dict[str, Any]
_SESSION = "/v1/sessions/{session}"
_PUSH = "/v1/subscriptions/{subscription}"

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/events",
        "publish",
        "Publish one event, a list of events, or a stream of them, one a line; or CloudEvents, in "
        "any mode: a request with the header ce-specversion is an event in binary mode.",
        {
            200: Answer(
                "All was confirmed or refused, and each event says which.", bodies.Published
            ),
            202: Answer("What was not refused at once is on its way.", bodies.Published),
            207: Answer("Some events of the list were refused.", bodies.Published),
        },
        bodies.PublishQuery,
        {
            JSON_TYPE: _EVENT | list[_EVENT],
            NDJSON_TYPE: _EVENT,
            STRUCTURED_TYPE: _EVENT,
            BATCH_TYPE: list[_EVENT],
        },
    ),
    Route(
        "GET",
        "/v1/events",
        "events",
        "Events as they are published, as server-sent events; over WebSocket, if the request asks "
        "for that. With a session, those that it owes: an id says which ones this stream brought, "
        "and Last-Event-ID acknowledges these.",
        {
            200: Answer(
                "Events until the connection ends; each is this object.", Told, EVENT_STREAM
            ),
            101: Answer("A WebSocket (RFC 6455), in JSON texts."),
        },
        bodies.EventsQuery,
    ),
    Route(
        "GET",
        "/v1/history",
        "history",
        "Past events by their time, from the storages of the network, each once.",
        {200: Answer("The events, one a line; the last line may be a problem.", Told, NDJSON_TYPE)},
        bodies.HistoryQuery,
    ),
    Route(
        "GET",
        "/v1/sessions",
        "listSessions",
        "The durable sessions of the user, at this broker.",
        {200: Answer("All of them.", bodies.SessionList)},
    ),
    Route(
        "PUT",
        _SESSION,
        "openSession",
        "Make a durable session, or change the one with this name.",
        {200: Answer("It exists, on its home's disk.", bodies.SessionState)},
        takes={JSON_TYPE: bodies.SessionWish},
    ),
    Route(
        "GET",
        _SESSION,
        "sessionState",
        "What the home of a session knows of it.",
        {200: Answer("Its state.", bodies.SessionState)},
    ),
    Route(
        "DELETE",
        _SESSION,
        "closeSession",
        "End a session, with all that it owes.",
        {204: Answer("It is removed.")},
    ),
    Route(
        "POST",
        f"{_SESSION}/subscriptions",
        "addSubscription",
        "Subscribe a session to what matches a filter.",
        {201: Answer("It has settled, and is on disk.", bodies.SessionSubscription)},
        takes={JSON_TYPE: bodies.SubscriptionWish},
    ),
    Route(
        "DELETE",
        _SESSION + "/subscriptions/{subscription}",
        "removeSubscription",
        "End a subscription of a session; what it owes already stays owed.",
        {204: Answer("Every broker has forgotten it.")},
    ),
    Route(
        "GET",
        f"{_SESSION}/events",
        "fetch",
        "Fetch events that a session owes, and wait for them.",
        {200: Answer("The events, none if none came in time.", bodies.Fetched)},
        bodies.FetchQuery,
    ),
    Route(
        "POST",
        f"{_SESSION}/acknowledgements",
        "acknowledge",
        "Acknowledge events of a session, or give them back.",
        {200: Answer("The home has that on disk.", bodies.Done)},
        takes={JSON_TYPE: bodies.Acknowledgements},
    ),
    Route(
        "GET",
        "/v1/subscriptions",
        "getSubscriptions",
        "The CloudEvents subscriptions of the user, at this broker.",
        {200: Answer("All of them.", list[Subscription])},
    ),
    Route(
        "POST",
        "/v1/subscriptions",
        "createSubscription",
        "Have events delivered to a sink, a webhook (CloudEvents Subscriptions API).",
        {201: Answer("It has settled, and is on disk.", Subscription)},
        takes={JSON_TYPE: Subscription},
    ),
    Route(
        "GET",
        _PUSH,
        "getSubscription",
        "A subscription, without its secrets.",
        {200: Answer("The subscription.", Subscription)},
    ),
    Route(
        "PUT",
        _PUSH,
        "updateSubscription",
        "Put another subscription in the place of this one.",
        {200: Answer("It has settled, and is on disk.", Subscription)},
        takes={JSON_TYPE: Subscription},
    ),
    Route(
        "DELETE",
        _PUSH,
        "deleteSubscription",
        "End a subscription, with all that it owes.",
        {200: Answer("It is removed; this is what it was.", Subscription)},
    ),
    *(
        Route(
            method,
            _PUSH + "/permission",
            f"permit{method.capitalize()}",
            "Permit deliveries to a sink: the callback of its handshake "
            "(WebHook-Request-Callback).",
            {204: Answer("Deliveries begin.")},
            bodies.PermissionQuery,
            open=True,
        )
        for method in ("GET", "POST")
    ),
    Route(
        "POST",
        "/v1/explain",
        "explain",
        "Explain why a filter matches an event, or does not.",
        {200: Answer("Why.", bodies.Explained)},
        takes={JSON_TYPE: bodies.ExplainQuestion},
    ),
    Route(
        "GET",
        "/v1/openapi.json",
        "openapi",
        "This description, for programs that read OpenAPI.",
        {200: Answer("An OpenAPI document.", dict[str, Any])},
        open=True,
    ),
)


class Table:
    """Routes, to be found by what a request asks. `routes`: all of them. Paths are those of the
    request as it came: the name of a session may have a slash, as %2F."""

    def __init__(self, routes: Iterable[Route] = ROUTES) -> None:
        self.routes = tuple(routes)
        self._paths: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        for route in self.routes:
            parts = re.split(r"\{(\w+)\}", route.path)  # texts and names take turns
            pieces = [
                f"(?P<{each}>[^/]+)" if at % 2 else re.escape(each) for at, each in enumerate(parts)
            ]
            pattern = re.compile("".join(pieces))
            self._paths.setdefault(route.path, (pattern, {}))[1][route.method] = route

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path has; none if there is nothing at it."""
        for pattern, by_method in self._paths.values():
            if pattern.fullmatch(path):
                return list(by_method)
        return []

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route of a request, and the parts of its path. Raises `HttpError`."""
        for pattern, by_method in self._paths.values():
            found = pattern.fullmatch(path)
            if found is None:
                continue
            route = by_method.get(method)
            if route is not None:
                return route, {name: unquote(part) for name, part in found.groupdict().items()}
            said = f"this path knows {', '.join(by_method)}, and not {method[:20]}"
            allowed = {"Allow": ", ".join((*by_method, "OPTIONS"))}
            raise refused(405, "method", said, headers=allowed)
        known = "the listener for programs has /v1/events and others: see /v1/openapi.json"
        raise refused(404, "path", f"there is nothing at this path; {known}")
