"""The files of the log of requests."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from reefcast.errors import ConfigurationError
from reefcast.history import request_log
from reefcast.history.request_log import RequestLog


def rows(directory: Path) -> list[tuple[int, str, str]]:
    found = []
    for file in sorted(directory.glob("[!.]*.parquet")):
        table = pq.read_table(file)
        found += list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
    return found


def test_a_row_for_each_topic(tmp_path: Path) -> None:
    for broker in ("b1", "b1-1"):
        log = RequestLog(tmp_path, broker)
        log.asked(5, ("x", "y"))
        log.write(log.drain())
        log.asked(6, ("x",))
        log.write(log.drain())
        log.write(log.drain())
    assert sorted(rows(tmp_path)) == [
        *((5, "b1", "x"), (5, "b1", "y"), (5, "b1-1", "x"), (5, "b1-1", "y")),
        *((6, "b1", "x"), (6, "b1-1", "x")),
    ]
    assert len(list(tmp_path.iterdir())) == 4, "nothing to write, no file"


def test_a_broker_that_was_killed_goes_on_behind_its_files(tmp_path: Path) -> None:
    log = RequestLog(tmp_path, "b1")
    log.asked(1, ("x",))
    log.write(log.drain())
    (tmp_path / ".b1-000001.parquet").write_bytes(b"cut off")
    log = RequestLog(tmp_path, "b1")
    log.asked(2, ("x",))
    log.write(log.drain())
    assert rows(tmp_path) == [(1, "b1", "x"), (2, "b1", "x")]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("b1-000000.parquet", "b1-000001.parquet"),
    ]


def test_old_files_go_but_not_those_of_others(tmp_path: Path) -> None:
    for broker in ("b1", "b1-1"):
        log = RequestLog(tmp_path, broker)
        for time_us in (1, 2):
            log.asked(time_us, ("x",))
            log.write(log.drain())
    for path in tmp_path.glob("*-000000.parquet"):
        os.utime(path, (1000, 1000))
    RequestLog(tmp_path, "b1").remove_old(2000)
    assert sorted(rows(tmp_path)) == [(1, "b1-1", "x"), (2, "b1", "x"), (2, "b1-1", "x")]


def test_no_more_waits_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "MOST_ROWS", 3)
    log = RequestLog(tmp_path, "b1")
    log.asked(1, ("x", "y"))
    log.asked(2, ("x", "y"))
    log.asked(3, ("x",))
    assert log.lost == 2
    log.write(log.drain())
    assert rows(tmp_path) == [(1, "b1", "x"), (1, "b1", "y"), (3, "b1", "x")]


def test_what_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="no log of requests can be written to"):
        RequestLog(tmp_path / "file" / "x", "b1")
