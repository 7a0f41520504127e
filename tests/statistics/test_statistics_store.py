"""The statistics in SQLite: the answers of the in-memory twin, restarts, damage."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.routing.covering.statistics import MemoryStatistics, Window
from reefcast.statistics.store import BATCH, BATCH_S, StatisticsStore

Report = list[str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "b1.statistics"


def fill(store: StatisticsStore, rows: int, *, owner: str = "alice", from_s: float = 0.0) -> None:
    """Record rows of 5 subscriptions under 2 advertisements, a millisecond apart."""
    for i in range(rows):
        store.record(("quotes", i), ("quotes", i % 2), (owner, i % 5), i % 7, 1, from_s + i * 1e-3)


def written(path: Path) -> int:
    """Return how many rows are in the file, which nobody has open."""
    database = sqlite3.connect(path)
    (rows,) = database.execute("SELECT count(*) FROM delivery").fetchone()
    database.close()
    return rows


def distances(store: StatisticsStore, owner: str = "alice", first: int = 0) -> list[int]:
    return [
        store.pruning_distance((owner, number), ("quotes", advertisement), theta)
        for number in range(first, first + 5)
        for advertisement in range(2)
        for theta in (0.1, 0.5, 0.9)
    ]


# --- the twin -------------------------------------------------------------------------------------

subscriptions, advertisements = st.integers(0, 3), st.integers(0, 2)
passing = st.sampled_from([1e-3, 0.5, 3.0, 9.0])
steps = st.one_of(
    st.tuples(st.just("record"), subscriptions, advertisements, st.integers(0, 9), passing),
    st.tuples(st.just("record"), subscriptions, advertisements, st.integers(0, 9), passing),
    st.tuples(st.just("expire"), passing),
    st.tuples(st.just("purge"), subscriptions),
    st.tuples(st.just("ask"), subscriptions, advertisements, st.sampled_from([0.1, 0.5, 0.9])),
    st.tuples(st.just("restart")),
)


@settings(max_examples=60)
@given(
    st.lists(steps, max_size=60),
    st.sampled_from([Window(10.0, 4, 12), Window(10.0, 100, 1000), Window(2.0, 1, 3)]),
    st.sampled_from([1, 3, 500]),
)
def test_answers_as_the_twin_in_memory_across_restarts(
    script: list[tuple[object, ...]], window: Window, batch: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("reefcast.statistics.store.BATCH", batch)
        path, report = Path(folder) / "statistics", []
        store = StatisticsStore(path, 0.0, report.append, window)
        twin, now = MemoryStatistics(window), 0.0
        for seq, (kind, *arguments) in enumerate(script):
            if kind in ("record", "expire"):
                now += arguments.pop()
            if kind == "restart":
                store.close()
                store = StatisticsStore(path, now, report.append, window)
                twin.expire(now)
            for statistics in (store, twin):
                if kind == "record":
                    number, advertisement, distance = arguments
                    statistics.record(
                        ("p", seq), ("p", advertisement), ("s", number), distance, 1, now
                    )
                elif kind == "expire":
                    statistics.expire(now)
                elif kind == "purge":
                    statistics.purge(("s", arguments[0]))
            if kind == "ask":
                number, advertisement, theta = arguments
                question = (("s", number), ("p", advertisement), theta)
                assert store.pruning_distance(*question) == twin.pruning_distance(*question)
            assert store.rows == twin.rows
        for number in range(4):
            for advertisement in range(3):
                question = (("s", number), ("p", advertisement), 0.5)
                assert store.pruning_distance(*question) == twin.pruning_distance(*question)
        store.close()
        assert report == []


# --- batches, bounds ------------------------------------------------------------------------------


def test_rows_are_written_in_batches_by_number_and_by_time(path: Path) -> None:
    store = StatisticsStore(path, 0.0, pytest.fail)
    changes = store._database.total_changes
    for i in range(BATCH - 1):
        store.record(("quotes", i), ("quotes", 1), ("alice", i % 5), 1, 1, 0.0)
    assert store._database.total_changes == changes
    fill(store, 1)
    assert store._database.total_changes >= changes + BATCH
    changes = store._database.total_changes
    store.record(("quotes", 1), ("quotes", 1), ("alice", 1), 1, 1, 10.0)
    store.expire(10.0 + BATCH_S / 2)
    assert store._database.total_changes == changes
    store.expire(10.0 + BATCH_S)
    assert store._database.total_changes == changes + 1
    store.close()


def test_what_no_longer_counts_leaves_the_file(path: Path) -> None:
    store = StatisticsStore(path, 0.0, pytest.fail, Window(seconds=60.0, rows=20))
    fill(store, 2000)
    store.flush()
    assert store.rows == 10 * 20
    store.purge(("alice", 3))
    store.close()
    assert written(path) == 8 * 20
    store = StatisticsStore(path, 2.0, pytest.fail, Window(seconds=60.0, rows=20))
    store.expire(100.0)
    store.close()
    assert written(path) == 0


def test_the_total_bounds_the_file_whatever_the_number_of_pairs(path: Path) -> None:
    store = StatisticsStore(path, 0.0, pytest.fail, Window(rows=10, total=300))
    for i in range(3000):
        store.record(("quotes", i), ("quotes", 1), ("alice", i % 1000), 1, 1, i * 1e-3)
        assert store.rows <= 300
    store.close()
    assert written(path) <= 300


def test_numbers_beyond_64_bits_are_kept(path: Path) -> None:
    subscription, advertisement = ("alice", 2**64 - 1), ("quotes", 2**70)
    for expected in (0, 4):
        store = StatisticsStore(path, 0.0, pytest.fail)
        assert store.pruning_distance(subscription, advertisement, 0.9) == expected
        store.record(("quotes", 1), advertisement, subscription, 4, 1, 0.0)
        store.close()


# --- restarts -------------------------------------------------------------------------------------


def test_a_subscription_that_comes_back_under_another_id_claims_its_statistics(
    path: Path,
) -> None:
    store = StatisticsStore(path, 0.0, pytest.fail)
    for number in range(5):
        store.claim(("alice", number), f"price < {number}")
    fill(store, 1000)
    before = distances(store)
    store.close()
    assert any(before)
    for life in (1, 2):
        store = StatisticsStore(path, 1.0, pytest.fail)
        for number in range(5):
            store.claim(("alice", 100 * life + number), f"price < {number}")
        assert distances(store, first=100 * life) == before
        assert not any(distances(store, first=100 * (life - 1)))
        store.close()


def test_claims_take_only_what_the_same_client_had_for_the_same_text_and_once(path: Path) -> None:
    store = StatisticsStore(path, 0.0, pytest.fail)
    for number in (1, 2):
        store.claim(("alice", number), "price < 9")
        store.record(("quotes", number), ("quotes", 1), ("alice", number), 3, 1, 0.0)
    store.close()
    store = StatisticsStore(path, 1.0, pytest.fail)
    claims = [("bob", 11), ("alice", 12), ("alice", 13), ("alice", 14), ("alice", 15)]
    texts = ["price < 9", "price < 8", "price < 9", "price < 9", "price < 9"]
    for subscription, text in zip(claims, texts, strict=True):
        store.claim(subscription, text)
    found = [store.pruning_distance(id, ("quotes", 1), 0.9) for id in claims]
    assert found == [0, 0, 3, 3, 0]
    store.close()


def test_rows_of_a_clock_that_went_back_count_as_rows_of_now(path: Path) -> None:
    store = StatisticsStore(path, 5000.0, pytest.fail)
    fill(store, 100, from_s=5000.0)
    before = distances(store)
    store.close()
    store = StatisticsStore(path, 10.0, pytest.fail)
    assert distances(store) == before
    store.expire(10.0 + 3601.0)
    assert not any(distances(store))
    store.close()


def test_a_smaller_window_than_that_of_the_former_life_holds_at_once(path: Path) -> None:
    store = StatisticsStore(path, 0.0, pytest.fail)
    for distance in (9, 9, 9, 9, 2, 2):
        store.record(("quotes", 1), ("quotes", 1), ("alice", 1), distance, 1, 0.0)
    assert store.pruning_distance(("alice", 1), ("quotes", 1), 1.0) == 9
    store.close()
    store = StatisticsStore(path, 0.0, pytest.fail, Window(rows=2))
    assert store.pruning_distance(("alice", 1), ("quotes", 1), 1.0) == 2
    assert store.rows == 2
    store.close()


# --- what cannot be used --------------------------------------------------------------------------


def test_refuses_a_file_that_another_process_uses_and_leaves_it_alone(path: Path) -> None:
    store = StatisticsStore(path, 0.0, pytest.fail)
    fill(store, 10)
    with pytest.raises(ConfigurationError, match="in use by another process"):
        StatisticsStore(path, 0.0, pytest.fail)
    assert any(distances(store))
    store.close()


def test_makes_its_directory_and_refuses_one_that_cannot_be(tmp_path: Path) -> None:
    StatisticsStore(tmp_path / "new" / "one" / "statistics", 0.0, pytest.fail).close()
    assert (tmp_path / "new" / "one" / "statistics").exists()
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "statistics", tmp_path / "new"):
        with pytest.raises(ConfigurationError, match="give a directory that may be written to"):
            StatisticsStore(path, 0.0, pytest.fail)


def test_what_is_said_after_the_end_changes_nothing_in_the_file(path: Path) -> None:
    store = StatisticsStore(path, 0.0, pytest.fail)
    fill(store, 1000)
    before = distances(store)
    store.close()
    found = path.read_bytes()
    fill(store, 2 * BATCH)
    store.purge(("alice", 1))
    store.expire(1e9)
    assert not any(distances(store))
    store.close()
    assert path.read_bytes() == found
    store = StatisticsStore(path, 1.0, pytest.fail)
    assert distances(store) == before
    store.close()


def garbage(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(10_000))


def half(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 + 100])


def zeroed_page(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    start = 4096 * (len(data) // 4096 // 2)
    data[start : start + 4096] = bytes(4096)
    path.write_bytes(data)


def somebody_elses(path: Path, rng: random.Random) -> None:
    path.unlink()
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE pair (id)")
    database.close()


def of_another_version(path: Path, rng: random.Random) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 77")
    database.close()


def of_another_type(path: Path, rng: random.Random) -> None:
    database = sqlite3.connect(path)
    database.execute("PRAGMA ignore_check_constraints = ON")
    database.execute("UPDATE delivery SET distance = 'far' WHERE number = 7")
    database.commit()
    database.close()


@pytest.mark.parametrize(
    "damage", [garbage, half, zeroed_page, somebody_elses, of_another_version, of_another_type]
)
def test_a_damaged_file_is_set_aside_and_reported_and_a_new_one_begun(
    path: Path, damage: Callable[[Path, random.Random], None]
) -> None:
    store = StatisticsStore(path, 0.0, pytest.fail)
    fill(store, 3000)
    store.close()
    damage(path, random.Random(1))
    found = path.read_bytes()
    report: Report = []
    store = StatisticsStore(path, 3.0, report.append)
    (sentence,) = report
    assert str(path) in sentence and "kept as b1.statistics.damaged" in sentence
    assert path.with_name("b1.statistics.damaged").read_bytes() == found
    assert store.rows == 0
    fill(store, 1000, from_s=3.0)
    before = distances(store)
    store.close()
    store = StatisticsStore(path, 4.0, pytest.fail)
    assert any(before) and distances(store) == before
    store.close()


def spoil(path: Path, rng: random.Random) -> None:
    """Change a few bytes of the file."""
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 3, 50])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.2:
        del data[rng.randrange(len(data)) :]
    path.write_bytes(data)


def live_with_a_spoiled_file(path: Path, rng: random.Random) -> Report:
    """Use a store with a damaged file: nothing may be raised, and what is recorded from then on
    counts."""
    store = StatisticsStore(path, 0.0, pytest.fail, Window(rows=50))
    for number in range(5):
        store.claim(("alice", number), f"price < {number}")
    fill(store, 3000)
    store.close()
    spoil(path, rng)
    report: Report = []
    store = StatisticsStore(path, 3.0, report.append, Window(rows=50))
    for number in range(5):
        store.claim(("alice", 100 + number), f"price < {number}")
    distances(store)
    store.purge(("alice", 101))
    fill(store, 3000, owner="bob", from_s=3.0)
    found = distances(store, "bob")
    store.expire(1e6)
    store.close()
    twin = MemoryStatistics(Window(rows=50))
    for i in range(3000):
        twin.record(("quotes", i), ("quotes", i % 2), ("bob", i % 5), i % 7, 1, i * 1e-3)
    assert report or found == distances(twin, "bob")
    return report


@pytest.mark.long
def test_a_spoiled_file_is_never_fatal(tmp_path: Path) -> None:
    reports = []
    for seed in range(25):
        path = tmp_path / f"{seed}.statistics"
        reports.append(live_with_a_spoiled_file(path, random.Random(seed)))
    assert sum(map(bool, reports)) >= 3


@pytest.mark.soak
def test_spoiled_files_are_never_fatal_hundreds(tmp_path: Path) -> None:
    for seed in range(100, 1500):
        path = tmp_path / "statistics"
        live_with_a_spoiled_file(path, random.Random(seed))
        for file in tmp_path.iterdir():
            file.unlink()


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from reefcast.statistics.store import StatisticsStore

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
report = []
store = StatisticsStore(Path(sys.argv[1]), 0.0, report.append)
found = []
for i in range(20_000):
    store.record(("quotes", i), ("quotes", 1), ("alice", i % 50), 3, 1, i * 1e-3)
    if i % 1000 == 999:
        found.append(store.pruning_distance(("alice", 49), ("quotes", 1), 0.9))
print(found.count(3), len(report))
print(report[0])
"""


@pytest.mark.parametrize(
    ("room", "then"), [(300_000, "a new file was begun"), (1000, "kept in memory")]
)
def test_where_nothing_more_can_be_written_statistics_go_on(
    path: Path, room: int, then: str
) -> None:
    process = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), str(room)],
        capture_output=True,
        text=True,
        check=True,
    )
    figures, sentence = process.stdout.splitlines()
    answered, reports = map(int, figures.split())
    assert reports >= 1 and answered >= 20 - reports
    assert then in sentence
