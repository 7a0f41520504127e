"""MQTT over WebSocket, for pages in browsers (MQTT 5.0, section 6; RFC 6455), by aiohttp.

Rules
-----
- The path is `/mqtt`, the subprotocol "mqtt" (MQTT-6.0.0-3). What asks for anything else gets an
  answer in HTTP that says so.
- Packets travel in binary frames, and may begin and end anywhere in them (MQTT-6.0.0-1,
  MQTT-6.0.0-2). A text frame ends the connection. Nothing is compressed. A message of WebSocket has
  as many bytes as a packet may have, or `LEAST_MESSAGE_BYTES` if that is more.
- The connection has its line from its first byte on. So the limits of connections that have not
  been greeted hold for its beginning in HTTP, too.
- A page may come from anywhere, for CONNECT shows who its user is: a browser adds nothing to that.
  But where it is enough to be on this machine, only pages of this machine may connect; and with a
  certificate, which the browser shows for any page, only pages of the host that it connects to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from aiohttp import WSCloseCode, WSMsgType, web

from reefcast.mqtt.reasons import Reason
from reefcast.protocol.privacy import Shown, is_loopback
from reefcast.server.mqtt.line import CLOSING_S, MqttLine
from reefcast.server.tracing import Journal
from reefcast.server.web.http import HttpConnection, text
from reefcast.tls.identity import identity_of

SHOWN = ("peername", "sockname", "ssl_object")
"""What a line knows of its transport."""
PATH, SUBPROTOCOL = "/mqtt", "mqtt"
LEAST_MESSAGE_BYTES = 1 << 16
MOST_FRAME_BYTES = (1 << 16) - 1
"""The longest frame that is sent; the port may write much more at once."""
_BINARY = 0x82
"""The first byte of a binary frame that is a whole message (RFC 6455, section 5.2)."""
_BINARY_HEAD = bytes((_BINARY, 126))
"""How a longer one begins; two bytes with its length follow."""


class Frames(asyncio.Transport):
    """What a line takes for its transport: what is written goes into binary frames. `socket`: None
    as long as the connection speaks HTTP; `code`: why it is closed, in the words of WebSocket."""

    def __init__(self, below: asyncio.Transport) -> None:
        super().__init__()
        self._below = below
        # Asyncio's own transport for TLS forgets them when it is aborted.
        self._shown = {name: below.get_extra_info(name) for name in SHOWN}
        self._readable = asyncio.Event()
        self._readable.set()
        self._closing: asyncio.Task[bool] | None = None
        self.socket: web.WebSocketResponse | None = None
        self.code = WSCloseCode.OK

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._shown.get(name, default)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self.socket is not None and not self.is_closing():
            self._below.writelines(_framed(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._readable.clear()

    def resume_reading(self) -> None:
        self._readable.set()

    async def readable(self) -> bool:
        """Wait until the line reads; return whether the connection still stands."""
        await self._readable.wait()
        return not self.is_closing()

    def is_closing(self) -> bool:
        return self._closing is not None or self._below.is_closing()

    def close(self) -> None:
        """Say that this is the end, and close when the other end has said so, too."""
        self._readable.set()
        if self.socket is None:
            self._below.close()
        elif not self.is_closing():
            closing = self.socket.close(code=self.code)
            self._closing = asyncio.get_running_loop().create_task(closing)

    async def closed(self) -> None:
        """Wait until both ends have said that this is the end, if it is."""
        if self._closing is not None:
            await self._closing

    def abort(self) -> None:
        self._below.abort()


class WebSocketConnection(HttpConnection):
    """A connection to `server`, which becomes one of WebSocket. `line`: of its client."""

    __slots__ = ("frames", "line")
    where = "listener for MQTT over WebSocket"

    def __init__(self, server: web.Server, journal: Journal, line: MqttLine):
        super().__init__(server, journal, "broker")
        self.line = line
        self.frames: Frames

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.frames = Frames(cast(asyncio.Transport, transport))
        self.line.connection_made(self.frames)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.line.connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.line.pause_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.line.resume_writing()


class WebSockets:
    """The connections to one listener. `make_line`: makes the line of a new one; `most_bytes`: of a
    packet; `here_only`: whether being on this machine is enough to connect."""

    def __init__(
        self,
        journal: Journal,
        make_line: Callable[[], MqttLine],
        most_bytes: int,
        *,
        here_only: bool,
    ) -> None:
        self._journal = journal
        self._make_line = make_line
        self._most_bytes = max(most_bytes, LEAST_MESSAGE_BYTES)
        self._here_only = here_only
        self._server = web.Server(self._handle)

    def new_connection(self) -> WebSocketConnection:
        """Return the protocol of a new connection."""
        return WebSocketConnection(self._server, self._journal, self._make_line())

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast(WebSocketConnection, request.protocol)
        if (refused := self._refusal(request, connection.frames)) is not None:
            refused.force_close()
            return refused
        socket = web.WebSocketResponse(
            timeout=CLOSING_S,
            protocols=(SUBPROTOCOL,),
            compress=False,
            max_msg_size=self._most_bytes,
        )
        try:
            await socket.prepare(request)
        except web.HTTPBadRequest as error:
            refused = text(400, f"this is no handshake of WebSocket: {error.text}")
            refused.force_close()
            return refused
        connection.frames.socket = socket
        await _read(socket, connection)
        return socket

    def _refusal(self, request: web.BaseRequest, frames: Frames) -> web.Response | None:
        """Return the answer to a request that asks for anything else."""
        headers = request.headers
        if request.path != PATH:
            return text(404, f"there is nothing at this path; MQTT over WebSocket is at {PATH}")
        if headers.get("Upgrade", "").strip().lower() != "websocket":
            answer = text(426, "this is for MQTT over WebSocket: an MQTT client connects here")
            answer.headers.update({"Upgrade": "websocket", "Connection": "Upgrade"})
            return answer
        offered = headers.get("Sec-WebSocket-Protocol", "")
        if SUBPROTOCOL not in map(str.strip, offered.split(",")):
            return text(400, f'the client must offer the subprotocol "{SUBPROTOCOL}"')
        if self._is_strange(headers, frames.get_extra_info):
            return text(
                403,
                "only pages of this host may connect where a client need not show who it is: give "
                "the network users ([security]), and the client a user name and a password",
            )
        return None

    def _is_strange(self, headers: Mapping[str, str], shown: Shown) -> bool:
        """Return whether a page asks that may not have what its visitor may."""
        origin = headers.get("Origin")
        if origin is None:
            return False  # a program
        page, host = _host_in(origin), _host_in(f"//{headers.get('Host', '')}")
        if self._here_only:
            return not (is_loopback(page) and is_loopback(host))
        return page != host and identity_of(shown("ssl_object")) is not None


async def _read(socket: web.WebSocketResponse, connection: WebSocketConnection) -> None:
    """Pass on what comes, until the end."""
    line, frames = connection.line, connection.frames
    while await frames.readable():
        message = await socket.receive()
        if message.type is WSMsgType.BINARY:
            line.data_received(message.data)
        elif message.type is WSMsgType.TEXT:
            frames.code = WSCloseCode.UNSUPPORTED_DATA
            line.end(Reason.PROTOCOL_ERROR, "MQTT goes in binary frames; this was a text frame")
        else:
            break
    await frames.closed()


def _host_in(url: str) -> str:
    """Return the host in a URL, "" if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _framed(data: bytes | bytearray | memoryview[Any]) -> list[bytes | memoryview[Any]]:
    """Return binary frames of a server with these bytes (RFC 6455, section 5.2)."""
    pieces: list[bytes | memoryview[Any]] = []
    view = memoryview(data)
    for at in range(0, len(view), MOST_FRAME_BYTES):
        piece = view[at : at + MOST_FRAME_BYTES]
        size = len(piece)
        head = bytes((_BINARY, size)) if size < 126 else _BINARY_HEAD + size.to_bytes(2)
        pieces += (head, piece)
    return pieces
