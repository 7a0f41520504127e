"""The pages of the documentation describe the experiments as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reefcast_lab.experiments import effects

DOCS = Path(__file__).parents[3] / "docs"
TYPES = {"int64": "BIGINT", "float64": "DOUBLE", "string": "STRING", "bool": "BOOLEAN"}
ROW = r"\| `(\w+)` \| (int64|float64|string|bool) \|"


def covering_s_table(capsys: pytest.CaptureFixture[str], visits: int) -> tuple[str, str]:
    """Return the page, and what its program prints of so many visits of the monitor."""
    page = (DOCS / "explanation" / "covering.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert source.count("\nVISITS = 3\n") == 1
    source = source.replace("\nVISITS = 3\n", f"\nVISITS = {visits}\n")
    exec(compile(source, "covering.md", "exec"), {"__name__": "example"})
    return page, capsys.readouterr().out


@pytest.mark.long
def test_covering_s_program_prints_such_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A visit of the monitor instead of three: all but the figures is what the page has."""
    page, table = covering_s_table(capsys, 1)
    assert re.sub(r"\d+", "0", f"\n\n{table}\n") in re.sub(r"\d+", "0", page)


@pytest.mark.soak
def test_covering_s_program_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    page, table = covering_s_table(capsys, 3)
    assert f"\n\n{table}\n" in page


def test_the_columns_of_a_sweep_s_table() -> None:
    guide = (DOCS / "reference" / "spark-tables.md").read_text(encoding="utf-8")
    table = guide.split("## Table of a sweep")[1].split("|---|---|---|\n")[1].split("\n\n")[0]
    found = ", ".join(f"{name} {TYPES[type]}" for name, type in re.findall(ROW, table))
    assert found == effects.RESULTS
