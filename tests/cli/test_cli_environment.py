"""environment.md names the variables that the code reads; shells complete commands as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
COMPLETE = "_REEFCAST_COMPLETE"


def test_the_page_has_all_variables_and_no_others() -> None:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "lab" / "src").rglob("*.py")]
    sources = [path.read_text(encoding="utf-8") for path in files]
    read = {name for source in sources for name in re.findall(r"\"(REEFCAST_[A-Z_]+)\"", source)}
    assert "REEFCAST_URL" in read
    assert set(re.findall(r"`(REEFCAST_[A-Z_]+)`", PAGE)) == read


def completed(words: str, **variables: str) -> str:
    script = "import sys; sys.argv = ['reefcast']; from reefcast.cli.main import main; main()"
    environment = {**os.environ, "COMP_WORDS": words, **variables}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert run.stderr == ""
    return run.stdout


def test_commands_and_options_are_completed() -> None:
    assert completed("reefcast sub", COMP_CWORD="1", **{COMPLETE: "bash_complete"}) == (
        "plain,subscribe\n"
    )
    options = completed("reefcast subscribe --q", COMP_CWORD="2", **{COMPLETE: "bash_complete"})
    assert options == "plain,--queue-policy\n"


@pytest.mark.parametrize("shell", re.findall(r"(\w+)_source", PAGE))
def test_every_shell_of_the_page_gets_a_script(shell: str) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("there is no bash, whose version is asked for")
    assert COMPLETE in completed("", **{COMPLETE: f"{shell}_source"})
