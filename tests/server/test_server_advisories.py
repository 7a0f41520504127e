"""Advisory events at real brokers: what happens to a durable session is told to administrators who
subscribe to it, at any broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from live_brokers import Live
from raw_client import Closed

import reefcast
from live_networks import PATIENCE_S, make_network, url_of
from reefcast.history.messages import Request
from reefcast.model.wire import FrameKind
from reefcast.network.file import NetworkFile
from reefcast.network.sections import SessionsSection, TraceSection
from reefcast.protocol.principal import Principal, UserRole
from reefcast.server.greeting import Authenticator, Greeting

ADVISORIES = "topic LIKE '$reefcast/%'"


def with_advisories(network: NetworkFile, directory: Path) -> NetworkFile:
    network.sessions = SessionsSection(directory=str(directory), advisories=True)
    return network.validate()


class ByName(Authenticator):
    """An authenticator: the user is the first part of the client's name; only root is an
    administrator."""

    def prove(self, greeting: Greeting) -> Principal:
        user = greeting.hello.name.split("-")[0]
        roles = {UserRole.CLIENT, UserRole.BROKER}
        return Principal(
            user, frozenset(roles | ({*UserRole} if user == "root" else set())), "test"
        )


async def kinds(
    events: AsyncIterator[reefcast.Event], wanted: set[str]
) -> dict[str, reefcast.Event]:
    """Return the first advisory event of each kind, once all the wanted ones have come."""
    found: dict[str, reefcast.Event] = {}
    async with asyncio.timeout(PATIENCE_S):
        while not found.keys() >= wanted:
            event = await anext(events)
            [topic] = event.topics
            found.setdefault(topic.removeprefix("$reefcast/session/"), event)
    return found


async def test_what_happens_to_a_session_is_told_at_another_broker(
    live: Live, tmp_path: Path
) -> None:
    network = with_advisories(make_network("ab", [("a", "b")]), tmp_path)
    await live.up(network)
    async with (
        reefcast.connect(url_of(network, "a"), name="worker") as client,
        reefcast.connect(url_of(network, "b")) as ops,
    ):
        told = await ops.subscribe(ADVISORIES)
        everything = await ops.subscribe("TRUE")
        session = await client.session("billing", max_events=1, max_deliveries=1)
        await session.subscribe("n > 0")
        for number in (1, 2, 3):
            await client.publish(n=number)
        await client.flush()
        event = await anext(session)
        await event.reject()
        await session.detach()
        await session.close()
        found = await kinds(
            told, {"created", "full", "dropped", "attached", "dead-letter", "detached", "closed"}
        )
        for each in found.values():
            assert (each["broker"], each["session"], each["owner"]) == ("a", "billing", "anonymous")
        assert found["full"]["reason"] == "drop_oldest"
        assert (found["dropped"]["publisher"], found["dropped"]["number"]) == (client.id, 1)
        assert found["dead-letter"]["number"] == 3
        assert found["attached"]["consumer"].startswith("worker")
        got = [(await anext(everything))["n"] for _ in range(3)]
        assert got == [1, 2, 3], "who subscribes to everything sees no advisory events"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(everything)


async def test_they_are_for_administrators(live: Live, tmp_path: Path) -> None:
    network = with_advisories(make_network("a"), tmp_path)
    await live.node(network, "a", authenticator=ByName())
    url = url_of(network, "a")
    async with (
        reefcast.connect(url, name="anna") as anna,
        reefcast.connect(url, name="root") as root,
    ):
        refusal = "for administrators: user 'anna' is not granted the role 'administrator'"
        with pytest.raises(reefcast.RefusedError, match=refusal):
            await anna.subscribe(f"n > 0 OR {ADVISORIES}")
        session = await anna.session("billing")
        with pytest.raises(reefcast.RefusedError, match=refusal):
            await session.subscribe(ADVISORIES)
        watch = await root.session("watch")
        await watch.subscribe(ADVISORIES)
        await anna.session("more")
        event = await anext(watch)
        while event["session"] != "more":
            event = await anext(watch)
        assert event.topics == ("$reefcast/session/created",)


async def test_nobody_else_gets_past_ones_from_storages(live: Live, tmp_path: Path) -> None:
    network = with_advisories(make_network("a"), tmp_path)
    node = await live.node(network, "a", authenticator=ByName())
    for number, (topics, filter) in enumerate(
        ((("$reefcast/#",), "TRUE"), (("orders",), ADVISORIES)), start=1
    ):
        client = await live.client(node, f"anna-{number}")
        asked = Request(id=(client.name, 1), storage="s", topics=topics, filter=filter)
        client.send(FrameKind.CONTROL, asked)
        with pytest.raises(Closed) as closed:
            await client.next(FrameKind.DELIVER)
        assert closed.value.close_frame is not None
        assert "for administrators: user 'anna'" in closed.value.close_frame.reason


async def test_a_network_without_them_says_so(live: Live) -> None:
    network = make_network("a")
    await live.node(network, "a")
    async with reefcast.connect(url_of(network, "a")) as client:
        with pytest.raises(reefcast.RefusedError, match=r"advisories = true in \[sessions\]"):
            await client.subscribe(ADVISORIES)


async def test_a_client_publishes_nothing_under_their_topics(live: Live, tmp_path: Path) -> None:
    network = with_advisories(make_network("a"), tmp_path)
    await live.node(network, "a")
    async with reefcast.connect(url_of(network, "a")) as client:
        with pytest.raises(reefcast.InvalidValueError, match="what brokers say of themselves"):
            await client.publish(topics=["$reefcast/session/full"], n=1)
        with pytest.raises(reefcast.RefusedError, match="what brokers say of themselves"):
            await client.advertise("topic = '$reefcast/session/full'")


async def test_a_trace_has_them_as_published_by_their_broker(live: Live, tmp_path: Path) -> None:
    network = with_advisories(make_network("ab", [("a", "b")]), tmp_path / "sessions")
    network.trace = TraceSection(level="full", directory=str(tmp_path / "trace"))
    nodes = await live.up(network)
    async with (
        reefcast.connect(url_of(network, "a")) as client,
        reefcast.connect(url_of(network, "b")) as ops,
    ):
        told = await ops.subscribe(ADVISORIES)
        await client.session("billing")
        event = await anext(told)
    for node in nodes.values():
        await node.stop()
    files = sorted((tmp_path / "trace" / "publish").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert [(row["broker"], row["publisher"], row["seq"]) for row in rows] == [("a", *event.id)]
