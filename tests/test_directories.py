"""Files that only their owner may read, and where what outlives a program is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from reefcast.directories import make_private, state_directory
from reefcast.history.store import HistoryStore
from reefcast.keeping.store import SqliteStore


def test_only_their_owner_may_read_files_with_events(tmp_path: Path) -> None:
    made, kept = tmp_path / "made", tmp_path / "kept"
    make_private(made)
    assert made.stat().st_mode & 0o777 == 0o600
    kept.write_text("x")
    kept.chmod(0o640)
    make_private(kept)
    assert kept.stat().st_mode & 0o777 == 0o640
    assert kept.read_text() == "x"
    make_private(tmp_path / "nowhere" / "file")


def fail(trouble: object) -> None:
    raise AssertionError(trouble)


def test_what_brokers_and_storages_keep_is_theirs_alone(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        sessions = SqliteStore(tmp_path / "sessions" / "b1.sqlite", fail)
        history = HistoryStore(tmp_path / "history", fail)
    finally:
        os.umask(umask)
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o700
    files = [*(tmp_path / "sessions").iterdir(), tmp_path / "history" / "history.sqlite"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    sessions.close()
    history.close()


@pytest.mark.parametrize(
    ("system", "variables", "expected"),
    [
        ("linux", {}, "~/.local/state/reefcast"),
        ("linux", {"XDG_STATE_HOME": "/var/kept"}, "/var/kept/reefcast"),
        ("linux", {"XDG_STATE_HOME": "not/absolute"}, "~/.local/state/reefcast"),
        ("darwin", {}, "~/Library/Application Support/reefcast"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/reefcast"),
        ("win32", {}, "~/AppData/Local/reefcast"),
    ],
)
def test_state_is_where_the_system_has_it(
    monkeypatch: pytest.MonkeyPatch, system: str, variables: dict[str, str], expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert state_directory() == Path(expected).expanduser()
