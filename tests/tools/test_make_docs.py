"""Reference pages that are not up to date with the code are seen, and written anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = (
    *("commands.md", "lab-commands.md", "metrics.md", "network-file.md", "python.md", "trace.md"),
    "../mqtt.md",
)


def in_tools(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own: click remembers the names of the help option from the
    first use."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT / "tools",
        capture_output=True,
        encoding="utf-8",
        check=True,
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_is_not_current_is_seen_and_written_anew(page: str, tmp_path: Path) -> None:
    program = (
        "import make_docs, sys; from pathlib import Path; there = Path(sys.argv[1]);"
        "make_docs.write(there); (there / sys.argv[2]).write_text('old', encoding='utf-8');"
        "print(make_docs.outdated(there)); make_docs.write(there); print(make_docs.outdated(there))"
    )
    *_, before, written, after = in_tools(program, tmp_path, page).stdout.splitlines()
    assert (before, written, after) == (f"['{page}']", f"{tmp_path.name}/{page}", "[]")
