"""What rounds of the overlays of gossip cost: by the state machine that runs live, and on arrays.

Both start with the same random overlays, and go on until these have converged
(`overlays.converged`); the views must be equal then. On arrays alone follow a few rounds of many
more nodes. Times are of the processor, of one thread (the machine may be busy).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reefcast.errors import InternalError
from reefcast.routing.gossip.options import GossipOptions
from reefcast.server.status import memory_bytes
from reefcast_lab.rounds.overlays import (
    Interests,
    Overlays,
    converged,
    starting_overlays,
)
from reefcast_lab.rounds.rounds import Rounds
from reefcast_lab.rounds.twin import Twin

OPTIONS = GossipOptions()
ROUNDS_OF_MANY = 3
MOST_ROUNDS = 1000
AIM_S, AIM_BYTES = 300.0, 8e9
"""The aims: seconds of the state machine until convergence, at the scale of the paper; bytes of the
arrays for 100 000 nodes."""


@dataclass(frozen=True, slots=True)
class GossipTiming:
    """`cpu_s`: seconds of the processor by the state machine, `twin_cpu_s`: on arrays; `ratio`: how
    many times as long the first takes. `unique`: the unique view size, of that at the start.
    `peak_bytes`: the most memory that the process has had so far."""

    what: str
    nodes: int
    topics: int
    memberships: int
    rounds: int
    cpu_s: float | None
    twin_cpu_s: float
    ratio: float | None
    unique: float
    peak_bytes: int
    in_aim: bool


def bench(
    interests: Interests, many: Interests, tell: Callable[[str], None]
) -> Iterator[GossipTiming]:
    """Yield all rows: `interests` with both engines, `many` with arrays alone."""
    start = starting_overlays(interests, OPTIONS.seed)
    tell(f"{len(start.nodes):,} nodes, {len(start.topics)} topics, until they have converged")
    yield from _both(start)
    start = starting_overlays(many, OPTIONS.seed)
    tell(f"{len(start.nodes):,} nodes, {len(start.topics)} topics, {ROUNDS_OF_MANY} rounds")
    yield _many(start)


def _both(start: Overlays) -> Iterator[GossipTiming]:
    machine, twin = Rounds(start.views(), OPTIONS), Twin(start, OPTIONS)
    machine_s, twin_s = 0.0, 0.0
    unique = [start.unique()]
    while not converged(unique) and len(unique) <= MOST_ROUNDS:
        twin_s += _timed(twin.round)
        machine_s += _timed(machine.round)
        unique.append(twin.unique())
    if twin.overlays.views() != machine.views():
        raise InternalError(f"after {twin.number} rounds the twin's views are not the machine's")
    share = unique[-1] / unique[0]
    rounds = twin.number
    yield _row("to convergence", start, rounds, share, machine_s, twin_s, machine_s < AIM_S)
    each = machine_s / rounds, twin_s / rounds
    yield _row("a round", start, 1, share, *each, machine_s < AIM_S)


def _many(start: Overlays) -> GossipTiming:
    twin = Twin(start, OPTIONS)
    before = start.unique()
    taken = [_timed(twin.round) for _ in range(ROUNDS_OF_MANY)]
    share = twin.unique() / before
    in_aim = memory_bytes() < AIM_BYTES
    return _row("a round of many", start, 1, share, None, sum(taken) / len(taken), in_aim)


def _row(
    what: str,
    start: Overlays,
    rounds: int,
    unique: float,
    machine_s: float | None,
    twin_s: float,
    in_aim: bool,
) -> GossipTiming:
    return GossipTiming(
        what=what,
        nodes=len(start.nodes),
        topics=len(start.topics),
        memberships=len(start.members),
        rounds=rounds,
        cpu_s=None if machine_s is None else round(machine_s, 3),
        twin_cpu_s=round(twin_s, 3),
        ratio=None if machine_s is None else round(machine_s / twin_s, 1),
        unique=round(unique, 4),
        peak_bytes=memory_bytes(),
        in_aim=in_aim,
    )


def _timed(work: Callable[[], object]) -> float:
    """Return the CPU seconds that `work` takes."""
    start = time.thread_time()
    work()
    return time.thread_time() - start
