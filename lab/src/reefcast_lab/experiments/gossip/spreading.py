"""How publications spread: infect and forward, on views that stand still.

Who gets a publication for the first time delivers it, and sends a copy to `fanout` neighbours of
each of its own topics among those of the publication (0: to all), drawn without repetition; but to
nobody twice, and not back to where it came from: each physical link is crossed once, for however
many topics. Copies may get lost; nodes that crashed still stand in views, so that copies are sent
to them in vain. Nothing is repaired.

It is what the router does (`reefcast.routing.gossip`), in waves: all copies take the same time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast.matching.kernel_cache import njit
from reefcast_lab.experiments.gossip.stack import Stack

Numbers = NDArray[np.int64]
Nodes = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Publications(NamedTuple):
    """A row for each: its publisher (a node's number), and `topics`, all with as many."""

    publishers: Numbers
    topics: Numbers

    def single(self) -> Publications:
        """Return the same, with one publication for each topic of each."""
        per = self.topics.shape[1]
        return Publications(np.repeat(self.publishers, per), self.topics.reshape(-1, 1))


class Spread(NamedTuple):
    """How each publication spread: live subscribers of its topics besides the publisher; those of
    them that got it; copies sent."""

    due: Numbers
    delivered: Numbers
    copies: Numbers

    @property
    def delivered_share(self) -> float:
        """The share of the due deliveries that arrived."""
        return float(self.delivered.sum() / self.due.sum())

    @property
    def whole_share(self) -> float:
        """The share of the publications that reached everybody who should get them."""
        return float((self.delivered == self.due).mean())

    @property
    def copies_per_delivery(self) -> float:
        return float(self.copies.sum() / max(self.delivered.sum(), 1))


class Faults(NamedTuple):
    """`crashed`: by node; `loss`: the probability that a copy is lost."""

    crashed: Flags
    loss: float


def publications(
    stack: Stack, faults: Faults, number: int, topics: int, rng: np.random.Generator
) -> Publications:
    """Draw publications of live publishers, each on this many of its own topics; every interest of
    a live node that has enough of them is as likely to be the first topic."""
    member = stack.topic_of_member()
    order = np.argsort(stack.members, kind="stable")
    owned = np.bincount(stack.members, minlength=stack.nodes)
    first = np.concatenate([[0], np.cumsum(owned)])
    able = (owned[stack.members] >= topics) & ~faults.crashed[stack.members]
    rows = rng.choice(np.flatnonzero(able), size=number)
    chosen = np.empty((number, topics), np.int64)
    for i, row in enumerate(rows):
        node = stack.members[row]
        own = member[order[first[node] : first[node + 1]]]
        others = rng.choice(own[own != member[row]], size=topics - 1, replace=False)
        chosen[i] = [member[row], *others]
    return Publications(stack.members[rows].astype(np.int64), chosen)


def spread(
    stack: Stack, published: Publications, faults: Faults, fanout: int, rng: np.random.Generator
) -> Spread:
    """Spread all of these, one after the other."""
    return Spread(*_spread(*stack[1:], *published, *faults, fanout, rng))


@njit(cache=True)
def _spread(
    starts: Numbers,
    members: Nodes,
    bounds: Numbers,
    neighbours: Nodes,
    publishers: Numbers,
    topics: Numbers,
    crashed: Flags,
    loss: float,
    fanout: int,
    rng: Any,
) -> tuple[Numbers, Numbers, Numbers]:
    number, per = topics.shape
    nodes = len(crashed)
    counts = np.zeros((3, number), np.int64)
    rows = np.empty((per, nodes), np.int64)
    for one in range(number):
        rows[:] = -1
        for k in range(per):
            for row in range(starts[topics[one, k]], starts[topics[one, k] + 1]):
                rows[k, members[row]] = row
        for node in range(nodes):
            if not crashed[node] and node != publishers[one]:
                counts[0, one] += _any(rows, node)
        counts[1, one], counts[2, one] = _infect(
            bounds, neighbours, rows, publishers[one], crashed, loss, fanout, rng
        )
    return counts[0], counts[1], counts[2]


@njit(cache=True)
def _any(rows: Any, node: int) -> bool:
    found = False
    for k in range(len(rows)):
        found |= rows[k, node] >= 0
    return found


@njit(cache=True)
def _infect(
    bounds: Numbers,
    neighbours: Nodes,
    rows: Any,
    publisher: int,
    crashed: Flags,
    loss: float,
    fanout: int,
    rng: Any,
) -> tuple[int, int]:
    """Return deliveries and copies of one publication; `rows`: [its topic, node] -> the view, -1
    for none."""
    nodes = len(crashed)
    known = np.zeros(nodes, np.bool_)
    sent_by = np.full(nodes, -1, np.int64)
    queue, senders = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    drawn = np.empty(nodes, np.int64)
    queue[0], senders[0], known[publisher] = publisher, -1, True
    filled, at, copies = 1, 0, 0
    while at < filled:
        node, sender = queue[at], senders[at]
        at += 1
        for k in range(len(rows)):
            if rows[k, node] < 0:
                continue
            view = neighbours[bounds[rows[k, node]] : bounds[rows[k, node] + 1]]
            for i in range(_draw(view, fanout, drawn, rng)):
                other = drawn[i]
                if other == sender or sent_by[other] == node:
                    continue
                sent_by[other] = node
                copies += 1
                if crashed[other] or known[other] or (loss > 0.0 and rng.random() < loss):
                    continue
                known[other] = True
                queue[filled], senders[filled] = other, node
                filled += 1
    return filled - 1, copies


@njit(cache=True)
def _draw(view: Nodes, fanout: int, drawn: Numbers, rng: Any) -> int:
    """Draw `fanout` nodes of a view into `drawn`, without repetition; return how many."""
    size = len(view)
    drawn[:size] = view
    if fanout == 0 or fanout >= size:
        return size
    for i in range(fanout):
        j = i + int(rng.random() * (size - i))
        drawn[i], drawn[j] = drawn[j], drawn[i]
    return fanout
