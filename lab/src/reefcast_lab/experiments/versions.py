"""The version of the code behind a result: a hash of the sources that it depends on.

Those are the core, and of the folders of papers, of what papers share, of the placement of
storages, of gossip in rounds, of relation graphs and of workloads what the campaign leads to by
imports; and what runs live, if that is simulated. So what is said about results (claims, evidence)
does not make them old, nor does another campaign. Comments, docstrings and layout do not count
either.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import reefcast
from reefcast_lab.experiments.campaign import Campaign

CORE = ("model", "protocol", "matching", "overlay", "routing", "simulation")
"""Packages that every result depends on."""

_PACKAGE = Path(reefcast.__file__).parent
SHARED = Path(__file__).parent
"""What papers share."""
PACKAGE = ["reefcast_lab", "experiments"]
WIRE = ["reefcast", "simulation", "wire"]
PARTS = {
    ("reefcast", "pipeline", "planning", "placement"): _PACKAGE / "pipeline/planning/placement",
    ("reefcast_lab", "rounds"): SHARED.parent / "rounds",
    ("reefcast_lab", "bench", "cover"): SHARED.parent / "bench/cover",
    ("reefcast_lab", "workloads"): SHARED.parent / "workloads",
}
"""Packages of which a result depends on the modules that are imported."""
LIVE = ("client", "history", "network", "server", "storage_node")
"""What is simulated by running it."""


class _Source(NamedTuple):
    """A file as it is now: what is computed from it is kept until the file changes."""

    path: Path
    mtime_ns: int
    size: int


def code_version(campaign: Campaign, folder: Path) -> str:
    """Return the version of the sources as they are now; `folder` has those of the paper."""
    starts = {Path(inspect.getfile(part)) for part in (campaign.runs, campaign.measure)}
    reached = map(_source, _reached(starts, folder))
    files = (path for name in CORE for path in sorted((_PACKAGE / name).rglob("*")))
    core = tuple(_source(path) for path in files if path.suffix in (".py", ".lark"))
    return _digest([_core(_PACKAGE, core), *map(_meaning, reached)])


def _source(path: Path) -> _Source:
    stat = path.stat()
    return _Source(path, stat.st_mtime_ns, stat.st_size)


@cache
def _core(package: Path, sources: tuple[_Source, ...]) -> str:
    return _digest(f"{each.path.relative_to(package)}\n{_meaning(each)}" for each in sources)


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(f"{text}\n".encode())
    return digest.hexdigest()[:12]


@cache
def _meaning(source: _Source) -> str:
    text = source.path.read_text(encoding="utf-8")
    if source.path.suffix != ".py":
        return text
    tree = ast.parse(text)
    for docstring in _docstrings(tree):
        docstring.value = ""
    return ast.dump(tree)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings that stand alone as statements."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text


def _reached(starts: Iterable[Path], folder: Path) -> list[Path]:
    """Return `starts`, the modules in `folder` and in `SHARED` that they import, directly or not,
    and those of another paper's folder, with its parameters; sorted."""
    open, reached = set(starts), set[Path]()
    while open:
        path = open.pop()
        reached.add(path)
        open |= _imports(path, folder) - reached
    return sorted(reached)


def _imports(path: Path, folder: Path) -> set[Path]:
    if path.suffix != ".py" or path.parent.name in LIVE:
        return set()
    imported = [name.split(".") for name in _imported(_source(path))]
    names = {part for parts in imported for part in parts}
    home = folder if path.parent == SHARED else path.parent
    modules = {each.stem: each for place in (SHARED, home) for each in place.glob("*.py")}
    found = {modules[name] for name in names & modules.keys()}
    for other in _others(imported) - {folder, home}:
        found |= {each for each in other.glob("*.py") if each.stem in names}
        found |= {*other.glob("parameters.toml")}
    return found | _parts(imported) | _live(imported)


def _parts(imported: Sequence[list[str]]) -> set[Path]:
    found = set()
    for package, folder in PARTS.items():
        depth = len(package)
        names = {
            parts[depth] for parts in imported if tuple(parts[:depth]) == package and parts[depth:]
        }
        found |= {folder / f"{name}.py" for name in names}
    return found


def _live(imported: Sequence[list[str]]) -> set[Path]:
    if not any(parts[:3] == WIRE for parts in imported):
        return set()
    return {_PACKAGE / "timing.py"}.union(*((_PACKAGE / name).glob("*.py") for name in LIVE))


def _others(imported: Iterable[list[str]]) -> set[Path]:
    """Return the folders of papers among these imports."""
    inside = [parts[2] for parts in imported if parts[:2] == PACKAGE and len(parts) > 2]
    return {SHARED / name for name in inside if (SHARED / name).is_dir()}


@cache
def _imported(source: _Source) -> frozenset[str]:
    """Return the full names of what a module imports. Every prefix of a name is looked for; one too
    many does no harm."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source.path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            within = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
            names += [f"{within}{alias.name}" for alias in node.names]
    return frozenset(names)
