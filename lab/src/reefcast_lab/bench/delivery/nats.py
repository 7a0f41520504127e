"""As much of JetStream as is needed: a stream on disk, publications that it answers, consumers.

A session is a durable consumer of the one stream, which keeps each message once.
Source: https://docs.nats.io/reference/reference-protocols/nats_api_reference
"""

from __future__ import annotations

import json
import socket
from typing import Any

from reefcast.errors import PeerError
from reefcast_lab.bench.delivery.events import some_bodies
from reefcast_lab.bench.delivery.wires import (
    PREFETCH,
    READ_BYTES,
    Consumer,
    Publisher,
    Wire,
    connected,
)

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"lang":"python","version":"0"}\r\n'
END = b"\r\n"
STREAM = "BENCH"


class Reader:
    """Cuts what a server says into messages."""

    def __init__(self) -> None:
        self._rest = b""
        self.answer = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes, bytes]]:
        """Return (subject, reply subject, payload) of each message; `answer`: what is to be said to
        the server now."""
        data, position, found = self._rest + data, 0, []
        self.answer = b""
        while (end := data.find(END, position)) >= 0:
            line = data[position:end]
            if line.startswith(b"MSG "):
                words = line.split(b" ")
                stop = end + 2 + int(words[-1])
                if len(data) < stop + 2:
                    break
                reply = words[3] if len(words) == 5 else b""
                found.append((words[1], reply, data[end + 2 : stop]))
                position = stop + 2
                continue
            if line == b"PING":
                self.answer += b"PONG\r\n"
            elif line.startswith(b"-ERR"):
                raise PeerError(f"nats-server says {line.decode()}")
            position = end + 2
        self._rest = data[position:]
        return found


class Nats(Wire):
    """A server with JetStream."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._socket = connected(port)
        self._reader = Reader()
        self._socket.sendall(CONNECT + b"SUB answers 1\r\n")
        self._ask(
            f"STREAM.CREATE.{STREAM}",
            {"name": STREAM, "subjects": ["run.*", "idle.*"], "storage": "file", "num_replicas": 1},
        )

    def prepare(self, run: int, sessions: int) -> None:
        for session in range(sessions):
            self._consumer(
                f"r{run}s{session}", f"run.{run}", deliver_subject=f"out.{run}.{session}"
            )

    def publisher(self, run: int, number: int) -> Publisher:
        return NatsPublisher(connected(self.port), run, number)

    def consumer(self, run: int, session: int) -> Consumer:
        return NatsConsumer(connected(self.port), f"out.{run}.{session}")

    def make_idle(self, count: int) -> None:
        for number in range(count):
            self._consumer(f"idle{number}", f"idle.{number}")

    def _consumer(self, name: str, subject: str, **more: str) -> None:
        config = {
            "durable_name": name,
            "ack_policy": "all",
            "max_ack_pending": PREFETCH,
            "filter_subject": subject,
            **more,
        }
        asked = {"stream_name": STREAM, "config": config}
        self._ask(f"CONSUMER.DURABLE.CREATE.{STREAM}.{name}", asked)

    def _ask(self, what: str, asked: dict[str, Any]) -> None:
        """Send a request to the server's interface. Raises `PeerError` for an error."""
        body = json.dumps(asked).encode()
        self._socket.sendall(f"PUB $JS.API.{what} answers {len(body)}\r\n".encode() + body + END)
        found: list[tuple[bytes, bytes, bytes]] = []
        while not found:
            found = self._reader.feed(_some(self._socket))
            self._socket.sendall(self._reader.answer)
        answer = json.loads(found[0][2])
        if "error" in answer:
            raise PeerError(f"JetStream refuses {what}: {answer['error']}")


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(READ_BYTES)
    if not data:
        raise PeerError("nats-server closed the connection")
    return data


class NatsPublisher(Publisher):
    """Each publication names a subject of its own for the stream's answer."""

    def __init__(self, connection: socket.socket, run: int, number: int) -> None:
        super().__init__(connection)
        self._reader = Reader()
        self._inbox = f"inbox.{run}.{number}."
        self._head = f"PUB run.{run} {self._inbox}"
        self._bodies = some_bodies()
        connection.sendall(CONNECT + f"SUB {self._inbox}* 1\r\n".encode())

    def publish(self, first: int, count: int) -> bytes:
        bodies, head = self._bodies, self._head
        parts = []
        for number in range(first, first + count):
            body = bodies[number % len(bodies)]
            parts += [f"{head}{number} {len(body)}\r\n".encode(), body, END]
        return b"".join(parts)

    def confirmed(self, data: bytes) -> tuple[list[int], bytes]:
        cut, numbers = len(self._inbox), []
        for subject, _, payload in self._reader.feed(data):
            if b'"error"' in payload:
                raise PeerError(f"JetStream refuses a publication: {payload.decode()}")
            numbers.append(int(subject[cut:]))
        return numbers, self._reader.answer


class NatsConsumer(Consumer):
    """Messages are pushed to it; one acknowledgement is for all before it (`ack_policy`: all)."""

    def __init__(self, connection: socket.socket, subject: str) -> None:
        super().__init__(connection)
        self._reader = Reader()
        connection.sendall(CONNECT + f"SUB {subject} 1\r\n".encode())

    def take(self, data: bytes) -> tuple[int, bytes]:
        found = [message for message in self._reader.feed(data) if message[1]]
        answer = self._reader.answer
        if found:
            answer += b"PUB " + found[-1][1] + b" 4\r\n+ACK\r\n"
        return len(found), answer
