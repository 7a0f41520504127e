"""The statistics survive `kill -9` of their broker, whatever it was doing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from reefcast.routing.covering.statistics import Window
from reefcast.statistics.store import StatisticsStore

BROKER = """
import sys
from pathlib import Path
from reefcast.routing.covering.statistics import Window
from reefcast.statistics.store import StatisticsStore

path, window, life, first = Path(sys.argv[1]), Window(rows=40), *map(int, sys.argv[2:])

def complain(sentence):
    print("report", sentence, flush=True)

store = StatisticsStore(path, first * 1e-3, complain, window)
for number in range(50):
    store.claim(("alice", 1000 * life + number), f"price < {number}")
print("up", store.rows, flush=True)
for i in range(first, first + 10**9):
    number = 1000 * life + i % 50
    store.record(("quotes", i), ("quotes", i % 3), ("alice", number), i % 10, 1, i * 1e-3)
    if i % 97 == 0:
        store.flush()
        print("written", i, flush=True)
    if i % 501 == 0:
        store.purge(("alice", number))
        store.claim(("alice", number), f"price < {i % 50}")
        store.expire(i * 1e-3)
"""
"""The broker: row i, of distance i % 10, is of the subscription to `price < (i % 50)`."""


def live_and_die(path: Path, life: int, first: int, seconds: float) -> tuple[int, list[str]]:
    """Run a broker that records from row `first` on, and kill it; return the last row that it
    reported as written, and everything that it said."""
    process = subprocess.Popen(
        [sys.executable, "-c", BROKER, str(path), str(life), str(first)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.read().splitlines()
    assert process.wait() == -signal.SIGKILL
    written = [line.split() for line in lines if line.startswith("written")]
    # The last line may be cut off by the kill.
    return max((int(words[1]) for words in written[:-1] if len(words) == 2), default=-1), lines


def check(path: Path, life: int, written: int) -> None:
    """Check that what was reported as written is there, and that whole batches are."""
    report: list[str] = []
    store = StatisticsStore(path, 0.0, report.append, Window(rows=40))
    assert report == []
    found = store._database.execute(
        "SELECT subscription, delivery.publication, distance, number, pair FROM delivery "
        "JOIN pair ON pair = id ORDER BY pair, number"
    ).fetchall()
    rows = store._database.execute("SELECT count(*) FROM delivery").fetchone()[0]
    store.close()
    assert len(found) == rows <= 150 * 40
    for subscription, publication, distance, _, _ in found:
        assert int(subscription) % 1000 == publication % 50 and distance == publication % 10
    for (*_, number, pair), (*_, after, other) in pairwise(found):
        assert pair != other or after == number + 1
    if written > 0:
        # Of 50 rows, at most the purged one's may be missing.
        kept = {publication for _, publication, *_ in found}
        assert len(kept & set(range(written - 50, written + 1))) >= 49


def survive(path: Path, lives: int, rng: random.Random) -> None:
    first, before = 0, 0
    for life in range(lives):
        written, lines = live_and_die(path, life, first, rng.uniform(0.0, 0.15))
        assert lines[0].startswith("up") and not any("report" in line for line in lines), lines
        if before:
            assert int(lines[0].split()[1]) > 0
        check(path, life, written)
        before, first = written > 0, max(first, written) + 1000


def test_statistics_survive_kills(tmp_path: Path) -> None:
    survive(tmp_path / "statistics", 4, random.Random(1))


@pytest.mark.soak
def test_statistics_survive_hundreds_of_kills(tmp_path: Path) -> None:
    for seed in range(10):
        survive(tmp_path / f"{seed}.statistics", 30, random.Random(seed))
