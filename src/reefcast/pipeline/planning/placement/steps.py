"""The four steps of the placement (section IV-B of the paper).

1. For each topic, how often the greedy placement chose each broker (`greedy`).
2. The weight of a topic: its share of all requests.
3. Storages stand at the brokers with the largest weighted sums: the storage brokers, SBV.
4. Topics by falling weight: each takes the brokers of its own step 1 that are in SBV and have room,
   those chosen most often first, then others of SBV.

Step 4 as the paper has it may leave the last topics without enough storages although there is room
for all. So a choice after which no completion exists is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reefcast.errors import InternalError
from reefcast.pipeline.planning.placement.greedy import Counts, choices
from reefcast.pipeline.planning.placement.inputs import Inputs, Placement

Order = Sequence[tuple[int, Sequence[int]]]
"""Topics by number, the first to be assigned first, each with the storage brokers that it would
rather take, best first; all of them, though it takes but some."""


@dataclass(frozen=True)
class Steps:
    """counts: step 1, [topic, broker]; weights: step 2, of topics; scores: the weighted sums, of
    brokers; storage_brokers: SBV, the largest score first; placement: step 4."""

    counts: Counts
    weights: NDArray[np.float64]
    scores: NDArray[np.float64]
    storage_brokers: tuple[str, ...]
    placement: Placement


def place(made: Inputs) -> Steps:
    return steps_from(made, choices(made.graph, made.rates, made.copies))


def steps_from(made: Inputs, counts: Counts) -> Steps:
    """Run steps 2 to 4. Of brokers, and of topics, that are alike the first is chosen."""
    weights = made.rates.sum(axis=1) / made.rates.sum()
    scores = weights @ counts
    chosen = largest(scores, made.storages)
    order = [(topic, _preferred(counts[topic], chosen)) for topic in largest(weights)]
    placement = assign(made, chosen, order)
    brokers = made.brokers
    return Steps(counts, weights, scores, tuple(brokers[i] for i in chosen), placement)


def largest(values: NDArray[np.float64] | Counts, number: int | None = None) -> list[int]:
    """Return the places of the largest values, falling; of equal ones the first. All of them by
    default."""
    places: list[int] = np.argsort(-values, kind="stable")[:number].tolist()
    return places


def _preferred(counts: NDArray[np.int64], chosen: Sequence[int]) -> list[int]:
    """Sort `chosen`, which the largest score leads: those chosen most often for the topic first."""
    return sorted(chosen, key=lambda broker: -counts[broker])


def assign(made: Inputs, chosen: Iterable[int], order: Order) -> Placement:
    """Give each topic the first of its preferred storages that leave the others a completion."""
    room = dict.fromkeys(chosen, made.capacity)
    assigned: dict[int, tuple[str, ...]] = {}
    for done, (topic, preferred) in enumerate(order, 1):
        taken = _taken(room, preferred, made.copies, len(order) - done)
        assigned[topic] = tuple(made.brokers[broker] for broker in taken)
    return {name: assigned[topic] for topic, name in enumerate(made.topics)}


def _taken(room: dict[int, int], preferred: Sequence[int], copies: int, later: int) -> list[int]:
    """Take `copies` storages for one topic out of `room` so that there is room for `later` more."""
    taken: list[int] = []
    for broker in preferred:
        if len(taken) == copies:
            break
        if room[broker]:
            room[broker] -= 1
            if can_complete(room, {*taken, broker}, copies, later):
                taken.append(broker)
            else:
                room[broker] += 1
    if len(taken) < copies:
        raise InternalError(f"a topic got {len(taken)} of its {copies} storages; inputs allow all")
    return taken


def can_complete(room: dict[int, int], taken: set[int], copies: int, later: int) -> bool:
    """Return whether a topic that has `taken` can get the rest of its copies, and then `later`
    topics all of theirs.

    By Gale and Ryser: with `copies` for each of `later` topics, at different storages, there must
    be room for copies * later, of which a storage offers no more than `later`. The rest of the
    topic's own copies do least harm where there is most room.
    """
    own = sorted((left for broker, left in room.items() if broker not in taken), reverse=True)
    rest = copies - len(taken)
    if rest > sum(left > 0 for left in own):
        return False
    offered = sum(min(left, later) for left in room.values())
    return offered - sum(left <= later for left in own[:rest]) >= copies * later
