"""A process whose methods are called over a pipe: the publisher, and the receiver.

It is started once for all points, because a process with compiled kernels takes a second to start.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Protocol, Self

from reefcast.errors import PeerError, ReefcastError

ASK_S = 600.0


class Work(Protocol):
    """The object in the process; its other methods can be called."""

    def wait(self, asked: Callable[[float], bool]) -> None:
        """Do what there is to do until a call comes; `asked(timeout_s)` waits for one, and tells
        whether it has come."""
        ...

    def close(self) -> None:
        """Close what is open, if anything."""
        ...


def serve(pipe: Connection, make: Callable[..., Work], arguments: tuple[Any, ...]) -> None:
    """Run the process: call the methods that are asked for, until None comes.

    An error between two calls is the answer to the next one; what is open is closed at once.
    """
    work = make(*arguments)
    failed: Exception | None = None
    while True:
        try:
            work.wait(pipe.poll)
        except (OSError, ReefcastError) as error:
            failed = error
            work.close()
        asked = pipe.recv()
        if asked is None:
            return
        method, given = asked
        try:
            if failed is not None:
                raise failed
            pipe.send((True, getattr(work, method)(*given)))
        except (OSError, ReefcastError) as error:
            failed = None
            pipe.send((False, f"{type(error).__name__}: {error}"))


class Worker:
    """Such a process as its parent sees it; a context manager. `who`: its name in errors."""

    def __init__(self, who: str, make: Callable[..., Work], *arguments: Any) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._who = who
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=serve, args=(theirs, make, arguments), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # it is gone
            self._pipe.send(None)
        self._process.join()

    def begin(self, method: str, *arguments: Any) -> None:
        """Call a method; `result` waits for what it returns."""
        self._pipe.send((method, arguments))

    def result(self) -> Any:
        """Wait for what the method returns that was called last."""
        if not self._pipe.poll(ASK_S):
            raise PeerError(f"the {self._who} did not answer within {ASK_S:g} s")
        done, result = self._pipe.recv()
        if not done:
            raise PeerError(f"the {self._who} failed: {result}")
        return result

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method and wait for what it returns."""
        self.begin(method, *arguments)
        return self.result()
