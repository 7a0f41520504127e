"""Files of a broker's sessions: what can be read of them is read, or they are refused."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from drawn_changes import Changes
from fuzzing import OFTEN_AND_SOAKED, changed_bytes, changed_packed, knock
from reefcast.errors import ConfigurationError
from reefcast.keeping.coding import opened, sealed
from reefcast.keeping.store import SqliteStore
from reefcast.model.keeping import PutRow
from reefcast.sessions.home import Home

PER_FILE = 20
"""How many times as long such an input takes as others."""
VALUES: dict[str, tuple[str, tuple[str, ...]]] = {
    "session": ("number", ("session",)),
    "mark": ("session", ("mark",)),
    "owed": ("session, position", ()),
    "tries": ("session, position", ()),
    "seen": ("session, publisher, chunk", ()),
    "note": ("session, key", ("note",)),
}
"""The key of each table, and what stands before it in the checksum."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "b.sqlite"
    store, changes = SqliteStore(path, pytest.fail, always=False), Changes(random.Random(1))
    store.load()
    for _ in range(60):
        store.commit(changes.batch())
    store.close()
    return path.read_bytes()


def with_changed_value(sound: bytes, path: Path, rng: random.Random) -> bytes:
    """The file with another value in a row, with the checksum that belongs to it: a bug, or
    somebody, wrote it."""
    path.write_bytes(sound)
    database = sqlite3.connect(path)
    table = rng.choice(sorted(VALUES))
    keys, before = VALUES[table]
    rows = database.execute(f"SELECT {keys}, data FROM {table} ORDER BY {keys}").fetchall()
    if rows:
        *key, data = rng.choice(rows)
        value = sealed(changed_packed(opened(data, *before, *key), rng), *before, *key)
        where = " AND ".join(f"{name} = ?" for name in keys.split(", "))
        database.execute(f"UPDATE {table} SET data = ? WHERE {where}", (value, *key))
        if "," in keys and rng.random() < 0.1:  # a key of one number is SQLite's own, and a number
            name, kind = rng.choice(keys.split(", ")), rng.choice(("TEXT", "BLOB"))
            database.execute(
                f"UPDATE {table} SET {name} = CAST({name} AS {kind}) WHERE {where}", key
            )
        database.commit()
    database.close()
    return path.read_bytes()


def door_of(folder: Path) -> None:
    path = folder / "b.sqlite"
    said: list[str] = []
    try:
        store = SqliteStore(path, said.append, always=False)
    except ConfigurationError:
        return
    try:
        contents = store.load()
        store.bodies(contents.events)
        store.commit([PutRow("table", b"key", b"data")])
        Home(contents)
    finally:
        store.close()


@OFTEN_AND_SOAKED
def test_session_files(sound: bytes, tmp_path: Path, count: int) -> None:
    folder, scratch = tmp_path / "b", tmp_path / "scratch.sqlite"

    def made(rng: random.Random) -> bytes:
        if rng.random() < 0.5:
            return with_changed_value(sound, scratch, rng)
        return changed_bytes(sound, rng)

    def door(data: bytes) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "b.sqlite").write_bytes(data)
        door_of(folder)

    knock(door, made, count // PER_FILE)
