"""The structure of the source is checked, and the checks see what they are for."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
spec = importlib.util.spec_from_file_location("tidy", ROOT / "tools" / "tidy.py")
assert spec and spec.loader
tidy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tidy)


def test_the_source_is_tidy() -> None:
    found = [line for path in sorted(tidy.PACKAGE.rglob("*.py")) for line in tidy.findings(path)]
    assert found == []


def test_every_package_has_a_layer() -> None:
    packages = {path.name for path in tidy.PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert packages <= set(tidy.LAYER_OF)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("reefcast.model.x", "from reefcast.routing import broker"),
        ("reefcast.server.x", "import reefcast.client.aio"),
        ("reefcast.errors", "import reefcast.model.wire"),
    ],
)
def test_upward_imports_are_seen(module: str, source: str) -> None:
    assert list(tidy.upward(module, ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio",
        "def f():\n    import time",
        "from random import choice",
        "import random\nrandom.random()",
        "import numpy as np\nnp.random.rand()",
        "import datetime\ndatetime.datetime.now()",
    ],
)
def test_impurity_in_the_core_is_seen(source: str) -> None:
    assert list(tidy.impure("reefcast.routing.x", ast.parse(source)))
    assert not list(tidy.impure("reefcast.server.x", ast.parse(source)))


def test_injected_randomness_is_allowed() -> None:
    source = "import random\ndef f(rng: random.Random) -> float:\n    return rng.random()"
    assert not list(tidy.impure("reefcast.routing.x", ast.parse(source)))


def test_big_rooms_are_seen() -> None:
    body = "def f():\n" + "    x = 1\n" * 80
    assert list(tidy.too_big(body, ast.parse(body)))
    assert list(tidy.too_big("\n" * 501, ast.parse("")))
