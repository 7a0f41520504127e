"""Everything for which `append` has returned survives `kill -9`, whatever the writer was doing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from history_stores import INDEXED, complain, read

from reefcast.history.store import HistoryStore
from reefcast.model.filters import parse_filter
from reefcast.model.wire import decode_publication

WRITER = """
import sys
from pathlib import Path
from reefcast.model.publication import Publication
from reefcast.model.values import Kind
from reefcast.model.wire import encode_publication
from reefcast.history import schema
from reefcast.history.store import HistoryStore, Incoming, Limits

schema.CHECKPOINT_PAGES = 50  # or no life would be long enough for one

def complain(error):
    print("damaged", error, flush=True)

def item(i):
    topics = ("a",) if i % 3 else ("a", "b")
    publication = Publication("p", i, i, {"n": i % 7}, topics, bytes(i % 500))
    return Incoming(encode_publication(publication))

first, sealing = int(sys.argv[2]), sys.argv[3] == "sealing"
indexed = {"flag": Kind.BOOLEAN, "n": Kind.NUMBER, "s": Kind.STRING}
store = HistoryStore(Path(sys.argv[1]), complain, indexed=indexed, segment_us=1000)
print("up", flush=True)
for i in range(first, first + 10**9, 50):
    store.append([item(each) for each in range(i, i + 50)])
    print("stored", i + 50, flush=True)
    if sealing and i % 1000 == 0:
        for since_us in store.closed(i):
            store.seal(store.export(since_us, -1))
    store.clean(-1, 300)
"""
"""The writer: publication i has position i; every third one is on topic b as well."""


def live_and_die(path: Path, first: int, seconds: float, mode: str) -> int:
    """Run a writer that stores from number `first` on, and kill it; return how far it said it
    came."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), mode],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    lines = process.stdout.read().splitlines()
    assert process.wait() == -signal.SIGKILL
    assert not any("damaged" in line for line in lines), lines
    said = [line.split() for line in lines]
    # The last line may be cut off by the kill.
    return max((int(words[1]) for words in said[:-1] if len(words) == 2), default=first)


def check(path: Path, stored: int) -> int:
    """Check that everything reported as stored is there once, on all of its topics, and in its
    index, and that only whole batches are. Return where the next life starts."""
    store = HistoryStore(path, complain, indexed=INDEXED, segment_us=1000)
    assert store.verify() == []
    seqs = [decode_publication(each).seq for each in read(store, ["a"])]
    assert seqs == list(range(len(seqs))) and len(seqs) % 50 == 0 and len(seqs) >= stored
    thirds = [decode_publication(each).seq for each in read(store, ["b"])]
    assert thirds == seqs[::3]
    sevenths = read(store, ["a"], filter=parse_filter("n = 0"))
    assert [decode_publication(each).seq for each in sevenths] == seqs[::7]
    store.close()
    return len(seqs)


def survive(path: Path, lives: int, rng: random.Random, mode: str) -> None:
    first = 0
    for _ in range(lives):
        stored = live_and_die(path, first, rng.uniform(0.0, 0.3), mode)
        first = check(path, stored)
    assert first > 0


@pytest.mark.parametrize("mode", ["storing", "sealing"])
def test_histories_survive_kills(tmp_path: Path, mode: str) -> None:
    survive(tmp_path, 3, random.Random(1), mode)


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["storing", "sealing"])
def test_histories_survive_hundreds_of_kills(tmp_path: Path, mode: str) -> None:
    for seed in range(10):
        survive(tmp_path / str(seed), 20, random.Random(seed), mode)
