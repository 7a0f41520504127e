"""Brokers that join a running network, and leave it, under load."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from growing_networks import QUICK, Publishing, growing
from live_brokers import Live, make_scot
from msgspec.structs import replace

import reefcast
from live_networks import linked, make_network, until, url_of
from reefcast.cli.network_apply import apply_to
from reefcast.model.operations import Drain
from reefcast.network.changes import fingerprint
from reefcast.network.file import dump_network, load_network
from reefcast.server.applying import APPLIED, REFUSED, RESTART, Applying


@pytest.mark.parametrize(
    ("routing", "disk", "coordinator"),
    [
        ("acyclic", False, ""),
        ("acyclic", True, ""),
        ("mesh", False, ""),
        ("mesh", True, ""),
        ("mesh", False, "a"),
        ("mesh", True, "a"),
        ("flooding", True, ""),
    ],
)
async def test_brokers_join_and_leave_under_load(
    live: Live, tmp_path: Path, routing: str, disk: bool, coordinator: str
) -> None:
    """Two at once, of which one is behind the other; nobody misses anything, and the network is
    then as if they had never been there."""
    growth = growing(live, tmp_path, routing, disk=disk, coordinator=coordinator)
    growth.write("c", "d")
    await growth.start_all()
    publishing = Publishing(url_of(growth.whole, "a"))
    running = asyncio.create_task(publishing.run(lambda: None))
    seen: dict[str, list[int]] = {"b": [], "d": []}
    async with reefcast.connect(url_of(growth.whole, "b"), **QUICK) as near:
        reading = [asyncio.create_task(_read(await near.subscribe("n > 0"), seen["b"]))]
        await reading_began(seen["b"])
        growth.write()
        await growth.start("d")
        await growth.apply()
        await growth.start("c")
        await linked(growth.nodes.values())
        assert [*growth.nodes["b"].links] == ["a", "c"]
        async with reefcast.connect(url_of(growth.whole, "d"), **QUICK) as far:
            subscription = await far.subscribe("n > 0")
            first = publishing.count + 2  # settled: all that is published from now on
            reading.append(asyncio.create_task(_read(subscription, seen["d"])))
            await publishing.more()
            await far.publish(m=1, confirm=True)
            for name in ("c", "d"):
                growth.nodes[name].wishes.meet(Drain(on=True))
            await until(lambda: growth.nodes["b"].clients.handed_over == 2)
            await publishing.more()
            growth.write("c", "d")
            rows = await apply_to(growth.network, dry=False)
            assert {row["outcome"] for row in rows} == {APPLIED}, rows
            await until(lambda: [*growth.nodes] == ["a", "b"])
            await subscription.settled()
            await publishing.more()
            publishing.stop()
            await running
            await until(
                lambda: all(each and each[-1] == publishing.count for each in seen.values())
            )
            for task in reading:
                task.cancel()
    assert seen["b"] == list(range(seen["b"][0], publishing.count + 1))
    begun = seen["d"].index(first)
    assert seen["d"][begun:] == list(range(first, publishing.count + 1))
    assert [*growth.nodes["b"].links] == ["a"] and await growth.apply() == []
    for node in growth.nodes.values():
        assert node.host.core.router.prt.from_hop("c") == []
        assert not node.host.core.relearning


async def reading_began(seen: list[int]) -> None:
    await until(lambda: len(seen) > 3)


async def _read(subscription: reefcast.Subscription, seen: list[int]) -> None:
    async for event in subscription:
        if "n" in event:
            seen.append(event["n"])


async def test_who_is_not_drained_stays(live: Live, tmp_path: Path) -> None:
    """Nor does a home of durable sessions go, or a broker that does not answer; and then nothing of
    the file is applied."""
    growth = growing(live, tmp_path, "acyclic", disk=True)
    growth.write("d")
    await growth.start_all()
    client = await reefcast.connect(url_of(growth.whole, "c"), **QUICK)
    session = await client.session("orders")
    await session.subscribe("n > 0")
    changed = replace(growth.whole.limits, session_s=1.5)
    growth.whole = replace(growth.whole, limits=changed)
    growth.write("c", "d")

    async def why() -> str:
        rows = await apply_to(growth.network, dry=False)
        assert {row["outcome"] for row in rows} == {REFUSED}, rows
        assert growth.nodes["a"].host.limits.session_s == 60.0
        return next(row["why"] for row in rows if row["change"] == "[[broker]] c")

    assert "put it back into the file, and reefcast network drain c" in await why()
    growth.nodes["c"].wishes.meet(Drain(on=True))
    await until(lambda: growth.nodes["c"].draining.empty)
    said = await why()
    assert "c is the home of durable sessions, which would be lost: " in said
    assert "orders" in said and "reefcast session close" in said
    await session.close()
    rows = await apply_to(growth.network, dry=False)
    assert {row["outcome"] for row in rows} == {APPLIED}, rows
    await until(lambda: [*growth.nodes] == ["a", "b"])
    assert growth.nodes["a"].host.limits.session_s == 1.5
    await client.close()
    # One that does not answer may have anything on its disk.
    await growth.nodes["b"].stop()
    growth.write("b", "c", "d")
    (row,) = [row for row in await apply_to(growth.network, dry=False) if "broker" in row["change"]]
    assert row["outcome"] == REFUSED and "nobody knows whether it is drained" in row["why"]


async def test_what_cannot_come_or_go_is_said(live: Live, tmp_path: Path) -> None:
    """Links between brokers that stay, and brokers of a SCOT; SIGHUP takes nobody out."""
    growth = growing(live, tmp_path, "acyclic", disk=False)
    growth.write("d")
    await growth.start_all()
    moved = replace(growth.network.link[1], between=("a", "c"))
    network = replace(growth.network, link=[growth.network.link[0], moved])
    growth.path.write_text(dump_network(network))
    found = await growth.apply()
    assert {each.outcome for each in found} == {RESTART} and "move-link" in found[0].why
    growth.write("c", "d")
    hung_up = growth.nodes["b"].wishes.applying
    assert hung_up is not None
    assert {each.outcome for each in hung_up.apply("", dry=False)} == {REFUSED}
    assert [*growth.nodes["b"].links] == ["a", "c"]


async def test_a_neighbour_lets_nobody_go_who_still_has_subscriptions(
    live: Live, tmp_path: Path
) -> None:
    """Whoever asks: the command finds out before whether the broker is drained."""
    growth = growing(live, tmp_path, "acyclic", disk=False)
    growth.write("d")
    await growth.start_all()
    async with (
        reefcast.connect(url_of(growth.whole, "a"), **QUICK) as publisher,
        reefcast.connect(url_of(growth.whole, "c"), **QUICK) as client,
    ):
        await publisher.advertise("n > 0")
        await (await client.subscribe("n > 0")).settled()
        growth.write("c", "d")
        applying = growth.nodes["b"].wishes.applying
        assert applying is not None
        found = applying.apply(fingerprint(growth.network), dry=False)
        assert {each.outcome for each in found} == {REFUSED}
        assert any("c still has 1 subscription or advertisement," in each.why for each in found)
    assert [*growth.nodes["b"].links] == ["a", "c"]


async def test_a_scot_does_not_grow(live: Live, tmp_path: Path) -> None:
    whole, path = make_scot("path:3", 2), tmp_path / "net.toml"
    smaller = make_scot("path:2", 2)
    path.write_text(dump_network(smaller))
    node = await live.node(load_network(path), smaller.names[0])
    applying = Applying(node, path, ())
    path.write_text(dump_network(whole))
    found = [each for each in applying.apply() if each.before is None]
    assert {each.outcome for each in found} == {REFUSED}
    assert all("a SCOT cannot grow or shrink while it runs" in each.why for each in found)
    assert all("stop all brokers" in each.why for each in found)


async def test_brokers_that_find_each_other_need_no_links(live: Live, tmp_path: Path) -> None:
    options = {"contacts": ["a"]}
    whole, path = make_network("ab", routing="gossip", options=options), tmp_path / "net.toml"
    path.write_text(dump_network(replace(whole, broker=whole.broker[:1])))
    applying = Applying(await live.node(load_network(path), "a"), path, ())
    path.write_text(dump_network(whole))
    (found,) = applying.apply()
    assert (found.outcome, found.why) == (RESTART, "brokers of this routing find each other")
