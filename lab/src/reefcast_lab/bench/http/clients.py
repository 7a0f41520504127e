"""The clients of the load: sockets that do not block, requests made beforehand, and answers that
are counted without being read."""

from __future__ import annotations

import socket

from reefcast.errors import PeerError

PATIENCE_S = 60.0
READ_BYTES = 256 * 1024
_ANSWER, _EVENT = b"HTTP/1.1 ", b"\ndata: {"


class Client:
    """A connection. `mark`: what is counted in what comes; `count`: how often it came."""

    def __init__(self, port: int, mark: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.count = 0
        self._mark = mark
        self._rest = b""

    def came(self) -> bytes:
        """Read what came, and count; return it. Raises `PeerError` if the server is gone."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return b""
        except ConnectionError as error:
            raise PeerError(f"the server broke a connection: {error}") from error
        if not data:
            raise PeerError("the server closed a connection")
        data = self._rest + data
        self.count += data.count(self._mark)
        self._rest = data[-(len(self._mark) - 1) :]  # shorter than a mark: none is counted twice
        return data


class Publisher(Client):
    """A client that posts the same request again and again, one at a time. `left`: how many are
    still to be posted."""

    def __init__(self, port: int, request: bytes) -> None:
        super().__init__(port, _ANSWER)
        self._request = request
        self.left = self._sent = 0
        self.socket.setblocking(False)

    @property
    def is_done(self) -> bool:
        return not self.left and self.count == self._sent

    def post(self) -> None:
        """Send the next request, unless an answer is awaited."""
        if self.left and self.count == self._sent:
            self.left -= 1
            self._sent += 1
            self.socket.send(self._request)  # much shorter than the buffer, which is empty

    def came(self) -> bytes:
        data = super().came()
        if _ANSWER in data and b" 20" not in data:
            raise PeerError(f"the server refuses what is posted: {data[:300]!r}")
        return data


class Reader(Client):
    """A client that reads a stream of server-sent events."""

    def __init__(self, port: int, path: str) -> None:
        super().__init__(port, _EVENT)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.came()
        if b" 200 " not in head[:20]:
            raise PeerError(f"the server gives no stream: {head[:300]!r}")
        self.socket.setblocking(False)


def post(path: str, body: bytes) -> bytes:
    """Return a request that posts JSON."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
