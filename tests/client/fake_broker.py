"""A broker that does what a test says, where a real one cannot be made to do it in time."""

from __future__ import annotations

import asyncio
from collections import deque

from reefcast.model import wire
from reefcast.model.messages import ControlMessage, Settled, Subscribe
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Hello, Role
from reefcast.protocol.frames import FrameReader


class FakeBroker:
    """A broker that listens on a free port of 127.0.0.1, for one client at a time.

    `answers`: it settles control messages at once; `acknowledges`: it acknowledges publications;
    `credit`: that of its hello; `tops_up`: it gives a credit back for each publication. What the
    client sent is in `controls`, `publications` and `hellos`.
    """

    def __init__(self, *, credit: int = 1000, session: str = "first") -> None:
        self.credit = credit
        self.session = session
        self.answers = self.acknowledges = self.tops_up = True
        self.received = 0
        self.client_session = ""
        self.port = 0
        self.controls: deque[ControlMessage] = deque()
        self.resent: list[int] = []
        self.publications: list[Publication] = []
        self.resent: list[int] = []
        self.hellos: list[Hello] = []
        self.closings: list[str] = []
        self.came = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def url(self) -> str:
        return f"reefcast://127.0.0.1:{self.port}"

    async def __aenter__(self) -> FakeBroker:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.drop()

    def drop(self) -> None:
        """Break the connection."""
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None

    def restart(self) -> None:
        """Forget everything, as if another process had taken its place."""
        self.session += "+"
        self.received, self.client_session = 0, ""
        self.drop()

    def send(self, kind: FrameKind, value: object) -> None:
        assert self._writer is not None
        self._writer.write(wire.encode(kind, value))

    def send_control(self, message: ControlMessage) -> None:
        self.send(FrameKind.CONTROL, message)

    def deliver(self, numbers: tuple[int, ...], **attributes: object) -> None:
        assert self._writer is not None
        self.delivered = getattr(self, "delivered", 0) + 1
        body = wire.encode_publication(Publication("p", self.delivered, 0, attributes))
        self._writer.write(wire.encode_parts(FrameKind.DELIVER, numbers, body))

    def acknowledge(self) -> None:
        self.send(FrameKind.ACK, self.received)

    def standing(self, kind: type = Subscribe) -> list[tuple[int, str]]:
        """Return the (number, filter) of all `Subscribe` or `Advertise` messages received."""
        return [(c.id[1], c.filter) for c in self.controls if type(c) is kind]

    async def until(self, condition) -> None:
        """Wait, at most 10 s, for a condition on what the client sent."""
        async with asyncio.timeout(10):
            while not condition():
                self.came.clear()
                await self.came.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        frames = FrameReader()
        try:
            while data := await reader.read(65536):
                for kind, payload in frames.feed(data):
                    self._on_frame(kind, payload)
                self._after_read()
        except OSError:
            pass

    def _after_read(self) -> None:
        if self.acknowledges and self._writer is not None:
            self.acknowledge()
        self.came.set()

    def _on_frame(self, kind: int, payload: bytes) -> None:
        if kind == FrameKind.HELLO:
            self._on_hello(wire.decode_hello(payload))
        elif kind == FrameKind.CONTROL:
            message = wire.CLIENT_CODEC.decode_control(payload)
            self.controls.append(message)
            self.received += self.acknowledges
            if self.answers:
                self.send_control(Settled(message.token))
        elif kind in (FrameKind.PUBLISH, FrameKind.PUBLISH_AGAIN):
            if self.acknowledges:
                self.received += 1
                self.publications.append(wire.CLIENT_CODEC.decode_publish(payload).publication)
                self.resent += [self.publications[-1].seq] * (kind == FrameKind.PUBLISH_AGAIN)
            if self.tops_up:
                self.send(FrameKind.CREDIT, 1)
        elif kind == FrameKind.CLOSE:
            self.closings.append(wire.decode_close(payload).reason)

    def _on_hello(self, hello: Hello) -> None:
        self.hellos.append(hello)
        known = hello.session == self.client_session
        if not known:
            self.received = 0
        self.client_session = hello.session
        self.send(
            FrameKind.HELLO,
            Hello(
                version=wire.OFFER.version,
                role=Role.BROKER,
                name="fake",
                network="test",
                session=self.session,
                peer_session=hello.session if known else "",
                received=self.received,
                credit=self.credit,
            ),
        )
