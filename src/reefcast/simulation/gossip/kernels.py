"""The arithmetic of overlays on arrays, compiled: hashes, graphs, walks, orphans.

Arrays are as in `overlays.Overlays`: members of a topic are numbered from its first, ascending by
name, and views hold these numbers, a row after the other (CSR: row i is `[bounds[i]:bounds[i + 1]]`).
Names stand in `text` in the same way. Each kernel says which part of the state machine
(`routing.gossip`) it repeats, number by number; tests compare them. All of them stand in this
module, since numba looks only here to see whether what it keeps on disk is still right.

Sources: the specification of XXH64 (Collet); SplitMix64 (Steele, Lea and Flood, 2014); random
graphs by skipping (Batagelj and Brandes, Efficient generation of large random networks, 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int32]
"""Of members of a topic, or of nodes."""
Bounds = NDArray[np.int64]
Words = NDArray[np.uint64]
U = np.uint64

P1, P2, P3 = U(0x9E3779B185EBCA87), U(0xC2B2AE3D27D4EB4F), U(0x165667B19E3779F9)
P4, P5 = U(0x85EBCA77C2B2AE63), U(0x27D4EB2F165667C5)
GOLDEN, FIRST, SECOND = U(0x9E3779B97F4A7C15), U(0xBF58476D1CE4E5B9), U(0x94D049BB133111EB)
LOW = U(0xFFFFFFFF)


def compiled(function: F) -> F:
    """Kept on disk once it was compiled."""
    return cast(F, njit(cache=True, error_model="numpy")(function))


# --- XXH64 ----------------------------------------------------------------------------------------


@compiled
def rotated(word: np.uint64, bits: int) -> np.uint64:
    return (word << U(bits)) | (word >> U(64 - bits))


@compiled
def lane(state: np.uint64, word: np.uint64) -> np.uint64:
    return rotated(state + word * P2, 31) * P1


@compiled
def xxh64_blocks(words: Words, blocks: int, seed: np.uint64) -> np.uint64:
    """What the blocks of 32 bytes make, of which there is one at least."""
    a, b, c, d = seed + P1 + P2, seed + P2, seed, seed - P1
    for i in range(0, 4 * blocks, 4):
        a, b = lane(a, words[i]), lane(b, words[i + 1])
        c, d = lane(c, words[i + 2]), lane(d, words[i + 3])
    h = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
    for state in (a, b, c, d):
        h = (h ^ lane(U(0), state)) * P1 + P4
    return h


@compiled
def xxh64(words: Words, size: int, seed: np.uint64) -> np.uint64:
    """Of the first `size` bytes there (`xxhash.xxh64_intdigest`), on a machine whose words begin
    with their lowest byte."""
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


@compiled
def put_name(buffer: Bytes, at: int, text: Bytes, bounds: Bounds, name: int) -> int:
    """Copies a name there; returns where it ends."""
    for i in range(bounds[name], bounds[name + 1]):
        buffer[at] = text[i]
        at += 1
    return at


@compiled
def put_first(buffer: Bytes, text: Bytes, bounds: Bounds, name: int) -> int:
    """The beginning of `streams.joined`: what does not depend on the second name."""
    length = bounds[name + 1] - bounds[name]
    buffer[0], buffer[1] = length & 255, length >> 8
    return put_name(buffer, 2, text, bounds, name)


@compiled
def weight(
    buffer: Bytes, first: int, text: Bytes, bounds: Bounds, other: int, seed: np.uint64
) -> np.uint64:
    """`streams.weight`, of the node that `put_first` put into the buffer."""
    return xxh64(buffer, put_name(buffer, first, text, bounds, other), seed)


@compiled
def mixed(key: np.uint64, number: np.uint64) -> np.uint64:
    z = key + number * GOLDEN
    z = (z ^ (z >> U(30))) * FIRST
    z = (z ^ (z >> U(27))) * SECOND
    return z ^ (z >> U(31))


@compiled
def choice(number: np.uint64, size: int) -> int:
    return np.int64(((number >> U(32)) * U(size)) >> U(32))


@compiled
def streams(
    text: Bytes, bounds: Bounds, nodes: Numbers, topic: Bytes, seed: np.uint64, keys: Words
) -> None:
    """`streams.stream` of these nodes for one topic."""
    buffer = np.empty(2 + longest(bounds) + len(topic), np.uint8)
    for i in range(len(nodes)):
        end = put_first(buffer, text, bounds, nodes[i])
        buffer[end : end + len(topic)] = topic
        keys[i] = xxh64(buffer, end + len(topic), seed ^ GOLDEN)


@compiled
def longest(bounds: Bounds) -> int:
    """Bytes of the longest name."""
    most = np.int64(0)
    for i in range(len(bounds) - 1):
        most = max(most, bounds[i + 1] - bounds[i])
    return most
