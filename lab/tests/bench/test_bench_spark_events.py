"""The benchmark of Spark's connector: all that was stored is read, and its share of Python is
found."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from reefcast.errors import LocalError
from reefcast.history.store import HistoryStore
from reefcast_lab.bench import spark, spark_bytes, spark_events, spark_events_page
from reefcast_lab.bench.spark_events import EventsTiming, python_share, stored
from reefcast_lab.cli.bench import command

ROWS = [
    EventsTiming("Parquet", 1000, 2_000_000, 2.0, 1.0, 500.0, 1000.0, 1.0),
    EventsTiming("sealed", 1000, 3_000_000, 4.0, 2.5, 250.0, 400.0, 2.5, 7000.0, 0.25),
]
MATCHED = [spark.SparkTiming("reefcast", 100, 500, 70, 2.0, 1.0)]
SENT = [spark_bytes.SparkBytes("everything", 1000, 1000, 2000, 1.0)]
CONNECTOR_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "spark-connector.md"


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
        total = 0
        for number in range(200_000):
            total += number % 7
        return total

    text = "x" * 1_000_000

    def compiled() -> None:
        for _ in range(100):
            text.replace("x", "yy")

    sys.setprofile(None)
    assert python_share(compiled, _cpu_s(compiled)) < python_share(in_python, _cpu_s(in_python))
    assert python_share(in_python, 1e9) > 0.99 and python_share(compiled, 1e-9) == 0


def _cpu_s(work: Callable[[], object]) -> float:
    begun_s = time.process_time()
    work()
    return time.process_time() - begun_s


def test_figures_have_a_line_for_each_way() -> None:
    lines = spark_events_page.figures(ROWS).splitlines()
    assert lines[2] == "| Parquet | 1,000 | 2 | 2 | 1 | 500 | 1,000 | 1 |  |  |"
    assert lines[3] == "| sealed | 1,000 | 3 | 4 | 2.5 | 250 | 400 | 2.5 | 7,000 | 25% |"


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace what is measured, of each part."""
    monkeypatch.setattr(spark, "bench", lambda *_: iter(MATCHED))
    monkeypatch.setattr(spark_events, "bench", lambda *_: iter(ROWS))
    monkeypatch.setattr(spark_bytes, "bench_bytes", lambda *_: iter(SENT))


def test_one_command_prints_all_parts_or_some(measured: None) -> None:
    result = CliRunner().invoke(command, ["spark", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["part"] for row in rows] == ["matching", "connector", "connector", "bytes"]
    result = CliRunner().invoke(command, ["spark", "--part", "bytes", "--part", "connector"])
    assert result.exit_code == 0, result.output
    assert "matching:" not in result.stdout
    assert result.stdout.index("sealed") < result.stdout.index("everything")


def test_a_page_gets_the_tables_that_it_has_a_place_for(measured: None, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(CONNECTOR_PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    result = CliRunner().invoke(command, ["spark", "--page", str(page)])
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert "| sealed | 1,000 | 3 |" in text
    assert "| everything | 1,000 | 2,000 | 1 |" in text
    (tmp_path / "other.md").write_text("no place", encoding="utf-8")
    result = CliRunner().invoke(command, ["spark", "--page", str(tmp_path / "other.md")])
    assert isinstance(result.exception, LocalError)
    assert "has a place for none of these" in str(result.exception)
