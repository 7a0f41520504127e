"""The benchmark of Spark's connector: all that was stored is read, and its share of Python is
found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reefcast.history.store import HistoryStore
from reefcast_lab.bench import spark_events, spark_events_page
from reefcast_lab.bench.spark_events import EventsTiming, python_share, stored
from reefcast_lab.cli.bench import command

ROWS = [
    EventsTiming("Parquet", 1000, 2_000_000, 2.0, 1.0, 500.0, 1000.0, 1.0),
    EventsTiming("sealed", 1000, 3_000_000, 4.0, 2.5, 250.0, 400.0, 2.5, 7000.0, 0.25),
]


def test_half_of_the_events_are_sealed(tmp_path: Path) -> None:
    size = stored(tmp_path, 300)
    store = HistoryStore(tmp_path, pytest.fail)
    assert store.contents().segment_rows == 300
    found = [body for batch in store.read(["sealed", "recent"], 0) for body in batch]
    store.close()
    assert len(found) == 600
    assert size > 300 * 20


def test_the_share_of_python() -> None:
    def in_python() -> int:
        return sum(number % 7 for number in range(200_000))

    text = "x" * 1_000_000

    def compiled() -> None:
        for _ in range(100):
            text.replace("x", "yy")

    sys.setprofile(None)
    assert python_share(compiled) < python_share(in_python)


def test_figures_have_a_line_for_each_way() -> None:
    lines = spark_events_page.figures(ROWS).splitlines()
    assert lines[2] == "| Parquet | 1,000 | 2 | 2 | 1 | 500 | 1,000 | 1 |  |  |"
    assert lines[3] == "| sealed | 1,000 | 3 | 4 | 2.5 | 250 | 400 | 2.5 | 7,000 | 25% |"


def test_the_command_prints_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_events, "bench", lambda *_: iter(ROWS))
    result = CliRunner().invoke(command, ["spark", "--part", "connector", "--json"])
    assert result.exit_code == 0, result.output
    assert [row["way"] for row in json.loads(result.stdout)] == ["Parquet", "sealed"]
