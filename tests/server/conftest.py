"""Fixtures: live brokers that stop when the test is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from live_brokers import Live, OneBroker

from live_networks import make_network
from reefcast.server.node import Node


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with AsyncExitStack() as stack:
        yield Live(stack)


@pytest.fixture
async def one(live: Live) -> OneBroker:
    """Return a function that starts a network of one broker with the given limits."""

    async def start(**limits: Any) -> Node:
        return await live.node(make_network("a", **limits), "a")

    return start
