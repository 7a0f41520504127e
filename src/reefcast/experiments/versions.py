"""The version of the code behind a result: a hash of the sources that it depends on.

Those are the core, and of the paper's folder what the campaign's functions lead to by imports. So
what is said about results (claims, evidence) does not make them old, nor does another campaign.
Comments, docstrings and layout do not count either.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import reefcast
from reefcast.experiments.campaign import Campaign

CORE = ("model", "matching", "overlay", "routing", "simulation")
"""Packages that every result depends on."""

_PACKAGE = Path(reefcast.__file__).parent


def code_version(campaign: Campaign, folder: Path) -> str:
    """`folder` holds the sources of the paper."""
    starts = {Path(inspect.getfile(part)) for part in (campaign.runs, campaign.measure)}
    return _digest([_core(), *map(_meaning, _reached(starts, folder))])


@cache
def _core() -> str:
    files = (path for name in CORE for path in sorted((_PACKAGE / name).rglob("*")))
    sources = (path for path in files if path.suffix in (".py", ".lark"))
    return _digest(f"{path.relative_to(_PACKAGE)}\n{_meaning(path)}" for path in sources)


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(f"{text}\n".encode())
    return digest.hexdigest()[:12]


def _meaning(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tree = ast.parse(text)
    for docstring in _docstrings(tree):
        docstring.value = ""
    return ast.dump(tree)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Strings that stand alone as statements."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text


def _reached(starts: Iterable[Path], folder: Path) -> list[Path]:
    """`starts`, and the modules in `folder` that they import, at once or over others; in order."""
    modules = {path.stem: path for path in folder.glob("*.py")}
    open, reached = set(starts), set[Path]()
    while open:
        path = open.pop()
        reached.add(path)
        names = _imported(ast.parse(path.read_text(encoding="utf-8")))
        open |= {modules[name] for name in names if name in modules} - reached
    return sorted(reached)


def _imported(tree: ast.AST) -> Iterator[str]:
    """Every part of every imported name; one too many does no harm."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (part for alias in node.names for part in alias.name.split("."))
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from node.module.split(".")
