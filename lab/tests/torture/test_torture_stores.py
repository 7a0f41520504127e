"""The keeper of simulated brokers: what it reports as kept survives its broker."""

from __future__ import annotations

import asyncio
import random

import pytest

from reefcast.keeping.interface import Bodies
from reefcast.model.keeping import PutEvent, PutRow
from reefcast_lab.torture.stores import SimulatedKeeper, SimulatedStore


def row(number: int) -> PutRow:
    return PutRow("t", b"%d" % number, b"")


@pytest.mark.parametrize("seed", range(5))
async def test_what_is_kept_survives_a_loss_of_power(seed):
    rng, store = random.Random(seed), SimulatedStore()
    keeper = SimulatedKeeper(store, rng)
    said: asyncio.Queue[object] = asyncio.Queue()
    keeper.listen(said.put_nowait, said.put_nowait)
    for token in range(1, 11):
        keeper.keep((row(token),), token)
        if rng.random() < 0.3:
            await asyncio.sleep(0)
    kept = await said.get()
    store.kill(rng)
    assert {b"%d" % number for number in range(1, kept + 1)} <= store.load().rows["t"].keys()


async def test_a_disk_that_fails_is_tried_again_and_bodies_come_behind():
    store = SimulatedStore()
    keeper = SimulatedKeeper(store, random.Random(1))
    said: asyncio.Queue[object] = asyncio.Queue()
    keeper.listen(said.put_nowait, said.put_nowait)
    store.fails = True
    keeper.keep((PutEvent(7, ("p", 1), 0.0, b"body"),), 1)
    keeper.fetch([7, 8])
    await asyncio.sleep(0.02)
    assert said.empty()
    store.fails = False
    assert [await said.get(), await said.get()] == [1, Bodies({7: b"body"}, (8,))]
    await keeper.close()
