"""The Python examples of every page run: here as they stand, or where another test shows more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "client.md": "tests/client/test_client_docs.py",
    "covering.md": "lab/tests/experiments/test_experiments_docs.py",
    "explain.md": "tests/cli/test_cli_explain.py",
    "history.md": "tests/client/test_client_history_live.py",
    "matching.md": "lab/tests/bench/test_bench_matching_measure.py",
    "spark-connector.md": "tests/pipeline/test_pipeline_connector_live.py",
    "spark-datasets.md": "lab/tests/workloads/test_workloads_jobs.py",
    "python.md": "tools/python_reference.py",  # signatures, no programs
    "spark-matching.md": "tests/pipeline/test_pipeline_matching.py",
    "spark.md": "tests/pipeline/test_pipeline_spark_docs.py",
    "write-a-routing.md": "tests/server/test_server_write_a_routing.py",
}
EXAMPLES = {
    page.name: re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for page in sorted((ROOT / "docs").rglob("*.md"))
}


@pytest.mark.parametrize("page", ELSEWHERE)
def test_the_other_test_is_there(page: str) -> None:
    assert page in EXAMPLES
    assert page in (ROOT / ELSEWHERE[page]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", [n for n, found in EXAMPLES.items() if found and n not in ELSEWHERE]
)
def test_examples_run(page: str) -> None:
    for source in EXAMPLES[page]:
        exec(compile(source, page, "exec"), {"__name__": "example"})
