"""A thread with an event loop, in which the synchronous client runs the asyncio one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from reefcast.client.loop import new_event_loop
from reefcast.errors import LocalError

T = TypeVar("T")
CLOSED = "this client has been closed"


class LoopThread:
    """A thread with an event loop, which runs coroutines for other threads."""

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._stopped = False
        self._begun: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="reefcast", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    @property
    def stopped(self) -> bool:
        """Whether it no longer runs anything."""
        return self._stopped

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run `work` in the thread and return its result; after `timeout` seconds, or at Ctrl-C
        here, cancel it."""
        if self.is_current:
            work.close()
            raise LocalError("a callback must not wait for its own client; use another thread")
        future = self.start(work)
        try:
            return future.result(timeout)
        except CancelledError:
            raise LocalError("this client was closed while the call waited") from None
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:  # the stop cancels what was handed over before it, and does not forget it
            if self._stopped:
                work.close()
                raise LocalError(CLOSED)
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def begin(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run what `make` returns in the thread, and wait for nothing. It is made there: Ctrl-C
        here leaves no coroutine that nobody runs."""
        with self._lock:
            if self._stopped:
                raise LocalError(CLOSED)
            self._loop.call_soon_threadsafe(self._begin, make)

    def _begin(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._loop.create_task(make())
        self._begun.add(task)  # the loop itself keeps only weak references
        task.add_done_callback(self._begun.discard)

    def stop(self) -> None:
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()
