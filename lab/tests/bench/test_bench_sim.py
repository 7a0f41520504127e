"""`reefcast-lab bench sim`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from reefcast_lab.bench import sim as module
from reefcast_lab.cli.bench import command as bench


def test_bench_gives_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SUBSCRIPTIONS", 20)
    done = CliRunner().invoke(bench, ["sim", "--messages", "600", "--json"])
    assert done.exit_code == 0, done.output
    rows = [row for row in json.loads(done.output) if row["case"] == "reefcast"]
    assert [(row["brokers"], row["matching"], row["trace"]) for row in rows] == [
        (brokers, matching, level)
        for brokers in (12, 49)
        for matching, level in (("shared", "off"), ("shared", "full"), ("per hop", "off"))
    ]
    assert all(row["messages_per_s"] > 0 for row in rows)
