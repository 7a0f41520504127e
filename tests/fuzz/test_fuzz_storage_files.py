"""Files of a storage, those of SQLite and those of Parquet: what can be read of them is read and
reported, or the storage is refused; nothing is returned that was not stored."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from fuzzing import OFTEN_AND_SOAKED, changed_bytes, knock
from reefcast.errors import ConfigurationError, DamagedError
from reefcast.history.store import HistoryStore, Incoming
from reefcast.model.publication import Publication
from reefcast.model.values import Kind
from reefcast.model.wire import encode_publication

PER_FILE = 40
"""How many times as long such an input takes as others."""
STORED = {
    encode_publication(
        Publication(
            f"p{i % 3}", i, i * 3, {"n": i / 10, "s": f"s{i % 5}"}, ("ab"[i % 2],), b"x" * i
        )
    )
    for i in range(1, 60)
}


def opened(directory: Path, reports: list[DamagedError]) -> HistoryStore:
    indexed = {"n": Kind.NUMBER, "s": Kind.STRING}
    return HistoryStore(directory, reports.append, indexed=indexed, segment_us=90)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sound")
    store = opened(directory, [])
    store.append([Incoming(body) for body in sorted(STORED)])
    segment = store.export(store.closed(100)[0], 0)
    assert segment is not None
    store.seal(segment)
    store.close()
    return directory


@OFTEN_AND_SOAKED
def test_storage_files(sound: Path, tmp_path: Path, count: int) -> None:
    files = sorted(path.relative_to(sound) for path in sound.rglob("*") if path.is_file())
    assert any(path.suffix == ".parquet" for path in files)
    folder = tmp_path / "h"

    def made(rng: random.Random) -> tuple[Path, bytes]:
        path = rng.choice(files)
        return path, changed_bytes((sound / path).read_bytes(), rng)

    def door(changed: tuple[Path, bytes]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sound, folder)
        path, data = changed
        (folder / path).write_bytes(data)
        try:
            store = opened(folder, reports := [])
        except (ConfigurationError, DamagedError):
            return
        try:
            found = [
                body
                for topic in "ab"
                for part in store.read([topic], 0, report=reports.append)
                for body in part
            ]
            assert set(found) <= STORED
        finally:
            store.close()

    knock(door, made, count // PER_FILE)
