"""Publish readings of a thermometer under the topic `readings`."""

from __future__ import annotations

import argparse
import asyncio
import math
from contextlib import suppress

import reefcast


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1, help="the number of the first reading")
    parser.add_argument("--count", type=int, default=5, help="how many readings to publish")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between two readings")
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    async with reefcast.connect(arguments.url, name="thermometer") as client:
        for number in range(arguments.first, arguments.first + arguments.count):
            celsius = round(20 + 5 * math.sin(number / 3), 1)
            await client.publish(number=number, celsius=celsius, topics=["readings"])
            await asyncio.sleep(arguments.pause)
    print(f"published {arguments.count} readings")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
