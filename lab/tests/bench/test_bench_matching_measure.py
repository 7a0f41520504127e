"""What `reefcast-lab bench match` measures and prints; never how fast anything is."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from reefcast.errors import ConfigurationError, InternalError, LocalError
from reefcast_lab.bench import page_tables
from reefcast_lab.bench.matching import adversarial, cliffs, measure, page, worst
from reefcast_lab.bench.matching.adversarial import CASES
from reefcast_lab.bench.matching.engines import BASELINES, REEFCAST
from reefcast_lab.bench.matching.measure import BATCHED, SINGLE, MatchTiming
from reefcast_lab.bench.matching.table import matches
from reefcast_lab.bench.matching.workloads import SOURCES, make
from reefcast_lab.bench.matching.worst import WorstRow
from reefcast_lab.cli.bench import command

GUIDE = Path(__file__).parents[3] / "docs" / "explanation" / "matching.md"
MARKS = "<!-- {0}: made by `reefcast-lab bench match` -->\nold\n<!-- end of {0} -->\n"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "ENGINE_S", 0.0)


def a_row(**fields: object) -> MatchTiming:
    row = MatchTiming(
        "stock", 0.02, 1000, REEFCAST, SINGLE, 2.0, 1.9, 3.0, 4, 20.0, 100.0, 5.0, 300.0
    )
    return replace(row, **fields)


def some_rows() -> list[MatchTiming]:
    return [
        a_row(engine=engine, mode=mode, n=n, selectivity=selectivity)
        for selectivity in (0.02, 0.001)
        for n in (1000, 10_000)
        for mode in (SINGLE, BATCHED)
        for engine in (REEFCAST, *BASELINES)
    ]


def test_a_row_for_each_engine_and_mode(quick: None) -> None:
    workload = make("flights", 0.02, 200)
    rows = measure.measure(workload, lambda _: None)
    every = [(mode, engine) for mode in (SINGLE, BATCHED) for engine in (REEFCAST, *BASELINES)]
    assert [(row.mode, row.engine) for row in rows] == every
    expected = matches(workload.table, workload.events).sum() / len(workload.events)
    assert all(row.matches_per_event == pytest.approx(expected) for row in rows)
    for mode in (SINGLE, BATCHED):
        times = {row.engine: row.us_per_event for row in rows if row.mode == mode}
        best = min(times[engine] for engine in BASELINES)
        ratios = {row.engine: row.ratio for row in rows if row.mode == mode}
        assert ratios == pytest.approx({engine: best / us for engine, us in times.items()})
    (mine,) = [row for row in rows if (row.mode, row.engine) == (SINGLE, REEFCAST)]
    assert mine.add_us and mine.remove_us and mine.floor_us and mine.call_share


def test_an_engine_that_finds_something_else(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made = measure.baselines

    def with_a_liar(table):
        liar, *others = made(table)
        return [replace(liar, match=lambda publication: np.array([0])), *others]

    monkeypatch.setattr(measure, "baselines", with_a_liar)
    with pytest.raises(
        InternalError, match="columns and reefcast disagree on stock with 100 filters"
    ):
        measure.measure(make("stock", 0.02, 100), lambda _: None)


def test_the_command_prints_rows_as_json(quick: None) -> None:
    done = CliRunner().invoke(command, ["match", "--workload", "zipf", "--n", "100", "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert {(row["workload"], row["n"]) for row in rows} == {("zipf", 100)}
    assert len(rows) == 2 * 2 * 4
    assert "zipf, 0.1%, 100 filters" in done.stderr


def test_the_command_prints_a_table_and_writes_plot_and_page(quick: None, tmp_path: Path) -> None:
    plot, text = tmp_path / "plot.svg", tmp_path / "page.md"
    text.write_text(f"before\n{MARKS.format(page.FIGURES)}after\n", encoding="utf-8")
    asked = ["match", "--workload", "stock", "--n", "100", "--plot", str(plot), "--page", str(text)]
    done = CliRunner().invoke(command, asked)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["workload", "selectivity", "filters", "engine"]
    assert len(lines) == 1 + 2 * 2 * 4
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")
    written = text.read_text(encoding="utf-8")
    assert written.startswith("before\n<!-- figures") and written.endswith("-->\nafter\n")
    assert "old" not in written and "| stock, 2.0% | 100 |" in written


def test_worst_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "page.md"
    text.write_text(MARKS.format(page.WORST), encoding="utf-8")
    monkeypatch.setattr(adversarial, "EVENTS", 8)
    asked = ["match", "--worst", "--workload", "identical", "--n", "150", "--page", str(text)]
    done = CliRunner().invoke(command, [*asked, "--json"])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert (row["workload"], row["n"], row["matches_per_event"]) == ("identical", 150, 150.0)
    for what in ("match", "add", "remove"):
        assert 0 < row[f"{what}_p50_us"] <= row[f"{what}_p99_us"] <= row[f"{what}_max_us"]
    assert "| identical | 150 | 150 |" in text.read_text(encoding="utf-8")


def test_the_lesser_of_two_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter([np.array([1.0, 9.0]), np.array([5.0, 2.0])])

    def run(made: object) -> object:
        times = next(runs)
        return (times, times, times, times), 0, 0

    monkeypatch.setattr(worst, "_run", run)
    assert worst.worst("one attribute", 10).add_max_us == 2.0


def test_a_worst_case_that_there_is_not() -> None:
    with pytest.raises(ConfigurationError, match="no case 'mild'; there are boundaries"):
        worst.worst("mild", 10)


def test_cliffs(tmp_path: Path) -> None:
    text = tmp_path / "page.md"
    text.write_text(MARKS.format(page.CLIFFS), encoding="utf-8")
    asked = ["match", "--cliffs", "--n", "60", "--page", str(text), "--json"]
    done = CliRunner().invoke(command, asked)
    assert done.exit_code == 0, done.output
    rows = {row["workload"]: row for row in json.loads(done.stdout)}
    assert list(rows) == list(cliffs.CASES)
    assert (rows["9 ORs"]["n"], rows["IN 1000 numbers"]["n"]) == (60, 30)
    for row in rows.values():
        assert row["ns_per_filter"] > 0 and row["ratio"] > 0
        assert 0 < row["add_p50_us"] <= row["add_max_us"]
    assert "| 9 ORs | 60 |" in text.read_text(encoding="utf-8")


def test_a_cliff_at_which_the_index_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cliffs.CompiledIndex, "match", lambda index, publication: [0])
    with pytest.raises(InternalError, match="finds something wrong in 'LIKE, 60'"):
        cliffs.cliff("LIKE, 60", 10)


def test_a_cliff_that_there_is_not() -> None:
    with pytest.raises(ConfigurationError, match="there is no case 'Dover'; there are a > b"):
        cliffs.cliff("Dover", 10)


def test_no_plot_of_worst_cases(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["match", "--worst", "--plot", str(tmp_path / "p.svg")])
    assert done.exit_code == 2 and "--plot goes with the workloads" in done.output


def test_a_page_without_a_place_for_the_tables(tmp_path: Path) -> None:
    text = tmp_path / "page.md"
    text.write_text("nothing here\n", encoding="utf-8")
    with pytest.raises(LocalError, match="has no place for the figures: write <!-- figures"):
        page_tables.fill(text, page.FIGURES, "| a |")


def test_tables_of_the_page() -> None:
    text = page.figures([replace(r, floor_us=0.5, call_share=0.25) for r in some_rows()])
    single, batches, costs = text.split("Microseconds per event")[1:][0], text, text
    assert "| stock, 2.0% | 1,000 | 2 | 2 | 2 | 2 | 5 | 3 | 20 | 100 | 0.5 | 25% |" in single
    assert batches.count("| stock, 0.1% | 10,000 |") == 3
    assert costs.rstrip().endswith("| stock, 0.1% | 10,000 | 300 |  |  |")
    numbers = (1.0, 12345.6, 0.1234, *[2.0] * 9)
    assert "| nested | 10 | 1 | 12,346 | 0.123 | 2 |" in page.worst_cases(
        [WorstRow("nested", 10, *numbers)]
    )


def test_a_plot_has_a_panel_for_each_workload_selectivity_and_mode() -> None:
    rows = some_rows() + [replace(row, workload="zipf") for row in some_rows()]
    svg = ElementTree.fromstring(page.plot(rows))
    groups = [g.get("id", "") for g in svg.iter("{http://www.w3.org/2000/svg}g")]
    assert len([name for name in groups if name.startswith("axes_")]) == 2 * 4


def test_the_guide_has_a_place_for_all_tables(tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(GUIDE.read_text(encoding="utf-8"), encoding="utf-8")
    for block in (page.FIGURES, page.WORST, page.CLIFFS):
        page_tables.fill(copy, block, f"the {block}")
        assert copy.read_text(encoding="utf-8").count(f"\n\nthe {block}\n<!-- end of") == 1


def test_the_example_of_the_guide() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, str(GUIDE), "exec"), {})


def test_the_guide_names_every_workload_and_worst_case() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert [name for name in (*SOURCES, *CASES, *cliffs.CASES) if f"*{name}*" not in text] == []
