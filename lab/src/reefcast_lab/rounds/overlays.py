"""The overlays of many topics as arrays: random ones to start with, and the best ones.

Rows are kept one after the other (CSR). Measures: the *total view size*, the sum of all view sizes,
counts logical links, and the protocol never changes it; the *unique view size*, the sum over nodes
of the different neighbours in their views, counts physical links (`papers/stan.txt`, Section 3).

Overlays have *converged* (`converged`) when five rounds together lower the unique view size by less
than 1 %. `best_overlays` are what no protocol can pass: each node has the neighbours of least
weight. Where the largest of 300 topics has 3 000 nodes, the greedy rule comes within 4 % of them in
50 rounds; the witness rule, which in large topics seldom finds a witness, within 7 % in 200.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from reefcast.errors import LocalError
from reefcast.routing.gossip.streams import NodeId, mixed, stream
from reefcast_lab.rounds import kernels
from reefcast_lab.rounds.kernels import Bounds, Numbers, Words

Interests = Mapping[str, Collection[NodeId]]
"""Topic -> its nodes."""
LITTLE, FOR_ROUNDS = 0.01, 5
"""See `converged`."""
ATTEMPTS = 1000
WORD = 8
"""Bytes."""


@dataclass(frozen=True)
class Overlays:
    """`nodes` and `topics`, ascending. The members of topic t are `members[starts[t]:starts[t+1]]`,
    indices of nodes, ascending; they have numbers from 0 in their topic. The view of membership m
    is `targets[bounds[m]:bounds[m+1]]`, such numbers."""

    nodes: tuple[NodeId, ...]
    topics: tuple[str, ...]
    starts: Bounds
    members: Numbers
    bounds: Bounds
    targets: Numbers

    @classmethod
    def of(cls, views: Mapping[str, Mapping[NodeId, Sequence[NodeId]]]) -> Overlays:
        """Make overlays of these views. Raises `LocalError` if a node in a view is not of the same
        topic."""
        graphs = []
        for topic in sorted(views):
            numbers = {node: number for number, node in enumerate(sorted(views[topic]))}
            rows = [views[topic][node] for node in numbers]
            strange = {other for row in rows for other in row if other not in numbers}
            if strange:
                raise LocalError(
                    f"a view of topic {topic!r} has {min(strange)!r}, which is not there: give it "
                    "a view of this topic"
                )
            bounds = _sums(map(len, rows))
            targets = np.array([numbers[x] for row in rows for x in row], np.int32)
            graphs.append((bounds, targets))
        return _joined({topic: sorted(views[topic]) for topic in sorted(views)}, graphs)

    def views(self) -> dict[str, dict[NodeId, tuple[NodeId, ...]]]:
        """Return topic -> node -> view."""
        found = {}
        for topic in range(len(self.topics)):
            bounds, targets = self.graph(topic)
            names = [self.nodes[node] for node in self.members_of(topic).tolist()]
            others = [names[number] for number in targets.tolist()]
            rows = zip(names, bounds.tolist(), bounds[1:].tolist(), strict=False)
            found[self.topics[topic]] = {name: tuple(others[a:b]) for name, a, b in rows}
        return found

    def members_of(self, topic: int) -> Numbers:
        return self.members[self.starts[topic] : self.starts[topic + 1]]

    def graph(self, topic: int) -> tuple[Bounds, Numbers]:
        """Return the rows of this topic."""
        bounds = self.bounds[self.starts[topic] : self.starts[topic + 1] + 1]
        return bounds - bounds[0], self.targets[bounds[0] : bounds[-1]]

    def total(self) -> int:
        return len(self.targets)

    def unique(self) -> int:
        return len(self.union()[1])

    def union(self) -> tuple[Bounds, Numbers]:
        """Return the graph that all topics induce: for each node the different nodes in its views,
        ascending."""
        by_node = np.argsort(self.members, kind="stable")
        ends = _sums(np.bincount(self.members, minlength=len(self.nodes)).tolist())
        first = np.repeat(self.starts[:-1], np.diff(self.starts))
        return kernels.distinct(by_node, ends, first, self.members, self.bounds, self.targets)

    def connected(self) -> NDArray[np.bool_]:
        """Return, for each topic, whether its graph is strongly connected."""
        found = [kernels.strongly_connected(*self.graph(t)) for t in range(len(self.topics))]
        return np.array(found, np.bool_)


def packed(names: Sequence[str]) -> tuple[Words, Bounds]:
    """Return a row of words for each name, padded with zeros, and the bytes of each."""
    encoded = [name.encode() for name in names]
    sizes = np.array([len(name) for name in encoded], np.int64)
    width = (int(sizes.max(initial=0)) // WORD + 1) * WORD
    together = b"".join(name.ljust(width, b"\0") for name in encoded)
    words = np.frombuffer(together, "<u8").astype(np.uint64)
    return words.reshape(len(encoded), width // WORD), sizes


def starting_overlays(interests: Interests, seed: int, degree: float = 2.0) -> Overlays:
    """Make for each topic a strongly connected random graph whose mean degree is `degree * ln n`
    for its n nodes, or of all links if that is more. Raises `LocalError` if none is found."""
    members = {topic: sorted(set(interests[topic])) for topic in sorted(interests)}
    return _joined(members, [_start(topic, len(members[topic]), seed, degree) for topic in members])


def _start(topic: str, size: int, seed: int, degree: float) -> tuple[Bounds, Numbers]:
    if size < 2:
        return np.zeros(size + 1, np.int64), np.empty(0, np.int32)
    share = min(1.0, degree * log(size) / (size - 1))
    key = stream(seed, "", topic)
    for attempt in range(ATTEMPTS):
        graph = kernels.random_graph(size, share, np.uint64(mixed(key, attempt)))
        if kernels.strongly_connected(*graph):
            return graph
    raise LocalError(
        f"no strongly connected graph of {size} nodes and mean degree {degree} ln n was found "
        f"for topic {topic!r} in {ATTEMPTS} attempts: ask for a higher degree"
    )


def best_overlays(overlays: Overlays, seed: int) -> Overlays:
    """Return the overlays to which the protocol leads: views of the same sizes, of the members of
    least weight. Takes time proportional to the squares of the topics' sizes."""
    names, sizes = packed(overlays.nodes)
    targets = np.empty_like(overlays.targets)
    for topic in range(len(overlays.topics)):
        start, end = overlays.starts[topic], overlays.starts[topic + 1]
        bounds, _ = overlays.graph(topic)
        part = targets[overlays.bounds[start] : overlays.bounds[end]]
        members = overlays.members_of(topic)
        kernels.best(names[members], sizes[members], bounds, part, np.uint64(seed))
    return replace(overlays, targets=targets)


def converged(unique: Sequence[int]) -> bool:
    """Return whether the unique view sizes, at the start and after each round, have converged."""
    return len(unique) > FOR_ROUNDS and unique[-1] > (1 - LITTLE) * unique[-1 - FOR_ROUNDS]


def _joined(
    members: Mapping[str, Sequence[NodeId]], graphs: Sequence[tuple[Bounds, Numbers]]
) -> Overlays:
    """Join ascending topics with ascending members."""
    nodes = sorted(set().union(*members.values()))
    number = {node: i for i, node in enumerate(nodes)}
    return Overlays(
        nodes=tuple(nodes),
        topics=tuple(members),
        starts=_sums(map(len, members.values())),
        members=np.array([number[x] for some in members.values() for x in some], np.int32),
        bounds=_sums(size for bounds, _ in graphs for size in np.diff(bounds).tolist()),
        targets=np.concatenate([np.empty(0, np.int32), *(targets for _, targets in graphs)]),
    )


def _sums(sizes: Iterable[int]) -> Bounds:
    """Return where rows of these sizes begin, and where the last one ends."""
    return np.cumsum([0, *sizes], dtype=np.int64)
