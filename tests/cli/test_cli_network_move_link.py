"""`reefcast network move-link` against real brokers, and its changes of the network file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from live_networks import linked, make_network, until
from reefcast.cli.network import command as network_command
from reefcast.errors import ConfigurationError, ConnectionLostError, RefusedError
from reefcast.network.file import dump_network, load_network
from reefcast.server.node import Node

NAMES = ["b1", "b2", "b3", "b4"]


class Running:
    """A row of four running brokers, and the file that describes them."""

    def __init__(self, file: Path, nodes: dict[str, Node]) -> None:
        self.file = file
        self.nodes = nodes

    async def move(self, broker: str, old: str, new: str, *options: str) -> Result:
        words = ["move-link", str(self.file), broker, "--from", old, "--to", new, *options]
        async with asyncio.timeout(60):
            return await asyncio.to_thread(CliRunner().invoke, network_command, words)

    def links(self) -> set[tuple[str, str]]:
        """Return the links in the file."""
        return {link.between for link in load_network(self.file).link}


@asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[Running]:
    network = make_network(NAMES, list(pairwise(NAMES)), routing="mesh", options=options)
    file = folder / "net.toml"
    file.write_text("# a row\n" + dump_network(network))
    async with AsyncExitStack() as stack:
        nodes = {}
        for name in NAMES:
            nodes[name] = Node(network, name)
            await nodes[name].start()
            stack.push_async_callback(nodes[name].stop)
        await linked(nodes.values())
        yield Running(file, nodes)


@pytest.fixture
async def row(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path, coordinator="b1") as row:
        yield row


MOVED = {("b1", "b2"), ("b2", "b3"), ("b2", "b4")}


async def test_a_link_moves_and_the_file_says_so(row: Running) -> None:
    before = row.file.read_text()
    done = await row.move("b4", "b3", "b2")
    assert done.exit_code == 0, done
    assert done.stdout.splitlines() == [
        "b4 has a primary link to b2, in place of the one to b3",
        f"{row.file} says so, too",
    ]
    assert list(row.nodes["b4"].links) == ["b2"]
    assert row.file.read_text() == before.replace('["b3", "b4"]', '["b2", "b4"]') != before
    again = await row.move("b4", "b3", "b2", "--json")
    assert (again.exit_code, json.loads(again.stdout)) == (
        0,
        {
            "broker": "b4",
            "from": "b3",
            "to": "b2",
            "state": "was moved before",
            "why": "",
            "problem": "",
        },
    )
    assert row.links() == MOVED


async def test_a_move_that_is_given_up(row: Running) -> None:
    done = await row.move("b2", "b1", "b4")
    assert (done.exit_code, done.stdout) == (
        1,
        "given up: b4 is not behind b1: the network would fall into two parts\n",
    )
    done = await row.move("b1", "b3", "b4", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["state"], told["problem"]) == (1, "given up", "")
    assert told["why"] == "b1 has no primary link to b3, but to b2"
    assert row.links() == set(pairwise(NAMES))


async def test_two_at_once(row: Running) -> None:
    """One move waits for the other; each changes its own link in the file."""
    done = await asyncio.gather(row.move("b4", "b3", "b2"), row.move("b1", "b2", "b3"))
    assert [each.exit_code for each in done] == [0, 0]
    assert row.links() == {("b1", "b3"), ("b2", "b3"), ("b2", "b4")}


async def test_who_does_not_wait_finds_out_later(row: Running) -> None:
    done = await row.move("b4", "b3", "b2", "--wait", "0")
    assert done.exit_code == 1
    assert done.stdout.startswith("after 0 s b1 has not granted it; is it there")
    assert "run this command again" in done.stdout
    await until(lambda: row.nodes["b4"].host.core.counters["moved"])
    assert row.links() == set(pairwise(NAMES))
    done = await row.move("b4", "b3", "b2")
    assert (done.exit_code, row.links()) == (0, MOVED)
    assert "b4 has a primary link to b2 already, and none to b3" in done.stdout


async def test_a_move_that_does_not_end(row: Running) -> None:
    """The new neighbour cannot be dialled."""
    row.nodes["b4"].network.entry("b2").listen = "127.0.0.1:1"
    done = await row.move("b4", "b3", "b2", "--wait", "1")
    assert (done.exit_code, done.stderr) == (1, "granted: the link moves\n")
    assert done.stdout.startswith("after 1 s the move is under way, but not over; are all")
    assert row.links() == set(pairwise(NAMES))


async def test_a_file_that_has_no_such_link(row: Running) -> None:
    row.file.write_text(row.file.read_text().replace('["b3", "b4"]', '["b1","b4"]'))
    done = await row.move("b4", "b3", "b2")
    assert done.exit_code == 1
    assert f"{row.file} cannot be changed: the network file has no [[link]]" in done.stdout
    assert "Give it a [[link]] between b4 and b2 in place of" in done.stdout
    assert list(row.nodes["b4"].links) == ["b2"]


async def test_without_a_coordinator(tmp_path: Path) -> None:
    async with running(tmp_path) as row:
        done = await row.move("b4", "b3", "b2")
    assert isinstance(done.exception, RefusedError)
    assert "name a broker as coordinator in [routing]" in str(done.exception)


async def test_of_another_routing(tmp_path: Path) -> None:
    network = make_network(NAMES, list(pairwise(NAMES)))
    node = Node(network, "b1")
    await node.start()
    file = tmp_path / "net.toml"
    file.write_text(dump_network(network))
    done = await Running(file, {}).move("b1", "b2", "b3")
    await node.stop()
    assert isinstance(done.exception, RefusedError)
    assert "routing 'acyclic' does not move links while it runs" in str(done.exception)


async def test_who_is_not_there(tmp_path: Path) -> None:
    network = make_network(NAMES, list(pairwise(NAMES)), routing="mesh")
    file = tmp_path / "net.toml"
    file.write_text(dump_network(network))
    done = await Running(file, {}).move("b1", "b2", "b3")
    assert isinstance(done.exception, ConnectionLostError)
    done = await Running(file, {}).move("b1", "b2", "b9")
    assert isinstance(done.exception, ConfigurationError)
    assert "no broker named 'b9'" in str(done.exception)
    network.routing["coordinator"] = "b8"
    file.write_text(dump_network(network))
    done = await Running(file, {}).move("b1", "b2", "b3")
    assert "no broker named 'b8'" in str(done.exception)
