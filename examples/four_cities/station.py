"""Publish a day of readings of a city's weather station."""

from __future__ import annotations

import argparse
import asyncio
import math
from contextlib import suppress

import reefcast


def celsius(hour: int, noon: float) -> float:
    """Return the temperature at an hour of a day: highest at 14:00, 10 degrees less by night."""
    return round(noon - 5 + 5 * math.cos((hour - 14) * math.tau / 24), 1)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("city", help="the name of the city")
    parser.add_argument("noon", type=float, help="its highest temperature")
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    async with reefcast.connect(arguments.url, name=f"station-{arguments.city}") as client:
        for hour in range(24):
            await client.publish(
                city=arguments.city, hour=hour, celsius=celsius(hour, arguments.noon)
            )
    print("published 24 readings")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
