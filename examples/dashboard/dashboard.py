"""Show delays by airport of the departures that match a filter; type another filter at any time."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress

import msgspec

import reefcast

EVERY_S = 2.0


class Departure(msgspec.Struct):
    """The attributes of a departure that the table needs."""

    dest: str
    delay: int


class Table:
    """The delays of the departures that match a filter, by airport."""

    def __init__(self, filter: str) -> None:
        self.filter = filter
        self._parsed = reefcast.parse_filter(filter)
        self._delays: dict[str, list[int]] = defaultdict(list)

    def add(self, event: reefcast.Event) -> None:
        """Count a departure, unless it was sent for another filter."""
        if self._parsed.holds(dict(event)):
            departure = event.as_(Departure)
            self._delays[departure.dest].append(departure.delay)

    def __str__(self) -> str:
        rows = [f"\n{self.filter}", "airport  departures  mean delay"]
        for airport, delays in sorted(self._delays.items()):
            rows.append(f"{airport:<7}  {len(delays):>10}  {sum(delays) / len(delays):>6.1f} min")
        return "\n".join(rows)


class Dashboard:
    """A subscription, and the table of what has come for its present filter."""

    def __init__(self, client: reefcast.sync.Client, filter: str) -> None:
        self._table = Table(filter)
        self._departures = client.subscribe(filter)

    def change(self, filter: str) -> None:
        """Put another filter in the place of the present one, and begin another table."""
        table = Table(filter)
        self._departures.replace(self._table.filter, filter)
        self._table = table

    def run(self) -> None:
        """Read departures until the client is closed; print the table every `EVERY_S`."""
        printed = time.monotonic()
        for event in self._departures:
            self._table.add(event)
            if time.monotonic() - printed >= EVERY_S:
                print(self._table, flush=True)
                printed = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="delay > 0", help="the first filter")
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    with reefcast.sync.connect(arguments.url, name="dashboard") as client:
        dashboard = Dashboard(client, arguments.filter)
        threading.Thread(target=dashboard.run, daemon=True).start()
        for line in sys.stdin:
            try:
                dashboard.change(line.strip())
            except reefcast.LocalError as error:
                print(error, flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
