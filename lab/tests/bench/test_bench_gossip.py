"""The benchmark of gossip's overlays measures what it says, and both implementations find the
same."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from reefcast.errors import InternalError
from reefcast_lab.bench import gossip
from reefcast_lab.bench.gossip import bench
from reefcast_lab.cli.bench import command
from reefcast_lab.rounds.twin import Twin

FEW = {"t": [f"n{i}" for i in range(12)], "u": [f"n{i}" for i in range(6)]}
MANY = {"t": [f"n{i}" for i in range(50)]}


def test_rows_say_how_long_both_took_and_how_far_they_came() -> None:
    told: list[str] = []
    converging, a_round, of_many = bench(FEW, MANY, told.append)
    assert told == ["12 nodes, 2 topics, until they have converged", "50 nodes, 1 topics, 3 rounds"]
    assert (converging.nodes, converging.topics, converging.memberships) == (12, 2, 18)
    assert converging.rounds > 5  # so many must pass to see that little changes
    assert converging.unique == a_round.unique < 1
    assert a_round.cpu_s is not None
    assert converging.cpu_s == pytest.approx(a_round.cpu_s * converging.rounds, abs=0.01)
    assert converging.in_aim
    assert (of_many.cpu_s, of_many.ratio, of_many.memberships) == (None, None, 50)
    assert of_many.peak_bytes >= a_round.peak_bytes > 1e6


def test_views_that_differ_are_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Twin, "round", lambda self: 0)
    with pytest.raises(InternalError, match="the twin's views are not the machine's"):
        list(bench(FEW, MANY, lambda said: None))


def test_the_command_prints_rows_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gossip, "ROUNDS_OF_MANY", 1)
    result = CliRunner().invoke(command, ["gossip", "--scale", "small", "--json"])
    rows = json.loads(result.stdout)
    assert [row["what"] for row in rows] == ["to convergence", "a round", "a round of many"]
