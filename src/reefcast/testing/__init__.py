"""Brokers inside a test: real ones, on free ports, which are gone when the test is over.

    async with reefcast.testing.broker() as broker:
        async with reefcast.connect(broker.url) as client:
            ...

    with reefcast.testing.network("a - b - c") as brokers:
        with reefcast.sync.connect(brokers["c"].url) as client:
            ...

With `async with` they run in the test's own event loop, with `with` in a thread of their own. They
have durable sessions, retained values and a history. pytest has the fixture `reefcast_broker`
(`plugin`). See docs/how-to/test-a-program.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reefcast.testing.blocking import Network, OneBroker, SyncBroker, broker, network
    from reefcast.testing.brokers import Broker

__all__ = ["Broker", "Network", "OneBroker", "SyncBroker", "broker", "network"]


if not TYPE_CHECKING:  # a checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'reefcast.testing' has no attribute {name!r}")
        home = "brokers" if name == "Broker" else "blocking"
        return getattr(import_module(f"reefcast.testing.{home}"), name)
