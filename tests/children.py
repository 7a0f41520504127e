"""The commands in processes of their own that never outlive the test, nor pytest itself."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHILD_S = 600.0
"""For what a child does at once, on a machine that has much else to do."""
PROGRAM = """
import os, threading
def watch():
    os.read({descriptor}, 1)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
{run}
"""
"""Ends when the other end of the pipe does, however pytest ended."""
COMMAND = "from {package}.cli.main import main; main()"
FILE = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


class Children:
    """Processes that are killed at the end of the block, those that have not ended by then.

    `package`: `reefcast` or `reefcast_lab`, whose command they are.
    """

    def __init__(self, package: str = "reefcast") -> None:
        self._package = package
        self._all: list[Process] = []
        self._theirs, self._mine = -1, -1

    async def __aenter__(self) -> Self:
        self._theirs, self._mine = os.pipe()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._all:
            if process.returncode is None:
                process.kill()
        try:
            async with asyncio.timeout(CHILD_S):
                for process in self._all:
                    await process.wait()
        finally:
            os.close(self._mine)
            os.close(self._theirs)

    async def start(self, *arguments: object, **pipes: Any) -> Process:
        """The command with these arguments; all that it reads and writes is a pipe, unless `pipes`
        says otherwise."""
        return await self._start(COMMAND.format(package=self._package), arguments, pipes)

    async def start_file(self, file: Path, *arguments: object, **pipes: Any) -> Process:
        """A Python program with these arguments; `pipes` as of `start`."""
        return await self._start(FILE, (file, *arguments), pipes)

    async def _start(
        self, run: str, arguments: tuple[object, ...], pipes: dict[str, Any]
    ) -> Process:
        program = PROGRAM.format(descriptor=self._theirs, run=run)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, *map(str, arguments)),
            **{"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, **pipes},
            pass_fds=(self._theirs,),
        )
        self._all.append(process)
        return process

    async def run(self, *arguments: object, input: bytes = b"") -> tuple[int | None, str, str]:
        """Exit code, output, errors."""
        return await ended(await self.start(*arguments), input)


async def ended(process: Process, input: bytes | None = None) -> tuple[int | None, str, str]:
    """Waits until it ends by itself: exit code, output, errors."""
    async with asyncio.timeout(CHILD_S):
        output, errors = await process.communicate(input)
    return process.returncode, (output or b"").decode(), (errors or b"").decode()


async def line_of(stream: asyncio.StreamReader | None) -> bytes:
    """The next line that a child writes."""
    assert stream is not None
    async with asyncio.timeout(CHILD_S):
        return await stream.readline()
