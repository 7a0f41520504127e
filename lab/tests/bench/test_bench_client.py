"""The benchmark of the client measures what it says."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from reefcast_lab.bench import client
from reefcast_lab.cli.bench import command


@pytest.mark.live
def test_every_way_is_compared_with_the_loop_of_its_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "REPEATS", 1)
    result = CliRunner().invoke(command, ["client", "--publications", "300", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["way"] for row in rows if row["what"] == "publish"] == [
        "publish",
        "publish_many of mappings",
        "publish_many of a table",
        "publish_many of a data frame",
        "sync: publish",
        "sync: publish_many of mappings",
        "sync: publish_many of a table",
    ]
    assert [row["way"] for row in rows if row["what"] == "receive"] == [
        *("async for", "next_batch", "next_table", "sync: for", "sync: next_table"),
    ]
    baseline = 0.0
    for row in rows:
        if row["way"] in ("publish", "sync: publish", "async for", "sync: for"):
            baseline = row["cpu_us_per_event"]
            assert row["ratio"] == 1.0
        assert row["events"] == 300 and row["cpu_us_per_event"] > 0
        assert row["ratio"] == pytest.approx(baseline / row["cpu_us_per_event"], abs=0.01)
