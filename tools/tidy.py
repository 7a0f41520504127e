"""Style as a test: what keeps the architecture from rotting quietly.

- Layers import downward only.
- The core reads no clock, opens no socket, knows no asyncio and draws from no global generator.
- No module over 500 lines, no function over 70.
- Nothing is left open in the code.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "reefcast"

# Lowest first; a module may import from its own layer and from those before it.
LAYERS = (
    ("errors",),
    ("model",),
    ("matching",),
    ("overlay",),
    ("routing",),
    ("storage",),
    ("simulation",),
    ("server", "client"),
    ("pipeline", "bench"),
    ("experiments",),
    ("cli",),
)
LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names}
CORE = frozenset({"model", "matching", "overlay", "routing", "storage"})
FORBIDDEN_IN_CORE = frozenset(
    {"asyncio", "socket", "selectors", "ssl", "time", "uvloop", "threading", "subprocess"}
)
GLOBAL_RANDOM = frozenset({"random", "secrets", "uuid"})
ALLOWED_OF_RANDOM = frozenset({"Random"})
CLOCKS = frozenset({"now", "utcnow", "today"})
MAX_MODULE_LINES, MAX_FUNCTION_LINES = 500, 70
LEFT_OPEN = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")


def layer(module: str) -> str:
    """`reefcast.model.wire` -> `model`; "" for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, module) of every import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


def upward(module: str, tree: ast.AST) -> Iterator[str]:
    """Imports that point upward, or sideways between layers of one level."""
    here = layer(module)
    if here not in LAYER_OF:
        return
    for line, target in imports_of(tree):
        there = layer(target) if target.startswith("reefcast") else ""
        if there not in LAYER_OF or there == here:
            continue
        if LAYER_OF[there] >= LAYER_OF[here]:
            yield f"{line}: {here} must not import {target}: layers import downward only"


def impure(module: str, tree: ast.AST) -> Iterator[str]:
    """Clocks, sockets, asyncio and global randomness in the core."""
    if layer(module) not in CORE:
        return
    for line, target in imports_of(tree):
        if target.split(".")[0] in FORBIDDEN_IN_CORE:
            yield f"{line}: the core must not import {target}"
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in GLOBAL_RANDOM:
            bad = [alias.name for alias in node.names if alias.name not in ALLOWED_OF_RANDOM]
            if bad:
                yield f"{node.lineno}: the core must not use {node.module}.{bad[0]}"
        if not isinstance(node, ast.Attribute):
            continue
        base = ast.unparse(node.value)
        if base in GLOBAL_RANDOM and node.attr not in ALLOWED_OF_RANDOM:
            yield f"{node.lineno}: {base}.{node.attr} is global randomness; take a Random instead"
        if base in ("np.random", "numpy.random"):
            yield f"{node.lineno}: {base}.{node.attr} is global randomness; take a Random instead"
        if base.split(".")[-1] in ("datetime", "date") and node.attr in CLOCKS:
            yield f"{node.lineno}: {base}.{node.attr} reads a clock; take `now` instead"


def too_big(text: str, tree: ast.AST) -> Iterator[str]:
    lines = text.count("\n")
    if lines > MAX_MODULE_LINES:
        yield f"1: {lines} lines; a module has at most {MAX_MODULE_LINES}"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{node.lineno}: {node.name} has {length} lines; {MAX_FUNCTION_LINES} at most"


def left_open(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        for word in LEFT_OPEN:
            if word in line:
                yield f"{number}: {word} left in the code"


def findings(path: Path) -> Iterator[str]:
    """All that is wrong with one file, as `path:line: sentence`."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    module = module_name(path)
    for rule in (upward(module, tree), impure(module, tree), too_big(text, tree), left_open(text)):
        for finding in rule:
            yield f"{path.relative_to(ROOT)}:{finding}"


def main() -> int:
    found = [line for path in sorted(PACKAGE.rglob("*.py")) for line in findings(path)]
    print("\n".join(found) if found else "tidy: nothing to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
