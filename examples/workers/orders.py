"""Publish orders, each with the share of the work that it belongs to."""

from __future__ import annotations

import argparse
import asyncio
import zlib
from contextlib import suppress

import reefcast

SHARES = 12
"""The same number as in worker.py."""
CUSTOMERS = ("Ana", "Bo", "Chen", "Gus", "Ines", "Pia")


def share_of(customer: str) -> int:
    """Return the share of a customer. It is the same in every process, unlike `hash`."""
    return zlib.crc32(customer.encode()) % SHARES


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=30, help="how many orders to publish")
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    async with reefcast.connect(arguments.url, name="orders") as client:
        for order in range(1, arguments.count + 1):
            customer = CUSTOMERS[order % len(CUSTOMERS)]
            await client.publish(
                kind="order", order=order, customer=customer, share=share_of(customer)
            )
    print(f"published {arguments.count} orders")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
