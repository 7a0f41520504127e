"""The mobile scenario (paper, VI-J): subscribers who move from broker to broker, as in a game.

The world is a square. A player wants what happens in a small square of it; a *monitor*, one for
each region of brokers, wants everything, and so covers all players. Who moves unsubscribes at one
broker and subscribes at another, under a new name: a client has one broker. Players move within the
region of brokers where they began, monitors anywhere. Publishers stay.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments.covering.topology import Topology
from reefcast_lab.experiments.script import Claim, Event, Script

SIDE = 100_000
"""Places of the world along each side."""
EVERYTHING = f"x BETWEEN 0 AND {SIDE - 1} AND y BETWEEN 0 AND {SIDE - 1}"


@dataclass(frozen=True, slots=True)
class Mover:
    """`brokers`: where it may be; `homes`: when it came to which, in turn."""

    name: str
    filter: str
    brokers: Sequence[str]
    homes: list[tuple[float, str]]

    def move(self, at_s: float, rng: random.Random) -> None:
        """Move to another broker, drawn evenly."""
        _, here = self.homes[-1]
        self.homes.append((at_s, rng.choice([one for one in self.brokers if one != here])))

    def claims(self) -> Iterator[Claim]:
        ends = [at_s for at_s, _ in self.homes[1:]] + [math.inf]
        for number, ((from_s, broker), until_s) in enumerate(zip(self.homes, ends, strict=True)):
            yield Claim(f"{self.name}.{number}", broker, self.filter, from_s, until_s)


def mobile_script(
    topology: Topology,
    *,
    subscribers: int,
    publishers: int,
    selectivity: float,
    deploy_s: float,
    duration_s: float,
    publish_s: float,
    monitor_move_s: float,
    move_s: float,
    seed: int,
) -> Script:
    """Make the script: in the first `deploy_s` all advertise and subscribe; then, until
    `duration_s`, something is published every `publish_s` at a place drawn evenly, one of the
    monitors in turn moves every `monitor_move_s`, and a player drawn evenly every `move_s` (inf:
    players stay). `selectivity`: share of the world that a player wants. Raises
    `ConfigurationError` if that is no share of it."""
    if not SIDE**-2 <= selectivity <= 1:
        raise ConfigurationError(f"a player cannot want a share of {selectivity} of the world")
    rng = random.Random(f"{seed}/covering/mobile")
    homes = [(f"p{i:02d}", rng.choice(topology.publishers)) for i in range(publishers)]
    gap_s = deploy_s / (publishers + len(topology.regions) + subscribers)
    starts = (i * gap_s for i in count(publishers))
    monitors = [
        Mover(
            f"monitor-{i}", EVERYTHING, topology.subscribers, [(next(starts), rng.choice(region))]
        )
        for i, region in enumerate(topology.regions)
    ]
    players = [_player(i, next(starts), topology, selectivity, rng) for i in range(subscribers)]
    for number, at_s in enumerate(_times(deploy_s, duration_s, monitor_move_s)):
        monitors[number % len(monitors)].move(at_s, rng)
    for at_s in _times(deploy_s, duration_s, move_s):
        rng.choice(players).move(at_s, rng)
    script = Script(
        [
            Claim(client, broker, EVERYTHING, i * gap_s, advertises=True)
            for i, (client, broker) in enumerate(homes)
        ]
    )
    for mover in [*monitors, *players]:
        script.claims.extend(mover.claims())
    for number, at_s in enumerate(_times(deploy_s, duration_s, publish_s)):
        client, broker = homes[number % len(homes)]
        place = {"x": rng.randrange(SIDE), "y": rng.randrange(SIDE)}
        script.events.append(Event(client, broker, dict(place), at_s))
    return script


def _times(from_s: float, until_s: float, gap_s: float) -> Iterator[float]:
    number = 1
    while (at_s := from_s + number * gap_s) < until_s:
        yield at_s
        number += 1


def _player(
    number: int, at_s: float, topology: Topology, selectivity: float, rng: random.Random
) -> Mover:
    region = rng.choice(topology.regions)
    width = max(1, round(SIDE * math.sqrt(selectivity)))
    west, south = (rng.randrange(SIDE - width + 1) for _ in "xy")
    wanted = (
        f"x BETWEEN {west} AND {west + width - 1} AND y BETWEEN {south} AND {south + width - 1}"
    )
    return Mover(f"player-{number:04d}", wanted, region, [(at_s, rng.choice(region))])
