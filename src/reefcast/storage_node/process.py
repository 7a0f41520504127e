"""The life of a process that is a storage: it opens its history, attaches to its broker, and starts
again when either fails."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from reefcast.client import Options, connect
from reefcast.errors import DamagedError, SlowConsumerError
from reefcast.history.limits import Limits
from reefcast.history.store import HistoryStore
from reefcast.logs import part
from reefcast.model.values import Kind
from reefcast.network.file import NetworkFile
from reefcast.network.sections import StorageEntry
from reefcast.server.process import run
from reefcast.storage_node.admin import StorageAdmin
from reefcast.storage_node.node import SEAL_AFTER_S, StorageNode
from reefcast.storage_node.observed import Observed

log = part("storage")

MOST_REPAIRS = 3
"""Repairs of a history in which damage is found again and again: someone must look at its disk."""


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """The settings of a storage's history: see `HistoryStore` and `StorageNode`."""

    directory: Path
    limits: Limits
    indexed: Mapping[str, Kind] = field(default_factory=dict)
    seal_after_s: float | None = SEAL_AFTER_S
    forget: bool = False
    session: str = ""

    def open(self, *, repair: bool) -> HistoryStore:
        """Open the store; this may take long."""
        return HistoryStore(self.directory, _report, self.limits, self.indexed, repair=repair)


class Shown(NamedTuple):
    """What a storage process shows to operators: the storage `entry` of a network, at the entry's
    admin address, if it has one. `file`: where the network was read; its users are followed."""

    network: NetworkFile
    entry: StorageEntry
    file: Path | None = None

    @asynccontextmanager
    async def observed(self) -> AsyncIterator[Observed | None]:
        """Listen for operators during the `with` block; SIGHUP reads the certificate again. Raises
        `ConfigurationError` if that is not possible."""
        address = self.entry.admin_address
        if address is None:
            yield None
            return
        admin = StorageAdmin(self.network, self.entry, *address)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, admin.reload)
        async with admin.running(self.file) as observed:
            yield observed


Follow = Callable[[StorageNode], Coroutine[Any, Any, None]]
Ready = Callable[[StorageNode], None]


async def forever(node: StorageNode) -> None:
    """Wait for ever: there is nothing to follow."""
    await asyncio.Event().wait()


def run_store(
    url: str,
    topics: Sequence[str],
    keeping: Keeping,
    joining: Sequence[str] = (),
    *,
    name: str = "",
    network: str = "",
    shown: Options | None = None,
    operators: Shown,
    until_eof: bool = False,
    ready: Ready,
    follow: Follow = forever,
) -> None:
    """Run a storage until the process is told to stop (`server.process.run`); `operators`: what
    they see of it; the other arguments are those of `serve_store`."""

    async def serve(stop: asyncio.Event) -> None:
        async with operators.observed() as observed:
            await serve_store(
                *(url, topics, keeping, joining, stop),
                name=name,
                network=network,
                shown=shown,
                ready=ready,
                follow=follow,
                observed=observed,
            )

    run(serve, until_eof=until_eof)


async def serve_store(
    url: str,
    topics: Sequence[str],
    keeping: Keeping,
    joining: Sequence[str],
    stop: asyncio.Event,
    *,
    name: str = "",
    network: str = "",
    shown: Options | None = None,
    ready: Ready,
    follow: Follow = forever,
    observed: Observed | None = None,
) -> None:
    """Serve as a storage until `stop` is set.

    `name`: that of its entry in a network file, if it has one; `shown`: the options of its client
    that say who it is, and whom it trusts. `ready` is called whenever it has said for what it
    answers; `follow` runs beside it, and ends it when it returns; `observed` is told of its life.
    Damage is repaired, as far as it can be, and fetched from other storages. Raises what ends a
    storage otherwise.
    """
    # A storage waits for its broker as long as that takes; publishers wait a while for it.
    options: Options = {
        **(shown or {}),
        "name": name or "storage",
        "network": network,
        "reconnect_timeout_s": math.inf,
        "queue_policy": "block",
        "redirects": False,  # it is the storage of one broker, as the network file says
    }

    entry = StorageEntry(name or "storage", "", list(topics), str(keeping.directory))
    seen = observed or Observed(entry, network)

    async def told_to_stop() -> None:
        await stop.wait()
        seen.stopping = True

    async def attached(store: HistoryStore) -> None:
        async with connect(url, **options) as client:
            node = StorageNode(
                *(client, store, topics, joining),
                forget=keeping.forget,
                seal_after_s=keeping.seal_after_s,
                name=name,
                session=keeping.session,
            )
            seen.attached(node)
            await _live(node, node.run(partial(ready, node)), told_to_stop(), follow)

    repairs = 0
    while True:
        store = await asyncio.to_thread(keeping.open, repair=repairs > 0)
        seen.opened(store)
        try:
            await attached(store)
            break
        except SlowConsumerError as error:
            seen.failed("slow")
            log.error("%s. It connects again, and asks others for what it lacks", error)
        except DamagedError as error:
            if repairs == MOST_REPAIRS:
                raise
            repairs += 1
            seen.failed("damaged")
            log.error("%s. The history is opened again, and repaired", error)
        finally:
            seen.ended()
            await asyncio.to_thread(store.close)


async def _live(
    node: StorageNode,
    life: Coroutine[Any, Any, None],
    told_to_stop: Coroutine[Any, Any, None],
    follow: Follow,
) -> None:
    """Run a storage until it is told to stop, or `follow` returns: then it is no longer part of
    the network, and nothing must wait for it."""
    removed = False

    async def followed() -> None:
        nonlocal removed
        await follow(node)
        removed = True

    await first_of(life, told_to_stop, followed())
    if removed:
        await node.give_up_feed()


async def first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Run these until one ends, and cancel the others; raises what any of them raises."""
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


def _report(error: DamagedError) -> None:
    log.error("%s", error)
