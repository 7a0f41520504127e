"""What a client may expect of a broker in either protocol: the native one and JSON lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest
from json_client import JsonClient
from json_lines import JsonLines
from raw_client import LARGE, RawClient, expect

from children import CHILD_S
from live_networks import make_network, until
from reefcast.model import wire
from reefcast.model.messages import Refused
from reefcast.model.wire import FrameKind
from reefcast.protocol.principal import NOBODY
from reefcast.server.listeners import Listener
from reefcast.server.node import Node


class Speaker(Protocol):
    """A client, with the words of the tests below."""

    async def subscribe(self, filter: str = ...) -> int: ...
    async def unsubscribe(self, number: int) -> None: ...
    async def advertise(self, filter: str = ...) -> None: ...
    def publish(self, count: int = ..., **attributes: Any) -> None: ...
    async def delivered(self, count: int) -> list[tuple[tuple[int, ...], int]]: ...
    async def refused(self) -> tuple[str, int]: ...
    async def acknowledged(self, number: int) -> None: ...
    async def dropped(self) -> int: ...
    async def granted(self, least: int) -> None: ...
    async def closing(self) -> tuple[str, bool, bool]: ...
    def leave(self) -> None: ...
    def cut(self) -> None: ...
    def talk_nonsense(self) -> None: ...
    def stop_reading(self) -> None: ...
    def go_on_reading(self) -> None: ...


class Native(RawClient):
    """A client of the native protocol. `taken`: how many numbered frames came."""

    taken = 0

    async def _read(self) -> None:
        before = len(self.inbox)
        await super()._read()
        kinds = (FrameKind.CONTROL, FrameKind.DELIVER, FrameKind.DELIVER_AGAIN, FrameKind.DROPPED)
        self.taken += sum(kind in kinds for kind, _ in self.inbox[before:])

    async def delivered(self, count: int) -> list[tuple[tuple[int, ...], int]]:
        came = [await self.delivery() for _ in range(count)]
        return [(numbers, event.attributes["n"]) for numbers, event in came]

    async def refused(self) -> tuple[str, int]:
        answer = await self.answer()
        assert isinstance(answer, Refused) and answer.publication is not None
        return answer.reason, answer.publication[1]

    async def acknowledged(self, number: int) -> None:
        await self.until_acknowledged(number)

    async def dropped(self) -> int:
        return wire.decode_dropped(await self.next(FrameKind.DROPPED)).count

    async def granted(self, least: int) -> None:
        while least > 0:
            least -= wire.decode_number(await self.next(FrameKind.CREDIT))

    async def closing(self) -> tuple[str, bool, bool]:
        if self.close_frame is None:
            await self.reason()
        assert self.close_frame is not None
        return self.close_frame.reason, self.close_frame.retry, self.close_frame.too_slow

    def leave(self) -> None:
        self.send(FrameKind.CLOSE, wire.Close("done"))

    def cut(self) -> None:
        self.writer.transport.abort()

    def talk_nonsense(self) -> None:
        self.writer.write(b"\xff" * 100)

    def stop_reading(self) -> None:
        self.writer.transport.pause_reading()

    def go_on_reading(self) -> None:
        self.writer.transport.resume_reading()


class Json(JsonClient):
    taken = 0

    async def next(self, *kinds: str) -> dict[str, Any]:
        said = await super().next(*kinds)
        self.taken += any(kind in said for kind in ("deliver", "settled", "refused", "dropped"))
        return said

    async def delivered(self, count: int) -> list[tuple[tuple[int, ...], int]]:
        came = [await self.next("deliver") for _ in range(count)]
        return [(tuple(said["deliver"]), said["attributes"]["n"]) for said in came]

    async def refused(self) -> tuple[str, int]:
        said = await self.next("refused")
        return said["reason"], said["publication"][1]

    async def acknowledged(self, number: int) -> None:
        while (await self.next("acked"))["acked"] < number:
            pass

    async def dropped(self) -> int:
        return int((await self.next("dropped"))["dropped"])

    async def granted(self, least: int) -> None:
        while least > 0:
            least -= (await self.next("credit"))["credit"]

    async def closing(self) -> tuple[str, bool, bool]:
        said = await self.next("close")
        return said["close"], said["retry"], said["too_slow"]

    def leave(self) -> None:
        self.say(close="done")

    def cut(self) -> None:
        self.writer.transport.abort()

    def talk_nonsense(self) -> None:
        self.writer.write(b"\xff\n")

    def stop_reading(self) -> None:
        self.writer.transport.pause_reading()

    def go_on_reading(self) -> None:
        self.writer.transport.resume_reading()


class Place:
    """A broker, and clients that speak one of its protocols to it."""

    def __init__(self, native: bool) -> None:
        self._native = native
        self._clients: list[Native | Json] = []
        self.node: Node

    async def open(self, **limits: Any) -> None:
        self.node = node = Node(make_network("a", **limits), "a")
        node.listeners.append(Listener("127.0.0.1", 0, lambda: JsonLines(node)))
        await node.start()

    async def client(
        self, name: str, session: str = "s", after: Native | Json | None = None, **wishes: Any
    ) -> Speaker:
        """Connect a client. `after`: the client that this one continues, on a new connection."""
        received = after.taken if after is not None else 0
        client: Native | Json
        if self._native:
            fields = {f"queue_{key}": value for key, value in wishes.items()}
            fields |= {"features": (wire.RESUME,), "received": received}
            fields["ticket"] = "" if after is None else after.hello.ticket
            address = self.node.network.address("a")
            client = await Native.connect(address, name, session, **fields)
            assert client.hello.resumed is (after is not None)
        else:
            ticket = "" if after is None else after.welcome["ticket"]
            again = {"ticket": ticket, "received": received}
            port = self.node.listeners[1].port
            client = await Json.connect(port, name, session=session, **again, **wishes)
            assert client.welcome.get("resumed", False) is (after is not None)
        if after is not None:  # in one stream with what came before
            client.taken = after.taken
            client.numbers, client.tokens = after.numbers, after.tokens
            client.seqs = after.seqs
        self._clients.append(client)
        return client

    async def dial(self, name: str) -> Native | Json:
        """Return a connection over which nothing has been sent yet."""
        client: Native | Json
        if self._native:
            client = await Native.dial(self.node.network.address("a"), name)
        else:
            client = await Json.dial(self.node.listeners[1].port, name)
        self._clients.append(client)
        return client

    def knows(self, name: str) -> bool:
        return name in self.node.clients.sessions

    def rows(self) -> int:
        return self.node.host.core.tables()["PRT"]

    def away(self, name: str) -> bool:
        return self.knows(name) and self.node.clients.sessions[name].port.line is None

    async def close(self) -> None:
        for client in self._clients:
            client.writer.close()
        await self.node.stop()


@pytest.fixture(params=["native", "JSON lines"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    place = Place(request.param == "native")
    yield place
    await place.close()


async def test_events_come_to_the_subscriptions_that_they_match(place: Place) -> None:
    await place.open()
    subscriber, publisher = await place.client("s"), await place.client("p")
    low, high = await subscriber.subscribe("n < 3"), await subscriber.subscribe("n > 1")
    publisher.publish(3)
    came = await subscriber.delivered(3)
    assert [(sorted(numbers), n) for numbers, n in came] == [
        ([low], 1),
        ([low, high], 2),
        ([high], 3),
    ]
    await subscriber.unsubscribe(low)
    publisher.publish(2)
    assert await subscriber.delivered(2) == [((high,), 4), ((high,), 5)]


async def test_what_is_wrong_is_refused_with_a_reason(place: Place) -> None:
    await place.open()
    client = await place.client("c")
    with pytest.raises(ValueError, match="n >"):
        await client.subscribe("n >")
    await client.advertise("n < 3")
    client.publish(4)
    reason, number = await client.refused()
    assert "advertise" in reason and number == 3
    assert (await client.refused())[1] == 4
    await client.acknowledged(6)


async def test_credit_is_given_back_and_must_not_be_overdrawn(place: Place) -> None:
    await place.open(credit=8)
    client = await place.client("c")
    for _ in range(10):
        client.publish(8)
        await client.granted(8)
    slow = await place.client("s", limit=1, policy="block")  # nobody gets credit who feeds it
    await slow.subscribe()
    slow.stop_reading()
    client.publish(2000, text=LARGE)
    reason, retry, _ = await client.closing()
    assert "more than the credit allows" in reason and not retry


async def test_who_does_not_keep_up_is_told_what_was_dropped(place: Place) -> None:
    await place.open()
    slow, publisher = await place.client("s", limit=10), await place.client("p")
    await slow.subscribe()
    slow.stop_reading()
    for sent in range(500, 2001, 500):
        publisher.publish(500, text=LARGE)
        await publisher.acknowledged(sent)
    slow.go_on_reading()
    dropped = await slow.dropped()
    assert dropped == place.node.host.journal.counters["queue_full"] > 0
    last = (await slow.delivered(2000 - dropped))[-1]
    assert last[1] == 2000


async def test_who_asked_for_it_is_disconnected_when_its_queue_is_full(place: Place) -> None:
    await place.open()
    slow = await place.client("s", limit=10, policy="disconnect")
    await slow.subscribe()
    slow.stop_reading()
    publisher = await place.client("p")
    for sent in range(500, 2001, 500):
        publisher.publish(500, text=LARGE)
        await publisher.acknowledged(sent)
    await until(lambda: not place.knows("s"))
    assert place.rows() == 0
    slow.cut()


async def test_a_second_connection_with_the_same_id_takes_over(place: Place) -> None:
    await place.open()
    first = await place.client("c")
    await first.subscribe()
    second = await place.client("c", session="another")
    reason, retry, _ = await first.closing()
    assert "took over" in reason and not retry
    assert place.rows() == 0
    await second.subscribe("n > 0")


async def unread(place: Place, **limits: Any) -> Speaker:
    """Connect a client that does not read, and for which so much waits that a stopping broker stays
    for it."""
    await place.open(**limits)
    slow = await place.client("slow")
    await slow.subscribe()
    slow.stop_reading()
    publisher = await place.client("p")
    for sent in range(500, 2001, 500):
        publisher.publish(500, text=LARGE)
        await publisher.acknowledged(sent)
    assert not place.node.host.outputs.clients["slow"].empty
    return slow


async def test_who_comes_while_the_broker_stops_is_told_to_come_back(place: Place) -> None:
    slow = await unread(place, drain_s=60.0)
    early = await place.dial("early")
    stopping = asyncio.create_task(place.node.stop())
    await until(lambda: place.node.stopping)
    early.say_hello()
    reason, retry, _ = await early.closing()
    assert "was told to stop" in reason and retry
    slow.go_on_reading()
    await slow.delivered(2000)
    await stopping


async def test_a_connection_that_does_not_end_does_not_keep_the_broker(place: Place) -> None:
    await unread(place, drain_s=0.1)
    async with asyncio.timeout(CHILD_S):
        await place.node.stop()


async def test_a_client_that_is_granted_nothing_is_not_let_in() -> None:
    """The native port asks before it regards a connection as a client."""
    node = Node(make_network("a"), "a")

    def line() -> JsonLines:
        made = JsonLines(node)
        made.principal = NOBODY
        return made

    node.listeners.append(Listener("127.0.0.1", 0, line))
    await node.start()
    refused = await Json.connect(node.listeners[1].port, "c")
    assert "is not granted the role 'client'" in refused.welcome["close"]
    assert not node.clients.sessions
    refused.writer.close()
    await node.stop()


async def test_a_close_ends_the_session_at_once(place: Place) -> None:
    await place.open()
    client = await place.client("c")
    await client.subscribe()
    client.leave()
    await until(lambda: not place.knows("c"))
    assert place.rows() == 0


async def test_nonsense_costs_the_connection_and_nobody_else(place: Place) -> None:
    await place.open()
    bad, good = await place.client("bad"), await place.client("good")
    await good.subscribe()
    bad.talk_nonsense()
    await bad.closing()
    good.publish(1)
    assert [n for _, n in await good.delivered(1)] == [1]


async def test_a_session_outlives_its_connection(place: Place) -> None:
    """What came meanwhile is delivered then, and what was under way comes again; the subscription
    stands."""
    await place.open()
    subscriber, publisher = await place.client("s"), await place.client("p")
    number = await subscriber.subscribe()
    publisher.publish(2)
    await publisher.acknowledged(2)
    assert await subscriber.delivered(1) == [((number,), 1)]
    subscriber.cut()
    await until(lambda: place.away("s"))
    publisher.publish(3)
    await publisher.acknowledged(5)
    again = await place.client("s", after=subscriber)
    publisher.publish(2)
    taken = [n for _, n in await again.delivered(7 - subscriber.taken + 1)]
    expect(taken, subscriber.taken, 7)
    assert place.rows() == 1
    assert await again.subscribe("n > 100") == number + 1


async def test_the_old_connection_may_be_there_still(place: Place) -> None:
    """The client has noticed that its connection is broken; the broker has not."""
    await place.open()
    first = await place.client("s")
    number = await first.subscribe()
    again = await place.client("s", after=first)
    again.publish(2)
    assert await again.delivered(2) == [((number,), 1), ((number,), 2)]
    _, retry, _ = await first.closing()
    assert retry


async def test_a_session_that_nobody_comes_back_to_ends(place: Place) -> None:
    await place.open(session_s=0.05)
    client = await place.client("c")
    await client.subscribe()
    client.cut()
    await until(lambda: place.away("c"))
    await until(lambda: not place.knows("c"))
    assert place.rows() == 0


async def test_who_is_away_is_sent_what_its_queue_allows(place: Place) -> None:
    await place.open()
    subscriber, publisher = await place.client("s", limit=10), await place.client("p")
    await subscriber.subscribe()
    subscriber.cut()
    await until(lambda: place.away("s"))
    publisher.publish(100)
    await publisher.acknowledged(100)
    again = await place.client("s", after=subscriber)
    assert await again.dropped() == 90
    assert [n for _, n in await again.delivered(10)] == list(range(91, 101))


async def test_a_broker_that_stops_says_so(place: Place) -> None:
    await place.open()
    client = await place.client("c")
    await client.subscribe()
    stopping = asyncio.create_task(place.node.stop())
    reason, retry, too_slow = await client.closing()
    assert "told to stop" in reason and retry and not too_slow
    await stopping
