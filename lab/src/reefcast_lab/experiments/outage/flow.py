"""When events flow again between a publisher and a subscriber, and what was lost until then."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reefcast.simulation.checkers import CheckFailedError
from reefcast.simulation.simulation import Simulation

Arrivals = dict[tuple[str, str], dict[int, float]]
"""By publisher and client: when each event came, by its number, in seconds."""


@dataclass(frozen=True)
class Flow:
    """What became of the events that one client is owed of one publisher, from a time on. `lost`:
    how many never came, of `owed`; `again_s`: when the first event came that was published after
    the last lost one, inf for never."""

    owed: int
    lost: int
    again_s: float


def arrivals(simulation: Simulation) -> Arrivals:
    """Return when each event came. Raises `CheckFailedError` for one that came twice."""
    rows, found = simulation.deliveries(), Arrivals()
    places = zip(rows.publisher, rows.client, rows.seq.tolist(), rows.time_us.tolist(), strict=True)
    for publisher, client, seq, time_us in places:
        came = found.setdefault((publisher, client), {})
        if seq in came:
            raise CheckFailedError(f"{publisher}#{seq} reached {client} twice")
        came[seq] = time_us / 1e6
    return found


def published(simulation: Simulation) -> dict[str, dict[int, float]]:
    """Return by publisher when each of its events was published, by its number."""
    found: dict[str, dict[int, float]] = {}
    for each in simulation.result().published:
        one = each.publication
        found.setdefault(one.publisher, {})[one.seq] = one.time_us / 1e6
    return found


def flow(
    at_s: Mapping[int, float], came_s: Mapping[int, float], from_s: float, until_s: float
) -> Flow:
    """Return the flow of the events published (`at_s`, by number) in this time; `came_s`: when each
    of them came."""
    owed = [seq for seq, at in at_s.items() if from_s <= at < until_s]
    lost = [seq for seq in owed if seq not in came_s]
    last = max((at_s[seq] for seq in lost), default=-math.inf)
    later = [came_s[seq] for seq in owed if at_s[seq] > last]
    return Flow(len(owed), len(lost), min(later, default=math.inf))


def share_lost(flows: Sequence[Flow]) -> float:
    """Return the share of the events owed that never came."""
    return sum(each.lost for each in flows) / max(1, sum(each.owed for each in flows))
