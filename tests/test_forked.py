"""Commands that are forked behave as those that are started anew."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import uvloop

from forked import MARK, at_start, is_forked, starting_anew

WAYS = {"forked": nullcontext, "anew": starting_anew}
OFTEN = "reefcast.server.node"
"""A module that a program here imports only if it is forked."""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    entered: Callable[[], AbstractContextManager[None]] = WAYS[request.param]
    with entered():
        yield request.param


def ran(program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MARK + program, *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    given = {"capture_output": True, "text": True, "env": environment, "timeout": 300, **options}
    return subprocess.run(command, check=False, **given)


def test_only_what_may_be_forked_is(way: str) -> None:
    asks = f"import sys; print({OFTEN!r} in sys.modules)"
    assert ran(asks).stdout == f"{way == 'forked'}\n"
    without_mark = [sys.executable, "-c", asks]
    assert subprocess.run(without_mark, capture_output=True, check=True).stdout == b"False\n"
    assert ran(asks, env={**os.environ, "REEFCAST_CACHE_DIR": "/nowhere"}).stdout == "False\n"


def test_what_may_be_forked() -> None:
    assert is_forked(["-m", "reefcast", "broker"]) and is_forked(
        ["-m", "reefcast_lab.demos.watcher"]
    )
    assert not is_forked(["-m", "pytest"]) and not is_forked(["-X", "importtime", "-m", "reefcast"])
    assert not is_forked(["--version"]) and not is_forked([])
    assert at_start({b"TZ": b"UTC", b"HOME": b"/", b"PYTHONUNBUFFERED": b"1"}) == {b"TZ": b"UTC"}


SHOWS = """
import os, sys
print(sys.argv, __name__, sys.path[0], os.getcwd(), os.getppid(), os.environ["COLOUR"])
print(sys.stdin.read(), os.umask(0), "HOME" in os.environ, sys.orig_argv[1], sys.stdout.mode)
print([each.encoding + each.errors + each.newlines.__repr__() + str(each.line_buffering)
       + str(each.write_through) + each.name for each in (sys.stdin, sys.stdout, sys.stderr)])
print(sorted(int(each) for each in os.listdir("/proc/self/fd") if int(each) < 500)[:3])
sys.stderr.write("error")
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_a_program_finds(tmp_path: Path, unbuffered: str) -> None:
    environment = {**os.environ, "COLOUR": "green", "PYTHONUNBUFFERED": unbuffered}
    del environment["HOME"]
    found = []
    before = os.umask(0o027)
    try:
        for way in WAYS.values():
            with way():
                done = ran(SHOWS, "a", "b c", input="in", env=environment, cwd=tmp_path)
                found.append((done.returncode, done.stderr, done.stdout))
    finally:
        os.umask(before)
    assert found[0] == found[1]
    assert f"['-c', 'a', 'b c'] __main__  {tmp_path} {os.getpid()} green" in found[0][2]


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('no')", 1),
        ("import sys; sys.exit(-1)", 255),
        ("def fails():\n    1 / 0\nfails()", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import os; os._exit(3)", 3),
        ("import atexit; atexit.register(print, 'at the end'); print('before')", 0),
        (
            "import threading, time\ndef later():\n    time.sleep(0.1)\n    print('later')\n"
            "threading.Thread(target=later).start()",
            0,
        ),
        (
            "import sys; open(sys.argv[1], 'w').write('kept')\nfile = open(sys.argv[1], 'a')\n"
            "file.write(' too')",
            0,
        ),
        ("import os, sys; print('lost'); os.close(1)", 120),
    ],
)
def test_how_a_program_ends(tmp_path: Path, program: str, code: int) -> None:
    found = []
    file = tmp_path / "file"
    for way in WAYS.values():
        with way():
            done = ran(program, str(file))
            found.append((done, file.exists() and file.read_text()))
    forked, anew = (done for done, _ in found)
    assert (forked.returncode, forked.stdout) == (anew.returncode, anew.stdout)
    assert forked.returncode == code
    assert found[0][1] == found[1][1]
    if code != 120:
        assert forked.stderr == anew.stderr


def test_signals_groups_and_descriptors(way: str) -> None:
    """A process is killed by its id, has the group that was asked for, and the descriptors that are
    passed, and no others."""
    theirs, mine = os.pipe()
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{MARK}import os; os.write(1, b'%d\\n' % os.getsid(0)); os.read({theirs}, 1)",
        ],
        stdout=subprocess.PIPE,
        bufsize=0,
        pass_fds=(theirs,),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        os.close(theirs)
        assert process.stdout.readline() == b"%d\n" % process.pid
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
    os.close(mine)


async def test_a_signal_that_comes_at_once_is_not_lost(way: str) -> None:
    program = [sys.executable, "-c", f"{MARK}import time; time.sleep(600)"]
    process = await asyncio.create_subprocess_exec(*program)
    process.terminate()
    assert await process.wait() == -signal.SIGTERM


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_on_any_loop(way: str, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    asks = f"{MARK}import sys; print(input(), {OFTEN!r} in sys.modules); sys.exit(7)"
    waits = f"{MARK}import time; print(flush=True); time.sleep(600)"

    async def talk() -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        asked = await asyncio.create_subprocess_exec(sys.executable, "-c", asks, **pipes)
        told, _ = await asked.communicate(b"told\n")
        assert (told.decode(), asked.returncode) == (f"told {way == 'forked'}\n", 7)
        waiting = await asyncio.create_subprocess_exec(sys.executable, "-c", waits, **pipes)
        assert waiting.stdout is not None and await waiting.stdout.readline() == b"\n"
        waiting.kill()
        assert await waiting.wait() == -signal.SIGKILL

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(talk())


def test_a_process_that_is_forked_has_others_forked(way: str) -> None:
    """They are children of it; and the server that it has is gone when it is."""
    inner = f"{MARK}import os, sys; print(os.getppid(), {OFTEN!r} in sys.modules)"
    outer = (
        "import os, subprocess, sys; print(os.getpid(), flush=True)\n"
        f"subprocess.run([sys.executable, '-c', {inner!r}], check=True)\n"
        "print('forked' in sys.modules and sys.modules['forked']._forks.server)"
    )
    pid, parent, forked, started = ran(outer).stdout.split()
    assert pid == parent
    assert started == ("None" if way == "forked" else "False"), "it had to start a server"
    assert forked == str(way == "forked")


def test_forks_draw_numbers_of_their_own() -> None:
    draws = (
        "import random, numpy.random; from reefcast.server.supervisor import free_ports\n"
        "print(random.random(), numpy.random.random(), free_ports(1))"
    )
    first, second = ran(draws).stdout.split(), ran(draws).stdout.split()
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_a_directory_that_there_is_not(tmp_path: Path, way: str) -> None:
    with pytest.raises(FileNotFoundError):
        ran("", cwd=tmp_path / "none")
