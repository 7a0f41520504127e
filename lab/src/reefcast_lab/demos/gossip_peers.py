"""A program of the demonstration of gossip: several peers, each with a client of its own, in one
event loop.

python -m reefcast_lab.demos.gossip_peers '{"addresses": [...], "wants": {"7": ["t003"]}, ...}'
"""

from __future__ import annotations

import asyncio
import random
import resource
from itertools import count

from reefcast.client import Client, Subscription, connect
from reefcast.client.event import decode_delivery
from reefcast.matching import warm_up
from reefcast.routing.gossip.router import Gossip
from reefcast.server.peer import Peer
from reefcast.timing import now_us
from reefcast_lab.demos.gossip_protocol import (
    JOIN,
    LISTEN,
    LOADED,
    LOOK,
    QUIET,
    REPORT_S,
    PeersTask,
    Report,
    Views,
)
from reefcast_lab.demos.program import FINISH, Orders, Pace, run_program, say

ON_TWO = 0.25
"""The share of publications on two topics."""
TOGETHER = 5
"""Peers that join at once; the others of the program wait."""
CONNECT_S = 60.0
"""A machine that is busy with other things may let a program wait."""


class Member:
    """One peer, its client, and its one subscription."""

    def __init__(self, number: int, peer: Peer, topics: list[str], program: Program) -> None:
        self.number = number
        self.peer = peer
        self.topics = topics
        self.client: Client
        self._program = program
        self._subscription: Subscription

    async def join(self) -> None:
        self.client = await connect(
            self.peer.url,
            name=str(self.number),
            on_deliveries=self._take,
            connect_timeout_s=CONNECT_S,
            queue_policy="block",
        )
        wanted = ", ".join(f"'{topic}'" for topic in self.topics)
        self._subscription = await self.client.subscribe(f"topic IN ({wanted}) AND number > 0")
        self._program.report.joined.append((self.number, now_us()))

    def _take(self, deliveries: list[bytes]) -> None:
        came_us = now_us()
        for delivery in deliveries:
            _, event = decode_delivery(delivery)
            publisher = int(event.publisher.partition("-")[0])
            row = (publisher, event.seq, self.number, came_us)
            self._program.report.delivered.append(row)

    @property
    def ends(self) -> int:
        """Connections to other peers."""
        return sum(link.connection is not None for link in self.peer.node.soft_links.links.values())

    def views(self, numbers: dict[str, int]) -> dict[str, list[int]]:
        """Return the views of all topics that it is in, perhaps of some as a contact only."""
        router = self.peer.node.host.core.router
        assert isinstance(router, Gossip)
        return {
            topic: [numbers[name] for name in known.overlay.view]
            for topic, known in router.memberships.items()
        }


class Program:
    """All of them. `report`: what will be told next."""

    def __init__(self, task: PeersTask) -> None:
        self.report = Report("", 0)
        self._task = task
        self._state = LOADED
        self._numbers = {address: i for i, address in enumerate(task.addresses)}
        self._started: list[Member] = []
        self._joined: list[Member] = []
        self._members = [
            Member(number, self._peer(number), topics, self)
            for number, topics in task.wants.items()
        ]

    def _peer(self, number: int) -> Peer:
        """Return a peer that joins by the peer before it, which need not be a contact."""
        task, numbers = self._task, list(self._task.wants)
        place = numbers.index(number)
        join = task.addresses[numbers[place - 1]] if place else task.join
        listen = task.addresses[number]
        return Peer(listen, join=[join]) if join else Peer(listen, options=task.options)

    async def run(self) -> None:
        orders = Orders()
        async with asyncio.TaskGroup() as background:
            telling = background.create_task(self._keep_telling())
            await orders.wait_for(LISTEN)
            for member in self._members:
                await member.peer.start()
                self._started.append(member)
            self._state = LISTEN
            await orders.wait_for(JOIN)
            publishing = background.create_task(self._publish())
            joining = background.create_task(self._join())
            while (word := await orders.next()) != FINISH:
                if word == LOOK:
                    self.report.views = self._views()
                elif word == QUIET:
                    publishing.cancel()
                    self._state = QUIET
            for each in (telling, publishing, joining):
                each.cancel()
        await asyncio.gather(*(self._end(member) for member in self._joined))

    async def _join(self) -> None:
        for at in range(0, len(self._members), TOGETHER):
            some = self._members[at : at + TOGETHER]
            await asyncio.gather(*(member.join() for member in some))
            self._joined += some
        self._state = JOIN

    async def _end(self, member: Member) -> None:
        await member.client.close()
        await member.peer.stop()

    # --- publishing -------------------------------------------------------------------------------

    async def _publish(self) -> None:
        """Publish each event when it is due, without drift."""
        task, pace = self._task, Pace(self._task.rate_per_s)
        rng = random.Random(f"publications {task.seed} {min(task.wants)}")
        for number in count(1):
            await pace.wait(number)
            if self._joined:
                await self._publish_one(number, rng)

    async def _publish_one(self, number: int, rng: random.Random) -> None:
        member = rng.choice(self._joined)
        most = 2 if rng.random() < ON_TWO else 1
        topics = rng.sample(member.topics, min(most, len(member.topics)))
        at_us = now_us()
        _, seq = await member.client.publish(number=number, topics=topics)
        self.report.published.append((member.number, seq, at_us, topics))

    # --- what is told -----------------------------------------------------------------------------

    async def _keep_telling(self) -> None:
        while True:
            report, self.report = self.report, Report("", 0)
            report.state, report.at_us = self._state, now_us()
            report.ends = sum(member.ends for member in self._started)
            say(report)
            await asyncio.sleep(REPORT_S)

    def _views(self) -> Views:
        return {member.number: member.views(self._numbers) for member in self._started}


async def run(task: PeersTask) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a connection has two ends here
    await asyncio.to_thread(warm_up)
    await Program(task).run()


if __name__ == "__main__":
    run_program(run, PeersTask)
