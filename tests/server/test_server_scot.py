"""Live brokers on a SCOT: their place, and what a broker that was killed learns anew."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from live_brokers import Live, make_scot, until

import reefcast
from reefcast.model.messages import Advertise, LinkKind, LinkUp
from reefcast.overlay.network_file import OverloadSection
from reefcast.server.observer import ask_status
from reefcast.server.status import LONGEST_FILTER, MOST_ROWS
from reefcast.server.supervisor import Overlay


async def test_a_broker_knows_its_place_and_when_a_link_is_overloaded(live: Live):
    network = make_scot("path:2", 3)
    network.overload = OverloadSection(tau=3.0, window_ms=10.0)
    nodes = await live.up(network)
    publisher = await live.client(nodes["b1-0"], "p")
    await publisher.advertise("n > 0")
    subscriber = await live.client(nodes["b2-1"], "s")
    await subscriber.subscribe("n < 10")
    status = nodes["b1-0"].status()
    assert (status["region"], status["cluster"], status["tau"]) == ("b1", 0, 3.0)
    kinds = {link["link"]: (link["kind"], link["cluster"]) for link in status["links"]}
    assert kinds == {"b1-1": ("i_link", 1), "b1-2": ("i_link", 2), "b2-0": ("a_link", 0)}
    assert [row["civ"] for row in status["clt"]] == ["011"]
    assert [row["civ"] for row in nodes["b1-1"].status()["clt"]] == ["011"]
    assert [row["civ"] for row in nodes["b1-2"].status()["clt"]] == ["001"]
    links = nodes["b1-0"].core.links
    links.goes("b1-1")
    assert links.lst.status("b1-1").load == 1
    for _ in range(3):
        links.goes("b1-1")
    assert links.lst.overloaded("b1-1")


class Member:
    """A client at one broker: it advertises its own kind of events and wants two kinds."""

    def __init__(self, client: reefcast.Client, own: str, wanted: set[str]) -> None:
        self.client = client
        self.own = own
        self.wanted = wanted
        self.advertisement = client.advertise(f"kind = '{own}'")
        self.subscription = client.subscribe(*(f"kind = '{kind}'" for kind in sorted(wanted)))
        self.got: Counter[tuple[str, int, int]] = Counter()
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.subscription:
            self.got[event["kind"], event["round"], event["n"]] += 1

    async def settled(self) -> None:
        await self.advertisement.settled()
        await self.subscription.settled()
        await self.client.flush()

    async def publish(self, round: int) -> None:
        for n in range(EVENTS):
            await self.client.publish(kind=self.own, round=round, n=n)

    def has_all(self, round: int) -> bool:
        return len({row for row in self.got if row[1] == round}) == EVENTS * len(self.wanted)

    async def got_once(self, round: int) -> bool:
        """Exactly once; to be asked when nothing is under way between brokers."""
        barrier = await self.client.subscribe("FALSE")  # after all that was delivered before
        await barrier.cancel()
        await asyncio.sleep(0)  # the reader's turn
        times = [n for row, n in self.got.items() if row[1] == round]
        return times == [1] * EVENTS * len(self.wanted)


EVENTS = 50


def tables(statuses: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
    """What every broker knows; ids are left out, for a client that comes back draws new ones."""
    rows = ("filter", "context", "civ")
    return {
        name: (status["tables"], sorted([row[key] for key in rows] for row in status["clt"]))
        for name, status in statuses.items()
        if status
    }


async def test_a_killed_broker_learns_all_anew_and_then_all_is_exactly_once():
    """Real processes, kill -9 under traffic. Most kinds are wanted in some clusters only, so that
    the CIVs have bits of both sorts."""
    network = make_scot("path:2", 3)
    names = network.names
    back = {name: asyncio.Event() for name in names}
    async with Overlay(network) as overlay:
        members = {}
        for name, other in zip(names, names[1:] + names[:1], strict=True):
            url = f"reefcast://{network.entry(name).listen}"
            client = await reefcast.connect(url, name=f"m-{name}", on_reconnect=back[name].set)
            members[name] = Member(client, name, {other, names[0]})
        await asyncio.gather(*(member.settled() for member in members.values()))
        before = tables(await overlay.status())
        bits = {row[2] for _, rows in before.values() for row in rows}
        assert "111" in bits
        assert len(bits) > 3
        for round, victim in enumerate(("b1-0", "b2-1"), 1):
            back[victim].clear()
            traffic = [asyncio.create_task(member.publish(0)) for member in members.values()]
            await overlay.kill(victim)
            await asyncio.gather(*traffic)
            async with asyncio.timeout(60):
                await back[victim].wait()
                await overlay.linked()
                await asyncio.gather(*(member.settled() for member in members.values()))
            assert tables(await overlay.status()) == before
            for member in members.values():
                await member.publish(round)
            for member in members.values():
                await until(partial(member.has_all, round))
            await overlay.linked()
            for member in members.values():
                assert await member.got_once(round), (round, member.own)
        for member in members.values():
            await member.client.close()
            await member.reading


async def test_status_sends_the_first_rows_of_a_long_table(live: Live):
    network = make_scot("path:2", 2)
    nodes = await live.up(network)
    core = nodes["b1-0"].core
    core.handle(LinkUp(LinkKind.CLIENT), "p", 0.0)
    long = " OR ".join(f"n = {n}" for n in range(1000))
    for number in range(1, MOST_ROWS + 8):
        text = long if number == 2 else f"n = {number}"
        core.handle(Advertise(("p", number), text, number), "p", 0.0)
    status = await ask_status(*network.address("b1-0"))
    assert status["tables"]["CLT"] == MOST_ROWS + 7
    assert len(status["clt"]) == MOST_ROWS and status["left_out"] == {"clt": 7}
    assert status["clt"][0]["filter"] == "n = 1"
    assert status["clt"][1]["filter"] == long[:LONGEST_FILTER] + "..."
    assert nodes["b2-0"].status()["left_out"] == {}
