"""A watched process of this machine that runs a `reefcast` command.

A process that dies is restarted, after pauses that grow while it keeps dying. A process that ends
because it was told to (exit code 0) is not restarted, unless it was told to be (`AGAIN`): then at
once. No process outlives its parent: each gets a
pipe as its standard input and stops when the pipe closes."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import Callable

from reefcast.errors import LocalError, PeerError, ReefcastError
from reefcast.timing import Backoff

START_S = 60.0
AGAIN = 6
"""The exit code of a broker that is to be started again (`cli.exit_codes`)."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
LIVED_S = 10.0
"""A process that lived this long resets the pauses when it dies."""


class Child:
    """A process to watch. `what`: for example "broker b1"; `words`: a command of `reefcast` that
    takes `--json` and `--until-eof`, and prints a line when it runs. `before_again`: called before
    each restart, with whether somebody asked for it; `report` gets a line for each event."""

    def __init__(
        self,
        what: str,
        *words: str,
        restart: bool,
        before_again: Callable[[bool], None],
        report: Callable[[str], None],
    ) -> None:
        self._what = what
        self._words = words
        self._restart = restart
        self._before_again = before_again
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The id of the last process; raises `LocalError` if there was none."""
        if self._process is None:
            raise LocalError(f"{self._what} was never started")
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended because it was told to, and will not be started again."""
        return self._process is not None and self._process.returncode == 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process, and wait until it runs. Raises `LocalError` if it runs already or
        cannot run, and `PeerError` if it takes too long."""
        if self.running:
            raise LocalError(f"{self._what} runs already")
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "reefcast", *self._words, "--json", "--until-eof"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        await self._until_ready(process)
        self._report(f"{self._what} runs (process {process.pid})")
        self._be_watched()

    async def keep_starting(self) -> None:
        """Start the process; report a failure, and try again as after a death."""
        try:
            await self.start()
        except ReefcastError as error:
            self._report(str(error))
            self._be_watched()

    def _be_watched(self) -> None:
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch())

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_S):
                line = await process.stdout.readline()
        except TimeoutError as error:
            process.kill()
            raise PeerError(f"{self._what} did not start within {START_S:g} s") from error
        if not line:
            code = await process.wait()
            raise LocalError(
                f"{self._what} exited with code {code} before it was ready; its output is above"
            )

    async def _watch(self) -> None:
        """Restart the process whenever it dies, if restarts are wanted."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, random.Random())
        while True:
            assert self._process is not None
            started_s = loop.time()
            code = await _ended(self._process)
            if code == 0:
                return
            if code == AGAIN:
                self._report(f"{self._what} is started again, as it was told")
            else:
                self._report(f"{self._what} died ({_how(code)})")
                if not self._restart:
                    return
                if loop.time() - started_s > LIVED_S:
                    backoff.reset()
                await asyncio.sleep(backoff.pause_s())
            self._before_again(code == AGAIN)
            try:
                await self.start()
            except ReefcastError as error:
                self._report(str(error))

    def hang_up(self) -> None:
        """Tell the process by SIGHUP to read its files again, if it runs."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGHUP)

    async def kill(self) -> None:
        """Kill the process as `kill -9` does."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    async def stop(self, patience_s: float) -> int:
        """Stop the process for good; return its exit code, 0 if it never ran."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        if self._process is None:
            return 0
        if self.running:
            self._process.terminate()
        try:
            async with asyncio.timeout(patience_s):
                return await self._process.wait()
        except TimeoutError:
            self._process.kill()
            return await self._process.wait()


async def _ended(process: asyncio.subprocess.Process) -> int:
    """Return the exit code of `process`; meanwhile read its output, or it might block for ever."""
    assert process.stdout is not None
    while await process.stdout.read(1 << 16):
        pass
    return await process.wait()


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
