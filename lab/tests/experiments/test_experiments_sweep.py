"""Sweeps over Spark tasks: each run runs once, failures are reported, and lost runs are tried
again."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_paper import HELD_S, held, toy_paper

from reefcast_lab.experiments.campaign import RUN_S
from reefcast_lab.experiments.evaluation import evaluation
from reefcast_lab.experiments.sweep import _told, groups, patient


def toy(tmp_path, broken=None):
    paper = toy_paper(tmp_path / "toy", broken)
    return evaluation(tmp_path / "results", paper, paper.campaigns[:1], "small", None)


@pytest.mark.spark
def test_a_sweep_and_what_is_left_for_a_second_one(spark, tmp_path):
    whole, told = toy(tmp_path), []
    assert whole.sweep(spark, told.append) == []
    assert sorted(ended.run for ended in told) == sorted(whole.runs)
    rows = whole.rows(spark, whole.paper.claims[:3])
    assert [row.ours for row in rows] == [pytest.approx(0.5), pytest.approx(31.0), None]

    whole.store.file(whole.runs[3]).unlink()
    told.clear()
    assert toy(tmp_path).sweep(spark, told.append) == []
    assert [ended.run for ended in told] == [whole.runs[3]]
    assert toy(tmp_path).sweep(spark, told.append) == []
    assert len(told) == 1

    (tmp_path / "toy" / "parameters.toml").write_text("latency_ms = 3.0\n", encoding="utf-8")
    again = toy(tmp_path)
    assert again.store.missing(again.runs) == list(again.runs)


@pytest.mark.spark
def test_runs_that_are_prepared_together_share_a_task(spark, tmp_path):
    """One that raises fails alone, and a part that is missing is all that is run."""
    paper = toy_paper(tmp_path / "toy", broken=20)
    sizes, *others = paper.campaigns
    together = dataclasses.replace(sizes, together=lambda run: run.seed)
    paper = dataclasses.replace(paper, campaigns=(together, *others))
    whole = evaluation(tmp_path / "results", paper, paper.campaigns, "small", None)
    shared = groups(paper, whole.runs)
    assert [[run.seed for run in some] for some in shared] == [[0] * 4, [1] * 4, [0]]
    told = []
    failed = whole.sweep(spark, told.append)
    assert sorted(ended.run for ended in told) == sorted(whole.runs)
    assert {ended.run.x for ended in failed} == {20} and len(failed) == 4
    assert "no such size as 20" in failed[0].error
    assert {run.x for run in whole.store.missing(whole.runs)} == {20}
    alone = toy(tmp_path)
    assert alone.sweep(spark, told.append) == []
    assert whole.table().num_rows == alone.table().num_rows + 4


def test_a_text_says_what_runs_have_in_common_across_campaigns(tmp_path):
    paper = toy_paper(tmp_path / "toy")
    runs = [run for campaign in paper.campaigns for run in campaign.runs("small")]
    told = {str: lambda run: f"seed {run.seed}", int: lambda run: run.seed}
    shared = {}
    for kind, together in told.items():
        campaigns = tuple(dataclasses.replace(one, together=together) for one in paper.campaigns)
        shared[kind] = groups(dataclasses.replace(paper, campaigns=campaigns), runs)
    assert {run.seed for run in runs} == {0, 1} and len({run.campaign for run in runs}) == 2
    assert len(shared[str]) == 2 and sorted(run for some in shared[str] for run in some) == sorted(
        runs
    )
    assert all(len({run.campaign for run in some}) == 1 for some in shared[int])


@pytest.mark.spark
def test_a_run_that_raises_does_not_stop_the_others(spark, tmp_path):
    half, told = toy(tmp_path, broken=20), []
    failed = half.sweep(spark, told.append)
    assert {(ended.run.x, ended.run.seed) for ended in failed} == {(20, 0), (20, 1)}
    assert failed[0].error.startswith("ValueError: no such size as 20 (toy_paper.py, line ")
    assert len(told) == len(half.runs) and len(half.store.missing(half.runs)) == len(failed) == 4
    (row,) = half.rows(spark, half.paper.claims[1:2])
    assert row.ours == pytest.approx(21.0)


@pytest.mark.spark
def test_a_damaged_file_is_measured_again(spark, tmp_path):
    whole, told = toy(tmp_path), []
    whole.sweep(spark, lambda ended: None)
    file = whole.store.file(whole.runs[0])
    file.write_bytes(file.read_bytes()[:-20])
    (row,) = whole.rows(spark, whole.paper.claims[:1])
    assert row.ours == pytest.approx(0.5)  # of what is whole
    assert whole.sweep(spark, told.append) == []
    assert [ended.run for ended in told] == [whole.runs[0]]


@pytest.mark.spark
def test_how_long_runs_took_is_kept(spark, tmp_path):
    whole = toy(tmp_path)
    whole.sweep(spark, lambda ended: None)
    seconds = [v.value for v in whole.measured(spark).values if v.metric == RUN_S]
    assert len(seconds) == len(whole.runs) and min(seconds) > 0


@pytest.mark.spark
def test_a_worker_that_would_take_other_data_says_so(spark, tmp_path, monkeypatch):
    """The worker was started before the variable was set."""
    data = tmp_path / "stocks.csv"
    data.write_text("IBM,1", encoding="utf-8")
    whole = toy(tmp_path)
    paper = dataclasses.replace(
        whole.paper, data=lambda: os.environ.get("TOY_STOCKS", ""), data_variable="TOY_STOCKS"
    )
    whole = dataclasses.replace(whole, store=dataclasses.replace(whole.store, paper=paper))
    monkeypatch.setenv("TOY_STOCKS", str(data))
    failed = whole.sweep(spark, lambda ended: None)
    assert len(failed) == len(whole.runs) == len(whole.store.missing(whole.runs))
    assert "give TOY_STOCKS to the workers too" in failed[0].error


def test_a_task_does_not_measure_with_other_sources(tmp_path):
    whole = toy(tmp_path)
    run = whole.runs[0]
    version = whole.store.versions[run.campaign]
    (took,) = _told(run, version._replace(code="0123"), whole.paper)
    assert took["metric"] == RUN_S
    assert "the sources changed while the sweep runs" in took["error"]
    *measured, took = _told(run, version, whole.paper)
    assert took["error"] == "" and len(measured) == 3


@pytest.mark.spark
def test_what_cannot_be_kept_is_told(spark, tmp_path):
    """The measures came, but one is no number, or there is no room for them."""
    whole = toy(tmp_path)
    (whole.store.folder / "toy").parent.mkdir(parents=True)
    (whole.store.folder / "toy").write_text("in the way", encoding="utf-8")
    failed = whole.sweep(spark, lambda ended: None)
    assert len(failed) == len(whole.runs)
    assert failed[0].error.startswith(("NotADirectoryError", "FileExistsError"))


@pytest.mark.spark
def test_one_table_of_all_that_was_measured(spark, tmp_path):
    whole = toy(tmp_path)
    whole.sweep(spark, lambda ended: None)
    whole.store.file(whole.runs[0]).unlink()
    rows = whole.table().to_pylist()
    assert len(rows) == 4 * (len(whole.runs) - 1)
    second = whole.runs[1]
    delay = {"fast": 2.0, "slow": 3.0}[second.routing] * (second.x + second.seed)
    assert rows[0] == second._asdict() | {"metric": "delay", "at": 0.0, "value": delay}
    assert [row["metric"] for row in rows[:4]] == ["delay", "queue", "queue", RUN_S]


@pytest.mark.spark
def test_nothing_goes_on_after_ctrl_c(spark, tmp_path):
    """Two runs occupy both cores when the first of the others has ended."""
    paper = held(toy_paper(tmp_path / "toy"), tmp_path / "gate")
    whole = evaluation(tmp_path / "results", paper, paper.campaigns[:1], "small", None)

    def interrupted(ended):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole.sweep(spark, interrupted)
    running, until = spark.sparkContext.statusTracker().getActiveJobsIds, time.monotonic() + 60
    while running() and time.monotonic() < until:
        time.sleep(0.1)
    assert list(running()) == []
    begun = (tmp_path / "begun").read_text(encoding="utf-8").splitlines()
    assert len(begun) < len(whole.runs)


def test_local_masters_get_retries():
    assert [patient(f"local[{n}]") for n in ("2", "*")] == ["local[2,3]", "local[*,3]"]
    assert patient("local") == "local[1,3]"
    others = ("local[2,5]", "spark://h:7077", "local-cluster[2,1,1024]")
    assert tuple(map(patient, others)) == others


SCRIPT = """
import os, sys
from pathlib import Path
from reefcast_lab.experiments.campaign import Campaign, Measure, Paper, Run
from reefcast_lab.experiments.evaluation import evaluation
from reefcast_lab.experiments.sweep import patient
from reefcast.pipeline.session import spark_session

folder = Path(sys.argv[1])

def runs(scale):
    names = ("dies", "full", "hopeless", "deadly", "well")
    return [Run("toy", scale, "deaths", name, 1.0, "", 0) for name in names]

def measure(run):
    tried = folder / run.routing
    times = int(tried.read_text()) if tried.exists() else 0
    tried.write_text(str(times + 1))
    if run.routing == "deadly" or times == 0 and run.routing == "dies":
        os._exit(1)
    if times == 0 and run.routing == "full" or run.routing == "hopeless":
        raise OSError(28, "no space left")
    return [Measure("times", 0.0, float(times))]

(folder / "parameters.toml").write_text("")
campaign = Campaign("deaths", "", runs, measure)
paper = Paper("toy", "", (campaign,), (), (), folder / "parameters.toml")
whole = evaluation(folder / "results", paper, paper.campaigns, "small", None)
with spark_session("deaths", patient("local[1]")) as spark:
    for ended in sorted(whole.sweep(spark, lambda ended: None)):
        print(ended.run.routing, ended.error)
    values = whole.measured(spark).values
    print([(value.routing, value.value) for value in values if value.metric == "times"])
"""


@pytest.mark.soak
@pytest.mark.spark
def test_a_task_that_dies_or_finds_no_room_is_tried_again(java: None, tmp_path: Path) -> None:
    script = tmp_path / "deaths.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, check=False, timeout=600
    )
    *failed, points = done.stdout.splitlines()
    deadly, hopeless = failed
    assert deadly.startswith("deadly Spark gave up on it: Job aborted due to stage"), done.stderr
    assert hopeless.startswith("hopeless OSError: [Errno 28] no space left")
    assert points == "[('dies', 1.0), ('full', 1.0), ('well', 0.0)]"
    for name in ("deadly", "hopeless"):
        assert (tmp_path / name).read_text(encoding="utf-8") == "3"


KILLED = """
import sys
from pathlib import Path
folder = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])
from toy_paper import held, toy_paper
from reefcast_lab.experiments.evaluation import evaluation
from reefcast.pipeline.session import spark_session

paper = held(toy_paper(folder / "toy"), folder / "gate")
whole = evaluation(folder / "results", paper, paper.campaigns[:1], "small", None)
with spark_session("killed", "local[3]") as spark:
    whole.sweep(spark, lambda ended: None)
"""


@pytest.mark.long
@pytest.mark.spark
def test_a_sweep_that_is_killed_goes_on_where_it_stopped(spark, tmp_path):
    """Six runs had ended and two were under way; those two run again."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED, encoding="utf-8")
    command = (sys.executable, script, tmp_path, Path(__file__).parent)
    paper = held(toy_paper(tmp_path / "toy"), tmp_path / "gate")
    whole = evaluation(tmp_path / "results", paper, paper.campaigns[:1], "small", None)
    with subprocess.Popen(command, start_new_session=True) as sweeping:
        try:
            until = time.monotonic() + HELD_S
            while len(whole.store.missing(whole.runs)) > 2 and time.monotonic() < until:
                time.sleep(0.1)
        finally:
            os.killpg(sweeping.pid, signal.SIGKILL)  # with its Java process
    under_way = {run for run in whole.runs if (run.x, run.seed) == (10, 1)}
    assert set(whole.store.missing(whole.runs)) == under_way

    (tmp_path / "gate").touch()
    told = []
    assert whole.sweep(spark, told.append) == []
    assert {ended.run for ended in told} == under_way
    begun = (tmp_path / "begun").read_text(encoding="utf-8").split("\n")
    assert max(begun.count(line) for line in begun if not line.startswith("10 ")) == 1
    (row,) = whole.rows(spark, whole.paper.claims[:1])
    assert row.ours == pytest.approx(0.5)
