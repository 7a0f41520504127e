"""`reefcast-lab burst`, live and small, and its exit code when something was lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("matplotlib")

from reefcast_lab.cli.burst import command
from reefcast_lab.demos import burst
from reefcast_lab.demos.burst_figures import AtBroker, Figures, Verdict


@pytest.mark.long
def test_small_and_live(tmp_path: Path) -> None:
    """Seven processes run twice: nothing is lost or doubled. Active covering sends what the monitor
    had covered, incremental covering does not send most of it."""
    sizes = ("--subscriptions", "150", "--rate", "200", "--visits", "2", "--stay", "0.4")
    done = subprocess.run(
        [sys.executable, "-m", "reefcast_lab", "burst", *sizes, "--out", str(tmp_path), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["passed"]
    active, incremental = told["runs"]
    assert (active["covering"], incremental["covering"]) == ("active", "incremental")
    for run in told["runs"]:
        assert run["published"] > 100
        assert run["verdict"]["expected"] > run["published"]
        assert run["prt_with"] < 7 * 60
        assert 0 < run["p50_us"] <= run["p99_us"] <= run["longest_us"]
    at_b2 = [each for each in active["brokers"] if each["broker"] == "b2"]
    assert at_b2[0]["nrs"] == 2 * 150
    assert at_b2[0]["control"] == 2 * (2 * 150 + 2)
    assert incremental["nrs"] < active["nrs"] / 2
    assert incremental["control"] < active["control"]
    assert "active: visit 2 of 2" in done.stderr
    page = Path(told["report"]).read_text(encoding="utf-8")
    assert told["conclusions"][0] in page


def a_figure(covering: str, lost: int) -> Figures:
    return Figures(
        covering=covering,
        published=10,
        delivered=40 - lost,
        verdict=Verdict(40, lost, 0, 0),
        p50_us=1.0,
        p99_us=2.0,
        longest_us=3,
        rest_p50_us=1.0,
        rest_p99_us=2.0,
        rest_longest_us=2,
        longest_coming_us=[3],
        longest_going_us=[3],
        coming_s=[0.1],
        going_s=[0.1],
        copies=2.0,
        false_positives=0,
        ghosts=0,
        settling_s=1.0,
        late_s=0.0,
        brokers=[AtBroker("b1", 4, 3, 2, 1)],
    )


@pytest.mark.parametrize(("lost", "code"), [(0, 0), (1, 1)])
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_exit_code_and_output(
    monkeypatch: pytest.MonkeyPatch, lost: int, code: int, json_flag: list[str]
) -> None:
    found = [a_figure("active", 0), a_figure("incremental", lost)]
    monkeypatch.setattr(burst, "run_burst", lambda options, tell: found)
    result = CliRunner().invoke(command, ["--out", "somewhere", *json_flag])
    assert result.exit_code == code
    if json_flag:
        told = json.loads(result.stdout)
        assert told["passed"] is (not lost)
        assert told["runs"][0]["control"] == 4
        assert told["report"] == "somewhere/report.html"
    else:
        assert f"{lost}, 0, 0" in result.stdout
        assert "report: somewhere/report.html" in result.stdout


def test_too_few_subscriptions_are_refused() -> None:
    result = CliRunner().invoke(command, ["--subscriptions", "3"])
    assert result.exit_code == 1
    assert "between 5 and" in str(result.exception)
