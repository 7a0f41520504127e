"""The SQLite store beside the simulated one, and what is left of it when everything fails."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from drawn_changes import Changes
from reefcast.errors import ConfigurationError
from reefcast.keeping import store as module
from reefcast.keeping.coding import pack_owed, pack_session
from reefcast.keeping.database import one_number, open_database
from reefcast.keeping.store import SqliteStore
from reefcast.model.keeping import (
    Contents,
    DropEvents,
    DropSession,
    PutEvent,
    PutMark,
    PutNotes,
    PutOwed,
    PutRow,
    PutSeen,
    PutSession,
    PutTries,
    SessionRecord,
)
from reefcast_lab.torture.stores import SimulatedStore

RECORD = SessionRecord(name="s", owner="", link="$s", created_s=0.0)


def opened(path: Path, said: list[str] | None = None, *, always: bool = True) -> SqliteStore:
    def report(sentence: str) -> None:
        assert said is not None, sentence
        said.append(sentence)

    return SqliteStore(path, report, always=always)


def everything(store: SqliteStore | SimulatedStore) -> tuple[Contents, dict[int, bytes]]:
    contents = store.load()
    contents.rows = {table: rows for table, rows in contents.rows.items() if rows}
    bodies = store.bodies(contents.events)
    assert not bodies.missing
    return contents, bodies.found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("always", [True, False])
def test_it_holds_what_the_simulated_one_holds(tmp_path, seed, always):
    changes, twin, path = Changes(random.Random(seed)), SimulatedStore(), tmp_path / "b.sqlite"
    store = opened(path, always=always)
    store.load()
    for number in range(60):
        batch = changes.batch()
        store.commit(batch)
        twin.commit(batch)
        if number % 20 == 19:
            store.close()
            store = opened(path, always=always)
            assert everything(store) == everything(twin)
    store.close()


@pytest.mark.parametrize("damage", ["CAST(x'ff' AS TEXT)", "7", "x''", "body || x'00'"])
def test_a_body_that_is_damaged_is_reported_and_missing(tmp_path, damage):
    path = tmp_path / "b.sqlite"
    store = opened(path)
    store.load()
    store.commit([PutEvent(number, ("p", number), 0.0, b"body") for number in (1, 2)])
    store.close()
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE event SET body = {damage} WHERE number = 1")
    database.close()
    said: list[str] = []
    store = opened(path, said)
    store.load()
    bodies = store.bodies([1, 2])
    assert list(bodies.found) == [2] and bodies.missing == (1,)
    assert said == [f"{path}: the body of event 1 is damaged"]
    store.close()


def test_a_body_in_pages_that_are_damaged_is_missing_alone(tmp_path: Path) -> None:
    path, page = tmp_path / "b.sqlite", 4096
    store = opened(path)
    store.load()
    store.commit(
        [PutEvent(number, ("p", number), 0.0, bytes([number]) * 20_000) for number in (1, 2)]
    )
    store.close()
    content = bytearray(path.read_bytes())
    at = (
        content.index(bytes([1]) * (page - 4)) - 4
    )  # it is full of it, but for the next one's number
    content[at : at + 4] = b"\xff" * 4
    path.write_bytes(content)
    said: list[str] = []
    store = opened(path, said)
    store.load()
    bodies = store.bodies([1, 2])
    assert list(bodies.found) == [2] and bodies.missing == (1,)
    assert said == [f"{path}: the body of event 1 is damaged (database disk image is malformed)"]
    store.close()


@pytest.mark.parametrize(
    ("at", "data"),
    [(60, b"\x00" * 4), (60, b"\xff" * 4), (100, b"\x63" * 8)],
    ids=["format 0", "format -1", "a schema that cannot be read"],
)
def test_a_file_that_cannot_be_opened_is_set_aside(tmp_path, at, data):
    path = tmp_path / "b.sqlite"
    store = opened(path)
    store.load()
    store.commit([PutRow("table", b"key", b"data")])
    store.close()
    damaged = bytearray(path.read_bytes())
    damaged[at : at + len(data)] = data
    path.write_bytes(damaged)
    said: list[str] = []
    store = opened(path, said)
    assert "is damaged" in said[0]
    store.load()
    store.commit([PutRow("table", b"key", b"data")])
    store.close()


class Copying:
    """A thread that copies the files of a store at random instants within its commits, as a loss of
    power would leave them, and damages what was not synced: the end of the log."""

    def __init__(self, store: SqliteStore, rng: random.Random, folder: Path) -> None:
        self.store, self.rng, self.folder = store, rng, folder
        self.copies: list[tuple[int, Path]] = []
        self.synced_bytes = self.batches = 0
        store._database.set_progress_handler(self.maybe, 40)

    @property
    def log(self) -> Path:
        return self.store.path.with_name(self.store.path.name + "-wal")

    def maybe(self) -> int:
        if self.rng.random() < 0.02:
            self.copy()
        return 0

    def copy(self) -> None:
        target = self.folder / str(len(self.copies)) / self.store.path.name
        target.parent.mkdir(parents=True)
        shutil.copy(self.store.path, target)
        if self.log.exists():
            data = self.log.read_bytes()
            tail = data[self.synced_bytes :]
            if tail:  # some of it never came to the disk
                tail = tail[: self.rng.randrange(len(tail))] + bytes(self.rng.randrange(5000))
            target.with_name(self.log.name).write_bytes(data[: self.synced_bytes] + tail)
        self.copies.append((self.batches, target))

    def committed(self) -> None:
        """Note that the last commit has been written; until now nobody was told that it is
        synced."""
        if self.rng.random() < 0.4:
            self.copy()
        self.batches += 1
        self.synced_bytes = self.log.stat().st_size if self.log.exists() else 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_loss_of_power_at_any_instant_costs_nothing_that_was_synced(tmp_path, seed):
    rng = random.Random(seed)
    changes, twin = Changes(rng, size=3000), SimulatedStore()
    store = opened(tmp_path / "live" / "b.sqlite")
    store.load()
    copying = Copying(store, rng, tmp_path)
    states = [everything(twin)]
    for _ in range(40):
        batch = changes.batch()
        store.commit(batch)
        copying.committed()
        twin.commit(batch)
        states.append(everything(twin))
    store.close()
    assert len(copying.copies) > 5
    for batches, path in copying.copies:
        copied = opened(path)
        found = everything(copied)
        copied.close()
        # The batch that was being committed may be there, as a whole.
        assert found in states[batches : batches + 2]


def test_a_batch_that_fails_leaves_nothing_and_can_be_tried_again(tmp_path):
    """The disk is full: the file may have no more pages."""
    store = opened(tmp_path / "b.sqlite")
    store.load()
    store.commit([PutSession(1, RECORD)])
    pages = one_number(store._database, "PRAGMA page_count")
    store._database.execute(f"PRAGMA max_page_count = {pages + 2}")
    batch = [PutOwed(1, 1, 1, 0.0, (1,)), PutEvent(1, ("p", 1), 0.0, bytes(100_000))]
    with pytest.raises(OSError, match="full"):
        store.commit(batch)
    store._database.execute("PRAGMA max_page_count = 100000")
    store.commit(batch)
    store.close()
    contents, bodies = everything(opened(tmp_path / "b.sqlite"))
    assert contents.sessions[1].owed[1].event == 1
    assert bodies == {1: bytes(100_000)}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_damage_is_said_and_set_aside_and_nothing_wrong_is_returned(tmp_path, seed):
    rng, path = random.Random(seed), tmp_path / "b.sqlite"
    changes, twin = Changes(rng), SimulatedStore()
    store = opened(path)
    store.load()
    for _ in range(150):
        batch = changes.batch()
        store.commit(batch)
        twin.commit(batch)
    store.close()
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at : at + 600] = rng.randbytes(len(data[at : at + 600]))
    path.write_bytes(data)
    said: list[str] = []
    right, right_bodies = everything(twin)
    try:
        store = opened(path, said)
    except ConfigurationError as error:
        assert at < 100, f"damage behind the header made the file unreadable: {error}"
        return
    contents = store.load()
    bodies = store.bodies(contents.events)
    store.close()
    aside = list(tmp_path.glob("b.sqlite.damaged-*"))
    if not said:
        assert (contents, bodies.found) == (right, right_bodies)
    assert len(aside) == any("it is kept as" in each for each in said)
    for each in aside:  # but for SQLite's own counters in the first page
        assert each.read_bytes()[4096:] == data[4096:], (
            "the damaged file was changed after it was set aside"
        )
    assert all(right_bodies[number] == body for number, body in bodies.found.items())
    for table, rows in contents.rows.items():
        assert rows.items() <= right.rows[table].items()
    for number, session in contents.sessions.items():
        assert session.seen.items() <= right.sessions[number].seen.items()
        assert session.notes.items() <= right.sessions[number].notes.items()
        for position, owed in session.owed.items():
            assert owed.event == right.sessions[number].owed[position].event


def test_pages_of_what_is_gone_go_back_to_the_file_system(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FREE_PAGES", 40)
    path = tmp_path / "b.sqlite"
    store = opened(path)
    store.load()
    for number in range(20):
        store.commit([PutEvent(number + 1, ("p", number), 0.0, bytes(100_000))])
    for number in range(50):
        store.commit([DropEvents(number + 1, number + 1)])
    store.close()
    assert path.stat().st_size < 500_000


def test_two_brokers_cannot_have_one_file(tmp_path):
    store = opened(tmp_path / "b.sqlite")
    with pytest.raises(ConfigurationError, match="a directory of its own"):
        opened(tmp_path / "b.sqlite")
    store.close()


def test_a_newer_format_is_refused_and_an_older_one_brought_up(tmp_path, monkeypatch):
    path = tmp_path / "b.sqlite"
    store = opened(path)
    store.load()
    store.commit([PutRow("prt", b"key", b"row")])
    store.close()
    upgrade = "CREATE TABLE more (one INTEGER); INSERT INTO more VALUES (7);"
    with monkeypatch.context() as newer:
        upgrades = {**module.FORMAT.upgrades, 2: upgrade}
        newer.setattr(module, "FORMAT", module.FORMAT._replace(version=3, upgrades=upgrades))
        store = opened(path)
        assert store.load().rows == {"prt": {b"key": b"row"}}
        assert one_number(store._database, "SELECT one FROM more") == 7
        store.close()
    with pytest.raises(ConfigurationError, match="has format 3, and this is the program of"):
        opened(path)
    assert path.exists()


FORMAT_1 = module.FORMAT._replace(
    version=1, tables=module.FORMAT.tables.replace(module.FORMAT.upgrades[1], ""), upgrades={}
)


def file_of_format_1(path: Path) -> None:
    """Make a file as it was before sessions had notes, with a session and what it owes."""
    database = open_database(path, FORMAT_1)
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_schema")}
    assert "session" in tables and "note" not in tables
    database.execute("INSERT INTO session VALUES (1, ?)", (pack_session(1, RECORD),))
    owed = PutOwed(1, 7, 3, 0.5, (1,))
    database.execute("INSERT INTO owed VALUES (1, 7, ?)", (pack_owed(owed),))
    database.close()


def test_a_file_from_before_there_were_notes_is_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "b.sqlite"
    file_of_format_1(path)
    store = opened(path)
    session = store.load().sessions[1]
    assert session.record == RECORD and list(session.owed) == [7] and not session.notes
    store.commit([PutNotes(1, {"key": "text"})])
    store.close()
    store = opened(path)
    assert store.load().sessions[1].notes == {"key": "text"}
    store.close()


def test_a_note_that_is_damaged_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "b.sqlite"
    store = opened(path)
    store.load()
    store.commit([PutSession(1, RECORD), PutNotes(1, {"a": "1", "b": "2", "c": "3"})])
    store.close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE note SET data = x'00' WHERE key = x'61'")
        database.execute("UPDATE note SET key = x'64' WHERE key = x'62'")
    database.close()
    said: list[str] = []
    store = opened(path, said)
    assert store.load().sessions[1].notes == {"c": "3"}
    assert len(said) == 1 and "without 2 that cannot" in said[0]
    store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "note SET key = CAST(key AS TEXT)",
        "seen SET publisher = CAST(publisher AS BLOB)",
        "row SET key = CAST(key AS TEXT)",
        "row SET tab = CAST(tab AS BLOB)",
    ],
)
def test_a_key_of_another_type_is_damage(tmp_path: Path, damage: str) -> None:
    """SQLite takes any type, and a text has the checksum of its bytes."""
    path = tmp_path / "b.sqlite"
    store = opened(path)
    store.load()
    changes = [PutRow("t", b"k", b"row"), PutSession(1, RECORD), PutNotes(1, {"a": "b"})]
    store.commit([*changes, PutSeen(1, "p", 0, b"\x01", 0.0)])
    store.close()
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE {damage}")
    database.close()
    said: list[str] = []
    store = opened(path, said)
    contents = store.load()
    kept = {
        "row": contents.rows.get("t", {}),
        "note": contents.sessions[1].notes,
        "seen": contents.sessions[1].seen,
    }
    whole = {"row": {b"k": b"row"}, "note": {"a": "b"}, "seen": {("p", 0): (b"\x01", 0.0)}}
    assert kept == whole | {damage.partition(" ")[0]: {}}
    assert len(said) == 1 and "without 1 that cannot" in said[0]
    store.close()


def test_a_session_that_is_dropped_leaves_nothing(tmp_path: Path) -> None:
    """Its number may come again."""
    path, tables = tmp_path / "b.sqlite", ("session", "mark", "owed", "tries", "seen", "note")
    store = opened(path)
    store.load()
    seen = PutSeen(1, "p", 0, b"", 0.0)
    its = (PutMark(1, 1), PutOwed(1, 1, 1, 0.0, ()), PutTries(1, 1, 1), seen, PutNotes(1, {"": ""}))
    store.commit([PutSession(1, RECORD), *its])
    counts = [f"SELECT count(*) FROM {table}" for table in tables]
    assert [one_number(store._database, count) for count in counts] == [1] * len(tables)
    store.commit([PutNotes(1, {"a": "b"}), DropSession(1)])
    assert [one_number(store._database, count) for count in counts] == [0] * len(tables)
    store.close()


def test_the_file_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "b.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (one INTEGER)")
    other.commit()
    other.close()
    with pytest.raises(ConfigurationError, match="holds no sessions, but something else"):
        opened(path)
    assert sqlite3.connect(path).execute("SELECT count(*) FROM theirs").fetchone() == (0,)


@pytest.mark.parametrize("always", [True, False])
def test_commits_are_synced_by_themselves_or_not(tmp_path, always):
    """No test can switch the power off; SQLite's documentation says what its settings do."""
    store = opened(tmp_path / "b.sqlite", always=always)
    store.load()
    normal, full = 1, 2
    assert one_number(store._database, "PRAGMA synchronous") == (full if always else normal)
    store.sync()
    assert one_number(store._database, "PRAGMA synchronous") == (full if always else normal)
    assert store._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_a_schema_that_is_no_text_is_damage(tmp_path: Path) -> None:
    """SQLite quotes it in what it says is wrong, and Python cannot decode that."""
    path = tmp_path / "b.sqlite"
    SqliteStore(path, pytest.fail, always=False).close()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE ", b"CREATE \xdfABLE ", 1))
    said: list[str] = []
    SqliteStore(path, said.append, always=False).close()
    assert len(said) == 1 and "is damaged (it names its tables by what is no text)" in said[0]
