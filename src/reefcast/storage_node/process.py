"""The life of a process that is a storage: it opens its history, attaches to its broker, and starts
again when either fails."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from reefcast.client import Options, connect
from reefcast.errors import DamagedError, SlowConsumerError
from reefcast.history.limits import Limits
from reefcast.history.store import HistoryStore
from reefcast.logs import part
from reefcast.model.values import Kind
from reefcast.server.process import run
from reefcast.storage_node.node import SEAL_AFTER_S, StorageNode

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

    def open(self, *, repair: bool) -> HistoryStore:
        """Open the store; this may take long."""
        return HistoryStore(self.directory, _report, self.limits, self.indexed, repair=repair)


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
    until_eof: bool = False,
    ready: Ready,
    follow: Follow = forever,
) -> None:
    """Run a storage until the process is told to stop (`server.process.run`); the arguments are
    those of `serve_store`."""

    async def serve(stop: asyncio.Event) -> None:
        await serve_store(
            *(url, topics, keeping, joining, stop),
            name=name,
            network=network,
            shown=shown,
            ready=ready,
            follow=follow,
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
) -> None:
    """Serve as a storage until `stop` is set.

    `name`: that of its entry in a network file, if it has one; `shown`: the options of its client
    that say who it is, and whom it trusts. `ready` is called whenever it has said for what it
    answers; `follow` runs beside it, and ends it when it returns. Damage is repaired, as far as it
    can be, and fetched from other storages. Raises what ends a storage otherwise.
    """
    # A storage waits for its broker as long as that takes; publishers wait a while for it.
    options: Options = {
        **(shown or {}),
        "name": name or "storage",
        "network": network,
        "reconnect_timeout_s": math.inf,
        "queue_policy": "block",
    }

    async def attached(store: HistoryStore) -> None:
        async with connect(url, **options) as client:
            forget, seal_after_s = keeping.forget, keeping.seal_after_s
            node = StorageNode(
                client, store, topics, joining, forget=forget, seal_after_s=seal_after_s, name=name
            )
            await first_of(node.run(partial(ready, node)), stop.wait(), follow(node))

    repairs = 0
    while True:
        store = await asyncio.to_thread(keeping.open, repair=repairs > 0)
        try:
            await attached(store)
            break
        except SlowConsumerError as error:
            log.error("%s. It connects again, and asks others for what it lacks", error)
        except DamagedError as error:
            if repairs == MOST_REPAIRS:
                raise
            repairs += 1
            log.error("%s. The history is opened again, and repaired", error)
        finally:
            await asyncio.to_thread(store.close)


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
