"""The arithmetic of overlays on arrays, compiled: hashes, graphs, walks, orphans.

Arrays are of one topic, as in `overlays.Overlays`: its members have numbers from 0, ascending by
name, and views hold these, a row after the other (CSR: row i is `[bounds[i]:bounds[i + 1]]`). A row
of `names` is the name of a member in words, filled up with zeros; `sizes`: its bytes. Each kernel
says which part of the state machine (`routing.gossip`) it repeats, number by number; tests compare
them. All stand in this module: numba looks only here to see whether what is on disk still holds.

Sources: the specification of XXH64 (Collet); SplitMix64 (Steele, Lea and Flood, 2014); random
graphs by skipping (Batagelj and Brandes, Efficient generation of large random networks, 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from reefcast.matching.kernel_cache import njit

F = TypeVar("F", bound=Callable[..., Any])
Numbers = NDArray[np.int32]
"""Numbers of members of a topic, or of nodes."""
Bounds = NDArray[np.int64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]
U = np.uint64

P1, P2, P3 = U(0x9E3779B185EBCA87), U(0xC2B2AE3D27D4EB4F), U(0x165667B19E3779F9)
P4, P5 = U(0x85EBCA77C2B2AE63), U(0x27D4EB2F165667C5)
GOLDEN, FIRST, SECOND = U(0x9E3779B97F4A7C15), U(0xBF58476D1CE4E5B9), U(0x94D049BB133111EB)
LOW = U(0xFFFFFFFF)


def kernel(function: F) -> F:
    """Make a function that Python calls; it is kept on disk once it was compiled."""
    return cast(F, njit(cache=True, error_model="numpy")(function))


def part(function: F) -> F:
    """Make a part of kernels, compiled into each of them."""
    return cast(F, njit(error_model="numpy")(function))


# --- XXH64 ----------------------------------------------------------------------------------------


@part
def rotated(word: np.uint64, bits: int) -> np.uint64:
    return (word << U(bits)) | (word >> U(64 - bits))


@part
def lane(state: np.uint64, word: np.uint64) -> np.uint64:
    return rotated(state + word * P2, 31) * P1


@part
def xxh64_blocks(words: Words, blocks: int, seed: np.uint64) -> np.uint64:
    """Hash the blocks of 32 bytes, of which there is at least one."""
    a, b, c, d = seed + P1 + P2, seed + P2, seed, seed - P1
    for i in range(0, 4 * blocks, 4):
        a, b = lane(a, words[i]), lane(b, words[i + 1])
        c, d = lane(c, words[i + 2]), lane(d, words[i + 3])
    h = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
    for state in (a, b, c, d):
        h = (h ^ lane(U(0), state)) * P1 + P4
    return h


@kernel
def xxh64(words: Words, size: int, seed: np.uint64) -> np.uint64:
    """Hash the first `size` bytes (`xxhash.xxh64_intdigest`), eight in a word, the first lowest."""
    h = (xxh64_blocks(words, size >> 5, seed) if size >= 32 else seed + P5) + U(size)
    for i in range((size >> 5) << 2, size >> 3):
        h = rotated(h ^ lane(U(0), words[i]), 27) * P1 + P4
    if size & 7:
        word, left = words[size >> 3], size & 7
        if left & 4:
            h = rotated(h ^ ((word & LOW) * P1), 23) * P2 + P3
            word >>= U(32)
        for _ in range(left & 3):
            h = rotated(h ^ ((word & U(255)) * P5), 11) * P1
            word >>= U(8)
    h = (h ^ (h >> U(33))) * P2
    h = (h ^ (h >> U(29))) * P3
    return h ^ (h >> U(32))


# --- streams and weights (`routing.gossip.streams`) -----------------------------------------------


@part
def append(words: Words, at: int, name: Words, size: int) -> int:
    """Put this many bytes behind the first `at`; return where they end. One word behind them is
    overwritten."""
    shift = U(8 * (at & 7))
    i = at >> 3
    carry = words[i] & ((U(1) << shift) - U(1))
    for k in range((size + 7) >> 3):
        words[i] = carry | (name[k] << shift)
        carry = (name[k] >> (U(63) - shift)) >> U(1)
        i += 1
    words[i] = carry
    return at + size


@part
def put_first(words: Words, names: Words, sizes: Bounds, node: int) -> int:
    """Write the beginning of `streams.joined`, which does not depend on the second name."""
    words[0] = U(sizes[node])
    return append(words, 2, names[node], sizes[node])


@part
def room_for_pairs(names: Words) -> Words:
    """Allocate words for the length and two names, and one to be overwritten."""
    return np.empty(2 * names.shape[1] + 2, np.uint64)


@part
def weight(
    words: Words, first: int, names: Words, sizes: Bounds, other: int, seed: np.uint64
) -> np.uint64:
    """Compute `streams.weight`, for the node that `put_first` put into the words."""
    return xxh64(words, append(words, first, names[other], sizes[other]), seed)


@part
def mixed(key: np.uint64, number: np.uint64) -> np.uint64:
    z = key + number * GOLDEN
    z = (z ^ (z >> U(30))) * FIRST
    z = (z ^ (z >> U(27))) * SECOND
    return z ^ (z >> U(31))


@part
def choice(number: np.uint64, size: int) -> int:
    return int(((number >> U(32)) * U(size)) >> U(32))


@kernel
def streams(names: Words, sizes: Bounds, topic: Words, size: int, seed: np.uint64) -> Words:
    """Compute `streams.stream` of the members for the topic whose name has `size` bytes."""
    words = np.empty(names.shape[1] + len(topic) + 2, np.uint64)
    keys = np.empty(len(sizes), np.uint64)
    for i in range(len(sizes)):
        first = put_first(words, names, sizes, i)
        keys[i] = xxh64(words, append(words, first, topic, size), seed ^ GOLDEN)
    return keys


@part
def before(weight: np.uint64, node: int, other_weight: np.uint64, other: int) -> bool:
    """Compare by `views.Weights.key`."""
    return bool(weight < other_weight or (weight == other_weight and node < other))


@part
def insert(
    nodes: Numbers, weights: Words, count: int, most: int, node: int, weight: np.uint64
) -> int:
    """Insert a node into the sorted ones, `count` so far, of which the `most` best stay; return how
    many."""
    at = count
    if count == most:
        at -= 1
        if not most or not before(weight, node, weights[at], nodes[at]):
            return count
    else:
        count += 1
    while at and before(weight, node, weights[at - 1], nodes[at - 1]):
        nodes[at], weights[at] = nodes[at - 1], weights[at - 1]
        at -= 1
    nodes[at], weights[at] = node, weight
    return count


@kernel
def weigh(
    names: Words,
    sizes: Bounds,
    bounds: Bounds,
    views: Numbers,
    weights: Words,
    seed: np.uint64,
) -> None:
    """Bring the views into order (`views.Weights.view`)."""
    words = room_for_pairs(names)
    for me in range(len(sizes)):
        start, end = bounds[me], bounds[me + 1]
        first = put_first(words, names, sizes, me)
        for i in range(start, end):
            node = views[i]
            value = weight(words, first, names, sizes, node, seed)
            insert(views[start:end], weights[start:end], i - start, end - start, node, value)


@kernel
def best(names: Words, sizes: Bounds, bounds: Bounds, views: Numbers, seed: np.uint64) -> None:
    """Fill the views with the nodes of least weight among all members."""
    words, weights = room_for_pairs(names), np.empty(len(views), np.uint64)
    for me in range(len(sizes)):
        start, end, count = bounds[me], bounds[me + 1], 0
        first = put_first(words, names, sizes, me)
        for node in range(len(sizes)):
            if node != me:
                value = weight(words, first, names, sizes, node, seed)
                count = insert(
                    views[start:end], weights[start:end], count, end - start, node, value
                )


# --- a round of walks (`routing.gossip.topic`, `routing.gossip.views`) ----------------------------


@part
def drawn(
    node: int, nonce: np.uint64, step: int, keys: Words, bounds: Bounds, views: Numbers
) -> int:
    """Return the neighbour that a node chooses for a walk."""
    start = bounds[node]
    number = mixed(keys[node] ^ nonce, U(step))
    return int(views[start + choice(number, bounds[node + 1] - start)])


@kernel
def departures(number: int, keys: Words, bounds: Bounds, views: Numbers) -> Numbers:
    """Return where the walks of round `number` go first; -1 without a view."""
    to = np.full(len(keys), -1, np.int32)
    for me in range(len(keys)):
        if bounds[me] < bounds[me + 1]:
            to[me] = drawn(me, mixed(keys[me], U(number)), 0, keys, bounds, views)
    return to


@part
def walk(
    at: int, nonce: np.uint64, keys: Words, bounds: Bounds, views: Numbers, path: Numbers
) -> int:
    """Walk to `at` first; as long as the path, unless the walk meets a node without a view."""
    path[0], steps = at, 1
    while steps < len(path) and bounds[at] < bounds[at + 1]:
        at = drawn(at, nonce, len(path) - steps, keys, bounds, views)
        path[steps] = at
        steps += 1
    return steps


@part
def gather(
    me: int,
    path: Numbers,
    bounds: Bounds,
    views: Numbers,
    own: Numbers,
    named: Numbers,
    found: Numbers,
) -> int:
    """Collect the nodes of an answer that are not in the own view; return how many. `own` and
    `named` get `me + 1` for those that are in the own view, and in another's (except those to which
    the walk went from here)."""
    stamp, count = me + 1, 0
    for i in range(bounds[me], bounds[me + 1]):
        own[views[i]] = stamp
    for node in path:
        for i in range(bounds[node], bounds[node + 1] if node != me else bounds[node]):
            other = views[i]
            if named[other] != stamp:
                named[other] = stamp
                if own[other] != stamp and other != me:
                    found[count] = other
                    count += 1
    for node in path:
        if node != me and own[node] != stamp and named[node] != stamp:
            named[node] = stamp
            found[count] = node
            count += 1
    last = me
    for node in path:
        if last == me:
            named[node] = 0
        last = node
    return count


@part
def give_up(
    me: int,
    bounds: Bounds,
    views: Numbers,
    weights: Words,
    named: Numbers,
    greedy: bool,
    chosen: Numbers,
    least: Words,
) -> int:
    """Put the part of the own view that the rule lets go into `chosen` and `least`; return how many
    these are."""
    room = 0
    for i in range(bounds[me], bounds[me + 1]):
        if greedy or named[views[i]] == me + 1:
            chosen[room], least[room] = views[i], weights[i]
            room += 1
    return room


@part
def merge(
    me: int,
    room: int,
    chosen: Numbers,
    least: Words,
    bounds: Bounds,
    views: Numbers,
    weights: Words,
    named: Numbers,
    greedy: bool,
    new: Numbers,
    new_weights: Words,
) -> bool:
    """Merge these, and what is kept of the old view, into the new one; return whether they
    differ."""
    start, end, old, taken, changed = bounds[me], bounds[me + 1], bounds[me], 0, False
    for i in range(start, end):
        while old < end and (greedy or named[views[old]] == me + 1):
            old += 1
        if taken < room and (
            old == end or before(least[taken], chosen[taken], weights[old], views[old])
        ):
            new[i], new_weights[i] = chosen[taken], least[taken]
            taken += 1
        else:
            new[i], new_weights[i] = views[old], weights[old]
            old += 1
        changed |= new[i] != views[i]
    return changed


@kernel
def walks(
    names: Words,
    sizes: Bounds,
    keys: Words,
    bounds: Bounds,
    views: Numbers,
    weights: Words,
    to: Numbers,
    number: int,
    ttl: int,
    greedy: bool,
    seed: np.uint64,
) -> tuple[Numbers, Words, Flags]:
    """Compute the views and weights after round `number`, and which views changed. `to`:
    `departures`, from before orphans searched."""
    count = len(sizes)
    new, new_weights, changed = views.copy(), weights.copy(), np.zeros(count, np.bool_)
    own, named = np.zeros(count, np.int32), np.zeros(count, np.int32)
    found, path = np.empty(count, np.int32), np.empty(ttl, np.int32)
    words = room_for_pairs(names)
    chosen, least = np.empty(count, np.int32), np.empty(count, np.uint64)
    for me in range(count):
        if to[me] >= 0:
            steps = walk(to[me], mixed(keys[me], U(number)), keys, bounds, views, path)
            others = found[: gather(me, path[:steps], bounds, views, own, named, found)]
            room = give_up(me, bounds, views, weights, named, greedy, chosen, least)
            first = put_first(words, names, sizes, me)
            for k in range(len(others) if room else 0):
                value = weight(words, first, names, sizes, others[k], seed)
                insert(chosen, least, room, room, others[k], value)
            changed[me] = merge(
                me, room, chosen, least, bounds, views, weights, named, greedy, new, new_weights
            )
    return new, new_weights, changed


# --- graphs ---------------------------------------------------------------------------------------


@part
def skip(key: np.uint64, number: int, scale: float) -> int:
    """Return how many pairs to skip before the next link."""
    uniform = (float(mixed(key, U(number)) >> U(11)) + 0.5) / 2.0**53
    return int(log(uniform) * scale)


@kernel
def random_graph(nodes: int, share: float, key: np.uint64) -> tuple[Bounds, Numbers]:
    """Draw a graph in which each ordered pair of different nodes is linked with probability `share`
    (Erdos, Renyi)."""
    pairs, bounds = nodes * (nodes - 1), np.zeros(nodes + 1, np.int64)
    scale = 1.0 / log(1.0 - share) if share < 1.0 else 0.0
    for fill in (False, True):
        views = np.empty(bounds[nodes], np.int32)
        pair, number = skip(key, 0, scale), 0
        while pair < pairs:
            row, column = pair // (nodes - 1), pair % (nodes - 1)
            if fill:
                views[number] = column + (column >= row)
            else:
                bounds[row + 1] += 1
            number += 1
            pair += 1 + skip(key, number, scale)
        if not fill:
            bounds = np.cumsum(bounds)
    return bounds, views


@part
def transposed(bounds: Bounds, views: Numbers) -> tuple[Bounds, Numbers]:
    """Reverse all links."""
    ends, sources = np.zeros(len(bounds) + 1, np.int64), np.empty(len(views), np.int32)
    for node in views:
        ends[node + 2] += 1
    ends = np.cumsum(ends)
    for node in range(len(bounds) - 1):
        for other in views[bounds[node] : bounds[node + 1]]:
            sources[ends[other + 1]] = node
            ends[other + 1] += 1
    return ends[:-1], sources


@part
def all_reached(bounds: Bounds, views: Numbers) -> bool:
    """Return whether there is a path from the first node to each."""
    nodes = len(bounds) - 1
    seen, queue, end = np.zeros(nodes, np.bool_), np.zeros(nodes, np.int32), 1
    seen[0] = True
    for at in range(nodes):
        if at == end:
            return False
        for other in views[bounds[queue[at]] : bounds[queue[at] + 1]]:
            if not seen[other]:
                seen[other] = True
                queue[end] = other
                end += 1
    return True


@kernel
def strongly_connected(bounds: Bounds, views: Numbers) -> bool:
    """Return whether there is a path from each node to each; of one node at least."""
    back, sources = transposed(bounds, views)
    return all_reached(bounds, views) and all_reached(back, sources)


@kernel
def distinct(
    memberships: Bounds,
    ends: Bounds,
    first: Bounds,
    members: Numbers,
    bounds: Bounds,
    views: Numbers,
) -> tuple[Bounds, Numbers]:
    """Return, for each node, the different nodes in its views, as rows. `memberships`: of the
    nodes, one after the other, up to `ends`; `first`: where the members of the topic of each
    begin."""
    rows, neighbours = np.zeros(len(ends), np.int64), np.empty(len(views), np.int32)
    seen, count = np.full(len(ends), -1, np.int32), 0
    for node in range(len(ends) - 1):
        for one in memberships[ends[node] : ends[node + 1]]:
            for other in views[bounds[one] : bounds[one + 1]]:
                neighbour = members[first[one] + other]
                if seen[neighbour] != node:
                    seen[neighbour] = node
                    neighbours[count] = neighbour
                    count += 1
        neighbours[rows[node] : count].sort()
        rows[node + 1] = count
    return rows, neighbours[:count].copy()
