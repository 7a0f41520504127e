"""`reefcast follow` at real brokers, and what it prints."""

from __future__ import annotations

import json
import os
import pty
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import reefcast
from children import Children, ended, line_of
from live_networks import linked, path_network, url_of
from reefcast.cli.follow import PATIENCE_S, Shown, Waiting
from reefcast.cli.follow_text import duration, plain
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.sections import RoleEntry
from reefcast.server.node import Node
from reefcast.server.view.following import Update
from secured import PASSWORD, secured


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


@asynccontextmanager
async def nodes(network: NetworkFile, *names: str) -> AsyncIterator[dict[str, Node]]:
    """Run these brokers of the network."""
    async with AsyncExitStack() as stack:
        running = {}
        for name in names:
            running[name] = Node(network, name)
            await running[name].start()
            stack.push_async_callback(running[name].stop)
        yield running


def written(folder: Path, network: NetworkFile) -> Path:
    file = folder / "net.toml"
    file.write_text(dump_network(network), encoding="utf-8")
    return file


async def following(children: Children, said: str, *arguments: object, **pipes: Any) -> Process:
    process = await children.start("follow", *arguments, **pipes)
    assert await line_of(process.stderr) == f"reefcast: following at {said}\n".encode()
    return process


@asynccontextmanager
async def market(network: NetworkFile) -> AsyncIterator[tuple[reefcast.Client, str]]:
    """A writer at b1, whose advertisement has settled, and the id of a reader at b3."""
    async with (
        reefcast.connect(url_of(network, "b3"), name="reader") as reader,
        reefcast.connect(url_of(network, "b1"), name="writer") as writer,
    ):
        await writer.advertise("symbol = 'IBM' OR symbol = 'SUN'")
        wanted = await reader.subscribe("symbol = 'IBM'")
        await wanted.settled()
        yield writer, reader.id


async def remark(process: Process, *texts: str) -> None:
    """Wait for a line on standard error with these texts; a slow machine may cause others."""
    while line := (await line_of(process.stderr)).decode():
        if all(text in line for text in texts):
            return
    raise AssertionError(f"it ended before it said {texts}")


async def text_of(process: Process, count: int) -> list[str]:
    return [(await line_of(process.stdout)).decode().rstrip("\n") for _ in range(count)]


async def test_the_way_over_three_brokers_also_past_one_that_is_killed(
    children: Children, tmp_path: Path
) -> None:
    network = path_network(3)
    file = written(tmp_path, network)
    async with AsyncExitStack() as stack:
        b3 = await children.start("broker", file, "b3")
        await line_of(b3.stdout)
        here = await stack.enter_async_context(nodes(network, "b1", "b2"))
        await linked(here.values())
        writer, reader = await stack.enter_async_context(market(network))
        text = await following(children, "3 of 3 brokers", file, "symbol = 'IBM'")
        rows = await following(children, "3 of 3 brokers", file, "--json", "--count", 2)
        await writer.publish(symbol="SUN", note="\x1b[31m")
        await writer.publish(symbol="IBM", price=20)
        code, output, errors = await ended(rows)
        assert code == 0 and errors.endswith("reefcast: 2 publications\n")
        found = map(json.loads, output.splitlines())  # each as soon as it is whole
        sun, ibm = sorted(found, key=lambda one: one["id"])
        assert sun["attributes"] == {"symbol": "SUN", "note": "\x1b[31m"}
        assert [each["outcome"] for each in sun["sightings"]] == ["unwanted"]
        assert (ibm["id"], ibm["awaited"], ibm["share"]) == (f"{writer.id}#2", {}, 1.0)
        steps = [(each["broker"], each["by"], each["outcome"]) for each in ibm["sightings"]]
        assert steps == [
            ("b1", writer.id, "forwarded"),
            ("b2", "b1", "forwarded"),
            ("b3", "b2", "delivered"),
        ]
        head, *lines = await text_of(text, 4)
        assert head.endswith(f"Z  {writer.id}#2  symbol=IBM  price=20")
        assert [line.split()[0] for line in lines] == ["b1", "b2", "b3"]
        assert "forwarded  from its publisher; 1 row matched" in lines[0]
        assert "-> b2 (queue " in lines[0] and "from b1" in lines[1]
        assert "delivered  from b2" in lines[2] and lines[2].endswith(f"to {reader}")

        b3.kill()
        await remark(text, "b3 is silent: 127.0.0.1:", "cannot be reached")
        await writer.publish(symbol="IBM", price=30)
        _, _, middle, last = await text_of(text, 4)
        assert "-> b3 (queue 1)" in middle
        assert last.startswith("  b3  is silent: 127.0.0.1:") and "cannot be reached" in last
        await children.start("broker", file, "b3")
        await remark(text, "b3 tells again")
        text.send_signal(signal.SIGINT)
        code, _, errors = await ended(text)
        assert code == 0 and errors.endswith("reefcast: 2 publications\n")


async def test_a_broker_that_does_not_answer_and_colours_of_a_terminal(
    children: Children, tmp_path: Path
) -> None:
    network = path_network(2)
    file = written(tmp_path, network)
    reader, terminal = pty.openpty()
    async with (
        nodes(network, "b1", "b2") as here,
        reefcast.connect(url_of(network, "b1")) as client,
    ):
        await linked(here.values())
        await client.publish(a=0, confirm=True)  # what it advertises has settled
        await here["b2"].stop()
        process = await following(children, "1 of 2 brokers", file, "--count", 1, stdout=terminal)
        await remark(process, "b2 is silent: ", "cannot be reached")
        await client.publish(a=1)
        assert (await ended(process))[0] == 0
        code, output, errors = await children.run("follow", file, "--timeout", 0.1, "--count", 1)
        assert (code, output) == (1, "") and errors.endswith("reefcast: 0 publications\n")
    shown = os.read(reader, 10_000).decode()
    os.close(reader)
    os.close(terminal)
    assert "\x1b[33munwanted\x1b[0m" in shown


async def test_what_cannot_be_followed_is_refused(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong filter; who has no right, or may see nothing; no broker at all."""
    network = secured(tmp_path)
    network.role = [
        RoleEntry("fx-desk", subscribe="TRUE"),
        RoleEntry("administrator", rights=["status"]),
    ]
    file = written(tmp_path, network.validate())
    code, output, errors = await children.run("follow", file, "price < ")
    assert (code, output) == (2, "")
    assert errors.startswith("reefcast: line 1, column ") and "^" in errors
    code, _, errors = await children.run("follow", file)
    assert code == 5 and "no broker of the network answers: 127.0.0.1:" in errors
    monkeypatch.setenv("REEFCAST_PASSWORD", PASSWORD)
    async with nodes(network, "b1"):
        for user, said in (("anna", "no right to 'status'"), ("otto", "may see nothing")):
            monkeypatch.setenv("REEFCAST_USER", user)
            code, _, errors = await children.run("follow", file)
            assert code == 2 and said in errors


# --- without brokers ------------------------------------------------------------------------------


def seen(broker: str, by: str, *to: str, **fields: Any) -> dict[str, Any]:
    hops = [{"to": each, "queue_len": 0, "soft": False} for each in to]
    outcome = {"outcome": "forwarded" if to else "unwanted", "matched": len(to), "took_us": 1.0}
    base = {"broker": broker, "by": by, "at_us": 5, "hops": 0, "again": False, "confirm": False}
    return {**base, **outcome, "to": hops, "hops_out": len(to), "clients": [], **fields}


def path(*sightings: dict[str, Any], id: str = "w#1") -> dict[str, Any]:
    told = {"id": id, "published_us": 0, "topics": [], "attributes": '{"a":1}', "payload": 0}
    return {**told, "cut": False, "sightings": list(sightings)}


def test_a_way_is_held_back_until_it_is_whole() -> None:
    waiting = Waiting("abc")
    part = path(seen("a", "w", "b"))
    waiting.add([part], 0.0)
    assert waiting.ready({}, 0.1) == []
    assert list(waiting.awaited(part, {}, 1.0)) == ["b"]
    whole = path(seen("a", "w", "b", "peer of no file"), seen("b", "a"))
    waiting.add([whole], 0.2)
    assert waiting.ready({}, 0.2) == [whole]
    assert waiting.ready({}, 9.9) == []
    held = path(seen("a", "w", outcome="held"))
    del held["sightings"][0]["matched"]
    for each, silent in ((part, {}), (held, {}), (part, {"b": "down"})):
        waiting.add([each], 1.0)
        assert bool(waiting.ready(silent, 1.1)) is bool(silent)
        assert bool(waiting.ready(silent, 1.0 + PATIENCE_S)) is not bool(silent)


def test_a_share_is_said_once_and_publications_are_counted_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = Shown(["a"], 0, as_json=False)
    for share in (1.0, 0.25, 0.3, 0.2, 0.004, 1.0):
        shown._remark(Update([], share, 0, {}, more=False))
    for _ in range(2):
        shown._note("w#1")
    shown._remark(Update([], 1.0, 3, {}, more=False))
    shown._remark(Update([], 1.0, 4, {}, more=False))
    shown.finish()
    said = [line.removeprefix("reefcast: ") for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "busy brokers: 25 % of the publications are followed, the same ones everywhere",
        "busy brokers: 0.40 % of the publications are followed, the same ones everywhere",
        "all publications are followed again",
        "brokers saw more than was asked for in time, which is not shown",
        "1 publication; 7 sightings came too fast",
    ]


def test_what_is_printed_cannot_steer_a_terminal_and_times_are_short() -> None:
    hops = {"hops_out": 3, "again": True, "confirm": True, "clients": ["c\x1b"], "delivered": 2}
    told = path(seen("a", "w", "b", outcome="delivered", **hops), id="w\x1b#1")
    told |= {"topics": ["t\n"], "payload": 7, "cut": True}
    assert plain(told, {"b": "is silent: \x07"}) == (
        "1970-01-01T00:00:00.000000Z  w\\x1b#1  a=1  topics=t\\n  payload=7 bytes  (in part)\n"
        "  a      +5 us  delivered  from its publisher, sent again, to be confirmed; 1 row matched"
        ", 1 us  -> b (queue 0)  and 2 more  to c\\x1b  and 1 more\n"
        "  b  is silent: \\x07"
    )
    assert [duration(us) for us in (-12, 2500, 4e6)] == ["-12 us", "2.5 ms", "4.0 s"]
