"""The tables of docs/reference/cesql.md are executed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reefcast import cesql

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cesql.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(.+)` \| `(\{.*\})` \| `(.+)` \|$", PAGE, re.MULTILINE)
ERRORS = re.findall(r"^\| `(\w+)` \| .* \| `(.+)` \|$", PAGE, re.MULTILINE)


def test_there_are_examples() -> None:
    assert (len(ROWS), len(ERRORS)) >= (12, 6)


@pytest.mark.parametrize(("text", "event", "value"), ROWS)
def test_values(text: str, event: str, value: str) -> None:
    assert cesql.evaluate(text, json.loads(event)) == (json.loads(value), None)


@pytest.mark.parametrize(("kind", "text"), ERRORS)
def test_errors(kind: str, text: str) -> None:
    _, error = cesql.evaluate(text, {})
    assert error is not None
    assert error.kind == kind
