"""The examples of run-spark-jobs.md run; spark-tables.md names the columns that are written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from live_history import live_history

from reefcast.overlay import topology
from reefcast.pipeline.analysis import TABLES
from reefcast.pipeline.planning import clusters, covering, links
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def blocks(title: str) -> list[str]:
    """Return the blocks of Python of a section of the guide."""
    section = GUIDE.split(title)[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


@pytest.mark.spark
def test_the_program_that_is_submitted(spark: SparkSession, tmp_path: Path) -> None:
    """It runs again when all is read, and publishes nothing twice."""
    shared: dict[str, Any] = {"__name__": "large_orders"}
    (program,) = blocks("## Submit a program of your own")
    exec(compile(program, "large_orders.py", "exec"), shared)
    with live_history(tmp_path / "storage") as network:
        network.publish("orders", *({"number": n, "total": 50.0 * n} for n in range(6)))
        while not network.count("orders/large"):  # events are read when they have settled
            shared["main"](network.url, str(tmp_path / "checkpoint"))
        shared["main"](network.url, str(tmp_path / "checkpoint"))
        large = network.wait("orders/large", 3)
    assert sorted(event["number"] for event in large) == [3, 4, 5]


@pytest.mark.spark
def test_examples(spark, tmp_path):
    trace = TraceOptions(tmp_path / "out" / "trace")
    simulation = Simulation(Setup(graph=topology.path(["a", "b"]), trace=trace))
    simulation.subscribe("client", "b", "x >= 0", at_s=0.0)
    simulation.publish("publisher", "a", {"x": 1}, at_s=1.0)
    simulation.run()
    shared = {"spark": spark}
    for source in blocks("## Analyse a trace"):
        here = source.replace('"out/', f'"{tmp_path}/out/')  # Spark's own folder stays as it is
        exec(compile(here, "run-spark-jobs.md", "exec"), shared)
    written = spark.read.parquet(str(tmp_path / "out" / "late")).collect()
    assert [row["publisher"] for row in written] == ["publisher"]
