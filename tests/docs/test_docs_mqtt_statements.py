"""Each normative statement of MQTT is told once, in few words, and its test exists."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
STATEMENTS = tomllib.loads((ROOT / "docs" / "mqtt-statements.toml").read_text())["statement"]
TESTED = [each for each in STATEMENTS if "test" in each]
MOST_WORDS = 15
COUNTS = {"5.0": 251, "3.1.1": 141}
"""How many statements the standards have."""


def test_all_are_there_once() -> None:
    named = [(each["version"], each["id"]) for each in STATEMENTS]
    assert len(set(named)) == len(named)
    assert {version: sum(v == version for v, _ in named) for version in COUNTS} == COUNTS
    assert all(re.fullmatch(r"MQTT-\d\.\d+\.\d-\d+", number) for _, number in named)


def test_each_has_a_test_or_says_why_not() -> None:
    for each in STATEMENTS:
        assert len({"test", "why", "unmet"} & set(each)) == 1, each


def test_said_in_few_words() -> None:
    for each in STATEMENTS:
        assert each["concerns"] in ("server", "client", "both"), each
        assert 0 < len(each["says"].split()) <= MOST_WORDS, each


@pytest.mark.parametrize("test", sorted({each["test"] for each in TESTED}))
def test_the_test_exists(test: str) -> None:
    path, _, name = test.partition("::")
    function, bracket, case = name.partition("[")
    found = getattr(module(path), function)
    assert not bracket or case.removesuffix("]") in set(cases(found))


@cache
def module(path: str) -> ModuleType:
    file = ROOT / path
    sys.path.insert(0, str(file.parent))
    try:
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
    finally:
        sys.path.remove(str(file.parent))
    return made


def cases(function: Any) -> Iterator[str]:
    """Yield the ids of the cases of a test."""
    marks = [mark for mark in function.pytestmark if mark.name == "parametrize"]
    for parts in product(*(ids(mark) for mark in marks)):
        yield "-".join(parts)


def ids(mark: pytest.Mark) -> list[str]:
    """Return the ids of one parameter."""
    return mark.kwargs.get("ids") or [getattr(each, "id", str(each)) for each in mark.args[1]]
