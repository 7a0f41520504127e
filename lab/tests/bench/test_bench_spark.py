"""The benchmark of matching in Spark: all engines find the same, and what is left out is
reported."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from reefcast.errors import InternalError
from reefcast.model.filters import parse_filter
from reefcast_lab.bench import spark as bench_spark
from reefcast_lab.bench import spark_page
from reefcast_lab.bench.spark import (
    BOUNDED,
    JOIN,
    LITERAL,
    REEFCAST,
    SparkTiming,
    bench,
    compared,
    expected_s,
)
from reefcast_lab.cli.bench import command
from reefcast_lab.demos.statistics import Statistics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [
    SparkTiming(REEFCAST, 1000, 500, 70, 2.0, 1.0, events_per_cpu_s=1000.0),
    SparkTiming(JOIN, 1000, 500, 70, 30.0, 20.0),
    SparkTiming(LITERAL, 1000, 500, 70, 50.0, 10.0),
]
LEFT_OUT = SparkTiming(LITERAL, 10_000, 500)


def test_ratios_are_to_the_best_baseline() -> None:
    rows = list(compared(ROWS))
    assert [row.ratio for row in rows] == [15.0, 1.0, 0.6]
    assert [row.cpu_ratio for row in rows] == [10.0, 0.5, 1.0]
    rows = list(compared([*ROWS[:2], LEFT_OUT]))
    assert [row.ratio for row in rows] == [15.0, 1.0, None]
    assert [row.cpu_ratio for row in rows] == [20.0, 1.0, None]
    assert next(compared([ROWS[0], LEFT_OUT])).ratio is None


def test_what_was_left_out_stays_left_out() -> None:
    assert expected_s(ROWS[1], 10_000) == 300.0
    assert expected_s(LEFT_OUT, 20_000) == float("inf")


def test_filters_say_the_bounds_and_are_those_of_the_seed() -> None:
    values = tuple(float(i) + 0.25 for i in range(101))
    data = Statistics(dict.fromkeys(BOUNDED, values), {})
    some = bench_spark.drawn(data, 20, "one")
    assert some == bench_spark.drawn(data, 20, "one") != bench_spark.drawn(data, 20, "two")
    for bounds in some:
        assert len(bounds) == 3
        filter = parse_filter(bench_spark.text(bounds))
        assert filter.holds({name: low + 1 for name, (low, _) in bounds.items()})
        assert not filter.holds({name: low - 1 for name, (low, _) in bounds.items()})


def test_cpu_of_children_counts() -> None:
    before = bench_spark.cpu_of_family_s()
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert bench_spark.cpu_of_family_s() - before >= 0.1


def test_page_and_plot() -> None:
    rows = [*compared(ROWS), LEFT_OUT]
    lines = spark_page.figures(rows).splitlines()
    assert lines[2] == "| reefcast | 1,000 | 500 | 70 | 2 | 1 | 15 | 10 | 1,000 |"
    assert lines[5] == "| literal filters | 10,000 | 500 | left out |  |  |  |  |  |"
    plot = spark_page.plot(rows)
    assert all(engine in plot for engine in (REEFCAST, JOIN, LITERAL))


# --- with Spark -----------------------------------------------------------------------------------


@pytest.fixture
def data(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return 300 flights; the tests' session replaces one of the benchmark's own."""
    rng = random.Random(1)
    rows = [
        (i, *(None if rng.random() < 0.05 else float(rng.randrange(1000)) / 4 for _ in BOUNDED))
        for i in range(300)
    ]
    schema = ", ".join(["event BIGINT", *(f"{name} DOUBLE" for name in BOUNDED)])
    spark.createDataFrame(rows, schema).write.parquet(str(tmp_path / "flights-v1.parquet"))

    @contextmanager
    def session(*_: str) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(bench_spark, "spark_session", session)
    monkeypatch.setattr(bench_spark, "WARM", 2)
    monkeypatch.setattr(bench_spark, "WARM_TURNS", 1)
    return tmp_path


@pytest.mark.spark
def test_all_engines_find_the_same(spark: SparkSession, data: Path) -> None:
    told: list[str] = []
    rows = list(bench([110], 200, data, "local", told.append))
    assert [(row.engine, row.n, row.events) for row in rows] == [
        (engine, 110, 200) for engine in (REEFCAST, JOIN, LITERAL)
    ]
    pairs = {row.pairs for row in rows}
    assert len(pairs) == 1 and pairs.pop()
    assert all(row.seconds and row.ratio for row in rows)
    assert told[0] == "warming up"
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "false"  # as it was


@pytest.mark.spark
def test_leaving_out_is_told(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        bench_spark, "expected_s", lambda row, n: 0 if row.engine == REEFCAST else 1e9
    )
    result = CliRunner().invoke(
        command,
        [
            *("spark", "--part", "matching", "--n", "2", "--n", "1"),
            *("--events", "50", "--data", str(data), "--json"),
        ],
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["n"] for row in rows] == [1, 1, 1, 2, 2, 2]
    assert [row["seconds"] is None for row in rows] == [False] * 4 + [True] * 2
    assert "range join, 2 subscriptions, 50 events: left out" in result.stderr


@pytest.mark.spark
def test_an_engine_that_finds_something_else_is_an_error(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = bench_spark._one

    def lying(name, events, wanted, count):  # type: ignore[no-untyped-def]  # as the honest one
        row, (pairs, which) = honest(name, events, wanted, count)
        return row, (pairs + (name == JOIN), which)

    monkeypatch.setattr(bench_spark, "_one", lying)
    with pytest.raises(InternalError, match="range join finds"):
        list(bench([1], 20, data, "local", lambda _: None))
