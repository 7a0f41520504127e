"""The benchmark of starting a broker measures what it says."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from reefcast_lab.bench import start
from reefcast_lab.bench.quotes import distinct_filters
from reefcast_lab.cli.bench import command


@pytest.mark.live
@pytest.mark.usefixtures("started_anew")
@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says in /proc")
def test_prints_a_row_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "STARTS", 1)
    monkeypatch.setattr(start, "IDLE_S", 1.0)
    monkeypatch.setattr(start.wire, "PING_INTERVAL_S", 0.5)
    arguments = ["start", "--subscriptions", "300", "--connections", "100", "--json"]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    (row,) = json.loads(result.stdout)
    assert row["subscriptions"] == 300
    assert 0 < row["listens_cpu_s"] < row["delivers_cpu_s"]
    assert row["bare_cpu_s"] > 0
    assert 20 < row["idle_mb"] < 110  # neither numba nor LLVM
    assert row["connections"] == 100
    assert row["connect_cpu_us"] > 0 and row["idle_cpu_ms_per_s"] > 0
    assert row["subscribe_cpu_us"] > row["unsubscribe_cpu_us"] > 0


def test_filters_that_are_all_different() -> None:
    assert len(set(distinct_filters(20_000))) == 20_000
