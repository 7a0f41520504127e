"""One request, as those see it who answer it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from reefcast.http.problems import PROBLEM_TYPE, HttpError, refused
from reefcast.http.reading import body_of, query_of
from reefcast.http.routes import Route
from reefcast.model.json_attributes import JSON_TYPE, is_json_type
from reefcast.protocol.principal import Principal
from reefcast.protocol.privacy import Shown
from reefcast.server.http.consumers import Consumers
from reefcast.server.http.deliveries import Deliveries
from reefcast.server.http.front import HttpFront
from reefcast.server.web.visits import Visits

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Server": "reefcast",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of all answers."""


@dataclass(slots=True, kw_only=True)
class Asked:
    """A request. `route`: what it asks, with the varying `parts` of its path; `principal`: who
    asks; `headers`: what its answer has besides `HEADERS`; `most_bytes`: of its body; `consumers`:
    those of durable sessions."""

    request: web.BaseRequest
    route: Route
    parts: dict[str, str]
    principal: Principal
    front: HttpFront
    consumers: Consumers
    deliveries: Deliveries
    visits: Visits
    most_bytes: int
    headers: dict[str, str]

    @property
    def shown(self) -> Shown:
        """What is known of the connection."""
        return shown_by(self.request)

    def query(self) -> Any:
        """Return what the query says, as the route's struct. Raises `HttpError`."""
        pairs = [each for each in self.request.query.items() if each[0] != "access_token"]
        return query_of(self.route.query, pairs)

    async def body(self, *, of_any_type: bool = False) -> tuple[bytes, str]:
        """Return the body and its content type; b"" if there is none. Raises `HttpError` for one
        that is too large, or of a type that the route does not take."""
        request = self.request
        if not request.body_exists:
            return b"", JSON_TYPE
        kind = request.headers.get("Content-Type", "")
        essence = kind.partition(";")[0].strip().lower()
        if not of_any_type and not any(
            essence == each or (each == JSON_TYPE and is_json_type(essence))
            for each in self.route.takes
        ):
            known = ", ".join(self.route.takes)
            said = f"the body is of the type {essence[:80]!r}; send {known}"
            where = "header Content-Type"
            raise refused(415, "content-type", said, where=where, headers={"Accept": known})
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            said = "compressed bodies are not read: leave out Content-Encoding"
            raise refused(415, "content-encoding", said, where="header Content-Encoding")
        if (request.content_length or 0) > self.most_bytes:
            raise self._too_large()
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        pieces: list[bytes] = []
        size = 0
        async for piece in request.content.iter_any():
            size += len(piece)
            if size > self.most_bytes:
                raise self._too_large()
            pieces.append(piece)
        return b"".join(pieces), kind

    def _too_large(self) -> HttpError:
        said = (
            f"the body has more than {self.most_bytes} bytes (max_body_bytes of the [[listener]])"
        )
        return refused(413, "too-large", said, where="body", headers={"Connection": "close"})

    async def body_as(self, kind: type[Any]) -> Any:
        """Return what the body says, as a struct. Raises `HttpError`."""
        return body_of(kind, (await self.body())[0])

    # --- answers ----------------------------------------------------------------------------------

    def json(
        self, told: object, status: int = 200, headers: dict[str, str] | None = None
    ) -> web.Response:
        """Return an answer in JSON."""
        return self.bytes(msgspec.json.encode(told), JSON_TYPE, status, headers)

    def bytes(
        self,
        body: bytes,
        content_type: str,
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> web.Response:
        """Return an answer of this type."""
        return web.Response(
            body=body,
            status=status,
            content_type=content_type,
            headers={**HEADERS, **self.headers, **(headers or {})},
        )

    def nothing(self, status: int = 204) -> web.Response:
        """Return an answer without a body."""
        return web.Response(status=status, headers={**HEADERS, **self.headers})

    def streams(self, content_type: str) -> web.StreamResponse:
        """Return an answer that goes on; its connection is held from now on."""
        self.visits.hold(self.request.transport)
        headers = {**HEADERS, **self.headers, "Content-Type": content_type}
        return web.StreamResponse(headers=headers)


Answering = Callable[[Asked], Any]
"""Answers a request of one route: a coroutine function that returns a `web.StreamResponse`."""


def shown_by(request: web.BaseRequest) -> Shown:
    """Return what is known of the connection of a request."""
    transport = request.transport
    return lambda name: None if transport is None else transport.get_extra_info(name)


def problem_answer(error: HttpError, headers: dict[str, str]) -> web.Response:
    """Return the answer to a request that cannot be met."""
    response = web.Response(
        body=msgspec.json.encode(error.problem),
        status=error.problem.status,
        content_type=PROBLEM_TYPE,
        headers={**HEADERS, **headers, **error.headers},
    )
    if error.headers.get("Connection") == "close":
        response.force_close()
    return response
