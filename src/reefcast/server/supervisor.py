"""A whole overlay on one machine: a process for each broker, watched.

    async with Overlay(network) as overlay:   # all brokers run, all links are up
        ...
        await overlay.kill("b3")              # as by `kill -9`
        await overlay.start("b3")             # if it is not restarted by itself

A broker that dies is started again, after pauses that grow while it keeps dying, with the links
that there are by then; one that ends because it was told to (exit code 0) is not. No broker
outlives its supervisor: each gets a pipe as its standard input and stops when that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from reefcast.errors import LocalError, PeerError, ReefcastError
from reefcast.matching import warm_up
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.sections import LinkEntry
from reefcast.server.observer import UNASKED, ask_status
from reefcast.storage.trace_files import remove_former_run, write_run

START_S = 60.0
STOP_S = 5.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
LIVED_S = 10.0
"""A broker that lived that long starts the row of pauses anew when it dies."""
POLL_S = 0.05
LOADING_S = 3.0
"""Loading compiled code takes less than that; compiling it does not."""


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _no_report(line: str) -> None:
    pass


class Overlay:
    """All brokers of `network`, as processes of this machine.

    `restart`: whether a broker that dies is started again. `links_now` says which links there are
    then: some may have moved (`reefcast network move`). `report` gets a line for each thing that
    happens. Entering raises `PeerError` if a broker does not come up in time, and
    `LocalError` if one cannot start.
    """

    def __init__(
        self,
        network: NetworkFile,
        *,
        restart: bool = True,
        links_now: Callable[[], list[LinkEntry]] | None = None,
        report: Callable[[str], None] = _no_report,
    ) -> None:
        self.network = network
        self.restart = restart
        self._links_now = links_now or (lambda: network.link)
        self._report = report
        self._folder = tempfile.TemporaryDirectory(prefix="reefcast-")
        self._file = Path(self._folder.name) / "network.toml"
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._stopping = False

    # --- life -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Overlay:
        try:
            await self._start_all()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _start_all(self) -> None:
        self._write_file()
        if self.network.trace.level != "off":
            begin_run(self.network)
        await self._compile()
        await asyncio.gather(*(self.start(name) for name in self.network.names))
        await self.linked()

    def _write_file(self) -> None:
        self._file.write_text(dump_network(self.network), encoding="utf-8")

    def _look_up_links(self) -> None:
        """What else may have changed since the start holds for none of the brokers."""
        try:
            now = msgspec.structs.replace(self.network, link=self._links_now()).validate()
        except ReefcastError as error:
            self._report(f"links are taken as they were before: {error}")
        else:
            if now != self.network:
                self.network = now
                self._write_file()

    async def _compile(self) -> None:
        """Once, here; the brokers load the result from the cache."""
        compiling = asyncio.ensure_future(asyncio.to_thread(warm_up))
        await asyncio.wait((compiling,), timeout=LOADING_S)
        if not compiling.done():
            self._report("preparing the matching index: it is compiled at the first start")
        await compiling

    async def stop(self) -> dict[str, int]:
        """Tells every broker to drain and stop; returns their exit codes."""
        self._stopping = True
        for watcher in self._watchers.values():
            watcher.cancel()
        await asyncio.gather(*self._watchers.values(), return_exceptions=True)
        for process in self._processes.values():
            if process.returncode is None:
                process.terminate()
        patience_s = self.network.limits.drain_s + STOP_S
        codes = await asyncio.gather(
            *(_exit_code(process, patience_s) for process in self._processes.values())
        )
        self._folder.cleanup()
        return dict(zip(self._processes, codes, strict=True))

    # --- one broker -------------------------------------------------------------------------------

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def running(self, name: str) -> bool:
        process = self._processes.get(name)
        return process is not None and process.returncode is None

    async def start(self, name: str) -> None:
        """Starts a broker that does not run; returns when it listens."""
        self.network.entry(name)
        if self.running(name):
            raise LocalError(f"broker {name} runs already")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "reefcast", "broker", str(self._file), name),
            *("--json", "--until-eof"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._processes[name] = process
        await self._until_ready(name, process)
        self._report(f"broker {name} runs (process {process.pid})")
        watcher = self._watchers.get(name)
        if watcher is None or watcher.done():
            self._watchers[name] = asyncio.create_task(self._watch(name))

    async def _until_ready(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_S):
                line = await process.stdout.readline()
        except TimeoutError as error:
            process.kill()
            raise PeerError(f"broker {name} did not start within {START_S:g} s") from error
        if not line:
            code = await process.wait()
            raise LocalError(
                f"broker {name} ended with exit code {code} before it listened; "
                "its own words are above"
            )

    async def kill(self, name: str) -> None:
        """Ends a broker as `kill -9` does."""
        process = self._processes[name]
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()

    async def _watch(self, name: str) -> None:
        """Starts the broker again whenever it dies, if that is wanted."""
        loop = asyncio.get_running_loop()
        pause_s = FIRST_PAUSE_S
        while True:
            started_s = loop.time()
            code = await self._processes[name].wait()
            if self._stopping or code == 0:
                return
            self._report(f"broker {name} died ({_how(code)})")
            if not self.restart:
                return
            if loop.time() - started_s > LIVED_S:
                pause_s = FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self._look_up_links()
            try:
                await self.start(name)
            except ReefcastError as error:
                self._report(str(error))

    # --- all of them ------------------------------------------------------------------------------

    async def status(self) -> dict[str, dict[str, Any] | None]:
        """What each broker says of itself; None for one that does not answer."""
        return await overlay_status(self.network)

    async def linked(self, timeout_s: float = START_S) -> None:
        """Returns when all brokers run, all links are up, and nothing waits on any of them.

        Raises `PeerError` that names what is missing after `timeout_s`.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        missing = ["everything"]
        while missing:
            if loop.time() > until_s:
                raise PeerError(f"after {timeout_s:g} s these are not up: {', '.join(missing)}")
            missing = not_up(await self.status())
            if missing:
                await asyncio.sleep(POLL_S)


def not_up(statuses: dict[str, dict[str, Any] | None]) -> list[str]:
    """Brokers that do not answer or still relearn, and links that are not up and empty: soft ones,
    which come and go, need only be empty."""
    missing = []
    for name, status in statuses.items():
        if status is None:
            missing.append(f"broker {name}")
            continue
        if status["relearning"]:
            missing.append(f"broker {name} (it relearns its tables)")
        for link in status["links"]:
            row = status["lst"][link["link"]]
            down = link["state"] != "up" and row["kind"] != "soft"
            if down or row["queue_len"]:
                missing.append(f"link {name} - {link['link']}")
    return missing


async def overlay_status(
    network: NetworkFile, request: StatusRequest = UNASKED
) -> dict[str, dict[str, Any] | None]:
    """The status of each broker of `network`; None for one that does not answer."""

    async def ask(name: str) -> dict[str, Any] | None:
        try:
            return await ask_status(*network.address(name), request)
        except ReefcastError:
            return None

    answers = await asyncio.gather(*(ask(name) for name in network.names))
    return dict(zip(network.names, answers, strict=True))


async def _exit_code(process: asyncio.subprocess.Process, patience_s: float) -> int:
    try:
        async with asyncio.timeout(patience_s):
            return await process.wait()
    except TimeoutError:
        process.kill()
        return await process.wait()


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def begin_run(network: NetworkFile) -> None:
    """Makes the trace directory that of a new run: what a former run left there goes."""
    directory = Path(network.trace.directory)
    remove_former_run(directory)
    scot = network.scot()
    run = {
        "simulated": False,
        "network": network.network.name,
        "routing": network.network.routing,
        "brokers": network.names,
        "links": [list(link.between) for link in network.link],
        "places": msgspec.to_builtins(scot.places) if scot else {},
        "seed": None,
        "level": network.trace.level,
        "sample": network.trace.sample,
    }
    write_run(directory, run)
