"""A process that does as it is asked, over a pipe: the publisher, and the receiver.

It is started once for all points, for a process with compiled kernels takes a second to start.
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
    """What a process does; its other methods are what it can be asked for."""

    def wait(self, asked: Callable[[float], bool]) -> None:
        """What it does while nothing is asked for; `asked(timeout_s)` says whether something is."""
        ...


def serve(pipe: Connection, make: Callable[..., Work], arguments: tuple[Any, ...]) -> None:
    """The process: calls the methods that it is asked for, until it is told to end (None).

    What a broker did wrong is told to who asked next.
    """
    work = make(*arguments)
    failed: Exception | None = None
    while True:
        try:
            work.wait(pipe.poll)
        except (OSError, ReefcastError) as error:
            failed = error
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
    """Such a process, from the outside; a context manager. `who` is for errors."""

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
        """Ask for something; `result` has it."""
        self._pipe.send((method, arguments))

    def result(self) -> Any:
        """What came of what was asked for last."""
        if not self._pipe.poll(ASK_S):
            raise PeerError(f"the {self._who} did not answer within {ASK_S:g} s")
        done, result = self._pipe.recv()
        if not done:
            raise PeerError(f"the {self._who} failed: {result}")
        return result

    def ask(self, method: str, *arguments: Any) -> Any:
        """Ask for something and wait for it."""
        self.begin(method, *arguments)
        return self.result()
