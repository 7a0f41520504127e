"""Meshes of live brokers whose rounds open and close soft links by themselves, under load, with
broken connections and killed brokers. The long run is one of `make soak`."""

from __future__ import annotations

import asyncio
import logging
import random
from itertools import pairwise
from typing import Any

import pytest
from live_brokers import Live
from live_mesh import TREE, Members, counted, cut, mesh_network, soft_count

from live_networks import until
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile, dump_network, read_network
from reefcast.server.node import Node
from reefcast.server.supervisor import Overlay

NINE = "abcdefghi"
LEAVES = "acfi"
SOAK_S = 120.0


def nine(**options: Any) -> NetworkFile:
    """Return the network of nine, in which a busy machine makes nobody look dead."""
    options = {"round_s": 0.2, "fanout": 6, "maxlinks": 10, **options}
    return mesh_network(NINE, TREE, {"silence_s": 60.0}, **options)


def told(node: Node, table: str = "soft links") -> list[dict[str, Any]]:
    """Return the rows of a table, as an operator gets them."""
    rows: Any = node.status(StatusRequest())["rows"]
    columns = rows[table]["columns"]
    return [dict(zip(columns, row, strict=True)) for row in rows[table]["rows"]]


async def cut_some(nodes: dict[str, Node], rng: random.Random) -> int:
    """Break a random connection; return how many were broken."""
    ends = [(node, link) for node in nodes.values() for link in node.soft_links.links]
    if not ends:
        return 0
    node, link = rng.choice(ends)
    if node.soft_links.links[link].connection is None:
        return 0
    cut(node, link)
    return 1


@pytest.mark.parametrize("strategy", ["S1", "S2", "SH"])
async def test_links_open_and_close_by_themselves_and_nobody_misses_anything(
    live: Live, strategy: str, caplog: pytest.LogCaptureFixture
):
    """What was on its way when a link was closed is acknowledged first; a tunnel is only for what
    was on a connection that broke, as one may on a busy machine."""
    caplog.set_level(logging.INFO, logger="reefcast")
    nodes = await live.up(nine(strategy=strategy, capacity_per_s=1000.0))
    async with Members(nine_of(nodes), LEAVES) as members:
        traffic = asyncio.create_task(members.everybody_publishes(1000, pause_s=0.01))
        await until(lambda: any(row["gain"] > 0 for row in soft_rows(nodes)))
        await traffic
        await members.all_got_everything_once()
    rows = soft_rows(nodes)
    assert rows and {row["state"] for row in rows} <= {"opened", "accepted", "opening", "closing"}
    for node in nodes.values():
        assert len(node.links) + len(node.soft_links.links) <= 6
    sent = {name: node.host.core.counters["forwarded"] for name, node in nodes.items()}
    assert sum(sent.values()) > 0
    assert not counted(nodes.values(), "failures")
    if not any(" broke;" in record.getMessage() for record in caplog.records):
        assert not counted(nodes.values(), "tunnelled")


def nine_of(nodes: dict[str, Node]) -> NetworkFile:
    return next(iter(nodes.values())).network


def soft_rows(nodes: dict[str, Node]) -> list[dict[str, Any]]:
    rows = [row for node in nodes.values() for row in told(node)]
    return [row for row in rows if row["state"] != "candidate"]


@pytest.mark.parametrize(
    "strategies",
    ["S0 S1 S2 SH", *(pytest.param(alone, marks=pytest.mark.soak) for alone in ("S1", "S2"))],
)
async def test_random_cuts_under_load(live: Live, strategies: str):
    network = nine()
    each = strategies.split()
    for number, entry in enumerate(network.broker):
        entry.routing["strategy"] = each[number % len(each)]
    nodes = await live.up(network.validate())
    rng = random.Random(strategies)
    async with Members(network, LEAVES) as members:
        traffic = asyncio.create_task(members.everybody_publishes(1000, pause_s=0.01))
        cuts = 0
        while not traffic.done():
            cuts += await cut_some(nodes, rng)
            await asyncio.sleep(rng.uniform(0, 0.03))
        await traffic
        await members.all_got_everything_once()
    assert cuts > 3
    assert not counted(nodes.values(), "failures")


async def test_publications_take_fewer_hops(live: Live):
    """This is what a mesh is for: from a to i over five brokers, or over one link."""
    network = nine(round_s=0.1)
    nodes = await live.up(network)
    async with Members(network, "ai") as members:
        sent = counted(nodes.values(), "forwarded")
        await members["a"].publish(100)
        await members.all_got_everything_once()
        assert counted(nodes.values(), "forwarded") - sent == 600
        traffic = asyncio.create_task(members["a"].publish(3000, pause_s=0.005))
        await until(lambda: soft_count(nodes.values()))
        await traffic
        sent = counted(nodes.values(), "forwarded")
        await members["a"].publish(100)
        await members.all_got_everything_once()
        assert counted(nodes.values(), "forwarded") - sent < 500


@pytest.mark.long
async def test_processes(tmp_path: Any):
    """Brokers run as processes of their own: their status shows soft links with gains; one is
    killed, and the others go on; all stop in good order."""
    options = {"round_s": 0.3, "delta": 5, "strategy": "S1", "covering": "lazy"}
    network = read_network(dump_network(mesh_network("abcdef", pairwise("abcdef"), {}, **options)))
    async with Overlay(network, restart=False) as overlay:
        async with Members(network, "ae") as members:
            traffic = asyncio.create_task(members.everybody_publishes(2000, pause_s=0.02))
            while not traffic.done():
                rows = await soft_links_of(overlay)
                if any(row["gain"] > 0 and row["state"] == "opened" for row in rows):
                    break
                await asyncio.sleep(0.1)
            else:
                pytest.fail(f"no soft link came up: {rows}")
            await overlay.kill("f")  # nobody behind it wants anything
            await traffic
            await members.all_got_everything_once()
        codes = await overlay.stop()
    assert {name: code for name, code in codes.items() if code} == {"f": -9}


async def soft_links_of(overlay: Overlay) -> list[dict[str, Any]]:
    rows = []
    for status in (await overlay.status()).values():
        if status is not None:
            table = status["rows"]["soft links"]
            rows += [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    return rows


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
async def test_minutes_of_cuts(live: Live, seed: int):
    """Connections break, or nobody reads them for a while, until time is over."""
    rng = random.Random(seed)
    network = nine(round_s=0.3, fanout=rng.choice([4, 6, 9]))
    for entry in network.broker:
        entry.routing["strategy"] = rng.choice(["S0", "S1", "S2", "SH"])
    nodes = await live.up(network.validate())
    loop = asyncio.get_running_loop()
    end_s, cuts = loop.time() + SOAK_S, 0
    async with Members(network, LEAVES) as members:
        while loop.time() < end_s:
            count = rng.choice([20, 500, 3000])
            traffic = asyncio.create_task(members.everybody_publishes(count, pause_s=0.02))
            while not traffic.done():
                if rng.random() < 0.3:
                    hold(nodes, rng)
                cuts += await cut_some(nodes, rng)
                await asyncio.sleep(rng.expovariate(10))
            await traffic
            await members.all_got_everything_once()
            members.begin_anew()
    assert cuts > 100
    assert not counted(nodes.values(), "failures")


def hold(nodes: dict[str, Node], rng: random.Random) -> None:
    """Leave one of the connections unread for a while."""
    links = [link for node in nodes.values() for link in node.soft_links.links.values()]
    chosen = rng.choice(links).connection if links else None
    if chosen is not None:
        chosen.stop_reading()
        wait_s = rng.uniform(0.1, 2.0)
        asyncio.get_running_loop().call_later(wait_s, chosen.transport.resume_reading)
