"""What becomes of kernels from one process to the next, tried with kernels of one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PARTS = """
from reefcast.matching.machine import part

@part
def constant(value):
    return value + 1
"""

UNITS = """
from reefcast.matching.machine import unit
from parts import constant

@unit
def inner(value: int) -> int:
    return constant(value) * 100
"""

KERNELS = """
from reefcast.matching.machine import compile_units, kernel
from parts import constant
from units import inner

@kernel
def outer(value: int) -> int:
    return inner(value) + constant(value)

compile_units()
"""

PROGRAM = """
import sys
from pathlib import Path
from reefcast.matching.native import store
store.KERNELS = Path()
from kernels import outer
print(outer(1), {"numba", "llvmlite"} & set(sys.modules) == set())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("parts", PARTS), ("units", UNITS), ("kernels", KERNELS)):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def run(folder: Path, program: str = PROGRAM) -> tuple[int, bool]:
    """Run a program; return what the kernel says, and whether no compiler was needed."""
    cache = {"REEFCAST_CACHE_DIR": str(folder / "kept"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=os.environ | cache,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    answer, light = done.stdout.split()
    return int(answer), light == "True"


def test_a_part_that_changes_in_another_file_is_compiled_anew(folder: Path) -> None:
    assert run(folder) == (202, False)
    assert run(folder) == (202, True)
    (folder / "parts.py").write_text(PARTS.replace("+ 1", "+ 2"))
    assert run(folder) == (303, False)
    assert run(folder) == (303, True)


def test_what_was_imported_before_does_not_matter(folder: Path) -> None:
    """Which batch compiles a unit depends on who asks for it first."""
    first = "from reefcast.matching.machine import compile_units\nimport units\ncompile_units()\n"
    others = PROGRAM.replace("from kernels", f"{first}from kernels")
    assert run(folder) == (202, False)
    assert run(folder, others) == (202, False)
    assert run(folder) == (202, True)
    assert run(folder, others) == (202, True)
