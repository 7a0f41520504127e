"""Style as a test: these rules keep the architecture from eroding unnoticed.

- Layers import downward only, and no module imports itself by a detour; the product never imports
  the laboratory.
- The core reads no clock, opens no socket, knows no asyncio and draws from no global generator.
- No module over 500 lines, no function over 70; half of the functions under 10.
- Nothing is left open in the code.
- The docstring of a function begins with a verb in the imperative, except of private functions of
  the laboratory; no docstring begins as if its subject were missing ("Of one broker").
- What silences a checker (in code, tests, tools, examples, pyproject.toml) says why.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
PRODUCT, LABORATORY = "reefcast", "reefcast_lab"
PACKAGES = (ROOT / "src" / PRODUCT, ROOT / "lab" / "src" / LABORATORY)
SOURCES = (*PACKAGES, ROOT / "tests", ROOT / "lab" / "tests", ROOT / "tools", ROOT / "examples")
"""The folders in which checkers may not be silenced without a reason; the other rules are for the
packages."""

# Lowest first; a module may import from its own layer and from those before it.
LAYERS = (
    ("errors", "words"),
    ("directories", "extras", "logs"),
    ("model",),
    ("cesql",),
    ("protocol",),
    ("matching",),
    ("overlay",),
    ("sessions",),
    ("routing",),
    ("retaining",),
    ("history", "traces", "statistics", "keeping"),
    ("timing",),
    ("tls",),
    ("cloudevents",),
    ("mqtt", "http"),
    ("network",),
    ("security",),
    ("client",),
    ("server",),
    ("storage_node",),
    ("testing",),
    ("simulation",),
    ("pipeline",),
    ("cli",),
)
LABORATORY_LAYERS = (
    ("datasets", "rounds", "torture"),
    ("workloads",),
    ("demos",),
    ("bench",),
    ("experiments",),
    ("cli",),
)
LEVELS = {
    package: {name: level for level, names in enumerate(layers) for name in names}
    for package, layers in ((PRODUCT, LAYERS), (LABORATORY, LABORATORY_LAYERS))
}
"""The level of each layer, by package."""
CORE = frozenset(
    {
        "model",
        "cesql",
        "protocol",
        "matching",
        "overlay",
        "sessions",
        "routing",
        "retaining",
        "history",
        "traces",
        "statistics",
        "keeping",
        "mqtt",
        "cloudevents",
        "http",
    }
)
FORBIDDEN_IN_CORE = frozenset(
    {"asyncio", "socket", "selectors", "ssl", "time", "uvloop", "threading", "subprocess"}
)
GLOBAL_RANDOM = frozenset({"random", "secrets", "uuid"})
ALLOWED_OF_RANDOM = frozenset({"Random", "UUID"})  # the class, which draws nothing
CLOCKS = frozenset({"now", "utcnow", "today"})
MAX_MODULE_LINES, MAX_FUNCTION_LINES, MAX_MEDIAN_LINES = 500, 70, 9
LEFT_OPEN = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")
NO_VERB_NEEDED = ("property", "cached_property", "group")
"""Decorators of functions whose docstring may be a noun phrase: properties, and groups of
commands."""
VERBS = frozenset(
    """
    Abandon Abort Accept Acknowledge Add Admit Adopt Advance Advertise Advise Allocate Allow
    Announce Answer Append Apply Arm Ask Assert Assign Attach Authenticate Balance Become Begin
    Bind Block Break Bring Broadcast Build Bypass Call Cancel Carry Cast Catch Change Charge Check
    Choose Claim Classify Clean Clear Close Collect Combine Come Compare Compile Complete Compute
    Concatenate Conclude Configure Confirm Connect Continue Convert Coordinate Copy Count Crash
    Create Cut Decide Declare Decode Deduplicate Define Delete Deliver Demote Derive Describe
    Design Destroy Detach Dial Disable Disarm Discard Disconnect Distribute Divide Do Double Drain
    Draw Drop Enable Encode Encrypt End Ensure Enter Enumerate Estimate Evaluate Exchange Exclude
    Execute Expand Expect Explain Export Extend Extract Fail Fetch Fill Find Finish Flood Flush
    Fold Follow Forget Forward Free Freeze Gather Generate Get Give Go Grant Hand Handle Hash Have
    Hold Ignore Import Include Increment Inform Inject Insert Inspect Install Intersect Invert
    Iterate Join Judge Keep Kill Learn Leave Let Limit Link Listen Load Localise Lock Log Look Lose
    Make Mark Match Measure Merge Move Negate Normalise Note Notify Observe Offer Open Overload Owe
    Pack Parse Partition Pass Pause Permit Pick Place Plan Prefer Prepare Prevent Print Probe
    Produce Promote Prove Provide Prune Publish Push Put Queue Raise Reach Read Rearm Reassemble
    Rebuild Receive Recompute Reconnect Record Recover Recycle Redirect Reduce Refer Refresh Refuse
    Register Reject Relay Relearn Release Remember Remove Rename Render Renew Reopen Reorder Repair
    Repeat Replace Replay Report Request Require Reserve Reset Resolve Respond Rest Restart Restore
    Resume Retrieve Retry Return Reverse Review Rewrite Rise Roll Rotate Round Route Run Sample
    Satisfy Save Say Scale Scan Schedule Seal Search Select Send Separate Serve Set Settle Share
    Shift Show Shrink Sign Simplify Simulate Skip Slow Solve Sort Split Spread Start Stop Store
    Stream Submit Subscribe Subsume Subtract Sum Sweep Sync Take Tell Terminate Test Trace
    Transform Translate Try Turn Unbind Undo Unlink Unlock Unregister Unsubscribe Update Use
    Validate Verify Wait Waive Walk Warn Watch Withdraw Withhold Wrap Write Yield
    """.split()  # noqa: SIM905 (a list of 260 strings would be hard to read)
)
"""The verbs with which docstrings begin. Add what is missing, but no word that is as often a noun
(Number, Time)."""
NO_SUBJECT = frozenset({"Of", "Those", "Whose", "Whom", "Made"})
"""Words after which a reader asks what the sentence is about."""
SILENCER = re.compile(
    r"#\s*(?:noqa|type:\s*ignore|pragma|fmt:|mypy:|ruff:|pyright:|pylint:)"
    r"(?:\s*:?\s*(?:\[[^\]]*\]|[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*|off|on|skip|no cover))*"
)
SECOND_HALF = re.compile(r"#\s*fmt:\s*on")
"""A comment that ends what `# fmt: off` began, and needs no reason of its own."""
SETTINGS_THAT_SILENCE = re.compile(
    r"\[?(?:.*\.)?((extend-)?(ignore|exclude|per-file-ignores)|ignore_errors|ignore_missing_imports"
    r"|disable_error_code|follow_imports)\b"
)

Trees = Mapping[str, ast.Module]
"""The syntax trees of modules by name."""


def layer(module: str) -> str:
    """Return the layer of a module: `reefcast.model.wire` -> `model`; "" for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def module_name(path: Path) -> str:
    package = next(each for each in PACKAGES if path.is_relative_to(each))
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes of a tree; several rules look through them."""
    return list(ast.walk(tree))


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, module) of every import, wherever it stands."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


def targets_of(module: str, tree: ast.Module, known: Iterable[str]) -> set[str]:
    """Return the modules of `known` that a module imports, also where only types are checked. With
    `from a.b import c` that is `a.b.c` if there is such a module, else `a.b`."""
    found = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= below & set(known) or {node.module}
    return found & set(known) - {module}


def cycles(trees: Trees) -> Iterator[str]:
    """Find a module that imports itself by a detour; yield one finding, with the modules in
    between."""
    graph = {module: targets_of(module, tree, trees) for module, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        way = " imports ".join(reversed(error.args[1]))
        yield f"{way}: move what they share into a module below both"


def long_median(trees: Iterable[ast.AST]) -> Iterator[str]:
    """Check that half of the functions are short enough to be read at a glance."""
    lines = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees
        for node in nodes_of(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    if lines and median(lines) > MAX_MEDIAN_LINES:
        yield f"the median function has {median(lines):g} lines; {MAX_MEDIAN_LINES} at most"


def upward(module: str, tree: ast.AST) -> Iterator[str]:
    """Find imports that point upward, or sideways between layers of one level; and imports of the
    laboratory in the product."""
    package, here = module.split(".", maxsplit=1)[0], layer(module)
    levels = LEVELS[package]
    for line, target in imports_of(tree):
        imported, there = target.split(".")[0], layer(target)
        if (package, imported) == (PRODUCT, LABORATORY):
            yield f"{line}: {module} must not import {target}: it is the laboratory's"
        if imported != package or here not in levels or there not in levels or there == here:
            continue
        if levels[there] >= levels[here]:
            yield f"{line}: {here} must not import {target}: layers import downward only"


def impure(module: str, tree: ast.AST) -> Iterator[str]:
    """Find clocks, sockets, asyncio and global randomness in the core."""
    if module.split(".", maxsplit=1)[0] != PRODUCT or layer(module) not in CORE:
        return
    for line, target in imports_of(tree):
        if target.split(".")[0] in FORBIDDEN_IN_CORE:
            yield f"{line}: the core must not import {target}"
    for node in nodes_of(tree):
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
    for node in nodes_of(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{node.lineno}: {node.name} has {length} lines; {MAX_FUNCTION_LINES} at most"


def described(module: str, tree: ast.Module) -> Iterator[str]:
    """Find docstrings of functions and methods that begin with another word than a verb."""
    product = module.split(".", maxsplit=1)[0] == PRODUCT
    for node in nodes_of(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        kinds = (ast.unparse(each).split("(")[0].split(".")[-1] for each in node.decorator_list)
        text = ast.get_docstring(node)
        exempt = any(kind in NO_VERB_NEEDED for kind in kinds)
        if text is None or exempt or (node.name.startswith("_") and not product):
            continue
        first = re.match(r"\w*", text)
        if first is not None and first[0] not in VERBS:
            yield f"{node.lineno}: {node.name}: begin the docstring with a verb, not {first[0]!r}"


def subjectless(tree: ast.Module) -> Iterator[str]:
    """Find docstrings, also those of classes and values, that begin with a word of `NO_SUBJECT`."""
    for node in nodes_of(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                first = text.split(maxsplit=1)[0].rstrip(",:") if text.strip() else ""
                if first in NO_SUBJECT:
                    yield f"{node.lineno}: {first!r} begins the docstring: name its subject first"


def left_open(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        for word in LEFT_OPEN:
            if word in line:
                yield f"{number}: {word} left in the code"


def silenced(text: str) -> Iterator[str]:
    """Find comments that silence a checker and give no reason there or in the line above."""
    if not SILENCER.search(text):
        return
    said = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        rest, count = SILENCER.subn("", token.string)
        alone = not token.line[: token.start[1]].strip()
        said[line] = alone and not count
        reason = any(map(str.isalpha, rest)) or said.get(line - 1, False)
        if count and not reason and not SECOND_HALF.match(token.string):
            yield f"{line}: {token.string} has no reason; write one behind it or in the line above"


def silenced_settings(text: str) -> Iterator[str]:
    """Find settings that silence ruff or mypy, without a comment in the same line or in the one
    above."""
    inside = above = False
    for number, line in enumerate(text.splitlines(), 1):
        code, _, comment = (part.strip() for part in line.partition("#"))
        silences = SETTINGS_THAT_SILENCE.match(code) is not None
        if code.startswith("[") or code.endswith("["):  # a table or a list begins
            inside = silences
        elif code == "]":
            inside = False
        elif code and (silences or inside) and not (comment or above):
            yield f"{number}: {code} has no reason; write one behind it or in the line above"
        above = bool(comment) and not code


def findings(path: Path) -> Iterator[str]:
    """Yield everything that is wrong with one file, as `path:line: sentence`."""
    text = path.read_text(encoding="utf-8")
    rules = [silenced(text)]
    if any(map(path.is_relative_to, PACKAGES)):
        tree, module = parsed(text), module_name(path)
        rules += [upward(module, tree), impure(module, tree), too_big(text, tree), left_open(text)]
        rules += [described(module, tree), subjectless(tree)]
    for rule in rules:
        for finding in rule:
            yield f"{path.relative_to(ROOT)}:{finding}"


def findings_of_all() -> Iterator[str]:
    """Yield everything that is wrong with the files, each by itself and together."""
    for root in SOURCES:
        for path in sorted(root.rglob("*.py")):
            yield from findings(path)
    trees = {
        module_name(path): parsed(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted(package.rglob("*.py"))
    }
    yield from cycles(trees)
    yield from long_median(trees.values())
    for file in ("pyproject.toml", "lab/pyproject.toml"):
        settings = (ROOT / file).read_text(encoding="utf-8")
        yield from (f"{file}:{finding}" for finding in silenced_settings(settings))


def main() -> int:
    found = list(findings_of_all())
    print("\n".join(found) if found else "tidy: nothing to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
