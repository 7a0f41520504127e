"""Real processes: a whole overlay, kills, the commands."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace
from raw_client import RawClient, expect

from children import Children, ended, line_of
from live_networks import make_network, until
from reefcast.cli.network import command as network_command
from reefcast.errors import LocalError, PeerError
from reefcast.network.file import NetworkFile, dump_network, load_network
from reefcast.network.listeners import ListenerEntry
from reefcast.network.sections import RoleEntry, SessionsSection, TraceSection
from reefcast.server import child
from reefcast.server.supervisor import Overlay, free_ports, not_up

CHAIN = [("a", "b"), ("b", "c")]


async def test_deliveries_resume_after_a_kill(
    tmp_path: Path, record_property: Callable[[str, object], None]
):
    """The time is recorded; the soak, with nothing beside it, limits it to five seconds."""
    trace = TraceSection(level="full", directory=str(tmp_path), flush_s=0.1)
    network = make_network("abc", CHAIN, trace=trace)
    lines: list[str] = []
    async with Overlay(network, report=lines.append) as overlay:
        record_property("resumed_after_s", await resumed_after_s(overlay))
        await overlay.linked()
        assert sum("broker b runs" in line for line in lines) == 2
        codes = await overlay.stop()
    assert codes == {"a": 0, "b": 0, "c": 0}
    assert list((tmp_path / "publish").glob("a-*.parquet"))
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["brokers"] == ["a", "b", "c"] and run["links"] == [["a", "b"], ["b", "c"]]


@pytest.mark.soak
async def test_deliveries_resume_within_five_seconds_of_a_kill():
    async with Overlay(make_network("abc", CHAIN)) as overlay:
        assert await resumed_after_s(overlay) < 5


async def resumed_after_s(overlay: Overlay) -> float:
    """Return the seconds from the death of b to the first delivery from a to c; the supervisor
    restarts b."""
    subscriber = await RawClient.connect(overlay.network.address("c"), "s")
    await subscriber.subscribe("n > 0")
    publisher = await RawClient.connect(overlay.network.address("a"), "p")
    await publisher.advertise()
    publisher.publish(10)
    expect(await subscriber.seqs_of(10), 1, 10)
    old, killed_s = overlay.pid("b"), time.monotonic()
    await overlay.kill("b")
    await first_to_arrive(publisher, subscriber, after=10)
    took_s = time.monotonic() - killed_s
    assert overlay.pid("b") != old
    return round(took_s, 3)


async def first_to_arrive(publisher: RawClient, subscriber: RawClient, after: int) -> None:
    """Publish until something new arrives, for as long as a broker may take to start. What the
    broker had not acknowledged when it was killed comes again: numbers up to `after`."""
    async with asyncio.timeout(child.START_S):
        while True:
            publisher.publish(1)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    while (await subscriber.delivery())[1].seq <= after:
                        pass
                    return


async def test_without_restart_a_broker_is_started_by_hand():
    network = make_network("ab", [("a", "b")])
    lines: list[str] = []
    async with Overlay(network, restart=False, report=lines.append) as overlay:
        with pytest.raises(LocalError, match="runs already"):
            await overlay.start("a")
        await overlay.kill("b")
        await until(lambda: any("died (signal SIGKILL)" in line for line in lines))
        assert not overlay.running("b")
        with pytest.raises(PeerError, match="broker b"):
            await overlay.linked(timeout_s=0.2)
        assert (await overlay.status())["b"] is None
        await overlay.start("b")
        await overlay.linked()


async def test_a_broker_that_cannot_start_is_said_so():
    network = make_network("ab", [("a", "b")])
    async with Overlay(network):
        other = Overlay(network)
        with pytest.raises(LocalError, match="before it was ready"):
            await other.__aenter__()


async def test_a_broker_that_is_not_up_in_time_is_said_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(child, "START_S", 0.0)
    overlay = Overlay(make_network("a"))
    with pytest.raises(PeerError, match="broker a did not start within 0 s"):
        await overlay.__aenter__()
    assert not overlay.running("a")


@asynccontextmanager
async def network_up(file: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, Any]]:
    """Run `reefcast network up` as a process; yield it, and the line that it printed."""
    async with Children() as children:
        process = await children.start("network", "up", file, "--json", stdin=None, stderr=DEVNULL)
        yield process, json.loads(await line_of(process.stdout))


async def test_the_commands(tmp_path: Path):
    """Run `network up`, query it, and stop it from outside."""
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
        assert (await ended(process))[0] == 0
    for broker in told["brokers"]:
        with pytest.raises(ProcessLookupError):
            os.kill(broker["pid"], 0)
    result = await invoke("status", str(file))
    assert result.exit_code == 1 and "does not answer" in result.stdout


async def test_a_broker_is_started_again_with_the_links_that_there_are_then(tmp_path: Path):
    """A link has moved since the start, and the network file says so."""
    options = {"coordinator": "a"}
    file = write(tmp_path, make_network("abc", CHAIN, routing="mesh", options=options))
    async with network_up(file) as (process, told):
        pids = {broker["broker"]: broker["pid"] for broker in told["brokers"]}
        moved = await invoke("move-link", str(file), "c", "--from", "b", "--to", "a")
        assert moved.exit_code == 0, moved.output
        os.kill(pids["c"], signal.SIGKILL)
        async with asyncio.timeout(child.START_S):
            answers: dict[str, Any] = {"c": None}
            while not answers["c"] or answers["c"]["pid"] == pids["c"] or not_up(answers):
                answers = json.loads((await invoke("status", str(file), "--json")).stdout)
        links = {name: [link["link"] for link in answers[name]["links"]] for name in "abc"}
        assert links == {"a": ["b", "c"], "b": ["a"], "c": ["a"]}
        process.send_signal(signal.SIGTERM)
        assert (await ended(process))[0] == 0


def test_the_brokers_of_an_overlay_get_the_roles_that_its_file_has_now(tmp_path: Path) -> None:
    network, file = make_network("ab", CHAIN[:1]), tmp_path / "net.toml"
    file.write_text(dump_network(network))
    overlay = Overlay(network, file=file)
    overlay._file.write_text(dump_network(network))
    file.write_text(dump_network(replace(network, role=[RoleEntry(name="r", publish="a = 1")])))
    overlay._look()
    assert load_network(overlay._file).role == [RoleEntry(name="r", publish="a = 1")]


def test_links_that_cannot_be_read_are_those_that_there_were(tmp_path: Path):
    network, lines = make_network("abc", CHAIN), []
    file = write(tmp_path, replace(network, link=network.link[:1]))
    overlay = Overlay(network, file=file, report=lines.append)
    overlay._look()
    overlay._look()
    assert overlay.network is network
    (line,) = lines
    assert "as they were before:" in line and "the overlay is not connected" in line


def test_listeners_come_and_go_with_their_brokers(tmp_path: Path) -> None:
    """A broker that is there keeps its own until it is started again because somebody said so."""

    def at(broker: str, port: int) -> ListenerEntry:
        return ListenerEntry(broker=broker, protocol="mqtt", listen=f"127.0.0.1:{port}")

    kept = SessionsSection(directory=str(tmp_path))
    network = replace(make_network("ab", CHAIN[:1]), sessions=kept, listener=[at("b", 1883)])
    file = write(tmp_path, network)
    lines: list[str] = []
    overlay = Overlay(network, file=file, report=lines.append)
    overlay._file.write_text(dump_network(network))
    grown = replace(make_network("abc", CHAIN), sessions=kept)
    file.write_text(
        dump_network(replace(grown, listener=[at("a", 1884), at("b", 1885), at("c", 1886)]))
    )
    overlay._look()
    assert load_network(overlay._file).listener == [at("b", 1883), at("c", 1886)]
    overlay._before_again(told=True)
    assert load_network(overlay._file).listener == [at("a", 1884), at("b", 1885), at("c", 1886)]
    overlay._brokers["c"] = overlay._child("broker", "c")
    file.write_text(dump_network(replace(network, listener=[at("b", 1887)])))
    overlay._look()  # c is told to end, and may be started until then
    assert load_network(overlay._file).listener == [at("a", 1884), at("b", 1885), at("c", 1886)]
    assert lines == []


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
    result = CliRunner().invoke(network_command, ["check", str(file), "--json"])
    plan = json.loads(result.stdout)
    assert (plan["diameter"], plan["degree"], plan["links"]) == (2, 2, 2)
    assert plan["brokers"][1]["dials"] == ["c"]
    assert plan["brokers"][1]["command"] == f"reefcast broker {file} b"
    assert "diameter 2" in CliRunner().invoke(network_command, ["check", str(file)]).stdout


def write(folder: Path, network: NetworkFile) -> Path:
    file = folder / "network.toml"
    file.write_text(dump_network(network))
    return file


def test_no_call_gets_the_ports_of_another_one() -> None:
    ports = [port for count in (3, 0, 2, 5) for port in free_ports(count)]
    assert len(set(ports)) == len(ports) == 10
