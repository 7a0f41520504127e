"""The measurement of session stores, with little to do."""

from __future__ import annotations

import pytest

from reefcast_lab.bench.keeping import measure


@pytest.fixture
def few(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in {"GROUPS": (2,), "ROUNDS": 1, "COMMITS": 3, "IDLE": 5, "SYNCS": 1}.items():
        monkeypatch.setattr(measure, name, value)


def test_all_stores_do_the_same_work(few):
    rows = list(measure.bench(2500, lambda said: None))
    stores = {row.store for row in rows}
    assert "sqlite" in stores
    for store in stores:
        done = [(row.work, row.events) for row in rows if row.store == store]
        assert done == [
            ("commit", 6),
            ("fill", 2500),
            ("load", 2500),
            ("drain", 2500),
            ("idle", 5),
        ]
    assert all(row.events_per_s > 0 and row.cpu_us_per_event >= 0 for row in rows)
