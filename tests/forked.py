"""Commands that tests start, forked by a server that has imported everything (`fork_server`), which
takes a tenth of the processor time of a start.

`use_fork_server` has `subprocess`, and `asyncio`, which starts its processes with it on any loop
then, ask the server for what `is_forked` says: commands of ours, and programs that begin with
`MARK`. All else is started as always, and so is everything within `starting_anew`, and where the
system cannot fork as the server does."""

from __future__ import annotations

import asyncio
import marshal
import os
import socket
import subprocess
import sys
import threading
from asyncio.subprocess import Process, SubprocessStreamProtocol
from asyncio.unix_events import _UnixSubprocessTransport
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fork_server import CLONE, HEADER, MOST_DESCRIPTORS, UNBUFFERED, Start

MARK = "# may be forked\n"
"""Begins the text of a program that is given with `-c`, if it may be forked."""
OURS = ("reefcast", "reefcast_lab")
AT_START = ("PYTHON", "REEFCAST_CACHE", "XDG_CACHE", "NUMBA", "LD_", "MALLOC", "LC_", "LANG", "TZ")
"""How variables begin that matter when an interpreter starts, or a module is imported: a command
for which one of them differs is not forked."""
SERVER = Path(__file__).with_name("fork_server.py")
ONE_THREAD = {b"OPENBLAS_NUM_THREADS": b"1", b"JE_ARROW_MALLOC_CONF": b"background_thread:false"}
"""Without these numpy and pyarrow start threads when they are imported."""

_fork_exec = subprocess._fork_exec
_create_subprocess_exec = asyncio.create_subprocess_exec


class _Forks:
    """The connection to the server. `environment`: in which the server is, or will be, started."""

    def __init__(self) -> None:
        self.connection: socket.socket | None = None
        self.server: subprocess.Popen[bytes] | None = None
        self.lock = threading.Lock()
        self.environment: dict[bytes, bytes] = {}
        self.anew = 0


_forks = _Forks()


def use_fork_server() -> None:
    """Have commands forked from now on. The server is started for the first of them, with the
    environment of now."""
    if sys.platform == "linux" and os.uname().machine in CLONE:
        _forks.environment = dict(os.environb)
        subprocess._fork_exec = _start
        asyncio.create_subprocess_exec = _start_on_any_loop


def use(connection: socket.socket) -> None:
    """Have commands forked by this server, in a process that has been forked itself."""
    use_fork_server()
    _forks.connection = connection


@contextmanager
def starting_anew() -> Iterator[None]:
    """Start every process of this block anew: for tests of how commands start."""
    _forks.anew += 1
    try:
        yield
    finally:
        _forks.anew -= 1


def is_forked(argv: Sequence[str]) -> bool:
    """Return whether a command, given as the words after the interpreter, may be forked."""
    match argv:
        case ["-m", module, *_]:
            return module.split(".")[0] in OURS
        case ["-c", program, *_]:
            return program.startswith(MARK)
    return False


def _start(
    args: Sequence[Any],
    executables: Sequence[bytes],
    close_fds: bool,
    kept: Sequence[int],
    cwd: Any,
    env: Sequence[bytes] | None,
    stdin: int,
    _to_stdin: int,
    _from_stdout: int,
    stdout: int,
    _from_stderr: int,
    stderr: int,
    _from_errors: int,
    errors: int,
    restores_signals: bool,
    new_session: bool,
    group: int,
    *rest: Any,
) -> int:
    """Take the place of the function with which `subprocess` forks and executes; with the same
    parameters (without names, in its case). Return the id of the process."""
    start = _asked(args, cwd, env, [each for each in kept if each != errors])
    gid, gids, uid, umask, before = rest[:5]
    usual = close_fds and restores_signals and (gid, gids, uid, umask) == (None, None, None, -1)
    if start is None or not usual or before is not None or executables != _executables(args):
        given = (stdin, _to_stdin, _from_stdout, stdout, _from_stderr, stderr)
        return _fork_exec(
            *(args, executables, close_fds, kept, cwd, env, *given, _from_errors, errors),
            *(restores_signals, new_session, group, *rest),
        )
    start = start._replace(new_session=bool(new_session), group=group)
    streams = (0 if stdin < 0 else stdin, 1 if stdout < 0 else stdout, 2 if stderr < 0 else stderr)
    return _fork(start, (*streams, *start.targets[3:]))


async def _start_on_any_loop(program: str, *args: str, limit: int = 1 << 16, **how: Any) -> Process:
    """Take the place of asyncio's function, for loops that start processes in their own way."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop) or not is_forked(args):
        return await _create_subprocess_exec(program, *args, limit=limit, **how)
    protocol = SubprocessStreamProtocol(limit, loop)
    streams = (how.pop(name, None) for name in ("stdin", "stdout", "stderr"))
    connected = loop.create_future()
    transport = _UnixSubprocessTransport(
        loop, protocol, (program, *args), False, *streams, 0, waiter=connected, **how
    )
    threading.Thread(target=_tell_its_end, args=(loop, transport), daemon=True).start()
    await connected
    return Process(transport, protocol, loop)


def _tell_its_end(loop: asyncio.AbstractEventLoop, transport: Any) -> None:
    _, status = os.waitpid(transport.get_pid(), 0)
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(transport._process_exited, os.waitstatus_to_exitcode(status))


def _executables(args: Sequence[Any]) -> tuple[bytes, ...]:
    return (os.fsencode(args[0]),)


def _asked(
    args: Sequence[Any], cwd: Any, env: Sequence[bytes] | None, passed: list[int]
) -> Start | None:
    """Return what a fork must be, if it may be one."""
    program, *argv = map(os.fsdecode, args)
    if _forks.anew or program != sys.executable or not is_forked(argv):
        return None
    pairs = (each.partition(b"=") for each in env or ())
    environment = dict(os.environb) if env is None else {name: text for name, _, text in pairs}
    directory = Path.cwd() if cwd is None else Path(os.fsdecode(cwd))
    if at_start(environment) != at_start(_forks.environment) or not directory.is_dir():
        return None
    targets = [0, 1, 2, *(each for each in passed if each > 2)]
    if len(targets) > MOST_DESCRIPTORS:
        return None
    return Start(argv, str(directory.absolute()), environment, _umask(), False, -1, targets)


def at_start(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the variables that matter when a process starts."""
    names = tuple(map(os.fsencode, AT_START))
    chosen = {name: value for name, value in environment.items() if name.startswith(names)}
    chosen.pop(os.fsencode(UNBUFFERED), None)
    return chosen


def _umask() -> int:
    """Return the mask of this process; reading it in another way changes it for a moment."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))


def _fork(start: Start, descriptors: Sequence[int]) -> int:
    request = marshal.dumps(tuple(start))
    with _forks.lock:
        connection = _forks.connection = _forks.connection or _server()
        socket.send_fds(connection, [HEADER.pack(len(request))], descriptors)
        connection.sendall(request)
        return _answer(connection)


def _answer(connection: socket.socket) -> int:
    answer = connection.recv(HEADER.size, socket.MSG_WAITALL)
    if len(answer) < HEADER.size:
        raise OSError("the fork server of the tests has ended; what it said is above")
    return int(HEADER.unpack(answer)[0])


def _server() -> socket.socket:
    """Start the server; it ends with this process."""
    mine, its = socket.socketpair()
    with its:
        _forks.server = subprocess.Popen(
            [sys.executable, str(SERVER), str(its.fileno())],
            stdin=subprocess.DEVNULL,
            env=_forks.environment | ONE_THREAD,
            pass_fds=(its.fileno(),),
        )
    _answer(mine)
    return mine
