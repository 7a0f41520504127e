"""What the load asks of a broker's protocol: publishers who wait for confirmations, consumers who
acknowledge, sessions that exist.

Each protocol makes and reads bytes only; the load moves them (`load`). What is set up before the
measurement blocks. Each run has publications of its own, which only its own sessions get.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod

PREFETCH = 1000
"""Deliveries that a consumer may have without having acknowledged them."""
READ_BYTES = 256 * 1024
ANSWER_S = 60.0
"""How long to wait for an answer while something is set up."""


def connected(port: int) -> socket.socket:
    """Return a connection to a broker on this machine."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Publisher(ABC):
    """One connection that publishes; it numbers its publications from 1. `credit`: how many more it
    may send now; None: no limit."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.credit: int | None = None

    @abstractmethod
    def publish(self, first: int, count: int) -> bytes:
        """Return the bytes of publications `first`, `first + 1`, ..."""

    @abstractmethod
    def confirmed(self, data: bytes) -> tuple[list[int], bytes]:
        """Handle what the broker said; return the numbers that it confirmed, and what to answer.
        Raises `PeerError` if it refuses one."""


class Consumer(ABC):
    """One connection that gets what a session is owed, and acknowledges it."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    @abstractmethod
    def take(self, data: bytes) -> tuple[int, bytes]:
        """Handle what the broker said; return how many deliveries have come, and what to answer:
        their acknowledgement, of all at once where the protocol can say that."""


class Wire(ABC):
    """A broker's protocol, at this port."""

    def __init__(self, port: int) -> None:
        self.port = port

    @abstractmethod
    def prepare(self, run: int, sessions: int) -> None:
        """Make the sessions (durable queues, consumers, ...) of a run, which all get all of it."""

    @abstractmethod
    def publisher(self, run: int, number: int) -> Publisher:
        """Connect the publisher `number` of a run."""

    @abstractmethod
    def consumer(self, run: int, session: int) -> Consumer:
        """Connect a consumer to one of the run's sessions, numbered from 0."""

    @abstractmethod
    def make_idle(self, count: int) -> None:
        """Make sessions to which nothing is published, each with a subscription of its own."""
