"""A fork server: it has imported what commands import, and forks a process for each command that a
test starts.

A command takes half a second of processor time until it has imported its modules; a fork takes a
hundredth. `forked` asks for the forks; this module is the program of the server, and what a fork
does until it is the process that was asked for: with the descriptors, the working directory, the
environment, the session and the arguments of a process that had been started anew, and with nothing
else of the server but its modules.

The server forks as a *sibling* (`CLONE_PARENT`): the process is a child of who asks, with its own
id, so that all that Python does with children (waiting, killing, exit codes, who was killed by a
signal) is as always, and none of it is here. A fork forks a server of its own, before it does
anything else, for the processes that it may start itself."""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import itertools
import marshal
import os
import pkgutil
import random
import runpy
import signal
import socket
import struct
import sys
import threading
from contextlib import suppress
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn, TextIO

HEADER = struct.Struct("q")
"""Precedes a request: its length; and is the answer: the id of the process."""
MOST_DESCRIPTORS = 64
PACKAGES = (
    *("reefcast.cli", "reefcast.client", "reefcast.history", "reefcast.server"),
    *("reefcast.simulation", "reefcast.storage_node", "reefcast_lab.cli"),
)
"""Packages that commands import, all modules of them."""
OTHERS = ("uvloop", "tomllib", "rich.console", "rich.live", "rich.table", "rich.tree")
"""Modules that they import when they are called."""
UNBUFFERED = "PYTHONUNBUFFERED"
WAITING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals that wait until a fork is what it must be. The server never sees them: who presses
Ctrl-C, or ends a group of processes, means the commands."""
HIGH = 500
"""The first of the descriptors that no process uses which was started anew."""


class Start(NamedTuple):
    """What to start. `argv`: `-m` and a module or `-c` and a program, then its arguments.
    `targets`: the descriptors that the process gets, which are sent in this order. `group`: -1 for
    that of the parent."""

    argv: list[str]
    cwd: str
    environment: dict[bytes, bytes]
    umask: int
    new_session: bool
    group: int
    targets: list[int]


# --- the server -----------------------------------------------------------------------------------


def load() -> None:
    """Import what commands import, and load the kernels, in the order in which a broker does."""
    from reefcast.matching import warm_up

    warm_up()
    for name in PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    for name in OTHERS:
        importlib.import_module(name)


def serve(connection: socket.socket) -> Start:
    """Fork for each request, and return in the forks only. The server ends with its connection."""
    while True:
        header, received, _, _ = socket.recv_fds(connection, HEADER.size, MOST_DESCRIPTORS)
        if not header:
            os._exit(0)
        start = Start(*marshal.loads(_exactly(connection, *HEADER.unpack(header))))
        pid = fork_a_sibling()
        if pid == 0:
            if start.new_session:
                os.setsid()
            elif start.group >= 0:
                os.setpgid(0, start.group)
            connection.close()
            place(dict(zip(start.targets, received, strict=True)))
            return start
        for descriptor in received:
            os.close(descriptor)
        connection.sendall(HEADER.pack(pid))


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        found += connection.recv(count - len(found))
    return bytes(found)


CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
PR_GET_TID_ADDRESS = 40
CLONE = {"x86_64": (56, (0, 0)), "aarch64": (220, (0,))}
"""The number of the system call, and what precedes the last address that matters here."""
_library = ctypes.PyDLL(None, use_errno=True)  # of those that keep Python's lock


def fork_a_sibling() -> int:
    """Fork as `os.fork` does, but make the fork a child of this process's parent.

    The C library has no such function. Of what its `fork` does beside the system call, a process
    with one thread needs that the id is noted which its main thread has in the library."""
    number, before = CLONE[os.uname().machine]
    noted = ctypes.c_void_p()
    _library.prctl(PR_GET_TID_ADDRESS, ctypes.byref(noted))
    flags = CLONE_PARENT | signal.SIGCHLD
    if noted.value:
        flags |= CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID
    words = [ctypes.c_long(each) for each in (number, flags, 0, *before)]
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = int(_library.syscall(*words, noted, ctypes.c_long(0)))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


# --- a fork becomes what was asked for ------------------------------------------------------------


def place(descriptors: dict[int, int]) -> None:
    """Have these descriptors under their numbers, and no others."""
    first = max(descriptors) + 1
    safe = {to: fcntl.fcntl(given, fcntl.F_DUPFD, first) for to, given in descriptors.items()}
    for to, given in safe.items():
        os.dup2(given, to)
    kept = [*sorted(descriptors), os.sysconf("SC_OPEN_MAX")]
    for before, after in itertools.pairwise(kept):
        os.closerange(before + 1, after)


def server_of_its_own() -> tuple[socket.socket, bool]:
    """Fork a server for what this process will start; return the connection to it, and whether this
    is the server."""
    mine, its = (_high(each) for each in socket.socketpair())
    if os.fork():
        its.close()
        return mine, False
    nothing = os.open(os.devnull, os.O_RDWR)
    place({0: nothing, 1: nothing, 2: nothing, its.fileno(): its.fileno()})
    mine.detach()  # it is closed
    return its, True


def _high(low: socket.socket) -> socket.socket:
    with low:
        return socket.socket(fileno=fcntl.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, HIGH))


def become(start: Start) -> None:
    """Do what an interpreter does before it runs a program."""
    os.chdir(start.cwd)
    os.umask(start.umask)
    os.environb.clear()
    os.environb.update(start.environment)
    through = bool(os.environ.get(UNBUFFERED))
    sys.stdin = sys.__stdin__ = _stream(0, "<stdin>", sys.stdin, through)
    sys.stdout = sys.__stdout__ = _stream(1, "<stdout>", sys.stdout, through)
    sys.stderr = sys.__stderr__ = _stream(2, "<stderr>", sys.stderr, through)
    sys.orig_argv = [sys.executable, *start.argv]
    importlib.invalidate_caches()
    draw_anew()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WAITING)


def _stream(descriptor: int, name: str, like: TextIO, through: bool) -> TextIO:
    raw = FileIO(descriptor, "r" if descriptor == 0 else "w", closefd=False)
    raw.name = name
    unbuffered = through and descriptor != 0
    binary: Any = raw
    if not unbuffered:
        binary = BufferedReader(raw) if descriptor == 0 else BufferedWriter(raw)
    made = TextIOWrapper(
        binary,
        encoding=like.encoding,
        errors=like.errors,
        newline="\n",
        line_buffering=not through and (descriptor == 2 or raw.isatty()),
        write_through=through,
    )
    made.mode = "r" if descriptor == 0 else "w"
    return made


def draw_anew() -> None:
    """Draw again what modules draw at random when they are imported. (Python does it itself for
    `random`, after each fork.)"""
    from reefcast.server import supervisor

    supervisor._numbers = itertools.count(random.randrange(len(supervisor.PORTS)))
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def run(start: Start) -> NoReturn:
    """Run the program as the interpreter would, and end as it does; but what is left in memory is
    not taken apart, object by object, which takes five times as long as all else that a fork does.
    """
    main = sys.modules["__main__"] = ModuleType("__main__")
    code, killed = 0, False
    try:
        _execute(main, *start.argv)
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
        if code and not isinstance(exit.code, int):
            print(exit.code, file=sys.stderr)
    except BaseException as error:
        trace = error.__traceback__
        own = {run.__code__, _execute.__code__}
        while trace is not None and trace.tb_frame.f_code in own:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        code, killed = 1, isinstance(error, KeyboardInterrupt)
    _end(main, code, killed)


def _execute(main: ModuleType, what: str, given: str, *arguments: str) -> None:
    sys.argv = [what, *arguments]
    if what == "-m":
        sys.path[0] = str(Path.cwd())
        sys.modules.pop(given, None)  # it runs as `__main__`
        runpy._run_module_as_main(given)
    else:
        sys.path[0] = ""
        exec(compile(given, "<string>", "exec"), vars(main))


def _end(main: ModuleType, code: int, killed: bool) -> NoReturn:
    """Wait for threads, call what is registered, close what the program has open, as at the end of
    an interpreter; `killed`: by Ctrl-C."""
    threading._shutdown()
    atexit._run_exitfuncs()
    vars(main).clear()
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        print(f"Exception ignored in: {sys.stdout!r}\n{error!r}", file=sys.stderr)
        code = 120
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    if killed:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


def begin() -> Start:
    """Serve the descriptor that the command line names; return in forks, once they are what was
    asked for."""
    import forked

    connection = socket.socket(fileno=int(sys.argv[1]))
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITING)
    load()
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()  # the collector would copy every page
    connection.sendall(HEADER.pack(0))
    serves = True
    while serves:
        start = serve(connection)
        connection, serves = server_of_its_own()
    become(start)
    forked.use(connection)
    return start


if __name__ == "__main__":
    run(begin())
