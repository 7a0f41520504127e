"""A client program of the demo: replays the flights of one airport at a steady pace.

python -m reefcast_lab.demos.replay_publisher '{"url": ..., "origin": "JFK", ...}'
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from reefcast.client import Client, connect
from reefcast.timing import now_us
from reefcast_lab.demos.program import END_MARK, FINISH, Orders, Pace, run_program, say
from reefcast_lab.demos.replay_log import PUBLICATIONS, Log
from reefcast_lab.demos.replay_protocol import (
    BUSY,
    COMPLETE,
    GO,
    READY,
    START,
    Progress,
    PublisherTask,
)

AHEAD_S = 0.004
"""Events that are due within this time go together."""

BATCH = 1000


def read_events(task: PublisherTask) -> Iterator[dict[str, Any]]:
    """Yield the task's events in the order of time; missing attributes are None. The file is read
    at once, rows are made when they are asked for."""
    chosen = [("event", "<", task.count), ("origin", "==", task.origin)]
    table = pq.read_table(task.events, filters=chosen).sort_by("event").drop_columns(["time_us"])
    batches = table.to_batches(max_chunksize=BATCH)
    return (row for batch in batches for row in batch.to_pylist())


async def replay(
    client: Client, events: Iterator[dict[str, Any]], rate_per_s: float, log: Log
) -> None:
    """Publish each event when it is due, counted from now, without drift."""
    pace = Pace(rate_per_s)
    for event in events:
        number = event.pop("event")
        if pace.early_s(number) > AHEAD_S:
            say(Progress(BUSY, len(log)))
            await pace.wait(number)
        publisher, seq = await client.publish(event)
        log.add(publisher, seq, number, now_us())


async def run(task: PublisherTask) -> None:
    orders, log = Orders(), Log(PUBLICATIONS)
    await orders.wait_for(START)
    events = read_events(task)
    async with connect(task.url, name=f"replay-{task.origin}") as client:
        await client.advertise(f"origin = '{task.origin}'")
        await client.advertise(f"{END_MARK} = '{task.origin}'")
        say(Progress(READY))
        await orders.wait_for(GO)
        await replay(client, events, task.rate_per_s, log)
        await client.publish({END_MARK: task.origin})
        await client.flush()
        log.write(Path(task.log))
        say(Progress(COMPLETE, len(log)))
        await orders.wait_for(FINISH)


if __name__ == "__main__":
    run_program(run, PublisherTask)
