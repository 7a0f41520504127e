"""Progress of a command: a line on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys

import pytest

from reefcast.cli import progress
from reefcast.cli.progress import Progress


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let standard error pass for a terminal: click removes control characters elsewhere."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(progress, "PAUSE_S", 0.0)


@pytest.mark.parametrize(("total", "of"), [(2000, " of 2,000"), (None, "")])
def test_one_line_is_written_anew_and_removed(
    total: int | None,
    of: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    on_a_terminal(monkeypatch)
    shown = Progress("publishing", total)
    shown.update(7)
    shown.update(1500)
    shown.clear()
    written = capsys.readouterr().err
    assert written == f"\rpublishing 7{of}\rpublishing 1,500{of}\r\x1b[K"


def test_nothing_is_removed_where_nothing_was_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch)
    Progress("publishing", None).clear()
    assert capsys.readouterr().err == ""


def test_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress("publishing", 5)
    shown.update(5)
    shown.clear()
    assert capsys.readouterr().err == ""


def test_it_is_not_written_faster_than_it_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "PAUSE_S", 1000.0)
    shown = Progress("publishing", None)
    shown.update(1)
    shown.update(2)
    assert capsys.readouterr().err == "\rpublishing 1"
