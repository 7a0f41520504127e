"""The HTTP listener of a broker or a storage for operators.

Rules
-----
- `/healthz` and `/readyz` are for anybody who reaches it, and name nobody; all else is for those
  who may ask for the status (`rights.require_status`).
- A broker's has the dashboard. Its files are the same everywhere (`files`), and for anybody, too.
- It answers GET and HEAD. POST is for what the dashboard's own page sends (`dashboard`): a page of
  another site cannot send its header.
- On loopback and without `[security]`, a request must name this machine (its header Host): else a
  page in a browser could read the status by a name of its own that leads here (DNS rebinding).
- Whatever comes, its member goes on: what is no HTTP gets an answer that says so, what fails is
  logged and answered with 500, and what connections cost is limited (`visits`).
- With `[tls]` it speaks TLS, with the certificate of the broker or the storage."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from reefcast.errors import BusyError, ProtocolError
from reefcast.logs import part
from reefcast.model import wire
from reefcast.model.wire import Role, StatusRequest
from reefcast.protocol.principal import Principal
from reefcast.protocol.privacy import address_of, is_loopback
from reefcast.server.listeners import Listener
from reefcast.server.metrics.collecting import own_version
from reefcast.server.metrics.rendering import rendered
from reefcast.server.rights import require_status
from reefcast.server.tls_listener import TlsListener
from reefcast.server.web.dashboard import MARK, Dashboard, refusal_of
from reefcast.server.web.dashboard import Answering as Guarded
from reefcast.server.web.files import PageFile, page_files
from reefcast.server.web.http import (
    HEADERS,
    HttpConnection,
    PlainHttp,
    failed_words,
    host_in,
    text,
)
from reefcast.server.web.operated import Operated
from reefcast.server.web.proving import RequestGreeting, challenges, prove, shown_in
from reefcast.server.web.visits import Visit, Visits
from reefcast.tls.wording import in_words

log = part("connections")

MOST_VISITS = 64
CLOSE_S = 1.0
"""How long requests under way have when the broker ends."""
Answering = Callable[[web.BaseRequest], Awaitable[web.Response]]


class Door:
    """The HTTP listener of this broker or storage at this address: `open` it, `tick` it about once
    a second, and `close` it. `listener`: where it listens; `dashboard`: answers the page of a
    broker, if it is given before the listener is opened."""

    def __init__(self, me: Operated, host: str, port: int) -> None:
        self._me = me
        self._journal = me.journal
        self.visits = Visits(MOST_VISITS, self._note_eviction)
        self.dashboard: Dashboard | None = None
        self._posts: dict[str, Guarded] = {}
        self._streams: frozenset[str] = frozenset()
        self._files: dict[str, PageFile] = {}
        self._open: dict[str, Answering] = {"/healthz": self._healthz, "/readyz": self._readyz}
        self._guarded: dict[str, Guarded] = {
            "/metrics": self._metrics,
            "/status": self._status,
        }
        self._here_only = is_loopback(host) and me.network.security is None
        self._server = web.Server(self._handle)
        self.listener = self._listener(host, port)

    def new_visit(self) -> Visit:
        """Return the protocol of a new connection."""
        return Visit(self.visits, HttpConnection(self._server, self._journal, self._me.kind))

    def _listener(self, host: str, port: int) -> Listener:
        tls = self._me.tls
        if tls is None:
            return Listener(host, port, self.new_visit)
        return TlsListener(
            host,
            port,
            self.new_visit,
            refuse=PlainHttp,
            context=lambda: tls.value.answering,
            failed=self._say_no_tls,
        )

    def _say_no_tls(self, other: str, error: BaseException) -> None:
        words = "no TLS with %s at the admin listener: %s"
        floods = self._journal.floods
        floods.log(log, logging.INFO, "no_tls", words, other, in_words(error, other))

    def _note_eviction(self) -> None:
        words = "%d connections to the admin listener are the most: the oldest is ended"
        self._journal.floods.log(log, logging.WARNING, "http_evicted", words, MOST_VISITS)

    async def open(self) -> None:
        """Listen. Raises `ConfigurationError` if that is not possible."""
        own_version()  # not while clients wait
        if self.dashboard is not None:
            self._files = page_files()
            self._guarded |= self.dashboard.gets
            self._posts = self.dashboard.posts
            self._streams = frozenset(self.dashboard.gets)
        await self.listener.open(f"{self._me.kind} {self._me.name}")

    def tick(self, now: float) -> None:
        """End connections that take too long; `now`: seconds of the loop."""
        self.visits.tick(now)

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        self.listener.close()
        await self._server.shutdown(CLOSE_S)
        if self.dashboard is not None:
            await self.dashboard.close()
        self.visits.end_all()

    # --- requests ---------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        response: web.StreamResponse
        try:
            response = await self._answer(request)
        except Exception as error:
            refused = refusal_of(error)
            if refused is None:
                self._journal.failed("to answer an HTTP request")
            response = refused or text(500, failed_words(self._me.kind))
        response.headers.update(HEADERS)
        self.visits.answered(request.transport)
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, posts = request.path, self._posts
        guarded = posts.get(path) or self._guarded.get(path)
        if guarded is None and path not in self._open and path not in self._files:
            page = ("/",) if self._files else ()
            known = ", ".join((*page, *self._guarded, *posts, *self._open))
            return text(404, f"there is nothing at this path; there is {known}")
        methods = ["POST"] if path in posts else ["GET"]
        if path not in posts and path not in self._streams:
            methods.append("HEAD")
        if request.method not in methods:
            allowed = " and ".join(methods)
            response = text(405, f"this listener answers {allowed} only at this path")
            response.headers["Allow"] = ", ".join(methods)
            return response
        if self._here_only and not is_loopback(host_in(request.headers.get("Host", ""))):
            return text(
                421,
                "without [security] this listener answers requests for localhost or 127.0.0.1 "
                "only (header Host), so that no page in a browser can read it by another name",
            )
        if path in self._files:
            file = self._files[path]
            return web.Response(body=file.body, headers={"Content-Type": file.kind})
        if guarded is None:
            return await self._open[path](request)
        who = await self._who(request)
        return who if isinstance(who, web.Response) else await guarded(request, who)

    async def _who(self, request: web.BaseRequest) -> web.Response | Principal:
        """Return the principal that asks for the status, or the response that refuses it."""
        greeting = None
        me = self._me
        try:
            shown = shown_in(request.headers.get("Authorization"))
            hello = wire.hello(Role.ADMIN, "http", me.network.network.name, me.session)
            greeting = RequestGreeting(hello, _shown_by(request), shown)
            principal = await prove(me.authenticator, greeting)
        except BusyError as error:
            response = text(429, str(error))
            response.headers["Retry-After"] = "10"
            return response
        except ProtocolError as error:
            return self._unproved(request, greeting, str(error))
        try:
            require_status(principal, me.grants())
        except ProtocolError as error:
            self._refused(request, str(error), user=principal.user)
            return text(403, str(error))
        self._note_visit(request, principal)
        return principal

    def _unproved(
        self, request: web.BaseRequest, greeting: RequestGreeting | None, reason: str
    ) -> web.Response:
        tried = {} if greeting is None or not greeting.tried else {"tried": greeting.tried}
        self._refused(request, reason, **tried)
        response = text(401, reason)
        # The dashboard's page asks by itself: at the challenge Basic, browsers would ask as well.
        asks = request.headers.get(MARK) == "1"
        for challenge in challenges(greeting, self._me.network.network.name):
            if not (asks and challenge.startswith("Basic")):
                response.headers.add("WWW-Authenticate", challenge)
        return response

    # --- the audit log ----------------------------------------------------------------------------

    def _refused(self, request: web.BaseRequest, reason: str, **who: object) -> None:
        self._me.audit.limited("refused", **self.place(request), **who, reason=reason)

    @staticmethod
    def place(request: web.BaseRequest) -> dict[str, object]:
        """Return from where a request comes, for the audit log."""
        shown = _shown_by(request)
        tls = shown("ssl_object") is not None
        return {"role": "http", "address": address_of(shown), "tls": tls}

    def _note_visit(self, request: web.BaseRequest, principal: Principal) -> None:
        """Write who asks into the audit log, once for each connection and user."""
        visit = self.visits.of(request.transport)
        if visit is None or visit.known == principal.user:
            return
        visit.known = principal.user
        proved = {"user": principal.user, "proof": principal.proof, "roles": principal.granted}
        self._me.audit.limited("connected", **self.place(request), **proved)

    # --- answers ----------------------------------------------------------------------------------

    async def _healthz(self, request: web.BaseRequest) -> web.Response:
        return text(200, "alive")

    async def _readyz(self, request: web.BaseRequest) -> web.Response:
        missing = self._me.not_ready()
        return text(503, f"not ready: {'; '.join(missing)}") if missing else text(200, "ready")

    async def _metrics(self, request: web.BaseRequest, principal: Principal) -> web.Response:
        figures = await self._me.figures(len(self.visits))
        body, content_type = rendered(figures, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _status(self, request: web.BaseRequest, principal: Principal) -> web.Response:
        tables, rows = tuple(request.query.getall("table", ())), request.query.get("rows", "5")
        if not (rows.isascii() and rows.isdigit() and len(rows) < 10):
            return text(400, f"rows = {rows[:40]!r} is no number of rows")
        status = self._me.status(StatusRequest(tables, int(rows)))
        return web.Response(body=msgspec.json.encode(status), content_type="application/json")


def _shown_by(request: web.BaseRequest) -> Callable[[str], Any]:
    transport = request.transport
    return lambda name: None if transport is None else transport.get_extra_info(name)
