"""Live brokers on a SCOT: their place, and what a killed broker relearns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from live_brokers import Live, make_scot

import reefcast
from live_networks import until
from reefcast.model.messages import Advertise, LinkKind, LinkUp
from reefcast.model.wire import StatusRequest
from reefcast.network.sections import OverloadSection
from reefcast.routing.tables import MOST_ROWS
from reefcast.server.admin import ask_status
from reefcast.server.status import LONGEST_CELL
from reefcast.server.supervisor import Overlay


async def test_a_broker_knows_its_place_and_when_a_link_is_overloaded(live: Live):
    network = make_scot("path:2", 3)
    network.overload = OverloadSection(tau=3.0, window_s=0.01)
    nodes = await live.up(network)
    publisher = await live.client(nodes["b1-0"], "p")
    await publisher.advertise("n > 0")
    subscriber = await live.client(nodes["b2-1"], "s")
    await subscriber.subscribe("n < 10")
    status = nodes["b1-0"].status(StatusRequest())
    assert (status["region"], status["cluster"], status["tau"]) == ("b1", 0, 3.0)
    kinds = {link: (told["kind"], told["cluster"]) for link, told in status["lst"].items()}
    assert kinds == {"b1-1": ("i_link", 1), "b1-2": ("i_link", 2), "b2-0": ("a_link", 0)}
    told = [civs(nodes[f"b1-{cluster}"].status(StatusRequest())) for cluster in range(3)]
    assert told == [["011"], ["011"], ["001"]]
    links = nodes["b1-0"].host.core.links
    links.goes("b1-1")
    assert links.lst.status("b1-1").load == 1
    for _ in range(3):
        links.goes("b1-1")
    assert links.lst.overloaded("b1-1")


def civs(status: Mapping[str, Any]) -> list[str]:
    """Return the last column of the CLT."""
    clt = status["rows"]["CLT"]
    assert clt["columns"][-1] == "CIV"
    return [row[-1] for row in clt["rows"]]


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
        """Return whether everything came exactly once; for when nothing is under way between
        brokers."""
        barrier = await self.client.subscribe("FALSE")  # after all that was delivered before
        await barrier.cancel()
        await asyncio.sleep(0)  # the reader's turn
        times = [n for row, n in self.got.items() if row[1] == round]
        return times == [1] * EVENTS * len(self.wanted)


EVENTS = 50


def tables(statuses: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
    """Return what every broker knows, without ids: a client that comes back draws new ones."""
    kept = ("filter", "context", "CIV")
    return {
        name: (status["tables"], sorted(columns(status["rows"]["CLT"], kept)))
        for name, status in statuses.items()
        if status
    }


def columns(table: Mapping[str, Any], kept: Sequence[str]) -> list[list[Any]]:
    at = [list(table["columns"]).index(name) for name in kept]
    return [[row[i] for i in at] for row in table["rows"]]


async def test_a_killed_broker_learns_all_anew_and_then_all_is_exactly_once():
    """Real processes get kill -9 under traffic. Most kinds are wanted in some clusters only, so
    that the CIVs have bits of both values."""
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
    core = nodes["b1-0"].host.core
    core.handle(LinkUp(LinkKind.CLIENT), "p", 0.0)
    long = " OR ".join(f"n = {n}" for n in range(1000))
    for number in range(1, MOST_ROWS + 8):
        text = long if number == 2 else f"n = {number}"
        core.handle(Advertise(("p", number), text, number), "p", 0.0)
    address = network.address("b1-0")
    for rows, sent in ((None, MOST_ROWS), (10 * MOST_ROWS, MOST_ROWS), (50, 50)):
        status = await ask_status(*address, StatusRequest(rows=rows))
        assert status["tables"]["CLT"] == MOST_ROWS + 7
        clt = status["rows"]["CLT"]
        assert (len(clt["rows"]), clt["left_out"]) == (sent, MOST_ROWS + 7 - sent)
        filters = [filter for (filter,) in columns(clt, ["filter"])]
        assert filters[:3] == ["n = 1", long[:LONGEST_CELL] + "...", "n = 3"]
    assert nodes["b2-0"].status(StatusRequest())["rows"]["CLT"]["left_out"] == 0


async def test_status_tells_the_rows_of_a_table_that_is_asked_for(live: Live):
    network = make_scot("path:2", 2)
    nodes = await live.up(network)
    subscriber = await live.client(nodes["b1-0"], "s")
    for number in range(3):
        await subscriber.subscribe(f"n = {number}")
    told = await ask_status(*network.address("b1-0"))
    assert set(told["rows"]) == {"CLT"}
    asked = await ask_status(*network.address("b1-0"), StatusRequest(("PRT",), 2))
    assert set(asked["rows"]) == {"CLT", "PRT"}
    prt = asked["rows"]["PRT"]
    assert columns(prt, ["filter"]) == [["n = 0"], ["n = 1"]]
    assert prt["left_out"] == 1
