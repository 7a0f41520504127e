"""The benchmark of histories measures what it says."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from reefcast.history.schema import connect
from reefcast.history.store import DATABASE, SEGMENTS
from reefcast.model.wire import decode_publication
from reefcast_lab.bench import history
from reefcast_lab.bench.history import bench, publications
from reefcast_lab.cli.bench import command

IN_DATABASE = [
    ("in", "reefcast"),
    ("in", "plain SQLite"),
    ("in, history", "reefcast"),
    ("out, all", "reefcast"),
    ("out, all", "plain SQLite"),
    ("out, price > 50", "reefcast"),
    ("out, price > 50", "plain SQLite"),
    ("first 1", "reefcast"),
    ("first 1", "plain SQLite"),
    ("first 1", "SQLite, by index"),
    ("first 64", "reefcast"),
    ("first 64", "plain SQLite"),
    ("first 64", "SQLite, by index"),
    ("sealing", "reefcast"),
]
SEALED = ("Parquet, out", "Parquet, first 1", "Parquet, first 64")


@pytest.fixture(autouse=True)
def few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "REQUESTS", 5)


def test_rows_and_their_baselines(tmp_path: Path) -> None:
    told: list[str] = []
    rows = list(bench(3000, tmp_path / "kept", told.append))
    assert told == [f"storing 3,000 messages in {tmp_path / 'kept'}", "sealing"]
    engines = ("reefcast", "DuckDB", "DuckDB, unsorted")
    sealed = [(what, engine) for what in SEALED for engine in engines]
    assert [(row.what, row.engine) for row in rows] == [*IN_DATABASE, *sealed]
    for row in rows:
        assert row.messages == 3000 and (row.cpu_per_s or row.cpu_ms)
        compared = row.engine == "reefcast" and row.what not in ("in, history", "sealing")
        assert (row.ratio is not None) is compared, row
    ours, plain = rows[:2]
    assert ours.ratio == round(ours.cpu_per_s / plain.cpu_per_s, 2)
    ours, duck, _ = rows[-3:]
    assert ours.ratio == round(duck.cpu_ms / ours.cpu_ms, 2)


def test_without_duckdb_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "duckdb_is_missing", lambda: True)
    rows = list(bench(1500, tmp_path, lambda said: None))
    sealed = [(what, "reefcast") for what in SEALED]
    assert [(row.what, row.engine) for row in rows] == [*IN_DATABASE, *sealed]
    assert all(row.ratio is None for row in rows[-3:])


def test_all_engines_find_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "sealed" / SEGMENTS
    with (
        closing(history._open(tmp_path / "kept")) as store,
        closing(connect(tmp_path / "kept" / DATABASE)) as database,
        closing(duckdb.connect()) as duck,
    ):
        history._ingest(store, "", 0, 4000, lambda said: None)
        history._seal(store, tmp_path / "sealed", 4000)
        readers = [
            history._reader(store, "TRUE"),
            history._plain_reader(database, "TRUE"),
            history._duckdb_reader(duck, folder, history._ORDER),
            history._duckdb_reader(duck, folder, ""),
        ]
        topic = "market/7"
        ours, *others = [[body for batch in read(topic) for body in batch] for read in readers]
        assert len(ours) == store.counts()[topic].rows > 10
        assert all(found == ours for found in others)
        wanted = [decode_publication(body).attributes["symbol"] for body in ours]
        askers = [
            history._asking(store),
            *(history._plain_asking(database, through) for _, through in history._PLANS),
            history._duckdb_asking(duck, folder, history._ORDER),
            history._duckdb_asking(duck, folder, ""),
        ]
        for symbol in (*wanted, "S"):
            expected = [b for b, s in zip(ours, wanted, strict=True) if s == symbol]
            for first in history.FIRST:
                for ask in askers:
                    assert ask(topic, str(symbol), first) == expected[:first]


def test_a_filter_leaves_the_same_to_both(tmp_path: Path) -> None:
    with (
        closing(history._open(tmp_path)) as store,
        closing(connect(tmp_path / DATABASE)) as database,
    ):
        history._ingest(store, "", 0, 4000, lambda said: None)
        _, (_, filter, condition) = history._FILTERS
        topics = history._some(store)
        assert len(topics) == history.TOPICS
        ours, plain = (
            [body for topic in topics for batch in read(topic) for body in batch]
            for read in (
                history._reader(store, filter),
                history._plain_reader(database, condition),
            )
        )
    assert ours == plain and 1500 < len(ours) < 2500


def test_a_history_that_was_kept_is_used_again(tmp_path: Path) -> None:
    list(bench(500, tmp_path, lambda said: None))
    rows = list(bench(500, tmp_path, lambda said: None))
    assert "in, history" not in [row.what for row in rows]
    told: list[str] = []
    rows = list(bench(700, tmp_path, told.append))
    assert told[0] == f"storing 200 messages in {tmp_path}"
    assert rows[-1].messages == 700


def test_messages_are_the_same_for_everybody() -> None:
    assert list(publications(5, 25)) == list(publications(5, 25))


def test_prints_rows_as_json() -> None:
    result = CliRunner().invoke(command, ["history", "--stored", "1000", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert rows[0]["what"] == "in" and rows[0]["messages"] == 1000
