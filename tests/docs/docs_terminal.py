"""A terminal for the commands of one page: a directory, ports of its own, commands that keep
running."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from children import CHILD_S, COMMAND, FILE, PROGRAM
from live_networks import PATIENCE_S
from reefcast.matching import COMPILING
from reefcast.server.supervisor import free_ports

PORT = re.compile(r"127\.0\.0\.1:(7[34]\d\d)\b")
"""A port as pages write it; each is replaced by a free one."""
PACKAGES = {"reefcast": "reefcast", "reefcast-lab": "reefcast_lab"}
PLAIN = re.compile(r"""(?:[\w .,:/=+@-]|"[^"$`\\]*"|'[^']*')+""")
"""A line in which a shell has nothing to replace, and no other command to start."""
NOISE = COMPILING.split(":", maxsplit=1)[0]
"""How a line begins that is printed only where code must be compiled first."""


@dataclass
class _Staying:
    command: str
    process: subprocess.Popen[bytes]
    output: Path


class Terminal:
    """A terminal that runs what a page shows, and compares its output with what the page says.

    `...` in an output stands for any text. Leaving the block ends what still runs.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "work"
        self.printed = ""
        self._bin = directory / "bin"
        self._ports: dict[str, str] = {}
        self._stay: list[_Staying] = []
        self._theirs, self._mine = -1, -1

    def __enter__(self) -> Self:
        self._theirs, self._mine = os.pipe()
        self.directory.mkdir()
        self._bin.mkdir()
        for command in PACKAGES:
            self._script(command, f'exec {shlex.join(self._program(command))} "$@"')
        self._script("python", f'exec {shlex.quote(sys.executable)} "$@"')
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for each in reversed(self._stay):
                _end(each.process)
        finally:
            os.close(self._mine)
            os.close(self._theirs)

    def _program(self, command: str) -> list[str]:
        """Return how a command, or Python with a file, is started, without its arguments."""
        run = FILE
        if command in PACKAGES:
            named = f"import sys; sys.argv[0] = {command!r}"
            run = f"{named}; {COMMAND.format(package=PACKAGES[command])}"
        return [sys.executable, "-c", PROGRAM.format(descriptor=self._theirs, run=run)]

    def _typed(self, line: str) -> list[str]:
        """Return what starts a line that somebody types: a shell, unless it has nothing to do."""
        if PLAIN.fullmatch(line):
            command, *arguments = shlex.split(line)
            if command in PACKAGES or (command == "python" and arguments[0].endswith(".py")):
                return [*self._program(command), *arguments]
        return ["sh", "-c", line]

    def _script(self, name: str, line: str) -> None:
        path = self._bin / name
        path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        path.chmod(0o755)

    # --- ports ------------------------------------------------------------------------------------

    def _here(self, text: str) -> str:
        """Return the text with free ports in place of the page's, which others may use."""
        for port in PORT.findall(text):
            if port not in self._ports:
                taken = set(self._ports.values())
                free = map(str, free_ports(len(taken) + 1))
                self._ports[port] = next(each for each in free if each not in taken)
        return PORT.sub(lambda found: f"127.0.0.1:{self._ports[found[1]]}", text)

    def _shown(self, output: bytes) -> str:
        """Return the output as a page shows it."""
        lines = output.decode().splitlines(keepends=True)
        text = "".join(line for line in lines if not line.startswith(NOISE))
        for shown, here in self._ports.items():
            text = text.replace(f"127.0.0.1:{here}", f"127.0.0.1:{shown}")
        return text

    # --- what pages have --------------------------------------------------------------------------

    def write(self, name: str, text: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._here(text), encoding="utf-8")

    def add(self, name: str, text: str) -> None:
        with (self.directory / name).open("a", encoding="utf-8") as file:
            file.write("\n" + self._here(text))

    def run(self, command: str, expected: str) -> None:
        """Run a command to its end; it must succeed, unless `expected` is given and names the
        error."""
        done = subprocess.run(
            self._typed(self._here(command)),
            **self._where(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=CHILD_S,
            check=False,
        )
        self.printed = self._shown(done.stdout)
        assert done.returncode == 0 or expected, f"$ {command}\n{self.printed}"
        if expected:
            assert matches(expected, self.printed), f"$ {command}\n{self.printed}"

    def python(self, source: str) -> None:
        """Run a Python program."""
        self.write("program.py", source)
        self.run("python program.py", "")

    def stay(self, command: str, expected: str) -> None:
        """Start a command that keeps running; return when it has printed `expected`."""
        output = self.directory.parent / f"output-{len(self._stay)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                self._typed(self._here(command)),
                **self._where(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        staying = _Staying(command, process, output)
        self._stay.append(staying)
        self._wait(staying, expected)

    def wait_printed(self, command: str, expected: str) -> None:
        """Wait until the last command with this beginning has printed `expected`."""
        (*_, staying) = [each for each in self._stay if each.command.startswith(command)]
        self._wait(staying, expected)

    def _wait(self, staying: _Staying, expected: str) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not _pattern(expected).search(printed := self._shown(staying.output.read_bytes())):
            assert staying.process.poll() is None, f"it ended: $ {staying.command}\n{printed}"
            assert time.monotonic() < until_s, f"$ {staying.command}\n{printed}"
            time.sleep(0.02)

    def _where(self) -> dict[str, object]:
        return {
            "cwd": self.directory,
            "env": {
                **os.environ,
                "PATH": f"{self._bin}:{os.environ['PATH']}",
                "PYTHONUNBUFFERED": "1",
                "PYTEST_PLUGINS": "reefcast.testing.plugin",  # also of a checkout
            },
            "pass_fds": (self._theirs,),
        }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command, and everything that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _pattern(expected: str) -> re.Pattern[str]:
    """Return a pattern in which `...` is any text, and alone on a line any number of lines, or
    none."""
    lines = (line.rstrip() for line in expected.strip().splitlines())
    return re.compile("".join(map(_line, lines)), re.DOTALL | re.MULTILINE)


def _line(line: str) -> str:
    if line == "...":
        return r"(?:[^\n]*\n)*?"
    return re.escape(line).replace(re.escape("..."), ".*?") + r"[ \t]*\n"


def matches(expected: str, printed: str) -> bool:
    return _pattern(expected).fullmatch(printed.strip() + "\n") is not None


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block, after its `$`, with the output that follows."""
    for part in re.split(r"(?m)^\$ ", text)[1:]:
        command, output = _command_and_output(part)
        yield command, output


def _command_and_output(part: str) -> tuple[str, str]:
    lines = part.splitlines(keepends=True)
    count = 1
    while lines[count - 1].rstrip("\n").endswith("\\"):
        count += 1
    return "".join(lines[:count]).rstrip("\n"), "".join(lines[count:])


def parse(group: click.Group, words: list[str]) -> None:
    """Parse a command. Raises `click.UsageError` if the command or an option does not exist."""
    command: click.Command = group
    rest = list(words)
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), rest[0]) if rest else None
        if found is None:
            raise click.UsageError(f"no such command: {' '.join(words)}")
        command = found
        rest = rest[1:]
    command.make_parser(click.Context(command)).parse_args(rest)
