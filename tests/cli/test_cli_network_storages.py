"""Storages of a network file: run by hand, shown, and placed where nobody else runs them."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

import reefcast
from children import Children, ended, line_of
from live_networks import make_network, running, url_of
from reefcast.cli import network_move_storages
from reefcast.cli.network import command as network_command
from reefcast.errors import ConfigurationError
from reefcast.network.file import NetworkFile, dump_network, load_network
from reefcast.network.rewriting import replace_text
from reefcast.network.sections import StorageEntry
from reefcast.server.storages import storages_known


def entry(folder: Path, name: str, broker: str, *topics: str, **others: Any) -> StorageEntry:
    directory = str(folder / "history" / name)
    return StorageEntry(
        name=name, broker=broker, topics=list(topics), directory=directory, **others
    )


def write(folder: Path, *storages: StorageEntry, **options: Any) -> tuple[NetworkFile, Path]:
    """Write a network of two brokers; return its file."""
    links = [] if options else [("b1", "b2")]
    network = replace(make_network(["b1", "b2"], links, **options), storage=list(storages))
    file = folder / "net.toml"
    file.write_text(dump_network(network))
    return network, file


async def invoke(*words: object) -> Result:
    arguments = [str(word) for word in words]
    return await asyncio.to_thread(CliRunner().invoke, network_command, arguments)


def plan(folder: Path, **topics: list[str]) -> Path:
    file = folder / "plan.toml"
    tables = [f"[[storage]]\nbroker = '{broker}'\ntopics = {topics[broker]}" for broker in topics]
    file.write_text("\n".join(tables))
    return file


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


async def until_known(network: NetworkFile, *expected: tuple[str, str]) -> None:
    """Wait until the broker knows the storage `known`, as (storage, topic)."""
    while True:
        rows = (await storages_known(network))["b2"] or ()
        if {(name, topic) for topic, name in rows} == set(expected):
            return
        await asyncio.sleep(0.05)


# --- by hand --------------------------------------------------------------------------------------


async def test_a_storage_follows_its_entry(tmp_path: Path, children: Children) -> None:
    s = entry(tmp_path, "s", "b1", "x", "y", index={"n": "number"}, joining=["y"])
    network, file = write(tmp_path, s)
    async with running(network):
        process = await children.start("storage", file, "s", "--json")
        told = {"topics": []}
        while told["topics"] != ["x"]:
            told = json.loads(await line_of(process.stdout))
            assert (told["storage"], told["at"]) == ("s", "b1")
        await until_known(network, ("s", "x"))
        shown = await invoke("status", file)
        assert shown.exit_code == 0
        [line] = [line for line in shown.stdout.splitlines() if line.startswith("│ s ")]
        assert [cell.strip() for cell in line.strip("│").split("│")] == ["s", "b1", "x", "y"]
        answers = json.loads((await invoke("status", file, "--json")).stdout)
        row = {"storage": "s", "at": "b1", "answers": ["x"], "joins": ["y"], "silent": []}
        assert (answers["b1"]["storages"], answers["b2"]["storages"]) == ([row], [])

        replace_text(file, "[[storage]]\n")  # is passed over
        changed = replace(s, topics=["z"], joining=[], most=10)
        replace_text(file, dump_network(replace(network, storage=[changed])))
        await until_known(network, ("s", "z"))
        replace_text(file, dump_network(replace(network, storage=[])))
        code, output, errors = await ended(process)
        assert code == 0
        assert [json.loads(line)["topics"] for line in output.splitlines()][-1] == ["z"]
        assert "storage s: all but its topics are as they were at its start" in errors
        await until_known(network)


async def test_what_a_storage_says_of_itself(tmp_path: Path, children: Children) -> None:
    s, t = entry(tmp_path, "s", "b1", "x", "y"), entry(tmp_path, "t", "b1", "x", joining=["x"])
    network, file = write(tmp_path, s, t)
    code, _, errors = await children.run("storage", file, "u")
    assert (code, errors) == (2, "reefcast: there is no storage named 'u'; the file has s, t\n")
    async with running(network):
        shown = await invoke("status", file)
        assert shown.exit_code == 1
        assert "does not answer for" in shown.stdout
        process = await children.start("storage", file, "t")
        line = (await line_of(process.stdout)).decode()
        assert line == "storage t at b1 answers for nothing yet\n"
        other = await children.start("storage", file, "s")
        while line != "storage t at b1 answers for x\n":
            line = (await line_of(process.stdout)).decode()
        for each in (process, other):
            each.send_signal(signal.SIGTERM)
            assert (await ended(each))[0] == 0


async def test_what_would_run(tmp_path: Path) -> None:
    _, file = write(tmp_path, entry(tmp_path, "s", "b1", "x", "y/#"))
    shown = (await invoke("check", file)).stdout
    assert "2 brokers, 1 link, 1 storage," in shown
    assert f"\n  reefcast storage {file} s\n" in shown
    [told] = json.loads((await invoke("check", file, "--json")).stdout)["storages"]
    assert (told["storage"], told["at"], told["topics"]) == ("s", "b1", ["x", "y/#"])


# --- placed ---------------------------------------------------------------------------------------


async def test_a_plan_where_storages_run_by_hand(tmp_path: Path, children: Children) -> None:
    s = entry(tmp_path, "s", "b1", "x")
    network, file = write(tmp_path, s)
    words = ("move-storages", file, plan(tmp_path, b2=["x"]), "--directory", tmp_path / "new")
    async with running(network) as urls:
        before = file.read_text()
        done = await invoke(*words, "--wait", "0")
        assert (done.exit_code, file.read_text()) == (1, before)  # who has it must be there
        assert done.stdout.startswith("after 0 s: storage s does not answer for x yet (and 1 more)")
        await children.start("storage", file, "s")
        await until_known(network, ("s", "x"))
        async with reefcast.connect(urls[0]) as client:
            for n in range(10):
                await client.publish(n=n, topics=["x"])
            await client.flush()
        done = await invoke(*words, "--wait", "0")
        assert done.exit_code == 1
        assert done.stdout == (
            "after 0 s: storage at-b2 does not answer for x yet (and 1 more)\n"
            "no storage has given anything up yet. Is everything running (`reefcast network up`"
            f", or, by hand, reefcast storage {file} NAME)? Run this again then: it goes on\n"
        )
        wide = [(each.name, each.topics, each.joining) for each in load_network(file).storage]
        assert wide == [("s", ["x"], []), ("at-b2", ["x"], ["x"])]
        told = await invoke(*words, "--wait", "0", "--json")
        assert told.exit_code == 1
        assert json.loads(told.stdout) == {
            "storages": [
                {
                    "storage": "s",
                    "broker": "b1",
                    "directory": s.directory,
                    "topics": [],
                    "got": [],
                    "gave_up": ["x"],
                },
                {
                    "storage": "at-b2",
                    "broker": "b2",
                    "directory": str(tmp_path / "new" / "at-b2"),
                    "topics": ["x"],
                    "got": ["x"],
                    "gave_up": [],
                },
            ],
            "missing": [
                "storage at-b2 does not answer for x yet",
                "broker b1 does not know yet that storage at-b2 answers for x",
            ],
        }
        await children.start("storage", file, "at-b2")
        done = await invoke(*words)
        assert done.exit_code == 0, done.stdout
        await until_known(network, ("at-b2", "x"))
        async with reefcast.connect(url_of(network, "b1")) as client:
            assert [event["n"] async for event in client.history("topic = 'x'")] == [*range(10)]


async def test_who_answers_still_is_waited_for(tmp_path: Path, children: Children) -> None:
    """Two storages keep a topic; one of them is in a process that does not look at the file."""
    s, t = entry(tmp_path, "s", "b1", "x"), entry(tmp_path, "t", "b2", "x")
    network, file = write(tmp_path, s, t)
    other = tmp_path / "other.toml"
    other.write_text(file.read_text())
    async with running(network):
        await children.start("storage", other, "s")
        await children.start("storage", file, "t")
        await until_known(network, ("s", "x"), ("t", "x"))
        done = await invoke("move-storages", file, plan(tmp_path, b2=["x"]), "--wait", "1")
        assert done.exit_code == 1
        assert done.stdout == "after 1 s: broker b1 still knows storage s for x (and 1 more)\n"
        assert [each.name for each in load_network(file).storage] == ["t"]


async def test_a_file_that_somebody_changes_meanwhile(
    tmp_path: Path, children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, t = entry(tmp_path, "s", "b1", "x"), entry(tmp_path, "t", "b2", "x")
    network, file = write(tmp_path, s, t)

    async def look(look: object, until_s: float) -> list[str]:
        file.write_text(dump_network(replace(network, storage=[t])))
        return []

    monkeypatch.setattr(network_move_storages, "_until_none", look)
    done = await invoke("move-storages", file, plan(tmp_path, b1=["x"]))
    assert isinstance(done.exception, ConfigurationError)
    assert "were changed by somebody else meanwhile: run this again" in str(done.exception)
    assert load_network(file).storage == [t]


async def test_plans_that_cannot_be_applied(tmp_path: Path) -> None:
    _, file = write(tmp_path, entry(tmp_path, "s", "b1", "x", "y"))
    before = file.read_text()
    done = await invoke("move-storages", file, plan(tmp_path, b1=["x"]))
    assert "storage s keeps 'y', which no storage of the plan has" in str(done.exception)
    done = await invoke("move-storages", file, plan(tmp_path, b3=["x"]))
    assert "'b3': there is no such broker" in str(done.exception)
    done = await invoke("move-storages", file, plan(tmp_path, b1=["x", "y", "a/#/b"]))
    assert "topic 'a/#/b': # must be" in str(done.exception)
    assert file.read_text() == before
    options = {"routing": "gossip", "options": {"contacts": ["b1"]}}
    _, file = write(tmp_path, entry(tmp_path, "s", "b1", "x"), **options)
    before = file.read_text()
    done = await invoke("move-storages", file, plan(tmp_path, b2=["x"]))
    assert "with routing 'gossip' storages cannot take over topics" in str(done.exception)
    assert file.read_text() == before
