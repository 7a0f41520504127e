"""Random numbers that depend on nothing but a seed, a node and a topic; and weights of links.

A *stream* is a key of 64 bits and gives a number for each number that it is asked about: so what a
node draws for one walk does not depend on when other walks came by, nor on its other topics. All of
it is plain arithmetic on 64 bits, which `reefcast_lab.rounds` does on arrays just so.

Sources: XXH64 (Collet), a hash that is known everywhere; SplitMix64 (Steele, Lea and Flood, 2014).
"""

from __future__ import annotations

import xxhash

NodeId = str
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def joined(me: str, other: str) -> bytes:
    """Return len(me) || me || other, the length in two bytes, so that no two pairs have the same
    bytes."""
    name = me.encode()
    return len(name).to_bytes(2, "little") + name + other.encode()


def weight(seed: int, me: NodeId, other: NodeId) -> int:
    """Return the weight that `me` gives `other` as a neighbour: 64 bits, the less the better
    (Listing 1)."""
    return xxhash.xxh64_intdigest(joined(me, other), seed)


def stream(seed: int, node: NodeId, topic: str) -> int:
    """Return the key of this node's random numbers for this topic."""
    return xxhash.xxh64_intdigest(joined(node, topic), seed ^ GOLDEN)


def mixed(key: int, number: int) -> int:
    """Return number `number` of the stream `key`: 64 bits (SplitMix64)."""
    z = (key + number * GOLDEN) & MASK
    z = ((z ^ (z >> 30)) * FIRST) & MASK
    z = ((z ^ (z >> 27)) * SECOND) & MASK
    return z ^ (z >> 31)


def choice(number: int, size: int) -> int:
    """Return an index below `size`, from 64 random bits."""
    return ((number >> 32) * size) >> 32
