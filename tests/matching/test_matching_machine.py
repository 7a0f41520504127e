"""The cache of compiled code is left when any file of the folder changes, not only the kernel's.

Played with a copy of `machine` and kernels of one line, each time in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from reefcast.matching import machine

PARTS = """
from machine import part

@part
def constant(value):
    return value + 1
"""

KERNELS = """
from machine import compile_units, compiled, unit
from parts import constant

@unit
def inner(value: int) -> int:
    return constant(value) * 100

@compiled
def kernel(value):
    return inner(value) + constant(value)

compile_units()
"""

PROGRAM = """
import kernels, machine
inner = [each for each in machine._units][0]
answer = kernels.kernel(1)
print(answer, sum(kernels.kernel.stats.cache_hits.values()), inner.cache_hits)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(str(machine.__file__), tmp_path / "machine.py")
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path


def run(folder: Path) -> tuple[int, int, int]:
    """(what the kernel says, whether it came from the cache, whether its unit did)."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env={name: value for name, value in environment.items() if value},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    answer, hits, unit_hits = map(int, done.stdout.split())
    return answer, hits, unit_hits


def test_a_part_that_changes_in_another_file_is_compiled_anew(folder: Path) -> None:
    assert run(folder) == (202, 0, 0)
    assert run(folder) == (202, 1, 1)
    (folder / "parts.py").write_text(PARTS.replace("+ 1", "+ 2"))
    assert run(folder) == (303, 0, 0)
    assert run(folder) == (303, 1, 1)


def loaded(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("machine_of_a_copy", folder / "machine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stamp_follows_every_file(folder: Path) -> None:
    copy = loaded(folder)
    stamps = [copy._stamp()]
    assert copy._stamp() == stamps[0] == copy.STAMP
    (folder / "parts.py").write_text(PARTS.replace("+ 1", "+ 2"))  # of the same size
    stamps.append(copy._stamp())
    (folder / "parts.py").write_text(PARTS + "\n")
    stamps.append(copy._stamp())
    (folder / "more.py").write_text("MORE = 1")
    stamps.append(copy._stamp())
    (folder / "more.txt").write_text("no module")
    assert copy._stamp() == stamps[-1]
    (folder / "more.py").unlink()
    (folder / "kernels.py").unlink()
    stamps.append(copy._stamp())
    assert len(set(stamps)) == len(stamps)
