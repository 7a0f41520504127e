"""ARCHITECTURE.md names files and functions that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
PACKAGES = (ROOT / "src" / "reefcast", ROOT / "lab" / "src" / "reefcast_lab")
FILES = {path.relative_to(package) for package in PACKAGES for path in package.rglob("*.py")}
NAMES = {file.as_posix() for file in FILES} | {file.name for file in FILES}


def way() -> Iterator[tuple[str, str]]:
    """Yield (modules, functions) of each step on the way of a publication."""
    page = PAGE[PAGE.index("## One publication") : PAGE.index("## The index")]
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and ".py`" in cells[0]:
            yield cells[0], cells[1]


def defined(modules: str) -> set[str]:
    """Return the functions, classes and methods of the modules named, as `f`, `C` and `C.m`."""
    found = set()
    folder = ""
    for name in re.findall(r"`([\w/]+\.py)`", modules):
        folder = name.rpartition("/")[0] or folder
        file = ROOT / "src" / "reefcast" / folder / Path(name).name
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                methods = [
                    n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
                ]
                found |= {node.name, *(f"{node.name}.{method.name}" for method in methods)}
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
    return found


@pytest.mark.parametrize(("modules", "functions"), list(way()))
def test_each_step_of_the_way_is_there(modules: str, functions: str) -> None:
    missing = set(re.findall(r"`([\w.]+)`", functions)) - defined(modules)
    assert not missing


def test_the_way_is_found() -> None:
    assert len(list(way())) > 20


def test_the_files_it_names_are_there() -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    short = {name.split("/", 1)[-1] for name in NAMES} | NAMES
    short |= {f"{package.name}/{file}" for package in PACKAGES for file in FILES}
    assert not {name for name in named if name not in short and not (ROOT / name).is_file()}
