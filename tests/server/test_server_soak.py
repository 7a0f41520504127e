"""Brokers that are killed again and again under traffic. Each time the network recovers, and from
then on every event reaches every subscriber exactly once. A long run, for `make soak`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

import pytest
from live_brokers import make_scot

import reefcast
from live_networks import make_network, until
from reefcast.network.file import NetworkFile
from reefcast.server.supervisor import Overlay

KILLS = 100
EVENTS = 20
LINKS = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e")]


class Member:
    """A client at one broker that publishes and subscribes."""

    def __init__(self, client: reefcast.Client) -> None:
        self.client = client
        self.subscription = client.subscribe("round >= 0")
        self.got: list[tuple[int, str, int]] = []
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.subscription:
            self.got.append((event["round"], event.publisher, event["n"]))

    def has(self, round: int, count: int) -> bool:
        return sum(row[0] == round for row in self.got) >= count

    async def publish(self, round: int, count: int) -> None:
        for n in range(count):
            await self.client.publish(round=round, n=n)


async def healed(overlay: Overlay, members: dict[str, Member], back: asyncio.Event) -> None:
    async with asyncio.timeout(60):
        await back.wait()
        await overlay.linked()
        for member in members.values():
            await member.subscription.settled()
            await member.client.flush()


@pytest.mark.soak
@pytest.mark.parametrize(
    "make",
    [partial(make_network, "abcde", LINKS), partial(make_scot, "path:2", 3)],
    ids=["tree", "scot"],
)
async def test_the_network_heals_after_each_of_many_kills(make: Callable[[], NetworkFile]) -> None:
    rng = random.Random(1)
    network = make()
    back: dict[str, asyncio.Event] = {name: asyncio.Event() for name in network.names}
    async with Overlay(network) as overlay:
        members = {}
        for name in network.names:
            url = f"reefcast://{network.broker[network.names.index(name)].listen}"
            members[name] = Member(await reefcast.connect(url, on_reconnect=back[name].set))
        for round in range(1, KILLS + 1):
            victim = rng.choice(network.names)
            back[victim].clear()
            traffic = [asyncio.create_task(m.publish(0, EVENTS)) for m in members.values()]
            await overlay.kill(victim)
            await asyncio.gather(*traffic)
            await healed(overlay, members, back[victim])
            for member in members.values():
                await member.publish(round, EVENTS)
            expected = sorted(
                (round, m.client.id, n) for m in members.values() for n in range(EVENTS)
            )
            for name, member in members.items():
                await until(partial(member.has, round, len(expected)))
                got = sorted(row for row in member.got if row[0] == round)
                assert got == expected, f"round {round}, {victim} was killed, subscriber at {name}"
                member.got.clear()
        for member in members.values():
            await member.client.close()
            await member.reading
