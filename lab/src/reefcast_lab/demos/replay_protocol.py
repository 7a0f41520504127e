"""How the demo and its client programs talk: a word or a JSON object on each line of their pipes.

A program gets its task as JSON on its command line, connects on `start`, says `ready` when all that
it advertised or subscribed has settled, works on `go`, says how far it is by `done`, and ends on
`finish`, or when its standard input ends: no program outlives the demo.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from reefcast.client.loop import new_event_loop

START, READY, GO, FINISH = "start", "ready", "go", "finish"
END_MARK = "end_of_replay"
"""The attribute of the last publication of each publisher: whoever has the mark has nearly all that
came before it, for some routings do not keep the order (see `replay`)."""


class Progress(msgspec.Struct):
    """What a program says: its `state` ("ready", "busy" or "complete") and a count of events."""

    state: str
    done: int = 0


class PublisherTask(msgspec.Struct):
    """Replay the flights from `origin` among the first `count` events of the Parquet at `events`,
    to the broker at `url`; event number n is due n / `rate_per_s` seconds after `go`."""

    url: str
    origin: str
    events: str
    count: int
    rate_per_s: float
    log: str


class SubscriberTask(msgspec.Struct):
    """Be all clients of the workload at `workload` that sit at the brokers of `urls`; each is
    complete when it has the end marks of `publishers` publishers."""

    urls: dict[str, str]
    workload: str
    publishers: int
    log: str


Task = TypeVar("Task", bound=msgspec.Struct)


def run_program(run: Callable[[Task], Coroutine[Any, Any, None]], task: type[Task]) -> None:
    """The whole life of a client program."""
    # Ctrl-C in a terminal reaches all processes; the demo hears it, and ends its programs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run(msgspec.json.decode(sys.argv[1], type=task)))


def say(state: str, done: int = 0) -> None:
    """Tells the demo how far this program is."""
    sys.stdout.write(msgspec.json.encode(Progress(state, done)).decode() + "\n")
    sys.stdout.flush()


class Orders:
    """What the demo tells this program, line by line."""

    def __init__(self) -> None:
        self._reader: asyncio.StreamReader | None = None

    async def wait_for(self, word: str) -> None:
        """Returns when the demo says `word`; ends the program if the demo is gone."""
        said = await self.next()
        if said != word:
            raise SystemExit(f"the demo said {said!r} instead of {word!r}")

    async def next(self) -> str:
        """The next word; ends the program if the demo is gone."""
        if self._reader is None:
            self._reader = asyncio.StreamReader()
            loop = asyncio.get_running_loop()
            protocol = asyncio.StreamReaderProtocol(self._reader)
            await loop.connect_read_pipe(lambda: protocol, sys.stdin)
        line = await self._reader.readline()
        if not line:
            raise SystemExit("the demo ended")
        return line.decode().strip()
