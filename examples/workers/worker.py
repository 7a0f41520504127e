"""Work on a share of the orders: each worker of a group has a filter of its own."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress

import reefcast

SHARES = 12
"""The same number as in orders.py; more than there will ever be workers."""


def share_of(number: int, workers: int) -> str:
    """Return the filter of one worker. The filters of all of them match each order once."""
    shares = ", ".join(str(share) for share in range(SHARES) if share % workers == number - 1)
    return f"kind = 'order' AND share IN ({shares})"


async def work(event: reefcast.Event) -> None:
    """Simulate work that takes time."""
    await asyncio.sleep(0.02)
    print(f"order {event['order']} of {event['customer']}", flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", type=int, help="which worker this is, from 1 on")
    parser.add_argument("workers", type=int, help=f"how many there are, up to {SHARES}")
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    if not 1 <= arguments.number <= arguments.workers <= SHARES:
        parser.error(f"expected 1 <= number <= workers <= {SHARES}")
    name = f"worker-{arguments.number}"
    # Publishers wait for a worker that does not keep up, rather than have its orders dropped.
    async with reefcast.connect(arguments.url, name=name, queue_policy="block") as client:
        orders = await client.subscribe(share_of(arguments.number, arguments.workers))
        print(f"{name} is ready: {orders.filters[0]}", flush=True)
        async for event in orders:
            await work(event)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
