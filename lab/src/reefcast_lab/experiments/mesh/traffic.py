"""What clients of a run do, by the name of the dataset: DT1 to DT5, DT-C, DT-FB.

The publications of a broker are one client's, which advertises them. So a subscription goes only to
where a publication for it may come from, where the paper floods it: no path of a publication is
another for that.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from reefcast.overlay.topology import Graph
from reefcast_lab.experiments.mesh.feeds import dataset, instants, workload
from reefcast_lab.experiments.mesh.parameters import section
from reefcast_lab.experiments.mesh.social import social_script, social_trace
from reefcast_lab.experiments.script import Claim, Event, Script, quoted

SOCIAL = "DT-FB"
ADVERTISED_S = 1.0
"""After how long the first one subscribes."""


class Period(NamedTuple):
    """So many publications a minute, for so long."""

    per_minute: float
    duration_s: float

    @property
    def number(self) -> int:
        return round(self.per_minute * self.duration_s / 60)


class Traffic(NamedTuple):
    """`claims`: from 0 s on. `periods`: publications of each, at times from 0 on."""

    claims: list[Claim]
    periods: list[list[Event]]


def traffic(name: str, tree: Graph, periods: Iterable[Period], scale: str, seed: int) -> Traffic:
    """Make the traffic of the dataset with that name; the same publications whatever their rate."""
    wanted = list(periods)
    number = sum(period.number for period in wanted)
    script = _script(name, tree, number, scale, seed)
    events = [replace(event, client=f"p-{event.broker}") for event in script.events]
    rng = random.Random(f"{seed}/mesh/periods")
    parts: list[list[Event]] = []
    for period in wanted:
        times = instants(period.per_minute, 0.0, period.duration_s, rng)
        mine, events = events[: len(times)], events[len(times) :]
        parts.append([replace(e, at_s=at) for e, at in zip(mine, times, strict=True)])
    return Traffic([*_advertisements(parts), *script.claims], parts)


def _script(name: str, tree: Graph, number: int, scale: str, seed: int) -> Script:
    subscribe_s = section("mesh", scale).subscribe_s
    brokers, minute_s = list(tree), 60.0
    if name == SOCIAL:
        trace = social_trace(scale, seed)
        script = social_script(
            trace,
            brokers,
            number,
            subscribe_s=subscribe_s,
            from_s=0.0,
            duration_s=minute_s,
            seed=seed,
        )
    else:
        crowd = workload(brokers, dataset(name, scale), seed)
        script = crowd.script(number, subscribe_s=subscribe_s, from_s=0.0, duration_s=minute_s)
    later = [replace(claim, from_s=claim.from_s + ADVERTISED_S) for claim in script.claims]
    return Script(later, script.events)


def _advertisements(parts: Iterable[Iterable[Event]]) -> list[Claim]:
    """Return one advertisement for each publishing broker, with all the names that its publications
    have."""
    told: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for events in parts:
        for event in events:
            name = "author" if "author" in event.attributes else "feed"
            told[event.client, event.broker, name].add(str(event.attributes[name]))
    return [
        Claim(
            client,
            broker,
            f"{name} IN ({', '.join(map(quoted, sorted(values)))})",
            0.0,
            advertises=True,
        )
        for (client, broker, name), values in told.items()
    ]
