"""Keys of results: what makes old results invalid, and what does not."""

from __future__ import annotations

import dataclasses
import os

import pyarrow.parquet as pq
import pytest
from toy_paper import toy_paper

from reefcast.errors import LocalError
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.store import Store, check_version, is_whole, version_here, write

RUN = Run("toy", "small", "sizes", "fast", 10.0, "", 0)


def key(tmp_path, run=RUN):
    return Store(tmp_path / "results", toy_paper(tmp_path / "toy")).file(run)


def test_where_results_are(tmp_path):
    file = key(tmp_path)
    assert file.parent == tmp_path / "results" / "toy" / "small" / "sizes"
    assert file.suffix == ".parquet"


@pytest.mark.parametrize(
    "other",
    [
        RUN._replace(seed=1),
        RUN._replace(variant="half"),
        RUN._replace(x=11.0),
        RUN._replace(routing="slow"),
        RUN._replace(scale="paper"),
    ],
)
def test_another_run_has_another_file(tmp_path, other):
    assert key(tmp_path, other) != key(tmp_path)


def test_whole_numbers_and_others_are_one_size(tmp_path):
    assert key(tmp_path, RUN._replace(x=10)) == key(tmp_path)


def test_other_parameters_make_results_old_but_comments_do_not(tmp_path):
    first = key(tmp_path)
    parameters = tmp_path / "toy" / "parameters.toml"
    parameters.write_text("# of a link\nlatency_ms =   1.0\n", encoding="utf-8")
    assert key(tmp_path) == first
    parameters.write_text("latency_ms = 2.0\n", encoding="utf-8")
    assert key(tmp_path) != first


def test_real_data_make_results_of_generated_ones_old(tmp_path):
    paper, data = toy_paper(tmp_path / "toy"), tmp_path / "stocks.csv"
    given = dataclasses.replace(paper, data=lambda: str(data))
    files = [Store(tmp_path, paper).file(RUN)]
    for text in ("IBM,1", "IBM,2"):
        data.write_text(text, encoding="utf-8")
        files.append(Store(tmp_path, given).file(RUN))
    assert len(set(files)) == 3


def test_a_file_is_whole_or_not_there(tmp_path):
    file = key(tmp_path)
    with pytest.raises(LocalError, match=r"delay at 2\.0 is nan"):
        write(file, RUN, [Measure("delay", 1.0, 3.0), Measure("delay", 2.0, float("nan"))])
    assert not file.exists()
    write(file, RUN, [Measure("delay", 1.0, 3.0)])
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert pq.read_table(file).to_pylist() == [
        {**RUN._asdict(), "metric": "delay", "at": 1.0, "value": 3.0}
    ]


def test_a_write_that_breaks_off_leaves_nothing(tmp_path, monkeypatch):
    file = key(tmp_path)
    write_table = pq.write_table

    def full(table, out):
        write_table(table, out)
        out.truncate(out.tell() // 2)
        raise OSError(28, "no space left")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="no space left"):
        write(file, RUN, [Measure("delay", 1.0, 3.0)])
    assert list(file.parent.iterdir()) == []


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    file, order = key(tmp_path), []
    fsync = os.fsync

    def watched(number):
        (started,) = file.parent.iterdir()
        order.append((started.name != file.name, is_whole(started)))
        fsync(number)

    monkeypatch.setattr(os, "fsync", watched)
    write(file, RUN, [Measure("delay", 1.0, 3.0)])
    assert order == [(True, True)]


@pytest.mark.parametrize("left", [0, 3, 100, -1])
def test_a_damaged_file_is_missing(tmp_path, left):
    store = Store(tmp_path / "results", toy_paper(tmp_path / "toy"))
    file = store.file(RUN)
    write(file, RUN, [Measure("delay", 1.0, 3.0)])
    assert store.missing([RUN]) == []
    file.write_bytes(file.read_bytes()[:left])
    assert store.missing([RUN]) == [RUN]
    write(file, RUN, [Measure("delay", 1.0, 3.0)])
    assert store.missing([RUN]) == []


def test_what_a_worker_would_measure_with(tmp_path):
    """It must equal what the key was made with; an error says what does not."""
    paper, data = toy_paper(tmp_path / "toy"), tmp_path / "stocks.csv"
    given = dataclasses.replace(paper, data=lambda: str(data), data_variable="STOCKS")
    data.write_text("IBM,1", encoding="utf-8")
    campaign = paper.campaign("sizes")
    expected = version_here(given, campaign)
    check_version(given, campaign, expected)
    with pytest.raises(LocalError, match=r"take the data of the generator.*give STOCKS"):
        check_version(dataclasses.replace(given, data=str), campaign, expected)
    with pytest.raises(LocalError, match="the sources changed while the sweep runs"):
        check_version(given, campaign, expected._replace(code="0123"))
    (tmp_path / "toy" / "parameters.toml").write_text("latency_ms = 3.0\n", encoding="utf-8")
    with pytest.raises(LocalError, match="or the parameters"):
        check_version(given, campaign, expected)
