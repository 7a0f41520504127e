"""The benchmark of the statistics measures what it says."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from reefcast.errors import InternalError
from reefcast_lab.bench import statistics
from reefcast_lab.bench.statistics import UNBATCHED, bench
from reefcast_lab.cli.bench import command


def test_every_engine_records_every_row_and_the_store_is_compared_with_unbatched_rows() -> None:
    told: list[str] = []
    store, single, memory = bench(3000, [70], told.append)
    assert told == ["70 pairs: 3,000 rows"]
    assert [row.engine for row in (store, single, memory)] == ["store", "unbatched", "memory"]
    assert [row.rows for row in (store, single, memory)] == [3000, UNBATCHED, 3000]
    assert store.ratio == round(single.cpu_us_per_row / store.cpu_us_per_row, 1)
    assert single.ratio is None and memory.ratio is None
    assert store.bytes_per_row > 20 and memory.bytes_per_row == 0


def test_a_store_that_complains_of_a_new_file_ends_the_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Complaining(statistics.StatisticsStore):
        def __init__(self, path, now, complain):
            complain("the file is damaged")

    monkeypatch.setattr(statistics, "StatisticsStore", Complaining)
    with pytest.raises(InternalError, match="a new file is sound: the file is damaged"):
        list(bench(10, [1], lambda said: None))


def test_prints_rows_as_json() -> None:
    arguments = ["statistics", "--deliveries", "600", "--pairs", "5", "--pairs", "9", "--json"]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    rows = json.loads(result.stdout)
    assert [(row["engine"], row["pairs"]) for row in rows] == [
        (engine, pairs) for pairs in (5, 9) for engine in ("store", "unbatched", "memory")
    ]
