"""One connection that speaks HTTP, by aiohttp: what comes that is no HTTP is answered in words, and
counted; what fails is logged as all failures of the broker or the storage are."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any, ClassVar, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from reefcast.logs import part
from reefcast.server.tracing import Journal
from reefcast.server.web.visits import ANSWER_S, FIELD_BYTES, FIELDS, LINE_BYTES

log = part("connections")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page takes everything from here, and nothing is written into it that would run."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "reefcast",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of all answers."""
LIMITS: dict[str, Any] = {
    "access_log": None,
    "keepalive_timeout": ANSWER_S,
    "max_line_size": LINE_BYTES,
    "max_field_size": FIELD_BYTES,
    "max_headers": FIELDS,
    "lingering_time": 1.0,
}
_QUOTED = re.compile(r"""\s*(?:bytearray\()?b?['"].*""", re.DOTALL)
PLAIN_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"this listener speaks TLS: use https:// or wss://\n"
)


class HttpConnection(web.RequestHandler):
    """A connection to `server`, which handles its requests. `kind`: whose it is, "broker" or
    "storage"."""

    __slots__ = ("_journal", "_kind")
    where: ClassVar[str] = "admin listener"

    def __init__(self, server: web.Server, journal: Journal, kind: str) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **LIMITS)
        self._journal = journal
        self._kind = kind

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what aiohttp could not read, or failed on."""
        if isinstance(exc, HttpProcessingError):
            words = f"this is no request that can be read: {_first_line(exc.message)}"
            self._journal.floods.log(log, logging.INFO, "bad_http", "%s: %s", self.where, words)
        else:
            words = failed_words(self._kind)
            self._journal.failed("to serve an HTTP request", _as_exception(exc))
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        response = self.answer(status, words)
        response.force_close()
        return response

    def answer(self, status: int, words: str) -> web.Response:
        """Return an answer in words."""
        return text(status, words)

    def log_exception(self, *args: Any, exc_info: Any = None, **more: Any) -> None:
        """Log what nobody expected."""
        self._journal.failed("to serve an HTTP connection", _as_exception(exc_info))


class PlainHttp(asyncio.Protocol):
    """A connection without TLS where TLS is spoken: it is told so when its request has been read,
    since closing before would reset it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(PLAIN_HTTP)
            self._transport.close()


def host_in(header: str) -> str:
    """Return the host in a header Host, without the port."""
    host = header.strip()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def failed_words(kind: str) -> str:
    """Return what a broker or a storage answers where it failed."""
    return f"the {kind} failed on this request; its log says how"


def text(status: int, words: str) -> web.Response:
    """Return an answer in words."""
    return web.Response(status=status, text=f"{words}\n", headers=HEADERS)


def _first_line(message: str) -> str:
    """Return what a message says, without the bytes of the request that it quotes: a token may be
    among them, and this goes into the log."""
    return _QUOTED.sub("", message.strip().partition("\n")[0]).rstrip(": ")[:200]


def _as_exception(error: Any) -> Exception | None:
    return error if isinstance(error, Exception) else None
