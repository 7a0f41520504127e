"""`reefcast network apply`, and SIGHUP to `reefcast network up`."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

from click.testing import CliRunner, Result
from msgspec.structs import replace

from children import Children, ended, line_of
from live_networks import path_network
from reefcast.cli.main import group
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.sections import LimitsSection, LogSection
from reefcast.server.admin import ask_status


async def invoke(*words: object) -> Result:
    arguments = ["network", "apply", *map(str, words)]
    return await asyncio.to_thread(CliRunner().invoke, group, arguments)


def drain(file: Path, broker: str) -> list[str]:
    return ["network", "drain", str(file), broker]


async def test_a_running_network_takes_over_its_file(tmp_path: Path) -> None:
    """By the command, and by SIGHUP, which ends neither `network up` nor its brokers; a broker that
    dies comes back with what was applied."""
    network, file = path_network(1), tmp_path / "net.toml"

    def write(changed: NetworkFile) -> NetworkFile:
        file.with_suffix(".new").write_text(dump_network(changed), encoding="utf-8")
        file.with_suffix(".new").replace(file)
        return changed

    write(network)
    async with Children() as children:
        up = await children.start("network", "up", file, "--json")
        told = json.loads(await line_of(up.stdout))
        now = write(replace(network, limits=LimitsSection(queue_limit=5)))
        for words, outcome in ((["--dry-run"], 0), ([], 0)):
            done = await invoke(file, "--json", *words)
            assert done.exit_code == outcome, done.output
            [row] = json.loads(done.stdout)
            assert (row["change"], row["before"], row["after"]) == (
                "[limits] queue_limit",
                10000,
                5,
            )
            assert (row["outcome"], row["brokers"]) == ("applied", ["b1"])
        said = await invoke(file)
        assert said.stdout == "nothing has changed: the brokers do what NETWORK says\n"
        sections = replace(now.sessions, dedup_s=7.0)
        now = write(replace(now, log=LogSection(level="info"), sessions=sections))
        up.send_signal(signal.SIGHUP)
        assert up.stderr is not None
        wanted = {
            "b1: needs a restart: [sessions] dedup_s",
            "b1: applied: [log] level",
        }
        while wanted:
            line = (await line_of(up.stderr)).decode()
            wanted = {each for each in wanted if each not in line}
        done = await invoke(file)
        assert done.exit_code == 1
        assert done.stdout == "needs a restart: [sessions] dedup_s: 3600.0 -> 7.0 (b1)\n"
        # A broker that is new in the file is started, and linked; it ends when it is taken out.
        larger = path_network(2)
        larger = replace(now, broker=[*now.broker, larger.broker[1]], link=larger.link)
        write(larger)
        done = await invoke(file, "--json")
        joins = {row["change"]: row["outcome"] for row in json.loads(done.stdout)}
        assert joins["[[broker]] b2"] == joins["[[link]] b1 - b2"] == "applied", done.output
        drained = await asyncio.to_thread(CliRunner().invoke, group, drain(file, "b2"))
        assert drained.stdout == "b2 is empty\n"
        write(now)
        done = await invoke(file, "--json")
        leaves = {row["change"]: row["outcome"] for row in json.loads(done.stdout)}
        assert leaves["[[broker]] b2"] == leaves["[[link]] b1 - b2"] == "applied", done.output
        while "broker b2 has left the network" not in (await line_of(up.stderr)).decode():
            pass
        status = await ask_status(*network.address("b1"))
        assert status["pid"] == told["brokers"][0]["pid"] and status["links"] == []
        up.send_signal(signal.SIGTERM)
        assert (await ended(up))[0] == 0


async def test_brokers_that_do_not_answer_are_in_the_list(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(dump_network(path_network(2)), encoding="utf-8")
    done = await invoke(file, "--json")
    assert done.exit_code == 1
    assert {row["brokers"][0]: row["outcome"] for row in json.loads(done.stdout)} == {
        "b1": "not reached",
        "b2": "not reached",
    }
