"""The network file of choose-covering.md runs; covering.md names every strategy, table and
counter."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from reefcast.cli.simulate import command as simulate_command
from reefcast.network.file import read_network
from reefcast.routing.acyclic import Acyclic

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation" / "covering.md").read_text(encoding="utf-8")
GUIDE = (DOCS / "how-to" / "choose-covering.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return str(found)


@pytest.mark.long
def test_the_network_file_runs(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(block("toml"), encoding="utf-8")
    asked = ["--inspect", "--table", "PRT", "--subscriptions", "60", "--publications", "300"]
    done = CliRunner().invoke(simulate_command, [str(file), *asked, "--json"])
    assert done.exit_code == 0, done.output
    brokers = json.loads(done.output)["inspect"]
    assert ["ghosts" in brokers[name]["tables"] for name in ("north", "middle", "south")] == [
        True,
        True,
        False,
    ]
    assert all(brokers[name]["rows"]["PRT"]["rows"] for name in brokers)


def test_every_strategy_of_the_page_can_be_said() -> None:
    for strategy in ("none", "lazy", "active", "packing", "incremental"):
        assert f"\n| `{strategy}`" in PAGE
        read_network(block("toml").replace('"lazy"', f'"{strategy}"'))


def test_what_is_counted_is_explained() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", PAGE.split("| counter |")[1].split("## ")[0], re.MULTILINE)
    assert ", ".join(rows) == ", ".join(Acyclic.counted.values())
