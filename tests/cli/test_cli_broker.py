"""`reefcast broker` without a network file: what a newcomer types first."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

import reefcast
from children import Children, ended, line_of
from foreign_clients import NEEDS_MOSQUITTO
from reefcast.matching import COMPILING, warm_up
from reefcast.server.supervisor import free_ports

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
LINES = 8
"""How many lines it prints when it is ready."""


@pytest.fixture
async def children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Children]:
    """Yield processes that keep their state in the test's directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with Children() as children:
        yield children


async def started(children: Children, *options: object) -> tuple[Process, list[str]]:
    """Start a broker; return it, and what it printed."""
    broker = await children.start("broker", *options)
    return broker, [(await line_of(broker.stdout)).decode().rstrip() for _ in range(LINES)]


def commands_in(printed: list[str]) -> list[list[str]]:
    """Return the words after `reefcast` in the printed commands, as a shell would split them."""
    commands = [shlex.split(line) for line in printed if line.startswith("    ")]
    assert [command[0] for command in commands] == ["reefcast", "reefcast"]
    return [command[1:] for command in commands]


def libraries_of(process: Process) -> set[str]:
    """Return the names of the packages whose compiled code the process has in memory."""
    files = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    return {part for file in files for part in Path(file.split(maxsplit=5)[-1]).parts}


async def refused(children: Children, *options: object) -> str:
    """Run a broker that is refused; return the last line on standard error."""
    code, output, errors = await children.run("broker", *options)
    assert (code, output) == (2, "") and "Traceback" not in errors
    return errors.splitlines()[-1]


@pytest.mark.usefixtures("started_anew")
async def test_the_commands_that_it_prints_carry_an_event(children: Children) -> None:
    warm_up()  # whoever compiles has the compiler
    broker, printed = await started(children, "--port", 0)
    subscribe, publish = commands_in(printed)
    reader = await children.start(*subscribe)
    assert await line_of(reader.stderr) == b"reefcast: subscribed\n"
    code, _, errors = await children.run(*publish)
    assert (code, errors.startswith("published 1 event in ")) == (0, True)
    assert (await line_of(reader.stdout)).endswith(b"#1  symbol=IBM  price=99\n")
    reader.send_signal(signal.SIGINT)
    assert (await ended(reader))[::2] == (0, "reefcast: 1 event\n")
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        assert not libraries_of(broker) & {"llvmlite", "numba", "pyarrow", "scipy"}
    broker.send_signal(signal.SIGINT)
    assert (await ended(broker))[:2] == (0, "")


async def test_the_port_is_the_one_that_was_asked_for(
    children: Children, unused_tcp_port: int
) -> None:
    _, printed = await started(children, "--port", unused_tcp_port)
    assert printed[0].startswith(f"broker b1 listens on 127.0.0.1:{unused_tcp_port}, ")
    url = f"reefcast://127.0.0.1:{unused_tcp_port}"
    assert [command[1] for command in commands_in(printed)] == [url, url]
    for line in printed:
        shown = line.replace(url, "reefcast://127.0.0.1:7301")
        assert not line.startswith("    ") or f"{shown}\n" in README


async def test_by_default_it_takes_the_port_of_urls_without_one(children: Children) -> None:
    """If another broker of this machine has the port, the error names it."""
    broker = await children.start("broker", "--json", "--until-eof")
    _, output, errors = await ended(broker, b"")
    assert "127.0.0.1:7301" in output + errors


async def test_as_json_and_until_the_end_of_its_input(children: Children, tmp_path: Path) -> None:
    broker = await children.start("broker", "--port", 0, "--json", "--until-eof")
    told = json.loads(await line_of(broker.stdout))
    listen = told.pop("listen")
    assert told == {"broker": "b1", "data": None}
    async with reefcast.connect(f"reefcast://{listen}") as client:
        await client.publish(x=1)
        assert [event async for event in client.history("topic = 'fx'")] == []
    assert (await ended(broker, b""))[:2] == (0, "")
    assert not (tmp_path / "state").exists()


async def test_a_port_that_is_taken(children: Children) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = await refused(children, "--port", port)
    assert sentence == (
        f"reefcast: broker b1 cannot listen on 127.0.0.1:{port}: another program listens there; "
        "choose another port with --port, or --port 0 for any that is free"
    )


async def test_what_it_keeps_is_there_again(
    children: Children, tmp_path: Path, unused_tcp_port: int
) -> None:
    """Sessions, retained values and history outlive the broker; another broker is refused."""
    url, directory = f"reefcast://127.0.0.1:{unused_tcp_port}", tmp_path / "state" / "reefcast"
    data = directory / f"broker-{unused_tcp_port}"
    first, printed = await started(children, "--port", unused_tcp_port)
    assert printed[1] == f"it keeps durable sessions, retained values and history in {data}"
    async with reefcast.connect(url) as client:
        session = await client.session("billing")
        await session.subscribe("n > 0")
        await client.publish({"n": 1}, topics=["fx"], confirm=True)
        await client.publish({"n": 2}, topics=["fx"], retain=True)
    assert await refused(children, "--port", 0, "--directory", data) == (
        f"reefcast: another broker keeps its sessions in {data}/sessions/b1.sqlite: give each "
        "broker a directory of its own; choose another directory with --directory, or keep nothing "
        "with --memory"
    )
    first.send_signal(signal.SIGTERM)
    assert (await ended(first))[0] == 0
    await started(children, "--port", unused_tcp_port)
    async with reefcast.connect(url) as client:
        assert [event["n"] async for event in client.history("topic = 'fx'")] == [1, 2]
        assert [event["n"] for event in await client.retained("topic = 'fx'")] == [2]
        session = await client.session("billing")
        assert [(await anext(session))["n"] for _ in range(2)] == [1, 2]
        replay = client.subscribe("topic = 'fx' AND n > 1", replay=True)
        assert (await anext(replay))["n"] == 2


async def test_operators_look_at_it(children: Children, unused_tcp_port: int) -> None:
    address = f"127.0.0.1:{unused_tcp_port}"
    broker = await children.start("broker", "--port", 0, "--admin", address)
    while b"http://" not in (line := await line_of(broker.stdout)):
        assert line
    url = f"{line.decode().strip()}readyz"
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        assert answer.status == 200
    far = await refused(children, "--port", 0, "--admin", "0.0.0.0:9464")
    assert "would show its status on 0.0.0.0, which others can reach" in far


@NEEDS_MOSQUITTO
async def test_mqtt_clients_carry_an_event(children: Children) -> None:
    """The commands that it prints do, and the subscriber in the filter language sees it, too."""
    mqtt, websocket = (f"127.0.0.1:{port}" for port in free_ports(2))
    broker = await children.start(
        *("broker", "--port", 0, "--mqtt", mqtt, "--mqtt-websocket", websocket)
    )
    printed = [(await line_of(broker.stdout)).decode().rstrip() for _ in range(LINES + 6)]
    assert f"ws://{websocket}/mqtt" in printed[-1]
    subscribe, _, for_mqtt, from_mqtt = (
        shlex.split(line) for line in printed if line.startswith("    ")
    )
    native = await children.start(*subscribe[1:])
    assert await line_of(native.stderr) == b"reefcast: subscribed\n"
    reader = await asyncio.create_subprocess_exec(*for_mqtt, stdout=subprocess.PIPE)
    reading = asyncio.create_task(line_of(reader.stdout))
    while not reading.done():  # it does not say when it has subscribed
        publisher = await asyncio.create_subprocess_exec(*from_mqtt)
        assert await publisher.wait() == 0
        await asyncio.wait([reading], timeout=0.2)
    assert await reading == b'stock/IBM {"price": 99}\n'
    assert b"  price=99  topics=stock/IBM  " in await line_of(native.stdout)
    reader.terminate()
    await reader.wait()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_http_clients_carry_an_event(children: Children) -> None:
    """By the very commands that the broker prints."""
    (port,) = free_ports(1)
    broker = await children.start("broker", "--port", 0, "--http", f"127.0.0.1:{port}")
    printed = [(await line_of(broker.stdout)).decode() for _ in range(LINES + 5)]
    commands = "".join(printed).replace("\\\n", "").splitlines()
    listen, post = (shlex.split(line) for line in commands if line.startswith("    curl"))
    reader = await asyncio.create_subprocess_exec(*listen, stdout=subprocess.PIPE)
    assert await line_of(reader.stdout) == b": still here\n"
    publisher = await asyncio.create_subprocess_exec(*post, stdout=subprocess.PIPE)
    assert b'"state":"accepted"' in (await publisher.communicate())[0]
    while not (line := await line_of(reader.stdout)).startswith(b"data: "):
        pass
    assert b'"topics":["stock/IBM"]' in line
    reader.terminate()
    await reader.wait()


async def test_mqtt_has_addresses_of_its_own(children: Children) -> None:
    far = await refused(children, "--port", 0, "--mqtt", "0.0.0.0:1883")
    assert "would listen on 0.0.0.0 without TLS, which others can reach" in far
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for option in ("--mqtt", "--mqtt-websocket", "--http"):
            words = await refused(children, "--port", 0, option, address)
            assert f"cannot listen on {address}" in words
            assert words.endswith("choose another address with --mqtt, --mqtt-websocket or --http")


async def test_a_directory_that_cannot_be(children: Children, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert await refused(children, "--port", 0, "--directory", tmp_path / "file" / "below") == (
        f"reefcast: no sessions and history can be written to {tmp_path}/file/below: Not a "
        "directory; choose another directory with --directory, or keep nothing with --memory"
    )


async def test_a_part_of_what_only_makes_sense_together(children: Children, tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text('[[broker]]\nname = "north"\nlisten = "127.0.0.1:7301"\n')
    assert await refused(children, file, "north", "--admin", "127.0.0.1:9464") == (
        f"Error: --admin is for a broker alone; for broker north say so in {file}: admin in its "
        "[[broker]]"
    )
    assert await refused(children, file, "north", "--mqtt", "127.0.0.1:1883") == (
        "Error: --mqtt, --mqtt-websocket and --http are for a broker alone; for broker north say "
        f"so in {file}: listen and websocket in a [[listener]]"
    )
    assert await refused(children, file) == (
        f"Error: give the NAME of a broker in {file}, or give neither, for a broker alone"
    )
    assert await refused(children, file, "north", "--port", 7302) == (
        f"Error: --port is for a broker alone; {file} says where broker north listens"
    )
    assert (await refused(children, file, "north", "--memory")).startswith(
        "Error: --directory and --memory are for a broker alone; for broker north say so in "
    )
    assert await refused(children, "--directory", tmp_path, "--memory") == (
        "Error: give --directory or --memory, not both"
    )


@pytest.mark.parametrize("command", [("broker", "--port", 0), ("network", "up", "net.toml")])
async def test_a_first_start_that_takes_long_says_why(
    children: Children,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: tuple[object, ...],
) -> None:
    """Nothing is in the cache of kernels yet."""
    monkeypatch.setenv("REEFCAST_CACHE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.toml").write_text('[[broker]]\nname = "b1"\nlisten = "127.0.0.1:7399"\n')
    started = await children.start(*command)
    assert (await line_of(started.stderr)).decode() == f"{COMPILING}\n"
    started.kill()  # or it would compile everything before it ends
