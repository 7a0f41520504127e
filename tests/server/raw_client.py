"""A client of bare frames, which can also send what no good client would."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from reefcast.model import wire
from reefcast.model.messages import (
    Advertise,
    Publish,
    Refused,
    Settled,
    Subscribe,
    Unsubscribe,
)
from reefcast.model.publication import Publication
from reefcast.model.wire import Close, FrameKind, Hello, Role
from reefcast.protocol.client_ids import Identity, identity_of
from reefcast.protocol.frames import FrameReader
from reefcast.protocol.proofs import Answer, Method, encode_proof

PATIENCE_S = 240.0
PING_S = 2.0
"""How often the client pings: brokers end silent connections, and tests are slow on a busy
machine."""


LARGE = "x" * 20_000
"""A value for an attribute: 1500 such publications are more than the buffers of sockets hold."""


class Closed(Exception):
    """The broker closed the connection; `close_frame` gives the reason, if one came."""

    def __init__(self, close_frame: Close | None):
        super().__init__(close_frame)
        self.close_frame = close_frame


OWN = identity_of("c", "a secret of the tests")
"""A client for networks that have users."""


class RawClient:
    """One connection. `inbox` holds the frames that came and were not asked for yet."""

    def __init__(
        self, who: str | Identity, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.name, self.secret = who if isinstance(who, Identity) else (who, "")
        self.reader = reader
        self.writer = writer
        self.frames = FrameReader()
        self.inbox: list[tuple[int, bytes]] = []
        self.hello: Hello
        self.close_frame: Close | None = None
        self.tokens = itertools.count(1)
        self.numbers = itertools.count(1)
        self.seqs = itertools.count(1)
        self._pings: asyncio.TimerHandle | None = None

    @classmethod
    async def dial(cls, address: tuple[str, int], who: str | Identity = "c") -> RawClient:
        reader, writer = await asyncio.open_connection(*address)
        return cls(who, reader, writer)

    @classmethod
    async def connect(
        cls, address: tuple[str, int], name: str = "c", session: str = "s", **fields: Any
    ) -> RawClient:
        client = await cls.dial(address, name)
        client.say_hello(session=session, **fields)
        client.hello = wire.decode_hello(await client.next(FrameKind.HELLO))
        client._keep_alive()
        return client

    def _keep_alive(self) -> None:
        if not self.writer.is_closing():
            self.send(FrameKind.PING, 0)
            self._pings = asyncio.get_running_loop().call_later(PING_S, self._keep_alive)

    # --- sending ----------------------------------------------------------------------------------

    def say_hello(self, **fields: Any) -> None:
        values: dict[str, Any] = {
            "version": wire.OFFER.version,
            "role": Role.CLIENT,
            "name": self.name,
            "network": "",
            "session": "s",
            "secret": self.secret,
        }
        self.send(FrameKind.HELLO, Hello(**(values | fields)))

    async def prove(self, token: str) -> None:
        """Say hello and show a token. Raises `Closed` if the broker does not let it in."""
        self.say_hello()
        await self.next(FrameKind.PROOF)
        answer = encode_proof(Answer(Method.TOKEN, secret=token))
        self.writer.write(wire.frame(FrameKind.PROOF, answer))
        await self.next(FrameKind.HELLO)

    def send(self, kind: FrameKind, value: object) -> None:
        self.writer.write(wire.encode(kind, value))

    def publish(self, count: int = 1, **attributes: Any) -> None:
        """Publish `count` events; attribute `n` is their number."""
        frames = []
        for seq in itertools.islice(self.seqs, count):
            publication = Publication(self.name, seq, 0, {"n": seq, **attributes})
            body = wire.encode_publication(publication)
            frames.append(wire.encode_publish(Publish(publication, body=body)))
        self.writer.write(b"".join(frames))

    async def subscribe(self, filter: str = "TRUE") -> int:
        number = next(self.numbers)
        await self.ask(Subscribe((self.name, number), filter, next(self.tokens)))
        return number

    async def unsubscribe(self, number: int) -> None:
        await self.ask(Unsubscribe((self.name, number), next(self.tokens)))

    async def advertise(self, filter: str = "TRUE") -> None:
        await self.ask(Advertise((self.name, next(self.numbers)), filter, next(self.tokens)))

    async def ask(self, message: Any) -> None:
        """Send a control message and wait for its answer. Raises `ValueError` if it is refused."""
        self.send(FrameKind.CONTROL, message)
        answer = await self.answer()
        assert answer.token == message.token
        if isinstance(answer, Refused):
            raise ValueError(answer.reason)

    async def answer(self) -> Settled | Refused:
        answer = wire.CLIENT_CODEC.decode_control(await self.next(FrameKind.CONTROL))
        assert isinstance(answer, (Settled, Refused))
        return answer

    # --- receiving --------------------------------------------------------------------------------

    async def next(self, *kinds: FrameKind) -> bytes:
        """Return the payload of the next frame of one of these kinds. Raises `Closed`."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for at, (each, payload) in enumerate(self.inbox):
                    if each in kinds:
                        del self.inbox[at]
                        return payload
                await self._read()

    async def _read(self) -> None:
        try:
            data = await self.reader.read(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            raise Closed(self.close_frame)
        for kind, payload in self.frames.feed(data):
            if kind == FrameKind.CLOSE:
                self.close_frame = wire.decode_close(payload)
            self.inbox.append((kind, payload))

    async def delivery(self) -> tuple[tuple[int, ...], Publication]:
        """Return the next delivery. It may be marked as a possible copy, as what waited for a
        neighbour is."""
        payload = await self.next(FrameKind.DELIVER, FrameKind.DELIVER_AGAIN)
        head, body = wire.split_parts(payload)
        return wire.decode_numbers(head), wire.decode_publication(body)

    async def seqs_of(self, count: int) -> list[int]:
        """Return the numbers of the next `count` deliveries."""
        return [(await self.delivery())[1].seq for _ in range(count)]

    async def until_acknowledged(self, number: int) -> None:
        while wire.decode_number(await self.next(FrameKind.ACK)) < number:
            pass

    async def reason(self) -> str:
        """Wait until the broker closes the connection; return its reason."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                while True:
                    await self._read()
            except Closed as closed:
                assert closed.close_frame is not None, "the broker closed without a reason"
                return closed.close_frame.reason

    def credit(self) -> int:
        """Return the credit given since the last call."""
        given = [wire.decode_number(p) for kind, p in self.inbox if kind == FrameKind.CREDIT]
        self.inbox = [entry for entry in self.inbox if entry[0] != FrameKind.CREDIT]
        return sum(given)

    async def close(self) -> None:
        if self._pings is not None:
            self._pings.cancel()
        self.writer.close()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(self.writer.wait_closed(), return_exceptions=True)


async def publish_within_credit(client: RawClient, left: int, stop: asyncio.Event) -> int:
    """Publish as credit allows, until `left` are out or `stop` is set; return how many."""
    done, credit = 0, client.hello.credit
    while done < left and not stop.is_set():
        count = min(credit, left - done)
        if count:
            client.publish(count, text=LARGE)
            done += count
            credit -= count
        if done == left:
            break  # the last acknowledgement is left to who waits for it
        try:
            async with asyncio.timeout(0.05):
                await client.next(FrameKind.ACK)
        except TimeoutError:
            pass
        credit += client.credit()
    return done


def expect(seqs: Sequence[int], first: int, last: int) -> None:
    """Read the deliveries, and check that each number from `first` to `last` comes once, in
    order."""
    assert list(seqs) == list(range(first, last + 1))
