"""The commands of an example's page, run as they stand there, but on free ports and in a directory
that is removed with the test."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import reefcast
from children import CHILD_S, Children, ended, line_of
from reefcast.server.supervisor import free_ports

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


class Page(NamedTuple):
    """A page. `commands`: in their order. `seen`: what programs print, one text for each block."""

    commands: list[str]
    seen: list[str]


def page(name: str) -> Page:
    """Read the README of an example."""
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    blocks = {
        kind: re.findall(rf"^```{kind}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for kind in ("sh", "text")
    }
    return Page([line for block in blocks["sh"] for line in block.splitlines()], blocks["text"])


class Terminals:
    """The terminals in which a user would type the commands of a page.

    `url`: that of the broker to which programs connect by default. `instead`: replacements for
    parts of commands, such as a free port.
    """

    def __init__(self, children: Children, directory: Path, url: str = "") -> None:
        self._children = children
        self.url = url
        self._options: dict[str, Any] = {"cwd": directory}
        if url:
            self._options["env"] = os.environ | {"REEFCAST_URL": url}
        self.instead: dict[str, str] = {"examples/": f"{EXAMPLES}/"}

    def replaced(self, text: str) -> str:
        """Return a text of the page as it is here."""
        for old, new in self.instead.items():
            text = text.replace(old, new)
        return text

    async def start(self, command: str) -> Process:
        program, *arguments = shlex.split(self.replaced(command))
        if program == "reefcast":
            return await self._children.start(*arguments, **self._options)
        assert program == "python", command
        file, *rest = arguments
        return await self._children.start_file(Path(file), *rest, **self._options)

    async def run(self, command: str) -> str:
        """Run a command that ends by itself; return what it printed."""
        code, output, errors = await ended(await self.start(command))
        assert code == 0, errors
        return output


@asynccontextmanager
async def a_broker(directory: Path, command: str) -> AsyncIterator[Terminals]:
    """Run the command of a broker alone, on a free port; yield terminals beside it."""
    [port] = free_ports(1)
    url = f"reefcast://127.0.0.1:{port}"
    async with Children() as children:
        terminals = Terminals(children, directory, url)
        broker = await terminals.start(f"{command} --port {port}")
        await line_with(broker, "listens on")
        yield terminals
        await interrupt(broker)


async def lines(process: Process, count: int) -> str:
    """Return the next `count` lines that a program prints."""
    return "".join([(await line_of(process.stdout)).decode() for _ in range(count)])


async def line_with(process: Process, text: str) -> str:
    """Return the next line that a program prints with this text in it."""
    while line := (await line_of(process.stdout)).decode():
        if text in line:
            return line
    raise AssertionError(f"{text!r} is not printed: {await ended(process)}")


async def until_stored(url: str, topic: str, count: int) -> None:
    """Return when a storage answers with so many events: it stores them after the broker has
    acknowledged them."""
    found = 0
    async with asyncio.timeout(CHILD_S), reefcast.connect(url) as client:
        while found < count:
            found = len([event async for event in client.history(f"topic = '{topic}'")])
            await asyncio.sleep(0.02)


async def interrupt(process: Process) -> tuple[str, str]:
    """Press Ctrl-C; return what else the program printed, and its errors. It must succeed."""
    process.send_signal(signal.SIGINT)
    code, output, errors = await ended(process)
    assert code == 0, errors
    return output, errors
