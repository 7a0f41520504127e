"""Publish departures of flights, made up at random, until Ctrl-C."""

from __future__ import annotations

import argparse
import random
import time
from contextlib import suppress

import reefcast

AIRPORTS = ("ATL", "BOS", "LAX", "ORD", "SFO")
CARRIERS = ("AA", "DL", "UA")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between two departures")
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    with reefcast.sync.connect(arguments.url, name="departures") as client:
        print("publishing departures; Ctrl-C ends it", flush=True)
        while True:
            client.publish(
                carrier=random.choice(CARRIERS),
                dest=random.choice(AIRPORTS),
                delay=round(random.gauss(10, 20)),
            )
            time.sleep(arguments.pause)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
