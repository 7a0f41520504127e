"""How calls of the client wait: for a signal, after which they check their own condition."""

from __future__ import annotations

import asyncio


class Signal:
    """Wakes everyone who waits. What they wait for is a condition of their own, so the use is

        while not condition():
            await signal.wait()

    Nothing is allocated while nobody waits, and a cancelled wait loses nothing.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], None] = {}

    def fire(self) -> None:
        if not self._waiters:
            return
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)
