"""From a request to its answer: which route it is, whether its page may ask, who it is.

Rules
-----
- Where it is enough to be on this machine, a request must name this machine (its header Host): else
  a page in a browser could ask by a name of its own that leads here (DNS rebinding).
- A request of a page in a browser comes from the listener's own host, or from an allowed origin.
- Everything but the OpenAPI document needs a user, where the network has some.
- Whatever comes, the broker goes on: what its sender cannot help is logged, and answered with 500.
- What is not read of a body ends the connection, so that its rest is not taken for a request."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from reefcast.http.origins import Origins
from reefcast.http.problems import error_of, refused
from reefcast.http.routes import Table
from reefcast.protocol.principal import NOBODY
from reefcast.protocol.privacy import is_loopback
from reefcast.server.http.asking import HEADERS, Answering, Asked, problem_answer
from reefcast.server.http.consumers import Consumers
from reefcast.server.http.deliveries import Deliveries
from reefcast.server.http.front import HttpFront
from reefcast.server.http.proving import who_asks
from reefcast.server.web.http import failed_words, host_in
from reefcast.server.web.visits import Visits


class Handler:
    """Answers the requests to one listener. `answers`: what answers each route, by its name;
    `here_only`: whether being on this machine is enough to be its client."""

    def __init__(
        self,
        front: HttpFront,
        consumers: Consumers,
        deliveries: Deliveries,
        table: Table,
        answers: Mapping[str, Answering],
        origins: Origins,
        visits: Visits,
        *,
        most_bytes: int,
        here_only: bool,
    ) -> None:
        self._front = front
        self._consumers = consumers
        self._deliveries = deliveries
        self._table = table
        self._answers = answers
        self._origins = origins
        self._visits = visits
        self._most_bytes = most_bytes
        self._here_only = here_only

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        headers = self._origins.headers(request.headers.get("Origin"))
        try:
            response = await self._answer(request, headers)
        except ConnectionError:
            raise
        except Exception as error:
            response = self._failed(request, error, headers)
        if not request.content.at_eof():
            response.force_close()
        self._visits.answered(request.transport)
        return response

    def _failed(
        self, request: web.BaseRequest, error: Exception, headers: dict[str, str]
    ) -> web.StreamResponse:
        journal = self._front.node.host.journal
        known = error_of(error)
        if known is None:
            journal.failed("to answer an HTTP request", error)
            known = refused(500, "failed", failed_words("broker"))
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        return problem_answer(known, headers)

    async def _answer(
        self, request: web.BaseRequest, headers: dict[str, str]
    ) -> web.StreamResponse:
        path = request.rel_url.raw_path
        self._check_place(request)
        if request.method == "OPTIONS" and (methods := self._table.methods(path)):
            allowed = self._origins.preflight(request.headers, methods)
            return web.Response(status=204, headers={**HEADERS, **allowed})
        self._origins.check(request.headers.get("Origin"), request.headers.get("Host", ""))
        route, parts = self._table.find(request.method, path)
        if not route.open:
            site = request.headers.get("Sec-Fetch-Site", "").strip().lower()
            self._origins.check_site(request.headers.get("Origin"), site)
        node = self._front.node
        if node.stopping:
            said = f"broker {node.name} was told to stop: come back later, or ask another one"
            raise refused(503, "stopping", said, headers={"Retry-After": "5"})
        asked = Asked(
            request=request,
            route=route,
            parts=parts,
            principal=NOBODY if route.open else await who_asks(node, request),
            front=self._front,
            consumers=self._consumers,
            deliveries=self._deliveries,
            visits=self._visits,
            most_bytes=self._most_bytes,
            headers=headers,
        )
        answer: web.StreamResponse = await self._answers[route.name](asked)
        return answer

    def _check_place(self, request: web.BaseRequest) -> None:
        if self._here_only and not is_loopback(host_in(request.headers.get("Host", ""))):
            raise refused(
                421,
                "host",
                "without [security] this listener answers requests for localhost or 127.0.0.1 "
                "only, so that no page in a browser can use it by another name",
                where="header Host",
            )
