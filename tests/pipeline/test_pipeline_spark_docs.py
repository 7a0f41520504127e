"""The examples of run-spark-jobs.md run; spark-tables.md names the columns that are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reefcast.overlay import topology
from reefcast.pipeline.analysis import TABLES
from reefcast.pipeline.planning import clusters, covering, links
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "how-to" / "run-spark-jobs.md").read_text(encoding="utf-8")
TABLES_PAGE = (DOCS / "reference" / "spark-tables.md").read_text(encoding="utf-8")
TYPES = {"int64": "BIGINT", "float64": "DOUBLE", "string": "STRING", "bool": "BOOLEAN"}
NAMED = r"`(\w+)` (int64|float64|string)"
ROW = r"\| `(\w+)` \| (int64|float64|string|bool) \|"


def ddl(found: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {TYPES[type]}" for name, type in found)


def test_the_tables_of_an_analysis() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (`.*) \| .* \|$", TABLES_PAGE, re.MULTILINE)
    shown = {name: ddl(re.findall(NAMED, columns)) for name, columns in rows if ", " in columns}
    assert shown == TABLES


@pytest.mark.parametrize(
    ("after", "schema"),
    [
        ("### clusters", clusters.SCHEMA),
        ("### links", links.SCHEMA),
        ("### covering", covering.SCHEMA),
    ],
)
def test_the_columns_of_a_table(after: str, schema: str) -> None:
    table = TABLES_PAGE.split(after)[1].split("|---|---|---|\n")[1].split("\n\n")[0]
    assert ddl(re.findall(ROW, table)) == schema


@pytest.mark.spark
def test_examples(spark, tmp_path):
    trace = TraceOptions(tmp_path / "out" / "trace")
    simulation = Simulation(Setup(graph=topology.path(["a", "b"]), trace=trace))
    simulation.subscribe("client", "b", "x >= 0", at_s=0.0)
    simulation.publish("publisher", "a", {"x": 1}, at_s=1.0)
    simulation.run()
    shared = {"spark": spark}
    for source in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        here = source.replace('"out/', f'"{tmp_path}/out/')  # Spark's own folder stays as it is
        exec(compile(here, "run-spark-jobs.md", "exec"), shared)
    written = spark.read.parquet(str(tmp_path / "out" / "late")).collect()
    assert [row["publisher"] for row in written] == ["publisher"]
