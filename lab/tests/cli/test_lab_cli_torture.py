"""`reefcast-lab torture`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from reefcast.cli.exit_codes import NO
from reefcast.sessions.seen import Seen
from reefcast_lab.cli.torture import command


def _torture(*options: str) -> Result:
    return CliRunner().invoke(command, [*options])


@pytest.mark.long
def test_the_figures_of_some_seeds() -> None:
    result = _torture("--seeds", "6", "--first-seed", "40", "--json")
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert figures["runs"] == 6
    assert figures["failures"] == 0
    assert figures["failed"] == []
    assert min(figures["kills"], figures["confirmed"], figures["handed"]) > 0
    assert len(figures["routings"]) > 1
    assert (
        f"digest          {figures['digest']}"
        in _torture("--seeds", "6", "--first-seed", "40").stdout
    )


def test_another_process_runs_the_same_to_the_byte() -> None:
    """Neither the order of its sets nor the number of processes makes a difference."""
    options = ["--seeds", "4", "--first-seed", "17", "--jobs", "2", "--json"]
    program = "from reefcast_lab.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "torture", *options],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        check=True,
    )
    here = json.loads(_torture(*options[:4], "--json").stdout)
    there = json.loads(done.stdout)
    assert there["digest"] == here["digest"]
    assert there["live_runs"] == here["live_runs"] == 1


def test_a_failure_tells_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seen, "__contains__", lambda self, id: False)
    result = _torture("--seeds", "6", "--routing", "acyclic")
    assert result.exit_code == NO
    (again, *_) = re.findall(r"^  reefcast-lab torture (.*)$", result.stdout, re.MULTILINE)
    single = _torture(*again.split())
    assert single.exit_code == NO
    assert "routing acyclic: " in single.stdout
    assert "confirm=1" in single.stdout
    assert "broken: P2: session s" in single.stdout


def test_a_routing_that_cannot_confirm_is_refused() -> None:
    result = _torture("--routing", "gossip")
    assert result.exit_code == 2
    assert "routing 'gossip' does not confirm publications; choose one of acyclic" in result.stderr
