"""The benchmark of histories measures what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from reefcast.bench import history
from reefcast.bench.history import bench, publications
from reefcast.cli.bench import command


def test_rows_and_their_baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "duckdb_is_missing", lambda: True)
    told: list[str] = []
    rows = list(bench(3000, tmp_path / "kept", told.append))
    assert told == [f"storing 3,000 messages in {tmp_path / 'kept'}", "sealing"]
    assert [(row.what, row.engine) for row in rows] == [
        ("in", "reefcast"),
        ("in", "plain SQLite"),
        ("out, all of a topic", "reefcast"),
        ("out, price > 50", "reefcast"),
        ("out, all of a topic", "plain SQLite"),
        ("selective request", "reefcast"),
        ("selective request", "plain SQLite"),
        ("sealing", "reefcast"),
        ("out, Parquet", "reefcast"),
        ("selective request, Parquet", "reefcast"),
    ]
    for row in rows:
        assert row.messages == 3000 and (row.cpu_per_s or row.cpu_ms)
    ours, plain = rows[:2]
    assert ours.ratio == round(ours.cpu_per_s / plain.cpu_per_s, 2) and plain.ratio is None


def test_a_history_that_was_kept_is_used_again(tmp_path: Path) -> None:
    list(bench(1500, tmp_path, lambda said: None))
    rows = list(bench(1500, tmp_path, lambda said: None))
    assert (rows[0].what, rows[0].engine) == ("in", "plain SQLite")


def test_messages_are_the_same_for_everybody() -> None:
    assert list(publications(5, 25)) == list(publications(5, 25))


def test_prints_rows_as_json() -> None:
    result = CliRunner().invoke(command, ["history", "--stored", "1000", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert rows[0]["what"] == "in" and rows[0]["messages"] == 1000
