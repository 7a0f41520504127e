"""Subscriptions generated from the data, and where their subscribers sit.

People follow what happens near them: each destination has a home broker, and most subscriptions
about it come from there; the others come from anywhere. Each broker serves the same number of
clients, each with several subscriptions.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from reefcast_lab.demos import shapes
from reefcast_lab.demos.replay_log import Log
from reefcast_lab.demos.statistics import Statistics, gather

CLIENTS_PER_BROKER = 8
NEAR_HOME = 0.85
"""Share of the subscriptions about a destination that come from its home broker."""

COLUMNS = {"subscription": "int64", "filter": "string", "broker": "string", "client": "string"}


class Wanted(NamedTuple):
    """One subscription: `client` (a name of the workload's own) at `broker` wants `filter`."""

    subscription: int
    filter: str
    broker: str
    client: str


def write_workload(
    events: pa.Table,
    path: Path,
    count: int,
    brokers: Sequence[str],
    seed: int,
) -> list[Wanted]:
    """Read the statistics of `events`, generate, write `path`."""
    data = gather(events, shapes.NUMBERS, shapes.STRINGS)
    wanted = generate(data, count, brokers, random.Random(seed))
    log = Log(COLUMNS)
    for each in wanted:
        log.add(*each)
    log.write(path)
    return wanted


def generate(
    data: Statistics, count: int, brokers: Sequence[str], rng: random.Random
) -> list[Wanted]:
    """Make `count` subscriptions, numbered from 0."""
    homes = {dest: rng.choice(brokers) for dest, _ in data.frequent["dest"]}
    templates, weights = zip(*shapes.WEIGHTED, strict=True)
    wanted = []
    for number, template in enumerate(rng.choices(templates, weights, k=count)):
        filter_text, dest = template(data, rng)
        at_home = dest is not None and rng.random() < NEAR_HOME
        broker = homes[dest] if at_home else rng.choice(brokers)
        client = f"{broker}-client-{rng.randrange(CLIENTS_PER_BROKER) + 1}"
        wanted.append(Wanted(number, filter_text, broker, client))
    return wanted
