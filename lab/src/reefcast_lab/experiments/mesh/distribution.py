"""Which subscriptions and brokers the publications of a script match, and what a tree makes of it.

Measured with the matching engine; what the paper's S0 sends follows from it without a simulation. A
publication goes over every link between its publisher's broker and those with a matching
subscriber, once. A broker that gets it without having a matching subscriber is a *pure forwarder*.
As in the paper (Table 2), a *delivery* is the arrival at a broker with a matching subscriber, and
yield = deliveries / sends between brokers; so what stays at the publisher's broker is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast.matching import new_index
from reefcast.model.filters import parse_filter
from reefcast.overlay.topology import Graph, hops_from
from reefcast_lab.experiments.script import Claim, Event, Script

QUANTILES = (0.1, 0.5, 0.9, 0.99)
BATCH = 4096
"""Publications that are matched at once."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Spread(NamedTuple):
    """`quantiles`: those of `QUANTILES`."""

    mean: float
    quantiles: tuple[float, ...]


@dataclass(frozen=True)
class Distribution:
    """All per publication. `subscriptions`: how many match. `deliveries`: brokers with a matching
    subscriber, without the publisher's. `pure_forwarders`, `copies`: what S0 makes of it on the
    tree; `copies`, the mean number of those that each broker sends to others, by its name."""

    publications: int
    subscriptions: Spread
    deliveries: Spread
    pure_forwarders: Spread
    copies: dict[str, float]

    @property
    def yields(self) -> float:
        """Deliveries over sends between brokers, of S0; 0 where nothing is sent."""
        sends = self.deliveries.mean + self.pure_forwarders.mean
        return self.deliveries.mean / sends if sends else 0.0


def distribution(tree: Graph, script: Script) -> Distribution:
    """Compute the distribution of the script's publications (there must be some), as if every
    subscription existed from first to last."""
    shape = _Tree(tree)
    batches = [_measured(shape, *each) for each in _matches(shape, script)]
    matched, delivered, pure, sent = zip(*batches, strict=True)
    copies = sum(sent) / len(script.events)
    return Distribution(
        publications=len(script.events),
        subscriptions=_spread(matched),
        deliveries=_spread(delivered),
        pure_forwarders=_spread(pure),
        copies=dict(zip(tree, copies.tolist(), strict=True)),
    )


def wanted_by(tree: Graph, script: Script) -> Iterator[list[str]]:
    """Yield, for each publication, the brokers with a matching subscriber, without the
    publisher's."""
    brokers = list(tree)
    for _, wanted, home in _matches(_Tree(tree), script):
        for row in wanted & ~home:
            yield [brokers[number] for number in row.nonzero()[0]]


def _spread(batches: Sequence[Ints]) -> Spread:
    values = np.concatenate(batches)
    return Spread(float(values.mean()), tuple(np.quantile(values, QUANTILES).tolist()))


class _Tree:
    """The brokers by number, from the root outward; `parents`: those of all but the root."""

    def __init__(self, tree: Graph) -> None:
        hops = hops_from(tree, next(iter(tree)))
        self.number = {broker: i for i, broker in enumerate(tree)}
        order = [self.number[broker] for broker in hops]
        self.outward = order[1:]
        self.parents = [
            next(self.number[up] for up in tree[broker] if hops[up] < hops[broker])
            for broker in list(hops)[1:]
        ]
        self.root = order[0]

    def below(self, rows: NDArray[np.int16]) -> NDArray[np.int16]:
        """Sum the last axis over each broker and all below it."""
        sums = rows.copy()
        for broker, parent in zip(reversed(self.outward), reversed(self.parents), strict=True):
            sums[:, parent] += sums[:, broker]
        return sums


def matching(claims: Sequence[Claim], events: Sequence[Event]) -> Iterator[tuple[Ints, Ints]]:
    """Yield, by batch, the subscriptions that each publication matches, by their numbers in
    `claims`: the offsets of each publication's, and all numbers."""
    index = new_index()
    for key, claim in enumerate(claims):
        index.add(key, parse_filter(claim.filter))
    for start in range(0, len(events), BATCH):
        found = index.match_batch(_columns(events[start : start + BATCH]))
        yield found.offsets, found.keys


def _matches(shape: _Tree, script: Script) -> Iterator[tuple[Ints, Flags, Flags]]:
    """Yield, by batch, the number of matching subscriptions of each publication; whether a broker
    has any; and whether the publisher is there (the last two are publications x brokers)."""
    broker_of = np.array([shape.number[claim.broker] for claim in script.claims], np.int64)
    homes = np.array([shape.number[event.broker] for event in script.events], np.int64)
    done = 0
    for offsets, keys in matching(script.claims, script.events):
        matched = np.diff(offsets)
        number = len(matched)
        wanted = np.zeros((number, len(shape.number)), np.bool_)
        wanted[np.repeat(np.arange(number), matched), broker_of[keys]] = True
        home = np.zeros_like(wanted)
        home[np.arange(number), homes[done : done + number]] = True
        done += number
        yield matched, wanted, home


def _columns(events: Sequence[Event]) -> dict[str, list[object]]:
    names = dict.fromkeys(name for event in events for name in event.attributes)
    return {name: [event.attributes.get(name) for event in events] for name in names}


def _measured(
    shape: _Tree, matched: Ints, wanted: Flags, home: Flags
) -> tuple[Ints, Ints, Ints, Ints]:
    """Measure, for each publication, subscriptions, deliveries and pure forwarders; for each
    broker, copies."""
    ends = shape.below((wanted | home).astype(np.int16))
    below = ends[:, shape.outward]
    used = (below > 0) & (below < ends[:, [shape.root]])
    upward = used & (shape.below(home.astype(np.int16))[:, shape.outward] > 0)
    copies = np.zeros(wanted.shape[1], np.int64)
    np.add.at(copies, shape.outward, upward.sum(axis=0))
    np.add.at(copies, shape.parents, (used & ~upward).sum(axis=0))
    delivered = (wanted & ~home).sum(axis=1)
    return matched, delivered, used.sum(axis=1) - delivered, copies
