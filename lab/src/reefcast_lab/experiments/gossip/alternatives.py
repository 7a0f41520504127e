"""One overlay for all topics, for which everybody's interests are known: what the paper compares
itself with in words.

Both are of nodes x topics matrices of yes and no, and give links between nodes; a topic's overlay
is then what of them is between its subscribers, who must not be apart.

- `clustered`: each node takes the neighbours with whom it shares most of the topics that still need
  some, until each topic has as many as it has in the stacked overlays (SpiderCast's greedy coverage
  [6]; here with all nodes known, and links that only the one end decides on).
- `minimal`: as few connections as possible, by the greedy of Chockler et al. [5]: again and again
  the one that joins the parts of most topics; each topic then is a connected graph, a tree or a
  little more.

Ties go to chance. Costs: `clustered` nodes^2 times the neighbours of one; `minimal` all pairs of
nodes, some times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reefcast.matching.kernel_cache import njit
from reefcast_lab.experiments.gossip.scenario import Flags
from reefcast_lab.experiments.gossip.stack import Stack

Numbers = NDArray[np.int64]


def clustered(sets: Flags, needed: Numbers, rng: np.random.Generator) -> Flags:
    """Return [a, b]: whether a has b for a neighbour; `needed`: [node, topic] -> how many it
    needs."""
    return np.asarray(_clustered(sets, needed, rng), np.bool_)


def minimal(sets: Flags, rng: np.random.Generator) -> Flags:
    """Return [a, b]: whether a and b are connected; symmetric."""
    first, second = np.triu_indices(len(sets), 1)
    order = rng.permutation(len(first))
    links = np.zeros((len(sets), len(sets)), np.bool_)
    _minimal(sets, first[order], second[order], links)
    return links


def needed_by(stack: Stack) -> Numbers:
    """Return [node, topic]: the size of its view there."""
    found = np.zeros((stack.nodes, len(stack.starts) - 1), np.int64)
    found[stack.members, stack.topic_of_member()] = np.diff(stack.bounds)
    return found


def overlays_of(sets: Flags, links: Flags) -> Stack:
    """Return, for each topic, the links between its subscribers."""
    members, views = [], []
    for column in sets.T:
        here = np.flatnonzero(column)
        within = links[np.ix_(here, here)]
        members.append(here)
        views += [here[row] for row in within]
    sizes = np.array([len(view) for view in views])
    return Stack(
        len(sets),
        np.concatenate([[0], np.cumsum(sets.sum(axis=0))]).astype(np.int64),
        np.concatenate(members).astype(np.int32),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.concatenate(views).astype(np.int32),
    )


def disclosed(sets: Flags, links: Flags) -> float:
    """Return how many interests in other topics a node has to know of others, in the mean: if it
    knows all topics of the nodes that it is linked with, and of nobody else."""
    connected = (links | links.T).astype(np.float64)
    theirs = connected @ sets.astype(np.float64)
    return float((theirs * ~sets).sum() / len(sets))


@njit(cache=True)
def _clustered(sets: Flags, needed: Numbers, rng: Any) -> Any:
    nodes, topics = sets.shape
    links = np.zeros((nodes, nodes), np.bool_)
    gain = np.zeros(nodes, np.int64)
    for node in range(nodes):
        rest = needed[node].copy()
        gain[:] = 0
        for topic in range(topics):
            if rest[topic] > 0:
                gain += sets[:, topic]
        gain[node] = 0
        best = _largest(gain, rng)
        while gain[best] > 0:
            links[node, best] = True
            gain[best] = 0
            for topic in range(topics):
                if sets[best, topic] and rest[topic] > 0:
                    rest[topic] -= 1
                    if rest[topic] == 0:
                        _less(gain, sets[:, topic])
            best = _largest(gain, rng)
    return links


@njit(cache=True)
def _largest(gain: Numbers, rng: Any) -> int:
    """Return a random place of the largest gain."""
    best, ties = 0, 1
    for i in range(1, len(gain)):
        if gain[i] > gain[best]:
            best, ties = i, 1
        elif gain[i] == gain[best] and gain[i] > 0:
            ties += 1
            if rng.random() * ties < 1.0:
                best = i
    return best


@njit(cache=True)
def _less(gain: Numbers, column: Any) -> None:
    """Subtract one from the gain of the nodes in the column that are not taken yet."""
    for i in range(len(gain)):
        if column[i] and gain[i] > 0:
            gain[i] -= 1


@njit(cache=True)
def _minimal(sets: Flags, first: Any, second: Any, links: Any) -> None:
    """Link pairs, the most useful first. They wait in a list for each number of topics that they
    would join; a pair is looked at again when it is the best, because its number only falls."""
    nodes, topics = sets.shape
    part = np.empty((topics, nodes), np.int32)
    for topic in range(topics):
        part[topic] = np.arange(nodes)
    head = np.full(topics + 1, -1, np.int64)
    after = np.empty(len(first), np.int64)
    for pair in range(len(first)):
        _push(head, after, pair, _joined(sets, part, first[pair], second[pair]))
    joins = topics
    while joins > 0:
        pair = int(head[joins])
        if pair < 0:
            joins -= 1
            continue
        head[joins] = after[pair]
        a, b = first[pair], second[pair]
        now = _joined(sets, part, a, b)
        if now == joins:
            links[a, b] = links[b, a] = True
            _join(sets, part, a, b)
        else:
            _push(head, after, pair, now)


@njit(cache=True)
def _push(head: Numbers, after: Numbers, pair: int, joins: int) -> None:
    after[pair] = head[joins]
    head[joins] = pair


@njit(cache=True)
def _root(part: Any, topic: int, node: int) -> int:
    while part[topic, node] != node:
        part[topic, node] = part[topic, part[topic, node]]
        node = part[topic, node]
    return node


@njit(cache=True)
def _joined(sets: Flags, part: Any, a: int, b: int) -> int:
    """Return in how many topics the two nodes are in different parts."""
    found = 0
    for topic in range(sets.shape[1]):
        if sets[a, topic] and sets[b, topic]:
            found += _root(part, topic, a) != _root(part, topic, b)
    return found


@njit(cache=True)
def _join(sets: Flags, part: Any, a: int, b: int) -> None:
    for topic in range(sets.shape[1]):
        if sets[a, topic] and sets[b, topic]:
            part[topic, _root(part, topic, a)] = _root(part, topic, b)
