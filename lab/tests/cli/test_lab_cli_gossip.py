"""`reefcast-lab gossip`, live and small."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("matplotlib")

from children import Children
from reefcast_lab.cli.gossip import command
from reefcast_lab.demos import gossip
from reefcast_lab.demos.gossip_figures import Figures, Moment


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children("reefcast_lab") as children:
        yield children


async def test_small_and_live(tmp_path: Path, children: Children) -> None:
    """Fifteen peers run in three processes, one of which is killed with five peers. A round is
    several times as long as its work, so that a busy machine keeps up."""
    code, output, errors = await children.run(
        *("gossip", "--peers", 15, "--processes", 3, "--topics", 6, "--interests", 3),
        *("--kill", 5, "--rounds", 15, "--round", 0.3, "--rate", 20, "--out", tmp_path, "--json"),
    )
    assert code == 0, output + errors
    told = json.loads(output)
    assert told["passed"] and told["killed"] == 5
    assert told["missing"] == told["twice"] == told["unexpected"] == 0
    assert told["published"] > 20 and told["due"] > told["published"]
    for moment in (told["settled"], told["aligned"], told["ended"]):
        # Peers that join at one instant may be in two pieces, until the waves show it; later, a
        # connection may close in one process after the other process was looked at.
        assert moment["topics"] == 6
        assert moment["connected"] >= 5 or moment is told["settled"]
        assert 0 < moment["connections"] < moment["unshared"]
    # What peers count is what there is, but for what opens or closes while it is looked at.
    if told["aligned"]["sockets"] is not None:
        assert abs(told["aligned"]["sockets"] - told["aligned"]["connections"]) <= 5
    assert told["ended"]["connections"] < told["aligned"]["connections"]
    assert "5 peers are killed" in errors
    page = await asyncio.to_thread(Path(told["report"]).read_text, encoding="utf-8")
    assert told["conclusions"][-1] in page


def some_figures(missing: int) -> Figures:
    moment = Moment(10, 10, 20, 12, 4, 3, 3)
    return Figures(
        peers=9,
        killed=2,
        settled=moment,
        aligned=replace(moment, connections=8),
        ended=moment,
        peak=11,
        joining_s=1.0,
        published=30,
        due=100,
        missing=missing,
        twice=0,
        unexpected=0,
        prompt_before=1.0,
        prompt_after=0.99,
        recovery_s=0.5,
        p50_us=1.0,
        p99_us=2.0,
        longest_us=3,
    )


@pytest.mark.parametrize(("missing", "code"), [(0, 0), (1, 1)])
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_exit_code_and_output(
    monkeypatch: pytest.MonkeyPatch, missing: int, code: int, json_flag: list[str]
) -> None:
    monkeypatch.setattr(gossip, "run_gossip", lambda plan, tell: some_figures(missing))
    result = CliRunner().invoke(command, ["--out", "somewhere", *json_flag])
    assert result.exit_code == code
    if json_flag:
        told = json.loads(result.stdout)
        assert told["passed"] is (not missing)
        assert told["aligned"]["connections"] == 8
        assert told["report"] == "somewhere/report.html"
    else:
        assert "topics in one piece" in result.stdout
        assert "report: somewhere/report.html" in result.stdout


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--peers", "5"], "two peers must survive"),
        (["--interests", "30"], "no more than there are"),
        (["--processes", "1"], "a process of their own"),
        (["--peers", "5000"], "peers must be between 2 and 1000"),
    ],
)
def test_what_cannot_be_is_refused(wrong: list[str], says: str) -> None:
    result = CliRunner().invoke(command, wrong)
    assert result.exit_code == 1
    assert says in str(result.exception)
