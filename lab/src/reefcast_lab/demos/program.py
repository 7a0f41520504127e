"""A program's end of a live demonstration: its task, what it is told, and what it says.

It gets its task as JSON on its command line, is told a word a line, and says JSON objects, a line
each. It ends when its standard input does: no program outlives its demonstration.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from reefcast.client.loop import new_event_loop

FINISH = "finish"
"""The last word that every program is told."""
END_MARK = "end_of_replay"
"""The attribute of the last publication of each publisher: whoever has the mark has nearly all that
came before it, for some routings do not keep the order (see `replay`)."""


class Report(msgspec.Struct):
    """What a program says. `state`: what it has done last, of what it was told."""

    state: str


Task = TypeVar("Task", bound=msgspec.Struct)


def run_program(run: Callable[[Task], Coroutine[Any, Any, None]], task: type[Task]) -> None:
    """Run the whole life of a program."""
    # Ctrl-C in a terminal reaches all processes; the demonstration hears it, and ends its programs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run(msgspec.json.decode(sys.argv[1], type=task)))


def say(report: Report) -> None:
    """Tell the demonstration how far this program is."""
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    sys.stdout.flush()


class Orders:
    """What the demonstration tells this program, line by line."""

    def __init__(self) -> None:
        self._reader: asyncio.StreamReader | None = None

    async def wait_for(self, word: str) -> None:
        """Return when this word is said; end the program if the demonstration is gone."""
        said = await self.next()
        if said != word:
            raise SystemExit(f"the demo said {said!r} instead of {word!r}")

    async def next(self) -> str:
        """Return the next word; end the program if the demonstration is gone."""
        if self._reader is None:
            self._reader = asyncio.StreamReader()
            loop = asyncio.get_running_loop()
            protocol = asyncio.StreamReaderProtocol(self._reader)
            await loop.connect_read_pipe(lambda: protocol, sys.stdin)
        line = await self._reader.readline()
        if not line:
            raise SystemExit("the demo ended")
        return line.decode().strip()


class Pace:
    """So many events a second from now on, without drift: event n is due after n / `rate_per_s`."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._loop = asyncio.get_running_loop()
        self._started_s = self._loop.time()

    def early_s(self, number: float) -> float:
        """Return how long it is until this event is due; below 0 when it is late."""
        return self._started_s + number / self._rate_per_s - self._loop.time()

    async def wait(self, number: float) -> float:
        """Wait until this event is due; return how late it is then, in seconds."""
        await asyncio.sleep(max(self.early_s(number), 0))
        return -self.early_s(number)
