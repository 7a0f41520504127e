"""Brokers that join a running mesh, and leave it, where links are moved, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from growing_networks import QUICK, Growing, Publishing, growing
from live_brokers import Live
from msgspec.structs import replace

import reefcast
from live_networks import linked, until, url_of
from reefcast.cli.network_apply import apply_to
from reefcast.model.messages import MoveLink
from reefcast.model.operations import Drain
from reefcast.network.sections import LinkEntry
from reefcast.routing.mesh.movable import MovableMesh
from reefcast.routing.router import Action
from reefcast.server.applying import APPLIED, REFUSED


def link_in_file(growth: Growing, broker: str, old: str, new: str) -> None:
    """Change a link in the network file, as the command does that moves it."""
    between = {frozenset((broker, old)): (broker, new)}
    growth.whole.link = [
        LinkEntry(between=between.get(frozenset(each.between), each.between))
        for each in growth.whole.link
    ]


async def move(growth: Growing, broker: str, old: str, new: str) -> None:
    """Move a link, also in the network file."""
    core = growth.nodes[broker].host.core
    before = core.counters["moved"]
    growth.nodes[broker].host.driver.wish(MoveLink(old, new))
    await until(lambda: core.counters["moved"] > before)
    link_in_file(growth, broker, old, new)
    growth.write()
    await linked(growth.nodes.values())
    await until(lambda: broker not in growth.nodes[old].links)


async def restart(growth: Growing, name: str) -> None:
    """Kill a broker, and start it again."""
    node = growth.nodes[name]
    await growth.live.crash(node)
    if node.host.keeper is not None:
        await node.host.keeper.close()
    await growth.start(name)
    await linked(growth.nodes.values())


async def take_out(growth: Growing, name: str) -> None:
    growth.nodes[name].wishes.meet(Drain(on=True))
    await until(lambda: growth.nodes[name].draining.empty)
    growth.write(name)
    rows = await apply_to(growth.network, dry=False)
    assert {row["outcome"] for row in rows} == {APPLIED}, rows
    await until(lambda: name not in growth.nodes)


async def join(growth: Growing, name: str) -> None:
    growth.write()
    await growth.start(name)
    found = await growth.apply()
    assert {each.outcome for each in found} == {APPLIED}, found
    await linked(growth.nodes.values())


def never_begins(*_: object) -> list[Action]:
    """Do nothing about a grant."""
    return []


async def goes_everywhere(growth: Growing) -> None:
    """Check that what is confirmed at each broker is at each broker then."""
    for name in growth.nodes:
        async with reefcast.connect(url_of(growth.whole, name), **QUICK) as client:
            async with asyncio.timeout(20):
                await client.publish(m=1, confirm=True)


@pytest.mark.parametrize("disk", [True, False])
async def test_a_broker_whose_link_was_moved_leaves_and_comes_again(
    live: Live, tmp_path: Path, disk: bool
) -> None:
    """Under load; its old and its new neighbour restart, and wait for nobody who is gone, nor leave
    the one that has come again under its name."""
    growth = growing(live, tmp_path, "mesh", disk=disk, coordinator="a")
    growth.write("d")
    await growth.start_all()
    publishing = Publishing(url_of(growth.whole, "a"))
    running = asyncio.create_task(publishing.run(lambda: None))
    await join(growth, "d")
    await move(growth, "d", "c", "b")
    assert await growth.apply() == []
    await publishing.more()
    await take_out(growth, "d")
    await restart(growth, "b")
    await publishing.more()
    await goes_everywhere(growth)
    link_in_file(growth, "d", "b", "c")
    await join(growth, "d")
    await publishing.more()
    await restart(growth, "c")
    await publishing.more()
    await goes_everywhere(growth)
    assert [*growth.nodes["c"].links] == ["b", "d"]
    await move(growth, "d", "c", "b")
    await goes_everywhere(growth)
    publishing.stop()
    await running
    for node in growth.nodes.values():
        router = node.host.core.router
        assert isinstance(router, MovableMesh) and router.moved_links.epoch == 2
        assert not node.host.journal.counters["failures"]


async def applied_amid_a_move(growth: Growing, old: str, new: str) -> None:
    """Have all apply the file at once that has one link of c where it may be moved to, or not."""
    while True:
        growth.write()
        found = await growth.apply()
        if all(each.outcome == APPLIED for each in found):
            return
        has = [*growth.nodes["c"].links]
        if new in has and old not in has:
            link_in_file(growth, "c", old, new)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("turns", [0, 3, 6, 12, 25])
async def test_a_broker_joins_while_a_link_of_its_neighbour_moves(
    live: Live, tmp_path: Path, turns: int
) -> None:
    """The move is carried out; or it is given up, and then possible again."""
    growth = growing(live, tmp_path, "mesh", disk=True, coordinator="a")
    growth.write("d")
    await growth.start_all()
    growth.write()
    await growth.start("d")
    mover = growth.nodes["c"].host
    mover.driver.wish(MoveLink("b", "a"))
    for _ in range(turns):
        await asyncio.sleep(0)
    await applied_amid_a_move(growth, "b", "a")
    await until(lambda: mover.core.counters["moved"] + mover.core.counters["moves_given_up"])
    await linked(growth.nodes.values())
    if mover.core.counters["moves_given_up"]:
        await move(growth, "c", "b", "a")
    assert {*growth.nodes["c"].links} == {*"ad"}
    await goes_everywhere(growth)
    for node in growth.nodes.values():
        assert not node.host.journal.counters["failures"]


async def test_who_is_granted_a_move_and_is_taken_out_keeps_nobody_from_moving(
    live: Live, tmp_path: Path
) -> None:
    """It was granted its wish, and stops before it begins. Nobody else knows what became of it."""
    growth = growing(live, tmp_path, "mesh", disk=True, coordinator="a")
    growth.write()
    await growth.start_all()
    leaver = growth.nodes["d"].host.core.router
    assert isinstance(leaver, MovableMesh)
    leaver._granted = never_begins  # type: ignore[method-assign]  # dies before that
    growth.nodes["d"].host.driver.wish(MoveLink("c", "b"))
    coordinator = growth.nodes["a"].host.core.router
    assert isinstance(coordinator, MovableMesh)
    await until(lambda: coordinator.permissions.runs(1))
    growth.nodes["d"].host.driver.wish(MoveLink("c", "a"))  # waits for the first one
    await take_out(growth, "d")
    assert not coordinator.permissions.runs(1)
    growth.nodes["c"].host.driver.wish(MoveLink("b", "a"))
    await until(lambda: growth.nodes["c"].host.core.counters["moved"] == 1)
    await goes_everywhere(growth)


async def test_a_broker_that_is_broken_for_good_goes_when_its_neighbours_restart_without_it(
    live: Live, tmp_path: Path
) -> None:
    """It had moved its link, as others remember, and was granted another wish."""
    growth = growing(live, tmp_path, "mesh", disk=True, coordinator="a")
    growth.write()
    await growth.start_all()
    await move(growth, "d", "c", "b")
    broken = growth.nodes["d"].host
    assert isinstance(broken.core.router, MovableMesh)
    broken.core.router._granted = never_begins  # type: ignore[method-assign]  # dies before that
    broken.driver.wish(MoveLink("b", "c"))
    coordinator = growth.nodes["a"].host.core.router
    assert isinstance(coordinator, MovableMesh)
    await until(lambda: coordinator.permissions.runs(2))
    await live.crash(growth.nodes.pop("d"))
    growth.write("d")
    for name in "bc":
        await restart(growth, name)
    await goes_everywhere(growth)
    assert not coordinator.permissions.runs(2)
    assert [*growth.nodes["b"].links] == ["a", "c"]


async def test_nothing_comes_or_goes_where_links_are_not_those_of_the_file(
    live: Live, tmp_path: Path
) -> None:
    """A link was moved, and the file has it where it was: the command says so, and changes nothing
    anywhere."""
    growth = growing(live, tmp_path, "mesh", disk=False, coordinator="a")
    growth.write()
    await growth.start_all()
    old = [replace(each) for each in growth.whole.link]
    await move(growth, "c", "b", "a")
    growth.whole.link = old
    growth.nodes["d"].wishes.meet(Drain(on=True))
    await until(lambda: growth.nodes["d"].draining.empty)
    growth.write("d")
    rows = await apply_to(growth.network, dry=False)
    assert REFUSED in {row["outcome"] for row in rows}
    assert any("reefcast network move-link" in row["why"] for row in rows)
    assert {*growth.nodes} == {*"abcd"} and {*growth.nodes["c"].links} == {*"ad"}
