"""The plugin for pytest, which finds it by itself once Reefcast is installed.

- `reefcast_broker`: a broker in a thread of its own, for tests with and without asyncio;
- `reefcast_async_broker`: a broker in the test's event loop, where pytest-asyncio or anyio is
  installed;
- `reefcast_settings`: what both get as `settings`; override it in a conftest.py or a module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reefcast.testing import Broker, SyncBroker


@pytest.fixture
def reefcast_settings() -> str:
    """Return the text of a network file without brokers, for the brokers of this test."""
    return ""


@pytest.fixture
def reefcast_broker(reefcast_settings: str) -> Iterator[SyncBroker]:
    """Run a broker in a thread of its own."""
    from reefcast.testing import broker

    with broker(reefcast_settings) as running:
        yield running


def _async_fixture() -> Callable[[Any], Any] | None:
    """Return what makes fixtures of asyncio; None: nothing installed runs such tests."""
    if find_spec("pytest_asyncio") is not None:
        import pytest_asyncio

        return pytest_asyncio.fixture
    return pytest.fixture if find_spec("anyio") is not None else None


async def _async_broker(reefcast_settings: str) -> AsyncIterator[Broker]:
    """Run a broker in the test's own event loop."""
    from reefcast.testing import broker

    async with broker(reefcast_settings) as running:
        yield running


if (_fixture := _async_fixture()) is not None:
    reefcast_async_broker = _fixture(_async_broker)
