"""The reference pages are what the code says today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = ("commands.md", "network-file.md", "trace.md")
# In a process of its own: click remembers the names of the help option from the first use.
PRINT = "import make_docs, sys; sys.stdout.write(make_docs.PAGES[sys.argv[1]]())"


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_current(page: str) -> None:
    made = subprocess.run(
        [sys.executable, "-c", PRINT, page],
        cwd=ROOT / "tools",
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == made.stdout, "run `make docs`"
