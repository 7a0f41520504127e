"""A broker as a process: its event loop, its signals and its end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from reefcast.matching import warm_up
from reefcast.matching.memory import keep_no_small_pieces
from reefcast.network.file import NetworkFile
from reefcast.server.applying import Applying
from reefcast.server.following import follow_users
from reefcast.server.node import Node

GC_ALLOCATIONS = 100_000


Serve = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
"""Runs until the event is set, and then stops in order."""


def run_broker(
    network: NetworkFile,
    name: str,
    ready: Callable[[Node], None],
    *,
    file: Path | None = None,
    levels: Sequence[str] = (),
    until_eof: bool = False,
    beside: Callable[[Node], Awaitable[None]] | None = None,
) -> bool:
    """Run the broker `name` until it is told to stop (`run`), then drain it; SIGHUP has it read
    `file` again, where the network was read (`applying`), or without one its certificate. `ready`
    is called when the broker listens, and `beside` has started what else this process has. Users
    and roles of `file` are followed. `levels`: those of the log on the command line. Return whether
    an operator wished the broker to be started again. Raises `ConfigurationError` if it cannot
    start."""
    again = False

    async def serve(told_to_stop: asyncio.Event) -> None:
        def end_process(to_be_started: bool) -> None:
            nonlocal again
            again = to_be_started
            told_to_stop.set()

        node = Node(network, name)
        await node.start()
        node.wishes.end_process = end_process
        if beside is not None:
            await _begin(beside, node)
        reload_at_hangup(node.reload)
        if file is not None:
            applying = node.wishes.applying = Applying(node, file, levels)
            reload_at_hangup(applying.hang_up)
        ready(node)
        following = file and asyncio.create_task(follow_users(node, file))
        await told_to_stop.wait()
        if following:
            following.cancel()
        await node.stop()

    run(serve, until_eof=until_eof)
    return again


def reload_at_hangup(reload: Callable[[], object]) -> None:
    """Call `reload` at each SIGHUP, the signal by which process managers reload."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


async def _begin(beside: Callable[[Node], Awaitable[None]], node: Node) -> None:
    try:
        await beside(node)
    except BaseException:
        await node.stop()
        raise


def run(serve: Serve, *, until_eof: bool = False) -> None:
    """Run the process of a broker, a peer or a storage until SIGTERM or SIGINT; `until_eof`: or
    until the end of standard input, so that none outlives the process that started it. SIGHUP, by
    which process managers reload, ends none, whether or not there is something to read again."""
    import uvloop

    keep_no_small_pieces()
    warm_up()
    # The objects of now live on, and the collector need not examine them again. What a burst
    # allocates is freed by its reference counts; cycles are rare, so looking for them can wait.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, 20, 50)
    uvloop.run(_run(serve, until_eof))


async def _run(serve: Serve, until_eof: bool) -> None:
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told_to_stop.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    if until_eof:
        _watch_input(loop, told_to_stop)
    await serve(told_to_stop)


def _watch_input(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            ended.set()

    loop.add_reader(descriptor, readable)
