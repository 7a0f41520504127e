"""Publish where 5 000 airplanes are, once a second each, until Ctrl-C. The flights are made up."""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import reefcast

AIRPORTS: dict[str, tuple[float, float]] = json.loads(
    (Path(__file__).parent / "page" / "airports.json").read_text(encoding="utf-8")
)
"""Latitude and longitude, in degrees."""
CARRIERS = ("AF", "BA", "DL", "EK", "LA", "LH", "NH", "QF", "SQ", "UA")
KNOTS, CRUISE_FEET = 480, 36_000
TICKS = 20
"""A second is divided into so many bursts."""
EARTH_NM = 3440.0

Vector = tuple[float, float, float]


class Flight(NamedTuple):
    """An airplane on the great circle between two airports. `began_s`: when it took off."""

    number: str
    origin: str
    destination: str
    angle: float
    began_s: float

    @property
    def takes_s(self) -> float:
        return self.angle * EARTH_NM / KNOTS * 3600


def vector(latitude: float, longitude: float) -> Vector:
    phi, theta = math.radians(latitude), math.radians(longitude)
    return math.cos(phi) * math.cos(theta), math.cos(phi) * math.sin(theta), math.sin(phi)


PLACES = {name: vector(*place) for name, place in AIRPORTS.items()}


def take_off(number: str, rng: random.Random, now_s: float, *, on_its_way: bool) -> Flight:
    """Make a flight between two airports; `on_its_way`: it took off some time ago."""
    origin, destination = rng.sample(sorted(PLACES), 2)
    dot = sum(a * b for a, b in zip(PLACES[origin], PLACES[destination], strict=True))
    flight = Flight(number, origin, destination, math.acos(dot), now_s)
    gone = rng.random() if on_its_way else 0.0
    return flight._replace(began_s=now_s - gone * flight.takes_s)


def report(flight: Flight, done: float) -> dict[str, str | float]:
    """Return what an airplane says that has done this share of its way."""
    far = math.sin(flight.angle)
    near, ahead = math.sin((1 - done) * flight.angle) / far, math.sin(done * flight.angle) / far
    ends = zip(PLACES[flight.origin], PLACES[flight.destination], strict=True)
    x, y, z = (near * a + ahead * b for a, b in ends)
    return {
        "flight": flight.number,
        "carrier": flight.number[:2],
        "origin": flight.origin,
        "destination": flight.destination,
        "lat": round(math.degrees(math.asin(max(-1.0, min(1.0, z)))), 4),
        "lon": round(math.degrees(math.atan2(y, x)), 4),
        "altitude": round(CRUISE_FEET * min(1.0, done * 12, (1 - done) * 9)),
        "minutes_left": round((1 - done) * flight.takes_s / 60),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flights", type=int, default=5000, help="so many airplanes")
    parser.add_argument("--url", help="the broker's; by default what REEFCAST_URL says")
    arguments = parser.parse_args()
    rng = random.Random(1)
    now_s = time.monotonic()
    flights = [
        take_off(f"{rng.choice(CARRIERS)}{n:04}", rng, now_s, on_its_way=True)
        for n in range(arguments.flights)
    ]
    with reefcast.sync.connect(arguments.url, name="traffic") as client:
        print(f"publishing {len(flights)} positions a second; Ctrl-C ends it", flush=True)
        for tick in range(1 << 62):
            for n in range(tick % TICKS, len(flights), TICKS):
                if (done := (now_s - flights[n].began_s) / flights[n].takes_s) >= 1:
                    flights[n] = take_off(flights[n].number, rng, now_s, on_its_way=False)
                    done = 0.0
                client.publish(report(flights[n], done))
            now_s += 1 / TICKS
            time.sleep(max(0.0, now_s - time.monotonic()))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
