"""`reefcast retained`, `publish --retain` and `subscribe --retained` against real brokers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from children import Children
from live_networks import path_network, running
from reefcast.cli.main import group
from reefcast.network.file import dump_network


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


async def test_last_values_from_the_command_line(children: Children, tmp_path: Path) -> None:
    network, file = path_network(2), tmp_path / "net.toml"
    file.write_text(dump_network(network))
    async with running(network) as [url, other]:
        for price in (1, 2):
            code, _, _ = await children.run(
                "publish", url, "symbol=IBM", f"price={price}", "--retain-by", "symbol"
            )
            assert code == 0
        await children.run("publish", url, "n=1", "--topic", "t", "--retain")
        asked = ("subscribe", other, "price > 0", "--retained", "--count", 1, "--timeout", 120)
        _, output, _ = await children.run(*asked, "--json")
        record = json.loads(output)
        assert (record["attributes"], record["retained"]) == ({"symbol": "IBM", "price": 2}, True)
        _, output, _ = await children.run(*asked)
        assert output.endswith("symbol=IBM  price=2  retained\n")

        code, output, errors = await children.run("retained", other, "--json")
        assert (code, errors) == (0, "reefcast: 2 values retained\n")
        first, second = map(json.loads, output.splitlines())
        assert first["key"] == {"attributes": {"symbol": "IBM"}}
        assert second["key"] == {"topic": "t"}
        code, output, errors = await children.run("retained", url, "price > 0", "--clear")
        assert (code, errors) == (0, "reefcast: 1 value cleared\n")
        assert "price=2" in output
        _, output, _ = await children.run("retained", url)
        assert "topics=t" in output and "IBM" not in output
        _, output, _ = await children.run("network", "status", file, "--json")
        status = json.loads(output)["b1"]
        assert status["counters"]["retained_values"] == status["tables"]["retained"] == 1
        assert status["counters"]["retained_bytes"] > 0

        code, _, errors = await children.run("publish", url, "n=1", "--retain")
        assert code != 0
        assert "event 1: a publication is retained under its topic, and this one has no" in errors


def test_what_cannot_be_asked() -> None:
    result = CliRunner().invoke(group, ["retained", "--clear"])
    assert result.exit_code == 2
    assert "--clear needs a FILTER" in result.output
    result = CliRunner().invoke(group, ["publish", "n=1", "--retain", "--retain-by", "n"])
    assert result.exit_code == 2
    assert "either --retain or --retain-by" in result.output
