"""Reference pages that are not up to date with the code are seen, and written anew."""

from __future__ import annotations

import subprocess
import sys
from ast import literal_eval
from pathlib import Path

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


def test_pages_that_are_not_current_are_seen_and_written_anew(tmp_path: Path) -> None:
    program = (
        "import make_docs, sys; from pathlib import Path; there = Path(sys.argv[1]);"
        "make_docs.write(there); print(make_docs.outdated(there), flush=True);"
        "[(there / page).write_text('old', encoding='utf-8') for page in sys.argv[2:]];"
        "print(make_docs.outdated(there)); make_docs.write(there); print(make_docs.outdated(there))"
    )
    lines = in_tools(program, tmp_path, *PAGES).stdout.splitlines()
    first, before, *written, after = lines[len(PAGES) :]
    assert (first, after) == ("[]", "[]")
    assert sorted(literal_eval(before)) == sorted(PAGES)
    assert sorted(written) == sorted(f"{tmp_path.name}/{page}" for page in PAGES)
