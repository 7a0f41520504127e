"""`reefcast-lab experiment` with a toy paper: what is printed, and exit codes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from toy_paper import toy_paper

from reefcast.errors import ConfigurationError
from reefcast_lab.cli import experiment
from reefcast_lab.experiments import registry
from reefcast_lab.experiments.campaign import Claim, Run
from reefcast_lab.experiments.sweep import Ended
from reefcast_lab.experiments.table import Finding


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Run the command with the toy paper; its runs of x = `broken` raise."""

    def called(*arguments, broken=None, exit_code=0):
        toy = {"toy": toy_paper(tmp_path / "toy", broken)}
        monkeypatch.setattr(registry, "papers", lambda: toy)
        results = [] if arguments[0] == "list" else ["--results", str(tmp_path / "results")]
        done = CliRunner().invoke(experiment.command, [*arguments, *results])
        if exit_code is not None:
            assert done.exit_code == exit_code, (done.output, done.exception)
        return done

    return called


@pytest.fixture
def shared_spark(spark, monkeypatch):
    """Let the command take the tests' one session."""
    monkeypatch.setattr(experiment, "_spark", lambda master: contextlib.nullcontext(spark))


def test_list(call):
    named = json.loads(call("list", "--json").stdout)
    assert [row["id"] for row in named] == ["toy/T1", "toy/T2", "toy/T2", "toy/T3"]
    assert named[0] == {
        "id": "toy/T1",
        "metric": "delay, slow over fast",
        "kind": "effect",
        "campaign": "sizes",
        "paper": 0.4,
    }
    assert call("list").stdout.splitlines()[1] == "toy/T2  Fig. 2  delay of fast | s"


@pytest.mark.spark
def test_run_prints_rows_and_runs_nothing_twice(call, shared_spark):
    first = call("run", "toy/T2", "toy/T1", "--json")
    rows = json.loads(first.stdout)
    assert [row["id"] for row in rows] == ["toy/T1", "toy/T2", "toy/T2"]
    fields = "id metric paper ours ratio reproduced note interval explained"
    assert list(rows[0]) == fields.split()
    assert rows[0]["ours"] == pytest.approx(0.5)
    assert rows[0]["reproduced"] is True
    lines = first.stderr.splitlines()
    assert lines.pop(0).startswith("toy: 8 runs, about ")
    assert len(lines) == 8
    assert lines[-1].startswith("8/8 sizes ") and lines[-1].endswith("; about 0 s left")
    second = call("run", "toy/T1", "--seeds", "2")
    assert second.stderr == ""
    assert "toy/T1" in second.stdout and "+50 % ± 0" in second.stdout


@pytest.mark.spark
def test_a_run_that_goes_on_and_its_table(call, shared_spark, tmp_path):
    table = tmp_path / "all.parquet"
    call("run", "toy/T1", "--seeds", "1")
    more = call("run", "toy/T1", "toy/T3", "--seeds", "2", "--out", str(table))
    assert more.stderr.splitlines()[0] == "4 of 10 runs were measured before"
    rows = pq.read_table(table).to_pylist()
    assert {(row["campaign"], row["seed"]) for row in rows} == {
        *(("sizes", seed) for seed in (0, 1)),
        *(("idle", seed) for seed in (0, 1)),
    }
    assert len(rows) == 10 * 4


def test_a_bar_where_somebody_watches(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    runs = [Run("toy", "small", "burst", "spr", 60.0, "", seed) for seed in (3, 4)]
    with experiment._progress(runs, experiment._Estimate(runs, lambda run: 0.5, 1)) as tell:
        tell(Ended(runs[0], 0.5, ""))
    shown = capsys.readouterr().err
    assert "1/2" in shown and "burst 60 spr seed 3" in shown and "left" in shown


def test_notes_are_below_the_table(capsys):
    claim = Claim("toy/T1", "delay [s]", "level", "sizes", "delay", "fast", "", 2.0, "as [3] says")
    experiment.print_rows([Finding(claim, 2.5, None, 1)])
    table, note = capsys.readouterr().out.split("\n\n")
    assert " ".join(table.splitlines()[1].split()) == "toy/T1 delay [s] 2 2.5 1.25 reproduced"
    assert note == "toy/T1, delay [s]: as [3] says\n"


def test_a_note_of_several_rows_is_printed_once(capsys):
    claim = Claim("toy/T1", "delay", "level", "sizes", "delay", "fast", "", 2.0, "far")
    other = dataclasses.replace(claim, metric="queue")
    experiment.print_rows([Finding(each, 2.5, None, 1) for each in (claim, other)])
    assert capsys.readouterr().out.endswith("\n\ntoy/T1, delay; toy/T1, queue: far\n")


@pytest.mark.spark
def test_a_run_that_fails(call, shared_spark, tmp_path):
    done = call("run", "toy/T2", "--json", broken=20, exit_code=1)
    assert json.loads(done.stdout)[0]["ours"] == pytest.approx(21.0)
    start = "reefcast-lab experiment: "
    told = [line for line in done.stderr.splitlines() if line.startswith(start)]
    assert len(told) == 4
    assert told[0].startswith("reefcast-lab experiment: sizes 20 ")
    assert "ValueError: no such size as 20" in told[0]
    assert done.stderr.count("FAILED") == 4


@pytest.mark.spark
def test_a_report(call, shared_spark, tmp_path):
    """It uses all campaigns, also those that no chosen claim needs; without a run there is no
    page."""
    page = tmp_path / "docs" / "toy.md"
    arguments = ("report", "toy", "--seeds", "1", "--out", str(page.parent))
    call(*arguments, broken=20, exit_code=1)
    assert not page.exists()
    assert call(*arguments).stdout == f"{page}\n{page.with_name('README.md')}\n"
    assert "| idle | 5 " in page.read_text(encoding="utf-8")
    index = page.with_name("README.md").read_text(encoding="utf-8")
    assert "| A toy | [toy.md](toy.md) | small | 4 | 1 | 0 | 2 | 1 |" in index


@pytest.mark.spark
def test_a_report_of_what_is_finished(call, shared_spark, tmp_path):
    page = tmp_path / "docs" / "toy.md"
    arguments = ("report", "toy", "--seeds", "1", "--out", str(page.parent))
    with pytest.raises(ConfigurationError, match="nothing of toy"):
        raise call(*arguments, "--finished", exit_code=None).exception
    told = call("report", "--out", str(page.parent), "--finished")
    assert "nothing of toy at scale small" in told.stderr and "stays as it is" in told.stderr
    assert "There is no page yet of toy/T1, toy/T2, toy/T3" in page.with_name(
        "README.md"
    ).read_text(encoding="utf-8")
    call("run", "toy/T1", "--seeds", "1")
    call(*arguments, "--finished")
    text = page.read_text(encoding="utf-8")
    assert "**Not all has been run yet**" in text and "of idle (preset) at 5" in text
    assert "| idle | 5 " not in text
    call(*arguments)
    text = page.read_text(encoding="utf-8")
    assert "Not all" not in text and "--finished" not in text


def test_what_is_not_known(call):
    with pytest.raises(ConfigurationError, match="no experiment 'toy/T9'"):
        raise call("run", "toy/T9", exit_code=None).exception
    with pytest.raises(ConfigurationError, match="no paper 'toy/T1'"):
        raise call("report", "toy/T1", exit_code=None).exception
    assert call("run", "toy", "--scale", "huge", exit_code=2)


def test_a_failed_run_in_words():
    run = Run("toy", "small", "burst", "spr", 60.0, "half", 3)
    assert experiment.name(run) == "burst 60 spr half seed 3"


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.1234, "0.123 s"), (12.6, "13 s"), (89.9, "90 s"), (3600.0, "60 min")]
)
def test_durations(seconds, told):
    assert experiment.duration(seconds) == told


@pytest.mark.spark
def test_octopia_at_the_small_scale_shows_what_its_structure_makes_certain(
    shared_spark, tmp_path, monkeypatch
):
    """These are the real O2 and O3, whose counts no cost model decides."""
    monkeypatch.delenv("REEFCAST_STOCKS", raising=False)
    ids = ("octopia/O2", "octopia/O3")
    options = ("--scale", "small", "--seeds", "1", "--results", str(tmp_path), "--json")
    done = CliRunner().invoke(experiment.command, ["run", *ids, *options])
    assert done.exit_code == 0, (done.output, done.exception)
    stored, messages = json.loads(done.stdout)
    assert (stored["id"], messages["id"]) == ids
    assert stored["ours"] == pytest.approx(4 / 56 - 1) and stored["reproduced"] is True
    assert messages["ours"] == pytest.approx(217 / 3 - 1) and messages["reproduced"] is True
    assert "structural" in stored["note"]


@pytest.mark.parametrize("command", ["run", "report"])
def test_help_names_the_file_of_real_quotes(command):
    assert "REEFCAST_STOCKS" in CliRunner().invoke(experiment.command, [command, "--help"]).stdout
