"""Frames of every kind, from connections of every role: the broker goes on, and so do others."""

from __future__ import annotations

import gc
import random

import pytest
from broker_doors import BrokerDoor, conversation

from fuzzing import OFTEN_AND_SOAKED, seeds


@OFTEN_AND_SOAKED
@pytest.mark.parametrize("routing", ["acyclic", "mesh", "tid-s"])
async def test_frames(routing: str, count: int) -> None:
    door = BrokerDoor(routing)
    await door.look()
    gc.disable()  # or it would be blamed on an input
    try:
        await _knock(door, count)
    finally:
        gc.enable()
    await door.look()
    door.forget()
    assert set(door.node.clients.sessions) <= {"publisher", "subscriber"}
    assert len(door.node.shared.all) == 2


async def _knock(door: BrokerDoor, count: int) -> None:
    for at, seed in enumerate(seeds(count // 3)):
        reads = conversation(random.Random(seed))
        async with door.trying(at, seed, reads):
            await door.knock(reads)
