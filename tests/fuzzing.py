"""A fuzzer that knows structures: inputs are made of good ones by changes that keep some of their
sense, in a text, in bytes, or in a tree of msgpack.

Each input has a seed of its own, which a failure names; `python -m pytest` with that seed as `ONLY`
runs it alone. A door is a function that takes one input, and raises nothing but a failure of its
own checks: it knows which errors are documented."""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pytest

T = TypeVar("T")

FEW, MANY = 600, int(os.environ.get("REEFCAST_FUZZ_INPUTS", "1_000_000"))
"""Inputs of a door in `make test`, thousands for all of them, and in `make soak`."""
MOST_CPU_S = 0.1
ONLY = os.environ.get("REEFCAST_FUZZ_ONLY", "")
"""The seed of the only input to try."""
ENOUGH, MOST_GROWN = 20_000, 64 << 20
"""After so many inputs, the peak of memory has grown by fewer bytes since the first fifth."""

OFTEN_AND_SOAKED = pytest.mark.parametrize(
    "count", [FEW, pytest.param(MANY, marks=pytest.mark.soak)]
)


def seeds(count: int) -> Iterator[str]:
    """Yield the seeds of `count` inputs. Many of them must not need more memory than a few."""
    if ONLY:
        yield ONLY
        return
    early = 0
    for at in range(count):
        if at == count // 5:
            early = peak_bytes()
        yield str(at)
    grown = peak_bytes() - early
    assert count < ENOUGH or grown < MOST_GROWN, f"{count} inputs took {grown >> 20} MiB more"


def peak_bytes() -> int:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def knock(door: Callable[[T], object], make: Callable[[random.Random], T], count: int) -> None:
    """Tries `count` inputs at a door. An input that takes too long is tried again: what a busy
    machine did is not its fault."""
    for seed in seeds(count):
        given = make(random.Random(seed))
        try:
            took_s = cpu_of(door, given)
            if took_s > MOST_CPU_S:
                took_s = min(cpu_of(door, make(random.Random(seed))) for _ in range(3))
        except Exception as error:
            error.add_note(f"REEFCAST_FUZZ_ONLY={seed} {given!r:.2000}")
            raise
        assert took_s <= MOST_CPU_S, f"REEFCAST_FUZZ_ONLY={seed} {took_s} s: {given!r:.2000}"


def cpu_of(door: Callable[[T], object], given: T) -> float:
    began_s = time.process_time()
    door(given)
    return time.process_time() - began_s


# --- texts ---------------------------------------------------------------------------------------


def changed_text(text: str, rng: random.Random, words: Sequence[str]) -> str:
    """A text with some changes: parts removed, doubled, exchanged, and words put in."""
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 1, 2, 5, 20, 100)))
        part = text[start:end]
        new = rng.choice(
            (
                "",
                part * rng.choice((2, 3, 50)),
                part[::-1],
                rng.choice(words),
                f" {rng.choice(words)} ",
                chr(rng.choice((0, 9, 10, 34, 39, 92, 127, 233, 0x2028, 0x1F600))),
                str(rng.choice((0, -1, 2**31, 2**63, 10**40, 1e308))),
            )
        )
        text = text[:start] + new + text[end:]
    return text[: 1 << 16]


# --- bytes ---------------------------------------------------------------------------------------

EDGES = (0, 1, 0x7F, 0x80, 0xC0, 0xC1, 0xDF, 0xFF)


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some changes: bits, parts removed, doubled or overwritten, and cut off."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(made) + 1)
        size = rng.choice((1, 1, 2, 4, 16, 200))
        what = rng.randrange(6)
        if what == 0 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif what == 1 and at < len(made):
            made[at] = rng.choice(EDGES)
        elif what == 2:
            del made[at : at + size]
        elif what == 3:
            made[at:at] = made[at : at + size]
        elif what == 4:
            made[at : at + size] = rng.randbytes(size)
        elif rng.random() < 0.3:
            del made[at:]
    return bytes(made)


# --- trees ---------------------------------------------------------------------------------------


def leaf(rng: random.Random) -> Any:
    """A value that is often at the edge of something."""
    return rng.choice(
        (
            *(None, True, False, 0, 1, -1, 2, 127, 128, 2**31, 2**32, 2**53 + 1, 2**63 - 1),
            *(-(2**63), 2**64 - 1, 0.0, -0.0, 1.5, 1e308, float("nan"), float("inf")),
            *(
                "",
                "a",
                "c",
                "TRUE",
                "x" * 300,
                "é\u2028",
                "$reefcast/session/x",
                "topic",
                "*",
                "+/#",
            ),
            *(b"", b"\x00", b"\xff" * 40, [], {}, [[]], [1, "a"], {"a": 1}, {1: 2}, [0] * 300),
        )
    )


def changed_tree(tree: Any, rng: random.Random) -> Any:
    """A tree in which one node is another one, is gone, comes twice, or stands elsewhere."""
    if isinstance(tree, list) and tree and rng.random() < 0.8:
        made = list(tree)
        at = rng.randrange(len(made))
        what = rng.randrange(10)
        if what == 0:
            del made[at]
        elif what == 1:
            made.insert(at, rng.choice((made[at], leaf(rng))))
        elif what == 2:
            made[at], made[0] = made[0], made[at]
        else:
            made[at] = changed_tree(made[at], rng)
        return made
    if isinstance(tree, dict) and tree and rng.random() < 0.8:
        made = dict(tree)
        key = rng.choice(sorted(made, key=repr))
        what = rng.randrange(6)
        if what == 0:
            del made[key]
        elif what == 1:
            made[rng.choice(("new", "", "x" * 300, 5))] = leaf(rng)
        else:
            made[key] = changed_tree(made[key], rng)
        return made
    if isinstance(tree, int) and not isinstance(tree, bool) and rng.random() < 0.5:
        return max(-(2**63), min(2**64 - 1, tree + rng.choice((-1, 1, 2, -tree, 1000))))
    if isinstance(tree, bytes) and rng.random() < 0.7:
        return changed_packed(tree, rng)
    return leaf(rng)


def changed_packed(data: bytes, rng: random.Random) -> bytes:
    """Bytes of msgpack with changes: in their tree, or in the bytes."""
    if rng.random() < 0.6:
        try:
            tree = msgspec.msgpack.decode(data)
            for _ in range(rng.choice((1, 1, 1, 2, 4))):
                tree = changed_tree(tree, rng)
            return msgspec.msgpack.encode(tree)
        except (msgspec.DecodeError, ValueError, TypeError, OverflowError):
            pass
    return changed_bytes(data, rng)
