"""What becomes of kernels from one process to the next, tried with kernels of one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reefcast.matching import machine

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


BATCHES = """
import os, re
from importlib import import_module
from pathlib import Path

import numpy

from reefcast.matching.native import batches
from reefcast.matching.native.store import KERNELS

def name_only(batch):
    units, batch._units = batch._units, []
    if units:
        names.append(batches._name(units))

modules = [
    ".".join(("reefcast.matching", *file.relative_to(KERNELS).with_suffix("").parts))
    for file in sorted(KERNELS.rglob("*.py"))
    if re.search("^@(unit|kernel)", file.read_text(), re.M)
]
batches.Batch.make = name_only
for first in modules:
    if os.fork() == 0:
        names = []
        for module in (first, *modules):
            import_module(module)
        os.write(1, (" ".join(sorted(names)) + "\\n").encode())
        os._exit(0)
    assert os.wait()[1] == 0, first
"""


KERNEL_FILES = sorted(Path(machine.__file__).parent.rglob("*.py"))


def test_whatever_a_program_imports_first_it_has_the_same_batches() -> None:
    """Else it compiles for a minute what another one has kept."""
    done = subprocess.run(
        [sys.executable, "-c", BATCHES], capture_output=True, text=True, check=True, timeout=600
    )
    told = done.stdout.splitlines()
    assert len(told) > 30
    assert set(told) == {told[0]}
    makers = [file for file in KERNEL_FILES if "\ncompile_units()" in file.read_text()]
    assert len(told[0].split()) == len(makers), "no module's units went into another one's batch"
