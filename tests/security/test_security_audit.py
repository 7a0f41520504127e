"""The audit log: one JSON line for each event, in files of limited size, and no secrets in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reefcast.errors import ConfigurationError
from reefcast.security import audit
from reefcast.security.audit import Audit, AuditFile, open_audit


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_line_says_when_where_and_what(tmp_path: Path) -> None:
    log = AuditFile(tmp_path / "audit", "b1", 10_000, 3)
    log.write("connected", user="ann\na", roles=("a", "b"), tls=False)
    (line,) = lines(tmp_path / "audit" / "b1.jsonl")
    assert line.pop("at").endswith("+00:00")
    known = {"broker": "b1", "event": "connected", "user": "ann\na", "roles": ["a", "b"]}
    assert line == known | {"tls": False}
    log.write("refused", name="x" * 10_000)
    assert len(lines(tmp_path / "audit" / "b1.jsonl")[1]["name"]) == 303
    assert (tmp_path / "audit" / "b1.jsonl").stat().st_mode & 0o777 == 0o600
    log.close()


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_full_files_are_kept_and_the_oldest_go(tmp_path: Path, kept: int) -> None:
    log = AuditFile(tmp_path, "b1", 1000, kept)
    for n in range(100):
        log.write("event", n=n)
    log.close()
    names = ["b1.jsonl", *(f"b1.{n}.jsonl" for n in range(1, kept + 1))]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(names)
    said = [line["n"] for name in reversed(names) for line in lines(tmp_path / name)]
    assert said == list(range(100 - len(said), 100))
    assert all((tmp_path / name).stat().st_size <= 1000 for name in names)


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    for n in range(3):
        log = AuditFile(tmp_path, "b1", 1000, 3)
        log.write("event", n=n)
        log.close()
        log.close()
        log.write("too late")
    assert [line["n"] for line in lines(tmp_path / "b1.jsonl")] == [0, 1, 2]


def test_a_flood_is_counted_and_hides_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "MOST_LINES", 5)
    log = AuditFile(tmp_path, "b1", 100_000, 3)
    log.tick(0.0)
    for n in range(20):
        log.limited("connected", n=n)
    log.write("wish")
    log.limited("refused", n=1)
    log.tick(1.0)
    log.tick(11.0)
    log.limited("connected", n=20)
    log.close()
    said = [line["event"] for line in lines(tmp_path / "b1.jsonl")]
    assert said == [*["connected"] * 5, "wish", "refused", "left_out", "connected"]
    left_out = lines(tmp_path / "b1.jsonl")[7]
    assert (left_out["of"], left_out["count"]) == ("connected", 15)


def test_a_disk_that_fails_costs_lines_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = AuditFile(tmp_path, "b1", 1000, 3)

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(audit.os, "write", full)
    log.write("event", secret_name="x")
    assert log.failed == 1 and "is lost: No space left" in caplog.text
    monkeypatch.undo()
    log.write("event")
    assert len(lines(tmp_path / "b1.jsonl")) == 1
    log.close()


def test_without_a_directory_nothing_is_written(tmp_path: Path) -> None:
    assert type(open_audit("", "b1", 1, 1)) is Audit
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"audit log .* cannot be written"):
        open_audit(str(tmp_path / "file"), "b1", 1, 1)
