"""Damaged data is reported, and never handed out; the rest can be read."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from history_stores import body, opened, position, read, seal

from reefcast.errors import ConfigurationError, DamagedError
from reefcast.history.store import HistoryStore, Incoming
from reefcast.model.publication import Publication
from reefcast.model.values import Kind

PAGE, LEAF = 4096, 10
TOPICS = ("a", "b", "c")


def made(count: int = 2000) -> list[Publication]:
    return [
        Publication(
            f"p{i % 7}",
            i,
            i * 3,
            {"n": i / 10, "s": f"s{i % 20}"},
            (TOPICS[i % 3],) if i % 5 else ("a", "b"),
            b"x" * (3000 if i % 50 == 0 else i % 40),
        )
        for i in range(count)
    ]


STORED = made()


def items() -> list[Incoming]:
    return [Incoming(body(p), 10**9 if p.seq % 3 else None) for p in STORED]


def on(topic: str) -> list[bytes]:
    return [body(p) for p in sorted(STORED, key=position) if topic in p.topics]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sound")
    store = opened(directory)
    store.append(items())
    store.close()
    return directory


def check_damaged(directory: Path) -> int:
    """Open a damaged history; return how many rows could not be read."""
    reports: list[DamagedError] = []
    store = opened(directory, reports.append)
    lost = 0
    for topic in TOPICS:
        found = read(store, [topic], report=reports.append)
        everything = on(topic)
        assert set(found) <= set(everything)
        assert found == [each for each in everything if each in set(found)], (
            "events are out of order"
        )
        lost += len(everything) - len(found)
    assert not lost or reports or store.verify()
    check_healing(store, reports)
    store.close()
    return lost


def check_healing(store: HistoryStore, reports: list[DamagedError]) -> None:
    store.rebuild()
    assert "rows were saved" in str(reports[-1]) or "its rows were saved" in str(reports[-1])
    store.append(items())
    assert store.verify() == []
    assert [read(store, [topic]) for topic in TOPICS] == list(map(on, TOPICS))
    assert sum(counts.rows for counts in store.counts().values()) == sum(
        len(p.topics) for p in STORED
    )


def damage(rng: random.Random, data: bytearray, kind: str) -> None:
    place = rng.randrange(len(data))
    page = place // PAGE * PAGE
    if kind == "bit":
        data[place] ^= 1 << rng.randrange(8)
    elif kind == "page":
        data[page : page + PAGE] = rng.randbytes(PAGE)
    elif kind == "old page":
        data[page : page + PAGE] = data[:PAGE]
    else:
        del data[place:]


def damage_and_check(sound: Path, directory: Path, seed: int, kind: str) -> int:
    shutil.copytree(sound, directory)
    database = directory / "history.sqlite"
    data = bytearray(database.read_bytes())
    damage(random.Random(seed), data, kind)
    database.write_bytes(data)
    return check_damaged(directory)


KINDS = ("bit", "page", "old page", "cut")


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_reported_and_the_rest_is_read(sound: Path, tmp_path: Path, kind: str) -> None:
    lost = [damage_and_check(sound, tmp_path / str(seed), seed, kind) for seed in range(3)]
    assert any(lost) or kind == "bit"
    if kind != "cut":
        assert max(lost) < len(STORED) / 5


@pytest.mark.parametrize("size", [(1 << 64) - 1, 1 << 23])
def test_a_row_that_claims_to_be_endless(sound: Path, tmp_path: Path, size: int) -> None:
    """What it says of its length, and of the pages on which it goes on, is not trusted."""
    directory = shutil.copytree(sound, tmp_path / "copy")
    database = directory / "history.sqlite"
    data = bytearray(database.read_bytes())
    number = next(at for at in range(5, len(data) // PAGE) if data[at * PAGE] == LEAF)
    page = bytearray(PAGE)
    page[0], page[3:5], page[8:10] = LEAF, (1).to_bytes(2, "big"), (100).to_bytes(2, "big")
    page[100:109] = b"\xff" * 9 if size >> 63 else bytes([0x80] * 4 + [0x84, 0x80, 0x80, 0x00, 0])
    for at in range(110, PAGE - 4, 4):
        page[at : at + 4] = (number + 1).to_bytes(4, "big")
    data[number * PAGE : (number + 1) * PAGE] = page
    database.write_bytes(data)
    assert check_damaged(directory) < len(STORED) / 5


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_lot_of_damage(sound: Path, tmp_path: Path, kind: str) -> None:
    for seed in range(100, 400):
        damage_and_check(sound, tmp_path / str(seed), seed, kind)
        shutil.rmtree(tmp_path / str(seed))


@pytest.mark.long
@pytest.mark.parametrize("bit", [0, 3, 7])
@pytest.mark.parametrize(
    ("column", "topic"), [("body", "c"), ("time_us", "c"), ("seq", "a"), ("expiry_us", "a")]
)
def test_a_row_that_is_not_what_was_stored(
    sound: Path, tmp_path: Path, column: str, topic: str, bit: int
) -> None:
    """Reading ends before it, or reports it and goes on; appending the row again repairs it."""
    directory = shutil.copytree(sound, tmp_path / "copy")
    with sqlite3.connect(directory / "history.sqlite") as database:
        (number,) = database.execute("SELECT id FROM topic WHERE name = ?", (topic,)).fetchone()
        key, value = _middle(database, number, column)
        changed = (
            value[:-1] + bytes([value[-1] ^ 1 << bit]) if column == "body" else value ^ 1 << bit
        )
        where = "(topic, time_us, publisher, seq) = (?, ?, ?, ?)"
        database.execute(f"UPDATE message SET {column} = ? WHERE {where}", (changed, number, *key))
    database.close()
    store = opened(directory)
    everything = on(topic)
    found: list[bytes] = []
    with pytest.raises(DamagedError, match=f"topic '{topic}' in the database: .* is damaged"):
        for batch in store.read([topic], 0):
            found += batch
    assert found == everything[: len(found)] and len(found) < len(everything)
    reports: list[DamagedError] = []
    found = read(store, [topic], report=reports.append)
    assert len(found) == len(everything) - 1 and set(found) < set(everything) and len(reports) == 1
    if column in ("body", "expiry_us"):
        assert store.append(items()).stored == 0
        assert read(store, [topic]) == everything
    store.close()


def _middle(database: sqlite3.Connection, topic: int, column: str):
    """Return the key of a row, and its value in that column."""
    *key, value = database.execute(
        f"SELECT time_us, publisher, seq, {column} FROM message WHERE topic = ? AND {column} "
        "IS NOT NULL AND time_us > 3000 AND time_us < 4000 ORDER BY time_us LIMIT 1",
        (topic,),
    ).fetchone()
    return key, value


def test_the_body_of_several_topics(sound: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(sound, tmp_path / "copy")
    with sqlite3.connect(directory / "history.sqlite") as database:
        database.execute("UPDATE shared SET body = x'00' WHERE time_us = 1515")
        database.execute("DELETE FROM shared WHERE time_us = 1530")
    database.close()
    store = opened(directory)
    reports: list[DamagedError] = []
    assert len(read(store, ["a"], report=reports.append)) == len(on("a")) - 2
    assert len(reports) == 2
    store.append(items())
    assert [read(store, [topic]) for topic in ("a", "b")] == [on("a"), on("b")]
    store.close()


def test_a_file_that_is_no_database_is_set_aside(sound: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(sound, tmp_path / "copy")
    database = directory / "history.sqlite"
    database.write_bytes(b"garbled".ljust(100) + database.read_bytes()[100:])
    reports: list[DamagedError] = []
    store = opened(directory, reports.append)
    assert "are damaged" in str(reports[0]) or "is damaged" in str(reports[0])
    assert [read(store, [topic]) for topic in TOPICS] == list(map(on, TOPICS))
    assert (directory / "history.sqlite.damaged").exists()
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE attribute SET kind = 99",
        "UPDATE attribute SET kind = 'x' WHERE number = 0",
        "UPDATE topic SET rows = 'x'",
        "UPDATE topic SET publisher = 5",
        "UPDATE era SET last_us = 'x'",
        "INSERT INTO dropped VALUES ('segment', 'x')",
        "INSERT INTO whole VALUES ('a', 'x')",
    ],
)
def test_a_database_with_values_that_nobody_stored_is_set_aside(
    sound: Path, tmp_path: Path, change: str
) -> None:
    """SQLite does not find that a page is not what it was."""
    directory = shutil.copytree(sound, tmp_path / "copy")
    with closing(sqlite3.connect(directory / "history.sqlite")) as database:
        assert database.execute(change).rowcount > 0
        database.commit()
    reports: list[DamagedError] = []
    store = opened(directory, reports.append)
    assert reports
    assert [read(store, [topic]) for topic in TOPICS] == list(map(on, TOPICS))
    assert (directory / "history.sqlite.damaged").exists()
    store.close()


def test_a_writer_says_that_its_database_is_damaged(sound: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(sound, tmp_path / "copy")
    database = directory / "history.sqlite"
    data = database.read_bytes()
    database.write_bytes(data[: 20 * PAGE] + bytes(len(data) - 20 * PAGE))
    reports: list[DamagedError] = []
    store = opened(directory, reports.append)
    with pytest.raises(DamagedError, match="rebuild it"):
        store.append(items())
    store.rebuild()
    store.append(items())
    assert [read(store, [topic]) for topic in TOPICS] == list(map(on, TOPICS))
    store.close()


def test_a_sealed_segment_that_is_damaged(tmp_path: Path) -> None:
    store = opened(tmp_path, segment_us=1000)
    store.append(items())
    seal(store, 6000)
    while store.clean(0).more:
        pass
    store.close()
    [path] = tmp_path.glob("segments/since_us=2000/*")
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)
    reports: list[DamagedError] = []
    store = opened(tmp_path, reports.append, segment_us=1000)
    lost = 0
    for topic in TOPICS:
        found = read(store, [topic], report=reports.append)
        assert set(found) <= set(on(topic))
        missing = [p for p in STORED if topic in p.topics and body(p) not in set(found)]
        assert all(2000 <= p.time_us < 3000 for p in missing)
        lost += len(missing)
    assert lost and "since_us=2000/000000.parquet" in str(reports[0])
    store.append(items())
    assert [read(store, [topic], report=reports.append) for topic in TOPICS] == list(
        map(on, TOPICS)
    )
    store.close()


@pytest.mark.parametrize("place", ["column", "rows", "extents"])
def test_a_sealed_segment_whose_footer_is_damaged_is_set_aside(tmp_path: Path, place: str) -> None:
    """Parquet has no checksum of its footer."""
    store = opened(tmp_path, segment_us=10_000)
    store.append(items())
    seal(store, 10_000)
    store.close()
    [path] = tmp_path.glob("segments/*/*")
    data = path.read_bytes()
    old, new = {
        "column": (b"body", b"bodx"),
        "rows": (b'"rows":2', b'"rows":3'),
        "extents": (b'["b",', b'["b",1'),
    }[place]
    assert old in data
    path.write_bytes(data.replace(old, new))
    reports: list[DamagedError] = []
    store = opened(tmp_path, reports.append, segment_us=10_000)
    assert "segment" in str(reports[0])
    assert path.with_name(f".{path.name}.damaged").exists()
    for topic in TOPICS:
        assert set(read(store, [topic], report=reports.append)) <= set(on(topic))
    store.close()


def test_segments_with_other_indexed_attributes_are_not_set_aside(tmp_path: Path) -> None:
    """The database, which says which there are, may be gone."""
    store = opened(tmp_path, segment_us=10_000)
    store.append(items())
    seal(store, 10_000)
    store.close()
    (tmp_path / "history.sqlite").unlink()
    with pytest.raises(ConfigurationError, match="other indexed attributes"):
        HistoryStore(tmp_path, lambda error: None, indexed={"n": Kind.NUMBER}, segment_us=10_000)
    store = opened(tmp_path, segment_us=10_000)
    assert [read(store, [topic]) for topic in TOPICS] == list(map(on, TOPICS))
    store.close()


def test_what_a_damaged_segment_has_is_not_dropped_and_sealed_again(tmp_path: Path) -> None:
    reports: list[DamagedError] = []
    store = opened(tmp_path, reports.append, segment_us=10_000)
    store.append(items())
    seal(store, 10_000)
    [path] = tmp_path.glob("segments/*/*")
    data = bytearray(path.read_bytes())
    data[500] ^= 1  # a page of topics: it is the first column
    path.write_bytes(data)
    while store.clean(0).more:
        pass
    assert "000000.parquet is damaged" in str(reports[0])
    assert sum(counts.rows for counts in store.counts().values()) == sum(map(len, map(on, TOPICS)))
    assert store.closed(10_000) == [0]
    seal(store, 10_000)
    assert [read(store, [topic], report=reports.append) for topic in TOPICS] == list(
        map(on, TOPICS)
    )
    store.close()


def test_a_file_that_is_no_segment_is_passed_over(tmp_path: Path) -> None:
    store = opened(tmp_path, segment_us=1000)
    store.append(items())
    seal(store, 1000)
    store.close()
    [path] = tmp_path.glob("segments/*/*")
    path.write_bytes(path.read_bytes()[:-10])
    reports: list[DamagedError] = []
    store = opened(tmp_path, reports.append, segment_us=1000)
    assert "000000.parquet is not a sealed segment" in str(reports[0])
    assert [read(store, [topic]) for topic in TOPICS] == list(map(on, TOPICS))
    store.close()
