"""Commands in processes of their own, which never outlive the test or pytest itself.

They are forked where that makes no difference (`forked`)."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from forked import MARK

CHILD_S = 600.0
"""How long a child may take for something immediate, on a busy machine."""
PROGRAM = f"""{MARK}
import os, threading
def watch():
    os.read({{descriptor}}, 1)
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
{{run}}
"""
"""A program that ends when the other end of the pipe does, however pytest ended."""
COMMAND = "from {package}.cli.main import main; main()"
FILE = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


class Children:
    """Processes that are killed at the end of the block, if they have not ended by then.

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
        """Start the command with these arguments; its input and output are pipes, unless `pipes`
        says otherwise."""
        return await self._start(COMMAND.format(package=self._package), arguments, pipes)

    async def start_file(self, file: Path, *arguments: object, **pipes: Any) -> Process:
        """Start a Python program with these arguments; `pipes` as for `start`."""
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
        """Run the command; return its exit code, output and errors."""
        return await ended(await self.start(*arguments), input)


async def ended(process: Process, input: bytes | None = None) -> tuple[int | None, str, str]:
    """Wait until a process ends by itself; return its exit code, output and errors."""
    async with asyncio.timeout(CHILD_S):
        output, errors = await process.communicate(input)
    return process.returncode, (output or b"").decode(), (errors or b"").decode()


async def line_of(stream: asyncio.StreamReader | None) -> bytes:
    """Return the next line that a child writes."""
    assert stream is not None
    async with asyncio.timeout(CHILD_S):
        return await stream.readline()
