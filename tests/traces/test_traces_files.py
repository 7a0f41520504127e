"""Trace files: schema, sampling, what is there after an abrupt end."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from reefcast.errors import ConfigurationError
from reefcast.traces.files import TraceRecorder, read_run, write_run
from reefcast.traces.vocabulary import KINDS


def test_rows_come_back_as_they_were_with_the_documented_schema(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path, "b1")
    recorder.row("publish", 5, "p", 1, 100)
    recorder.row("discard", 6, "p", 1, None, "unwanted")
    recorder.flush()
    recorder.row("publish", 7, "p", 2, 101)
    recorder.flush()
    table = pq.read_table(tmp_path / "publish")
    assert table.schema.names == [column.name for column in KINDS["publish"]]
    assert [str(type) for type in table.schema.types] == ["int64", "string", "string"] + [
        "int64"
    ] * 2
    assert table.sort_by("seq").to_pylist() == [
        {"time_us": 5, "broker": "b1", "publisher": "p", "seq": 1, "size_bytes": 100},
        {"time_us": 7, "broker": "b1", "publisher": "p", "seq": 2, "size_bytes": 101},
    ]
    assert pq.read_table(tmp_path / "discard").to_pylist()[0]["link"] is None


def test_what_was_flushed_is_whole_without_any_closing(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path, "b1")
    recorder.row("queue", 1, None, 3)
    recorder.flush()
    recorder.row("queue", 2, None, 4)  # never flushed: as after kill -9
    assert pq.read_table(tmp_path / "queue").num_rows == 1
    assert [p.name for p in (tmp_path / "queue").iterdir()] == ["b1-000000.parquet"]


def test_a_row_of_the_wrong_width_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        TraceRecorder(tmp_path, "b1").row("queue", 1)


def test_all_brokers_sample_the_same_publications(tmp_path: Path) -> None:
    one = TraceRecorder(tmp_path, "b1", "sampled", 0.25)
    two = TraceRecorder(tmp_path, "b2", "sampled", 0.25)
    ids = [("p", seq) for seq in range(4000)]
    chosen = [id for id in ids if one.wants(id)]
    assert chosen == [id for id in ids if two.wants(id)]
    assert 800 < len(chosen) < 1200


@pytest.mark.parametrize(
    ("level", "snapshots", "details", "wants"),
    [
        ("off", False, False, False),
        ("counters", True, False, False),
        ("sampled", True, True, False),
        ("full", True, True, True),
    ],
)
def test_levels(tmp_path: Path, level: str, snapshots: bool, details: bool, wants: bool) -> None:
    recorder = TraceRecorder(tmp_path, "b1", level, 0.0)
    assert (recorder.snapshots, recorder.details) == (snapshots, details)
    assert recorder.wants(("p", 1)) is wants


def test_an_unknown_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="none of off"):
        TraceRecorder(tmp_path, "b1", "loud")


def test_the_run_is_described_beside_its_rows(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no trace"):
        read_run(tmp_path)
    write_run(tmp_path, {"simulated": True, "seed": 7})
    assert read_run(tmp_path) == {"simulated": True, "seed": 7}


def test_a_directory_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(ConfigurationError, match="no trace can be written to"):
        TraceRecorder(tmp_path / "file" / "trace", "b1")
    with pytest.raises(ConfigurationError, match="no trace can be written to"):
        write_run(tmp_path / "file", {})


@pytest.mark.parametrize("odd", [2**63, -(2**63) - 1])
def test_a_number_that_no_column_holds_costs_its_row_alone(tmp_path: Path, odd: int) -> None:
    recorder = TraceRecorder(tmp_path, "b1")
    for seq in (1, odd, 3):
        recorder.row("publish", 5, "p", seq, 100)
    recorder.row("queue", 1, None, odd)
    recorder.row("table", 1, "PRT", 2**63 - 1)
    assert recorder.write(recorder.drain()) == 2
    seqs = [row["seq"] for row in pq.read_table(tmp_path / "publish").to_pylist()]
    assert seqs == [1, 3]
    assert pq.read_table(tmp_path / "table").num_rows == 1
    assert not list(tmp_path.glob("queue/*"))


def test_what_was_written_before_an_error_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = TraceRecorder(tmp_path, "b1")
    recorder.row("publish", 5, "p", 1, 100)
    recorder.row("table", 1, "PRT", "no number")
    with pytest.raises(ValueError, match="no number"):
        recorder.flush()
    recorder.row("publish", 6, "p", 2, 100)
    recorder.flush()
    assert pq.read_table(tmp_path / "publish").num_rows == 2
