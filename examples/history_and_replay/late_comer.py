"""Summarize the readings that are stored, then print all of them and go on with new ones."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import reefcast

READINGS = "topic = 'readings'"


async def summarize(past: reefcast.History) -> None:
    """Read the past alone; the iteration ends where the past does."""
    celsius = [event["celsius"] async for event in past]
    if celsius:
        print(f"{len(celsius)} stored, from {min(celsius)} to {max(celsius)} degrees", flush=True)
    else:
        print("nothing is stored yet", flush=True)


async def follow(readings: reefcast.Replay) -> None:
    """Read the past and then what comes, without a gap and nothing twice."""
    started = datetime.now(UTC)
    async for event in readings:
        when = "past" if event.time < started else "live"
        print(f"{when}  reading {event['number']}: {event['celsius']} degrees", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    async with reefcast.connect(arguments.url, name="late-comer") as client:
        await summarize(client.history(READINGS))
        await follow(client.subscribe(READINGS, replay=True))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
