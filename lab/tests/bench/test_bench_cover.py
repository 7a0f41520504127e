"""What `reefcast-lab bench cover` measures and prints; never how fast anything is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from reefcast.errors import ConfigurationError
from reefcast.matching.cover.scan import ScanCoverIndex
from reefcast_lab.bench.cover import graphs, measure
from reefcast_lab.bench.cover.columns import Columns
from reefcast_lab.bench.cover.workloads import BOXES, ROOTS, WORKLOADS, degree_filters, make
from reefcast_lab.cli.bench import command

GUIDE = Path(__file__).parents[3] / "docs" / "explanation" / "covering-index.md"


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


# --- the relation graphs -------------------------------------------------------------------------


def test_roots_of_the_degree_workload_cover_equally_many():
    scan = ScanCoverIndex()
    filters = degree_filters(4 * ROOTS)
    for key, filter in enumerate(filters):
        scan.add(key, filter)
    for root in range(ROOTS):
        assert scan.covering(filters[root]) == [root]
        assert scan.covered(filters[root]) == [root + ROOTS * turn for turn in range(4)]


def test_prints_the_graphs_side_by_side() -> None:
    arguments = ["cover", "--graphs", "--n", "152", "--workload", "degree", "--json"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    rows = {(row["graph"], row["index"]): row for row in json.loads(done.stdout)}
    cases = [(graph, index) for graph in ("traditional", "simplified") for index in ("on", "off")]
    assert list(rows) == [*cases, ("roots", "on")]
    assert all(row["covering_degree"] == 3 for row in rows.values())
    for graph in ("traditional", "simplified"):
        assert rows[graph, "on"]["edges"] == rows[graph, "off"]["edges"] == 3 * ROOTS
        assert rows[graph, "on"]["add_comparisons"] == rows[graph, "on"]["remove_comparisons"] == 0
    # All roots, and one more on the average of what is below one of them; or half of the roots.
    assert rows["traditional", "off"]["add_comparisons"] == ROOTS + 1.5
    assert ROOTS / 2 < rows["simplified", "off"]["add_comparisons"] < ROOTS + 1.5
    assert rows["traditional", "off"]["remove_comparisons"] == 0
    assert rows["simplified", "off"]["remove_comparisons"] == 3 * (ROOTS - 1)
    assert rows["roots", "on"]["edges"] is None


def test_fills_the_page_with_the_graphs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(GUIDE.read_text(encoding="utf-8"), encoding="utf-8")
    done = CliRunner().invoke(command, ["cover", "--graphs", "--n", "90", "--page", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    for workload in ("degree", "stock"):
        assert text.count(f"| {workload} | 90 | simplified | off |") == 1
    assert "| nested | 1,000 | covering |" in text


def test_the_graphs_refuse_a_workload_that_they_have_not() -> None:
    with pytest.raises(ConfigurationError, match="graphs have no workload 'nested'; there are deg"):
        list(graphs.bench(["nested"], [10], print))
