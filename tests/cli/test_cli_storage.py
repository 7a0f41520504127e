"""`reefcast storage` takes its topics from a network file or from its arguments, and not from
both."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from reefcast.cli.main import group


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fx"], "give NETWORK and NAME; or topics, and --directory"),
        (["net.toml", "s", "a/#"], "give NETWORK and NAME; or topics, and --directory"),
        (["net.toml", "s", "--most", "3"], "--most goes with --directory"),
        (["net.toml", "s", "--index", "price=number"], "--index goes with --directory"),
        (["net.toml", "s", "--admin", "127.0.0.1:9466"], "--admin goes with --directory"),
        (["reefcast://127.0.0.1", "--directory", "kept"], "TOPIC..."),
        ([], "Missing argument"),
    ],
)
def test_what_does_not_go_together_is_named(words: list[str], said: str) -> None:
    run = CliRunner().invoke(group, ["storage", *words])
    assert run.exit_code == 2
    assert said in " ".join(run.output.split())


def test_without_a_network_file_nobody_else_may_reach_it(tmp_path: Path) -> None:
    words = ["storage", "fx", "--directory", str(tmp_path / "h"), "--admin", "0.0.0.0:9466"]
    run = CliRunner().invoke(group, words)
    assert "would show its status on 0.0.0.0, which others can reach" in str(run.exception)
    assert not (tmp_path / "h").exists()
