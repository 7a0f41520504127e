"""What `reefcast bench cover` measures and writes; never how fast anything is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from reefcast.bench.cover import measure
from reefcast.bench.cover.columns import Columns
from reefcast.bench.cover.workloads import BOXES, WORKLOADS, make
from reefcast.cli.bench import command
from reefcast.errors import ConfigurationError
from reefcast.matching.cover.scan import ScanCoverIndex

GUIDE = Path(__file__).parents[2] / "docs" / "covering-index.md"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "ASKED", 6)
    monkeypatch.setattr(measure, "SCANNED", 3)


@pytest.mark.parametrize("workload", BOXES)
def test_columns_find_what_the_scan_finds(workload):
    stored, asked = make(workload, 120, 12)
    columns, scan = Columns(stored), ScanCoverIndex()
    for key, filter in enumerate(stored):
        scan.add(key, filter)
    for filter in [*asked, *stored[:5]]:
        for query in measure.QUERIES:
            assert columns.ask(query, filter) == getattr(scan, query)(filter)


@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_workloads_are_the_same_each_time(workload):
    first, again = make(workload, 20, 5), make(workload, 20, 5)
    assert [[f.text for f in part] for part in first] == [[f.text for f in p] for p in again]
    assert len({filter.text for filter in first[0]}) == 20


def test_roots_of_the_nested_workload_cover_what_is_below():
    from reefcast.bench.cover.workloads import ROOTS

    stored, asked = make("nested", 20 * ROOTS, 100)
    scan = ScanCoverIndex()
    for key, filter in enumerate(stored):
        scan.add(key, filter)
    found = sorted(len(scan.covered(filter)) for filter in asked)
    assert found[-10] > 10  # those as wide as roots
    assert found[10] == 0  # those as narrow as what is stored


def test_prints_rows(few: None) -> None:
    arguments = ["cover", "--n", "60", "--n", "90", "--workload", "stock", "--json"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert {row["n"] for row in rows} == {60, 90}
    queries = [(row["query"], row["engine"]) for row in rows if row["n"] == 60]
    assert queries == [
        *[(query, e) for query in measure.QUERIES for e in ("index", "scan", "columns")],
        *[(change, "index") for change in ("add", "remove", "add, roots", "remove, roots")],
    ]
    assert all((row["ratio"] is not None) == (row["in_aim"] is not None) for row in rows[::3][:4])


def test_fills_the_page(few: None, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(GUIDE.read_text(encoding="utf-8"), encoding="utf-8")
    arguments = ["cover", "--n", "40", "--workload", "language", "--page", str(page)]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    assert "us/query" in done.output
    text = page.read_text(encoding="utf-8")
    assert text.count("| language | 40 | covering |") == 1
    assert "| language | 40 | remove, roots |" in text


def test_refuses_a_workload_that_there_is_not() -> None:
    with pytest.raises(ConfigurationError, match="there is no workload 'nestd'; there are nested"):
        list(measure.bench(["nestd"], [10], print))
