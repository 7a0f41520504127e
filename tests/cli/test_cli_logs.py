"""`--log-format`, `--log-level` and `[log]`: what processes write on standard error."""

from __future__ import annotations

import signal
from pathlib import Path

import click
import pytest

import reefcast
from children import Children, ended, line_of
from live_networks import path_network, url_of
from log_lines import objects
from reefcast.cli.main import group
from reefcast.network.file import dump_network
from reefcast.network.sections import LogSection, StorageEntry


async def test_all_processes_of_a_network_log_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network file says the levels, the command line the format."""
    monkeypatch.setenv("REEFCAST_LOG_FORMAT", "text")
    network = path_network(1)
    network.storage = [StorageEntry("s1", "b1", ["fx"], str(tmp_path / "s1"))]
    network.log = LogSection(level="info", levels={"routing": "debug"})
    file = tmp_path / "net.toml"
    file.write_text(dump_network(network), encoding="utf-8")
    async with Children() as children:
        up = await children.start("network", "up", file, "--log-format", "json")
        assert b"is up" in await line_of(up.stdout)
        async with reefcast.connect(url_of(network, "b1"), name="reader") as client:
            await (await client.subscribe("x > 0")).settled()
        up.send_signal(signal.SIGINT)
        code, _, errors = await ended(up)
    found = objects(errors)
    assert code == 0
    assert {"broker b1 runs", "storage s1 runs"} <= {
        str(each["message"]).partition(" (")[0] for each in found
    }
    [connected] = [
        each
        for each in found
        if each.get("kind") == "connected" and str(each.get("client")).startswith("reader")
    ]
    assert connected["broker"] == "b1"
    assert [each for each in found if each["part"] == "routing" and each["level"] == "debug"]


async def test_what_ends_a_process_is_a_line_too(tmp_path: Path) -> None:
    network = path_network(1)
    (tmp_path / "taken").touch()
    network.sessions.directory = str(tmp_path / "taken")
    file = tmp_path / "net.toml"
    file.write_text(dump_network(network), encoding="utf-8")
    async with Children() as children:
        words = ("broker", file, "b1", "--log-format", "json")
        code, _, errors = await children.run(*words)
    [line] = objects(errors)
    assert (code, line["level"]) == (2, "error")
    assert str(line["message"]).startswith("no sessions can be written to ")


@pytest.mark.parametrize("command", ["broker", "storage", "peer", "network"])
def test_the_commands_have_the_same_options(command: str) -> None:
    found = group.get_command(click.Context(group), command)
    assert found is not None
    if isinstance(found, click.Group):
        found = found.commands["up"]
    options = {option for each in found.params for option in each.opts}
    assert {"--log-format", "--log-level"} <= options
