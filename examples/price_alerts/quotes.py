"""Publish quotes of a few stocks whose prices go up and down at random."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec

import reefcast


class Quote(msgspec.Struct):
    """One price of a stock, and the one before."""

    symbol: str
    price: float
    previous: float


def quotes(rng: random.Random) -> Iterator[Quote]:
    """Yield quotes without end; every stock starts at 100."""
    prices = {"IBM": 100.0, "SAP": 100.0, "ORCL": 100.0}
    while True:
        symbol = rng.choice(list(prices))
        previous = prices[symbol]
        prices[symbol] = round(previous * (1 + rng.gauss(0, 0.01)), 2)
        yield Quote(symbol, prices[symbol], previous)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many quotes to publish")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two quotes")
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other prices")
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    with reefcast.sync.connect(arguments.url, name="quotes") as client:
        for _, quote in zip(
            range(arguments.count), quotes(random.Random(arguments.seed)), strict=False
        ):
            client.publish(quote)
            time.sleep(arguments.pause)
    print(f"published {arguments.count} quotes")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
