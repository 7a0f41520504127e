"""Print the readings of all cities that are hotter than a limit."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress

import reefcast


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("limit", type=float, help="degrees Celsius")
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    async with reefcast.connect(arguments.url, name="heat") as client:
        readings = await client.subscribe(f"celsius > {arguments.limit}")
        # The filter has settled: no hot reading is missed from now on, in whichever city.
        print(f"waiting for more than {arguments.limit:g} degrees", flush=True)
        async for event in readings:
            print(f"{event['city']}: {event['celsius']} degrees", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
