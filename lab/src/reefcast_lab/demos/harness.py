"""What live demonstrations share: the programs that they start, tell what to do, and hear.

A program is a process that runs a module of this package (`program.py` is its end). It gets its
task as JSON on its command line, does what it is told (a word a line), and says in what state it is
and what came (a JSON object a line).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from reefcast.client.loop import new_event_loop
from reefcast.errors import PeerError
from reefcast.network.file import NetworkFile
from reefcast_lab.demos.program import Report

PATIENCE_S = 60.0
"""How long nothing may arrive, once all is published, until the rest is taken for lost."""
LONGEST_LINE = 1 << 26

Tell = Callable[[str], None]
"""Called with what happens."""
T = TypeVar("T")
R = TypeVar("R", bound=Report)
Note = Callable[["Program[R]", R], None]
"""Called with each thing that a program says."""


class Program(Generic[R]):
    """A process that a demonstration has started; `last` is what it has said last."""

    def __init__(
        self, name: str, process: asyncio.subprocess.Process, said: type[R], note: Note[R] | None
    ) -> None:
        self.last: R | None = None
        self.running = True
        self._name, self._process = name, process
        self._states: set[str] = set()
        self._news = asyncio.Event()
        self._listening = asyncio.create_task(self._listen(said, note))

    @classmethod
    async def start(
        cls, module: str, task: msgspec.Struct, said: type[R], note: Note[R] | None = None
    ) -> Program[R]:
        """Start a module of this package as a process; `note` is called with what it says."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"reefcast_lab.demos.{module}"),
            msgspec.json.encode(task).decode(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
        )
        return cls(module, process, said, note)

    def tell(self, word: str) -> None:
        """Tell it what to do."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())

    async def until(self, state: str, within_s: float | None = None) -> None:
        """Return when it has been in this state.

        Raises `PeerError` if it ends before, or takes longer.
        """
        await self.until_done(lambda: state in self._states, state, within_s)

    async def until_done(
        self, done: Callable[[], bool], what: str, within_s: float | None = None
    ) -> None:
        """Return when this is so after something that it said; else as `until`."""
        try:
            async with asyncio.timeout(within_s):
                while not done():
                    if not self.running:
                        raise PeerError(
                            f"{self._name} ended before it was {what}; its output is above"
                        )
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as error:
            raise PeerError(f"{self._name} took more than {within_s:g} s until {what}") from error

    async def end(self) -> None:
        """Return when it has ended as it should; raises `PeerError` otherwise."""
        code = await self._process.wait()
        if code:
            raise PeerError(f"{self._name} ended with exit code {code}; its output is above")

    async def kill(self) -> None:
        """Kill it as `kill -9` does; nothing happens if it has ended."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
        await self._listening

    async def _listen(self, said: type[R], note: Note[R] | None) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(msgspec.DecodeError):  # killed in the middle of a line
            async for line in self._process.stdout:
                report = self.last = msgspec.json.decode(line, type=said)
                self._states.add(report.state)
                if note is not None:
                    note(self, report)
                self._news.set()
        self.running = False
        self._news.set()


async def each(
    programs: Iterable[Program[Any]], word: str, state: str, within_s: float | None = None
) -> None:
    """Tell all programs `word`, and return when each has been in `state`."""
    told = list(programs)
    for program in told:
        program.tell(word)
    await asyncio.gather(*(program.until(state, within_s) for program in told))


async def kill(programs: Iterable[Program[Any]]) -> None:
    """Kill all that still run."""
    await asyncio.gather(*(program.kill() for program in programs))


def url_of(network: NetworkFile, broker: str) -> str:
    """Return the URL to which the clients of a broker connect."""
    host, port = network.address(broker)
    return f"reefcast://{host}:{port}"


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a demonstration's coroutine, on the event loop of programs of ours."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def write_page(page: Path, html: str) -> None:
    """Write a report, and the directories above it."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(html, encoding="utf-8")
