"""A client program of the demo: many subscribers, each a connection of its own.

python -m reefcast_lab.demos.replay_subscriber '{"urls": {"b01": ...}, "workload": ..., ...}'
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

from reefcast.client import Client, Subscription, connect
from reefcast.timing import now_us
from reefcast_lab.demos.program import END_MARK, FINISH, Orders, run_program, say
from reefcast_lab.demos.replay_log import DELIVERIES, Log
from reefcast_lab.demos.replay_protocol import (
    BUSY,
    COMPLETE,
    READY,
    START,
    Progress,
    SubscriberTask,
)

TELL_S = 0.25

Asked = dict[int, str]
"""Number of a subscription in the workload -> its filter."""


class Subscriber:
    """One client and its subscriptions, whose events go to `log`."""

    def __init__(self, client: Client, asked: Asked, publishers: int, log: Log) -> None:
        self._log = log
        self._publishers = publishers
        self._end_marks = client.subscribe(f"{END_MARK} IS NOT NULL")
        self._subscriptions = {number: client.subscribe(text) for number, text in asked.items()}
        self._readers = [
            asyncio.create_task(self._read(number, subscription))
            for number, subscription in self._subscriptions.items()
        ]

    async def settled(self) -> None:
        await self._end_marks.settled()
        for subscription in self._subscriptions.values():
            await subscription.settled()

    async def complete(self) -> None:
        """Wait until the end marks of all publishers have come."""
        publishers: set[str] = set()
        while len(publishers) < self._publishers:
            publishers.update(event.publisher for event in await self._end_marks.next_batch())

    async def stop(self) -> None:
        """Log what the broker has sent and was not read yet: its answer to the cancellation comes
        after that."""
        await self._end_marks.cancel()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        for number, subscription in self._subscriptions.items():
            if subscription.waiting:
                await self._read_once(number, subscription)

    async def _read(self, number: int, subscription: Subscription) -> None:
        while True:
            await self._read_once(number, subscription)

    async def _read_once(self, number: int, subscription: Subscription) -> None:
        events = await subscription.next_batch()
        now = now_us()
        for event in events:
            self._log.add(number, event.publisher, event.seq, now)


def read_workload(task: SubscriberTask) -> dict[tuple[str, str], Asked]:
    """Read (broker, client) -> what it asks for."""
    asked: dict[tuple[str, str], Asked] = defaultdict(dict)
    for row in pq.read_table(task.workload).to_pylist():
        if row["broker"] in task.urls:
            asked[row["broker"], row["client"]][row["subscription"]] = row["filter"]
    return asked


async def run(task: SubscriberTask) -> None:
    orders, log = Orders(), Log(DELIVERIES)
    await orders.wait_for(START)
    async with asyncio.TaskGroup() as background:
        teller = background.create_task(_tell(log))
        clients, subscribers = [], []
        for (broker, name), asked in read_workload(task).items():
            client = await connect(task.urls[broker], name=name, queue_policy="block")
            clients.append(client)
            subscribers.append(Subscriber(client, asked, task.publishers, log))
        await asyncio.gather(*(subscriber.settled() for subscriber in subscribers))
        say(Progress(READY))
        waiting = background.create_task(_all_complete(subscribers, log))
        await orders.wait_for(FINISH)
        waiting.cancel()
        teller.cancel()
    await asyncio.gather(*(subscriber.stop() for subscriber in subscribers))
    log.write(Path(task.log))
    await asyncio.gather(*(client.close() for client in clients))


async def _all_complete(subscribers: list[Subscriber], log: Log) -> None:
    await asyncio.gather(*(subscriber.complete() for subscriber in subscribers))
    say(Progress(COMPLETE, len(log)))


async def _tell(log: Log) -> None:
    told = 0
    while True:
        await asyncio.sleep(TELL_S)
        if len(log) > told:
            told = len(log)
            say(Progress(BUSY, told))


if __name__ == "__main__":
    run_program(run, SubscriberTask)
