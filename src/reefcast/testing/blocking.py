"""What a test calls: brokers for `async with`, and for `with` in a thread of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from reefcast.client.thread import LoopThread
from reefcast.testing.brokers import Broker, running
from reefcast.testing.describing import chains

Kind: TypeAlias = type[BaseException] | None
Error: TypeAlias = BaseException | None
Trace: TypeAlias = TracebackType | None


class SyncBroker:
    """A broker in a thread of its own, for tests with and without asyncio: `Broker` without
    `await`. All methods may be called from any thread."""

    def __init__(self, thread: LoopThread, broker: Broker) -> None:
        self._thread, self._broker = thread, broker
        self.name, self.url = broker.name, broker.url

    def start(self) -> None:
        """Start again, with the same port and the same sessions and history; errors as of
        `Broker.start`."""
        self._thread.run(self._broker.start())

    def stop(self) -> None:
        """Stop as at SIGTERM; see `Broker.stop`."""
        self._thread.run(self._broker.stop())

    def stored(self, count: int, timeout: float | None = None) -> None:
        """Wait until the history has stored so many events; see `Broker.stored`. Raises
        `TimeoutError` after `timeout` seconds."""
        self._thread.run(self._broker.stored(count), timeout)


class Network:
    """The brokers of a test by their names, from the beginning of an `async with` or a `with` to
    its end, however that ends; made by `network`."""

    def __init__(self, links: str, settings: str, history: bool, directory: Path | None) -> None:
        names, pairs = chains(links)

        def make() -> AbstractAsyncContextManager[Mapping[str, Broker]]:
            return running(names, pairs, settings=settings, history=history, directory=directory)

        self._make = make
        self._entered: AbstractAsyncContextManager[Mapping[str, Broker]]
        self._thread: LoopThread

    async def __aenter__(self) -> Mapping[str, Broker]:
        self._entered = self._make()
        return await self._entered.__aenter__()

    async def __aexit__(self, kind: Kind, error: Error, trace: Trace) -> None:
        await self._entered.__aexit__(kind, error, trace)

    def __enter__(self) -> Mapping[str, SyncBroker]:
        thread = self._thread = LoopThread()
        try:
            brokers = thread.run(self.__aenter__())
        except BaseException:
            thread.stop()
            raise
        return {name: SyncBroker(thread, broker) for name, broker in brokers.items()}

    def __exit__(self, kind: Kind, error: Error, trace: Trace) -> None:
        try:
            self._thread.run(self._end())
        finally:
            self._thread.stop()

    async def _end(self) -> None:
        await self.__aexit__(None, None, None)
        await asyncio.get_running_loop().shutdown_default_executor()  # no thread is left


class OneBroker:
    """A broker of a test, from the beginning of an `async with` or a `with` to its end; made by
    `broker`."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def __aenter__(self) -> Broker:
        (broker,) = (await self._network.__aenter__()).values()
        return broker

    async def __aexit__(self, kind: Kind, error: Error, trace: Trace) -> None:
        await self._network.__aexit__(kind, error, trace)

    def __enter__(self) -> SyncBroker:
        (broker,) = self._network.__enter__().values()
        return broker

    def __exit__(self, kind: Kind, error: Error, trace: Trace) -> None:
        self._network.__exit__(kind, error, trace)


def broker(
    settings: str = "", *, history: bool = True, directory: Path | str | None = None
) -> OneBroker:
    """Make a broker for a test: enter it with `async with`, and it runs in the test's event loop
    (a `Broker`); or with `with`, and it runs in a thread of its own (a `SyncBroker`).

    `settings`: the text of a network file without brokers, such as a `[limits]`. `history`: whether
    it keeps a history of all topics. `directory`: where it keeps sessions and history; by default
    in a temporary directory that goes with it. Raises `ConfigurationError` for wrong settings, and
    `LocalError` if the packages of `reefcast[broker]` are not installed."""
    return OneBroker(network("b1", settings, history=history, directory=directory))


def network(
    links: str, settings: str = "", *, history: bool = True, directory: Path | str | None = None
) -> Network:
    """Make a network of brokers for a test, as `broker` makes one: entering it gives the brokers by
    their names, and all links are up then.

    `links`: its links, such as `"a - b - c, b - d"`; `history`: whether the first broker keeps a
    history, of which all can be asked; the others: see `broker`."""
    return Network(links, settings, history, None if directory is None else Path(directory))
