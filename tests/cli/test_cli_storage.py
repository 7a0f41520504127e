"""`reefcast storage` takes its topics from a network file or from its arguments, and not from
both."""

from __future__ import annotations

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
        (["reefcast://127.0.0.1", "--directory", "kept"], "TOPIC..."),
        ([], "Missing argument"),
    ],
)
def test_what_does_not_go_together_is_named(words: list[str], said: str) -> None:
    run = CliRunner().invoke(group, ["storage", *words])
    assert run.exit_code == 2
    assert said in " ".join(run.output.split())
