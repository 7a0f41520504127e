"""Sweeps over Spark tasks: each run once, failures told, what died is tried again."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from toy_paper import toy_paper

from reefcast.experiments.campaign import RUN_S
from reefcast.experiments.evaluation import evaluation
from reefcast.experiments.sweep import Work, _task, patient


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
    """It was started before the variable was set."""
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


class Told:
    """Stands for Spark's accumulator."""

    def __init__(self):
        self.ends = []

    def add(self, ends):
        self.ends += ends


def test_a_task_does_not_measure_with_other_sources(tmp_path):
    whole, told = toy(tmp_path), Told()
    run = whole.runs[0]
    file, version = whole.store.file(run), whole.store.versions[run.campaign]
    _task(Work(run, file, version._replace(code="0123")), whole.paper, told)
    assert "the sources changed while the sweep runs" in told.ends[0].error
    assert not file.exists()
    _task(Work(run, file, version), whole.paper, told)
    assert told.ends[1].error == "" and file.exists()


def test_local_masters_get_retries():
    assert [patient(f"local[{n}]") for n in ("2", "*")] == ["local[2,3]", "local[*,3]"]
    others = ("local[2,5]", "spark://h:7077", "local-cluster[2,1,1024]")
    assert tuple(map(patient, others)) == others


SCRIPT = """
import os, sys
from pathlib import Path
from reefcast.experiments.campaign import Campaign, Measure, Paper, Run
from reefcast.experiments.evaluation import evaluation
from reefcast.experiments.sweep import patient
from reefcast.pipeline.session import spark_session

folder = Path(sys.argv[1])

def runs(scale):
    return [Run("toy", scale, "deaths", name, 1.0, "", 0) for name in ("dies", "full", "hopeless")]

def measure(run):
    tried = folder / run.routing
    times = int(tried.read_text()) if tried.exists() else 0
    tried.write_text(str(times + 1))
    if times == 0 and run.routing == "dies":
        os._exit(1)
    if times == 0 or run.routing == "hopeless":
        raise OSError(28, "no space left")
    return [Measure("times", 0.0, float(times))]

(folder / "parameters.toml").write_text("")
campaign = Campaign("deaths", "", runs, measure)
paper = Paper("toy", "", (campaign,), (), (), folder / "parameters.toml")
whole = evaluation(folder / "results", paper, paper.campaigns, "small", None)
with spark_session("deaths", patient("local[1]")) as spark:
    for ended in whole.sweep(spark, lambda ended: None):
        print(ended.run.routing, ended.error)
    values = whole.measured(spark).values
    print([(value.routing, value.value) for value in values if value.metric == "times"])
"""


@pytest.mark.spark
def test_a_task_that_dies_or_finds_no_room_is_tried_again(java: None, tmp_path: Path) -> None:
    script = tmp_path / "deaths.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, check=False, timeout=120
    )
    failed, points = done.stdout.splitlines()
    assert failed.startswith("hopeless OSError: [Errno 28] no space left"), done.stderr
    assert points == "[('dies', 1.0), ('full', 1.0)]"
    assert (tmp_path / "hopeless").read_text(encoding="utf-8") == "3"
