"""Real processes: a whole overlay, kills, the commands."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from raw_client import RawClient, expect

from live_networks import make_network, until
from reefcast.cli.network import command as network_command
from reefcast.errors import LocalError
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.sections import TraceSection
from reefcast.server.supervisor import Overlay

CHAIN = [("a", "b"), ("b", "c")]


async def test_deliveries_resume_within_five_seconds_of_a_kill(tmp_path: Path):
    """The start of the new process included."""
    trace = TraceSection(level="full", directory=str(tmp_path), flush_s=0.1)
    network = make_network("abc", CHAIN, trace=trace)
    lines: list[str] = []
    async with Overlay(network, report=lines.append) as overlay:
        subscriber = await RawClient.connect(network.address("c"), "s")
        await subscriber.subscribe("n > 0")
        publisher = await RawClient.connect(network.address("a"), "p")
        await publisher.advertise()
        publisher.publish(10)
        expect(await subscriber.seqs_of(10), 1, 10)
        old = overlay.pid("b")
        async with asyncio.timeout(5):
            await overlay.kill("b")
            while True:
                publisher.publish(1)
                try:
                    async with asyncio.timeout(0.1):
                        _, event = await subscriber.delivery()
                        break
                except TimeoutError:
                    continue
        assert event.seq > 10 and overlay.pid("b") != old
        await overlay.linked()
        assert sum("broker b runs" in line for line in lines) == 2
        codes = await overlay.stop()
    assert codes == {"a": 0, "b": 0, "c": 0}
    assert list((tmp_path / "publish").glob("a-*.parquet"))
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["brokers"] == ["a", "b", "c"] and run["links"] == [["a", "b"], ["b", "c"]]


async def test_without_restart_a_broker_is_started_by_hand():
    network = make_network("ab", [("a", "b")])
    lines: list[str] = []
    async with Overlay(network, restart=False, report=lines.append) as overlay:
        with pytest.raises(LocalError, match="runs already"):
            await overlay.start("a")
        await overlay.kill("b")
        await until(lambda: any("died (signal SIGKILL)" in line for line in lines))
        assert not overlay.running("b")
        with pytest.raises(LocalError, match="broker b"):
            await overlay.linked(timeout_s=0.2)
        assert (await overlay.status())["b"] is None
        await overlay.start("b")
        await overlay.linked()


async def test_a_broker_that_cannot_start_is_said_so():
    network = make_network("ab", [("a", "b")])
    async with Overlay(network):
        other = Overlay(network)
        with pytest.raises(LocalError, match="before it listened"):
            await other.__aenter__()


@asynccontextmanager
async def network_up(file: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, Any]]:
    """`reefcast network up` as a process, and the line that it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "reefcast", "network", "up", str(file), "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_the_commands(tmp_path: Path):
    """`network up`, asked and stopped from outside."""
    network = make_network("abc", CHAIN)
    file = write(tmp_path, network)
    async with network_up(file) as (process, told):
        assert [broker["broker"] for broker in told["brokers"]] == ["a", "b", "c"]
        result = await invoke("status", str(file), "--json")
        assert result.exit_code == 0
        answers = json.loads(result.stdout)
        assert [link["state"] for link in answers["b"]["links"]] == ["up", "up"]
        assert "MB" in (await invoke("status", str(file))).stdout
        client = await RawClient.connect(network.address("a"), "client")
        process.send_signal(signal.SIGTERM)
        assert "told to stop" in await client.reason()
        assert await process.wait() == 0
    for broker in told["brokers"]:
        with pytest.raises(ProcessLookupError):
            os.kill(broker["pid"], 0)
    result = await invoke("status", str(file))
    assert result.exit_code == 1 and "does not answer" in result.stdout


async def test_no_broker_outlives_its_supervisor(tmp_path: Path):
    network = make_network("a")
    async with network_up(write(tmp_path, network)) as (process, _):
        client = await RawClient.connect(network.address("a"), "client")
        process.kill()
        assert "told to stop" in await client.reason()


async def invoke(*arguments: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, network_command, arguments)


def test_plan_says_what_would_run(tmp_path: Path):
    file = write(tmp_path, make_network("abc", CHAIN))
    result = CliRunner().invoke(network_command, ["plan", str(file), "--json"])
    plan = json.loads(result.stdout)
    assert (plan["diameter"], plan["degree"], plan["links"]) == (2, 2, 2)
    assert plan["brokers"][1]["dials"] == ["c"]
    assert plan["brokers"][1]["command"] == f"reefcast broker {file} b"
    assert "diameter 2" in CliRunner().invoke(network_command, ["plan", str(file)]).stdout


def write(folder: Path, network: NetworkFile) -> Path:
    file = folder / "network.toml"
    file.write_text(dump_network(network))
    return file
