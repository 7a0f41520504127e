"""The work of one connection takes turns with that of others; a client that is gone leaves nothing
behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest
from live_brokers import Live, OneBroker
from raw_client import PATIENCE_S, RawClient

from live_networks import make_network, until
from reefcast.model import filters, wire
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.messages import Subscribe
from reefcast.model.wire import FrameKind
from reefcast.routing.gate import HOLD_TIMER
from reefcast.server.admin import admin_connection
from reefcast.server.node import Node

MANY = 4_000


async def test_many_subscriptions_at_once_keep_nobody_from_the_status(
    live: Live, monkeypatch: pytest.MonkeyPatch
):
    """Neither broker is kept from answering: one passes its subscriptions on to the other."""
    monkeypatch.setattr("reefcast.server.admin.ANSWER_S", PATIENCE_S)
    nodes = await live.up(make_network("ab", [("a", "b")]))
    publisher = await live.client(nodes["b"], "p")
    await publisher.advertise("n > 0")
    eager = await live.client(nodes["a"], "eager")
    frames = [
        wire.encode(FrameKind.CONTROL, Subscribe(("eager", n), f"n = {n}", n))
        for n in range(1, MANY + 1)
    ]
    for name, node in nodes.items():
        eager.writer.write(b"".join(frames[: MANY // 2] if name == "a" else frames[MANY // 2 :]))
        before = len(node.host.core.router.prt)
        async with admin_connection(*node.network.address(name)) as broker:
            answers = 0
            while len(node.host.core.router.prt) < before + MANY // 2:
                await broker.status()
                answers += 1
        assert answers > 2
    last = 0
    while last < MANY:
        last = (await eager.answer()).token
    assert eager.hello is not None and not eager.close_frame
    await until(lambda: len(nodes["b"].host.core.router.prt) == MANY)


async def come_and_go(node: Node, names: Iterator[str], count: int) -> None:
    for _ in range(count):
        name = next(names)
        client = await RawClient.connect(node.network.address(node.name), name)
        await client.advertise(f"n > 0 AND who = '{name}'")
        await client.subscribe(f"n > 0 AND who = '{name}'")
        client.publish(1, who=name)
        await client.delivery()
        await client.close()
    await until(lambda: not node.clients.sessions)


@pytest.mark.parametrize("routing", ["acyclic", "tid-s", "mesh"])
async def test_clients_that_came_and_went_leave_nothing_behind(
    live: Live, monkeypatch: pytest.MonkeyPatch, routing: str
):
    """Every table, queue and memory of the brokers is as large as before."""
    monkeypatch.setattr("reefcast.routing.gate.HOLD_S", 0.01)
    network = make_network("ab", [("a", "b")], routing=routing, session_s=0.01)
    nodes = await live.up(network)
    names = (f"client-{n}" for n in range(1000))
    sizes = []
    for _ in range(2):
        await come_and_go(nodes["a"], names, 60)
        await until(lambda: not any(node.host.core.tables()["PRT"] for node in nodes.values()))
        for node in nodes.values():
            node.clients.forget_old(asyncio.get_running_loop().time() + 1)
        await until(lambda: not waits_for_advertisements(nodes["a"]))
        filters._latest.cache_clear()
        gc.collect()
        sizes.append({name: sizes_of(node) for name, node in nodes.items()})
    grown = {
        (name, part): (before, size)
        for name in nodes
        for part, size in sizes[1][name].items()
        if size - (before := sizes[0][name].get(part, 0)) > 20
    }
    assert not grown


def waits_for_advertisements(node: Node) -> bool:
    return any(key.startswith(HOLD_TIMER) for key in node.host.driver._timers)


def sizes_of(root: object) -> dict[str, int]:
    """Return the sizes of everything that can be reached from there, by the path to it."""
    sizes: dict[str, int] = {}
    seen: set[int] = set()
    ways = [(root, "")]
    while ways:
        thing, way = ways.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict | list | set | tuple | frozenset):
            sizes[way] = len(thing)
        if isinstance(thing, dict):
            ways += [(value, f"{way}[{key!s:.30}]") for key, value in thing.items()]
        elif type(thing).__module__.startswith(("reefcast", "collections")):
            names = {
                name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())
            }
            names |= getattr(thing, "__dict__", {}).keys()
            ways += [(getattr(thing, name, None), f"{way}.{name}") for name in names]
    return sizes


async def test_no_more_clients_are_remembered_than_there_may_be(live: Live, one: OneBroker):
    node = await one(max_clients=3)
    for n in range(6):
        client = await live.client(node, f"c{n}")
        await client.close()
        await until(lambda: not node.clients.sessions)
    assert list(node.clients._memories) == list(node.host.congestion.accounts) == ["c3", "c4", "c5"]


async def test_filters_that_nobody_uses_go():
    used = [parse_filter(f"used = {n}") for n in range(50)]
    for n in range(15_000):
        parse_filter(f"n = {n}")
    gc.collect()
    alive = sum(isinstance(thing, Filter) for thing in gc.get_objects())
    assert alive < 10_000
    assert all(parse_filter(filter.text) is filter for filter in used)
