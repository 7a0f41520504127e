"""Sessions and links that are resumed, or claim to be: the broker goes on, and who comes back
honestly finds everything."""

from __future__ import annotations

import gc
import random

import pytest
from broker_doors import TRIED, BrokerDoor
from resuming import Comer, comes_back, made

from fuzzing import OFTEN_AND_SOAKED, ONLY, seeds
from reefcast.model.wire import Role


@OFTEN_AND_SOAKED
@pytest.mark.parametrize("role", [Role.CLIENT, Role.BROKER], ids=["client", "broker"])
async def test_resumption(role: Role, count: int) -> None:
    door = BrokerDoor()
    await door.look()
    gc.disable()  # or it would be blamed on an input
    try:
        resumed = await _knock(door, role, count // 4)
    finally:
        gc.enable()
    assert resumed or role is Role.BROKER or ONLY
    await comes_back(door)
    await door.look()
    door.forget()
    assert set(door.node.clients.sessions) <= {"publisher", "subscriber"}
    assert len(door.node.shared.all) == 2


async def _knock(door: BrokerDoor, role: Role, count: int) -> int:
    """Tries this many lives; returns how often a session was resumed in them."""
    resumed = 0
    for at, seed in enumerate(seeds(count)):
        steps = made(random.Random(seed))
        comer = Comer(door, role)
        async with door.trying(at, seed, steps):
            await comer.live(steps)
        resumed += comer.resumed
        if at % TRIED == 0:
            await comes_back(door)
    return resumed
