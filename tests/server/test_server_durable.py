"""Durable sessions at a real broker, with real clients: what their home owes, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live, Proxy
from raw_client import RawClient

import reefcast
from live_networks import PATIENCE_S, linked, make_network, until, url_of
from reefcast.client import Client, DurableSession, OwedEvent
from reefcast.client import client as client_module
from reefcast.client.encoding import encode_event
from reefcast.history.messages import CLIENT_CODEC
from reefcast.model import wire
from reefcast.model.wire import FrameKind
from reefcast.network.file import NetworkFile
from reefcast.network.sections import SessionsSection
from reefcast.protocol.principal import Principal, UserRole
from reefcast.server.greeting import Authenticator, Greeting
from reefcast.server.node import Node
from reefcast.sessions import translating
from reefcast.sessions.messages import Done, Failed, Note, Notes, OpenSession, ReadNotes

QUICK: dict[str, Any] = {"backoff_first_s": 0.005, "backoff_max_s": 0.02}
Connect = Callable[..., Any]


def with_disk(network: NetworkFile, directory: Path) -> NetworkFile:
    network.sessions = SessionsSection(directory=str(directory))
    return network.validate()


@pytest.fixture
async def home(live: Live, tmp_path: Path) -> Node:
    return await live.node(with_disk(make_network("a"), tmp_path), "a")


@pytest.fixture
async def connect(home: Node) -> AsyncIterator[Connect]:
    """Yield a function that connects clients to the home; they are closed at the end."""
    async with AsyncExitStack() as stack:

        async def connect(**options: Any) -> Client:
            url = options.pop("url", url_of(home.network, "a"))
            client = await reefcast.connect(url, **{**QUICK, **options})
            stack.push_async_callback(_end, client)
            return client

        yield connect


async def _end(client: Client) -> None:
    with suppress(reefcast.ReefcastError):
        await client.close()


async def publish(client: Client, *numbers: int) -> None:
    for number in numbers:
        await client.publish(n=number)
    await client.flush()


async def until_it_says(
    session: DurableSession, condition: Callable[[reefcast.SessionRow], object]
) -> None:
    """Wait until what the home says of a session meets the condition."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition(await session.status()):  # noqa: ASYNC110 (nobody signals it)
            await asyncio.sleep(0.002)


async def take(session: DurableSession, count: int) -> list[OwedEvent]:
    return [await anext(session) for _ in range(count)]


def numbers(events: list[OwedEvent]) -> list[object]:
    return [event["n"] for event in events]


async def test_what_is_owed_waits_for_a_consumer_and_goes_when_it_is_acknowledged(
    connect: Connect,
) -> None:
    client = await connect()
    session = await client.session("billing", max_events=50)
    assert await session.subscribe("n > 1") == 1
    await publish(client, 1, 2, 3)
    assert (await session.status()).events == 2
    events = await take(session, 2)
    assert numbers(events) == [2, 3]
    assert [(e.position, e.deliveries, e.redelivered, e.late) for e in events] == [
        (1, 1, False, False),
        (2, 1, False, False),
    ]
    await events[0].ack(wait=True)
    row = await session.status()
    assert (row.events, row.out, row.options.max_events) == (1, 1, 50)
    await events[1].ack()
    await session.flush()
    assert (await session.status()).events == 0
    await session.detach()
    assert (await session.status()).consumers == {}


async def test_opening_it_again_changes_what_is_said_and_keeps_the_rest(connect: Connect) -> None:
    client = await connect()
    session = await client.session("billing", expiry_s=60, max_events=5)
    await session.subscribe("n > 1")
    again = await client.session("billing", max_events=7)
    assert await again.subscribe("n > 1") == 1
    assert await again.subscribe("n > 2") == 2
    row = await again.status()
    assert (row.options.expiry_s, row.options.max_events) == (60, 7)
    assert row.subscriptions == {1: "n > 1", 2: "n > 2"}
    await session.unsubscribe("n > 1")
    with pytest.raises(reefcast.RefusedError, match=r"no subscription 'n > 1'; it has 'n > 2'"):
        await session.unsubscribe("n > 1")
    with pytest.raises(reefcast.RefusedError, match="max_events"):
        await client.session("billing", max_events=0)
    with pytest.raises(reefcast.RefusedError, match="no option 'colour'"):
        await client.session("billing", colour=1)


async def test_consumers_share_the_events_and_a_filter_of_their_own_selects(
    connect: Connect,
) -> None:
    owner, first, second, third = [await connect() for _ in range(4)]
    await (await owner.session("work")).subscribe("n > 0")
    one, two = first.session("work", prefetch=1), second.session("work", prefetch=1)
    picky = third.session("work", filter="n = 3")
    takes = [asyncio.ensure_future(anext(each)) for each in (one, two, picky)]
    work = owner.session("work")
    await until_it_says(work, lambda row: len(row.consumers) == 3)
    await publish(owner, 3, 4, 5)
    events = list(await asyncio.gather(*takes))
    assert sorted(map(str, numbers(events))) == ["3", "4", "5"]
    assert takes[2].result()["n"] == 3
    for event in events:
        await event.ack(wait=True)
    assert (await work.status()).events == 0


async def test_what_is_rejected_or_not_processed_comes_again_until_it_is_a_dead_letter(
    connect: Connect,
) -> None:
    client = await connect()
    async with client.session("billing", max_deliveries=3) as session:
        await session.subscribe("n > 0")
        await publish(client, 1)
        with pytest.raises(ZeroDivisionError):
            async with session.processing() as event:
                assert event.deliveries == 1
                raise ZeroDivisionError
        for deliveries in (2, 3):
            event = await anext(session)
            assert (event.deliveries, event.redelivered) == (deliveries, True)
            await event.reject(delay_s=0.01)
        await until_it_says(session, lambda row: row.dead_letters)
        [letter] = await session.look(dead=True)
        assert (letter.event["n"], letter.position, letter.deliveries) == (1, 1, 3)
        assert "3" in letter.dead
        assert await session.look() == []
        assert await session.move_dead_letters() == 1
        async with session.processing() as event:
            assert (event["n"], event.deliveries) == (1, 1)
        await session.flush()
        assert (await session.status()).events == 0


async def test_all_up_to_one_are_acknowledged_and_the_rest_is_drained(connect: Connect) -> None:
    client = await connect()
    session = await client.session("billing", prefetch=3)
    await session.subscribe("n > 0")
    await publish(client, *range(1, 6))
    events = await take(session, 3)
    await session.ack_up_to(events[1], wait=True)
    assert [letter.position for letter in await session.look()] == [3, 4, 5]
    assert [letter.position for letter in await session.look(after=3, most=1)] == [4]
    assert await session.drain() == 3
    assert (await session.status()).events == 0


async def test_positions_that_a_program_noted_are_acknowledged_in_its_next_life(
    connect: Connect,
) -> None:
    client = await connect()
    session = await client.session("billing", prefetch=3)
    await session.subscribe("n > 0")
    await publish(client, *range(1, 5))
    noted = [event.position for event in await take(session, 3)]
    await client.close()
    again = (await connect()).session("billing", prefetch=1)
    await again.ack_positions(noted[1:], wait=True)
    assert [letter.position for letter in await again.look()] == [1, 4]
    await again.ack_positions([*noted, *noted], wait=True)
    await again.ack_positions((), wait=True)
    with pytest.raises(reefcast.RefusedError, match="handed out"):
        await again.ack_positions([1_000], wait=True)
    assert (await anext(again))["n"] == 4


async def test_a_session_that_is_closed_ends_for_its_consumers_and_begins_anew(
    connect: Connect,
) -> None:
    owner, other = await connect(), await connect()
    session = await owner.session("billing")
    await session.subscribe("n > 0")
    consumer = other.session("billing")
    waiting = asyncio.ensure_future(anext(consumer))
    await until_it_says(session, lambda row: row.consumers)
    await session.close()
    with pytest.raises(reefcast.RefusedError, match="closed"):
        await waiting
    with pytest.raises(reefcast.RefusedError, match="billing"):
        await session.status()
    assert await owner.sessions() == []
    await publish(owner, 1)
    await owner.session("billing")
    assert (await session.status()).subscriptions == {}


async def test_a_consumer_whose_connection_breaks_attaches_again(
    home: Node, connect: Connect
) -> None:
    proxy = await Proxy(home.network.address("a")).start()
    try:
        client = await connect(url=f"reefcast://127.0.0.1:{proxy.port}")
        publisher = await connect()
        session = await client.session("billing", prefetch=2)
        await session.subscribe("n > 0")
        await publish(publisher, 1, 2, 3, 4)
        held, acked = await take(session, 2)
        await acked.ack()  # said before the cut, or again after it
        proxy.cut()
        await until(lambda: proxy.connections >= 2 and client.connected)
        # What it has in its hands does not come again to it; what it acknowledged neither.
        third = await anext(session)
        assert third["n"] == 3
        await held.ack()
        fourth = await anext(session)
        assert fourth["n"] == 4
        await session.ack_up_to(fourth, wait=True)
        assert (await session.status()).events == 0
    finally:
        await proxy.stop()


async def test_what_a_consumer_that_left_did_not_acknowledge_goes_to_another(
    connect: Connect,
) -> None:
    first, second = await connect(), await connect()
    session = await first.session("billing")
    await session.subscribe("n > 0")
    await publish(second, 1, 2)
    one, _ = await take(session, 2)
    await one.ack()
    await first.close()
    event = await anext(second.session("billing"))
    assert (event["n"], event.redelivered) == (2, True)


async def test_a_broker_that_starts_again_owes_what_it_owed(
    live: Live, home: Node, connect: Connect
) -> None:
    client = await connect()
    session = await client.session("billing")
    await session.subscribe("n > 0")
    await publish(client, 1, 2, 3)
    first, second, third = await take(session, 3)
    await first.ack(wait=True)
    await live.crash(home)
    await second.ack()  # without a connection; said to the broker that comes
    await live.node(home.network, "a")
    await until(lambda: client.connected)
    await publish(client, 4)
    # The third is still in this program's hands.
    fourth = await anext(session)
    assert (fourth["n"], fourth.redelivered) == (4, False)
    await third.ack()
    await fourth.ack(wait=True)
    assert (await session.status()).events == 0


async def test_a_consumer_may_be_at_any_broker_and_attaches_again(
    live: Live, tmp_path: Path
) -> None:
    network = make_network("abc", [("a", "b"), ("b", "c")])
    network.sessions = SessionsSection(directory=str(tmp_path))
    nodes = await live.up(network)
    async with (
        reefcast.connect(url_of(network, "a"), **QUICK) as at_a,
        reefcast.connect(url_of(network, "c"), **QUICK) as at_c,
    ):
        session = await at_a.session("billing")
        await session.subscribe("n > 0")
        elsewhere = await at_c.session("billing", prefetch=1)
        assert (await elsewhere.status()).home == "a"
        await publish(at_c, 1, 2)
        first = await anext(elsewhere)
        await first.ack(wait=True)
        await live.crash(nodes["b"])
        second = await anext(elsewhere) if elsewhere.waiting else None
        await live.node(network, "b")
        second = second or await anext(elsewhere)
        assert second["n"] == 2
        await second.ack(wait=True)
        assert (await session.status()).events == 0
        await elsewhere.close()
        with pytest.raises(reefcast.RefusedError, match=r"the session was closed|no session"):
            await anext(session)


async def test_a_session_is_not_made_while_its_name_may_be_taken(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "ASK_AGAIN_S", 0.005)
    network = make_network("ab", [("a", "b")])
    network.sessions = SessionsSection(directory=str(tmp_path))
    await live.node(network, "a")
    async with reefcast.connect(url_of(network, "a")) as client:
        with pytest.raises(reefcast.RefusedError, match=r"cannot be asked now: b; .*here=True"):
            await client.session("billing")
        session = await client.session("billing", here=True)
        assert (await session.status()).home == "a"


async def test_brokers_without_a_directory_say_so(live: Live, tmp_path: Path) -> None:
    network = make_network("ab", [("a", "b")])
    network.sessions = SessionsSection(directory=str(tmp_path))
    await live.up(network)
    async with (
        reefcast.connect(url_of(network, "a")) as at_a,
        reefcast.connect(url_of(network, "b")) as at_b,
    ):
        session = await at_a.session("billing")
        await session.subscribe("n > 0")
        await publish(at_b, 1)
        event = await anext(session)
        await event.ack(wait=True)
        with pytest.raises(reefcast.RefusedError, match="no session 'other' in this network"):
            await anext(at_b.session("other"))
    bare = await live.node(make_network("c"), "c")
    async with reefcast.connect(url_of(bare.network, "c")) as client:
        with pytest.raises(
            reefcast.RefusedError, match=r"no durable sessions.*\[sessions\] directory"
        ):
            await client.session("billing")


class ByName(Authenticator):
    """An authenticator: the user is the client's name up to the dash; root may do everything."""

    def prove(self, greeting: Greeting) -> Principal:
        user = greeting.hello.name.split("-")[0]
        roles = {UserRole.CLIENT} | ({UserRole.ADMINISTRATOR} if user == "root" else set())
        return Principal(user, frozenset(roles), "test")


async def test_names_are_unique_for_an_owner_and_administrators_see_all(
    live: Live, tmp_path: Path
) -> None:
    network = with_disk(make_network("a"), tmp_path)
    await live.node(network, "a", authenticator=ByName())
    url = url_of(network, "a")
    async with (
        reefcast.connect(url, name="anna") as anna,
        reefcast.connect(url, name="bert") as bert,
        reefcast.connect(url, name="root") as root,
    ):
        hers, his = await anna.session("billing"), await bert.session("billing")
        await hers.subscribe("n > 0")
        assert (await his.status()).subscriptions == {}
        assert [row.owner for row in await anna.sessions()] == ["anna"]
        with pytest.raises(reefcast.RefusedError, match="not granted the role 'administrator'"):
            await bert.session("billing", owner="anna").status()
        with pytest.raises(reefcast.RefusedError, match="administrator"):
            await bert.sessions("*")
        assert [row.owner for row in await root.sessions("*")] == ["anna", "bert"]
        await root.session("billing", owner="anna").close()
        assert await anna.sessions() == []


async def test_no_client_has_the_name_of_a_sessions_link(live: Live, home: Node) -> None:
    with pytest.raises(reefcast.ReefcastError, match="does not begin with"):
        await reefcast.connect(url_of(home.network, "a"), name="$x")


async def test_what_a_full_queue_drops_is_counted_and_logged(
    home: Node, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect()
    session = await client.session("billing", max_events=2)
    await session.subscribe("n > 0")
    await publish(client, 1, 2, 3, 4)
    row = await session.status()
    assert (row.events, row.dropped) == (2, 2)
    assert numbers(await take(session, 2)) == [3, 4]
    assert "durable session 'billing' of anonymous: dropped" in caplog.text
    assert home.host.core.counters["session_dropped"] == 2


async def test_the_largest_event_is_handed_out_as_well(connect: Connect) -> None:
    client = await connect()
    session = await client.session("billing")
    await session.subscribe("n > 0")
    smaller = encode_event((client.id, 1), 2**52, {"n": 1, "x": "x" * 100_000}, (), b"")
    size = 100_000 + wire.MAX_FRAME_BYTES - len(smaller)
    await client.publish(n=1, x="x" * size)
    event = await anext(session)
    assert len(str(event["x"])) == size
    await event.ack(wait=True)
    assert client.ended is None and (await session.status()).events == 0


async def test_what_does_not_fit_into_one_message_comes_in_several(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translating, "MOST_ROWS", 3)
    client = await connect()
    for number in range(8):
        session = await client.session(f"s{number}")
    await session.subscribe("n > 0")
    assert [row.name for row in await client.sessions()] == [f"s{n}" for n in range(8)]
    for n in (1, 2):
        await client.publish(n=n, payload=b"x" * 3_000_000, confirm=True)
    [first] = await session.look()
    assert first.event["n"] == 1
    [second] = await session.look(after=first.position)
    assert second.event["n"] == 2


async def told(client: RawClient, *kinds: type[Any]) -> Any:
    """Return the next message of these kinds that a bare client gets."""
    while True:
        message = CLIENT_CODEC.decode_control(await client.next(FrameKind.CONTROL))
        if isinstance(message, kinds):
            return message


async def test_notes_outlive_their_home_and_are_read_at_another_broker(
    live: Live, tmp_path: Path
) -> None:
    network = with_disk(make_network("ab", [("a", "b")]), tmp_path)
    nodes = await live.up(network)
    first = await live.client(nodes["b"], "first")
    notes = {"filter/a/#": "qos 2", "key with \0": "ü" * 200_000, "gone": ""}
    for message in (
        OpenSession(token=1, session="s", here=True),
        Note(token=2, session="s", notes=notes),
    ):
        first.send(FrameKind.CONTROL, message)
        assert (await told(first, Done, Failed)).token == message.token
    second = await live.client(nodes["a"], "second")
    second.send(FrameKind.CONTROL, Note(token=1, session="s", notes={"gone": None}))
    assert await told(second, Done, Failed) == Done(token=1)
    await live.crash(nodes["b"])
    await live.node(network, "b")
    await linked(live.nodes.values())
    second.send(FrameKind.CONTROL, ReadNotes(token=2, session="s"))
    read: dict[str, str] = {}
    more = True
    while more:
        answer = await told(second, Notes)
        read |= answer.notes
        more = answer.more
    del notes["gone"]
    assert read == notes
