"""A real query between real brokers and a real storage is killed in the middle of its batches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live_history import Listener, Network, Sender, live_history

from reefcast.client.encoding import encode_event
from reefcast.pipeline.connector.options import Broker
from reefcast.pipeline.connector.publishing import Publisher
from reefcast.protocol.client_ids import identity_of

PROGRAM = Path(__file__).with_name("spark_copy.py")
BEFORE, RATE_PER_S, LATE_EVERY = 2000, 50, 25


@contextmanager
def copying(network: Network, checkpoint: Path) -> Iterator[Sender]:
    """Run the query, with Java and everything, until the end of the block, where it is killed."""
    command = [sys.executable, str(PROGRAM), network.url, str(checkpoint)]
    file = checkpoint.with_suffix(".log")
    with file.open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield Sender(process, file)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Source(threading.Thread):
    """A publisher that publishes slowly all the time, and now and then an event that is seconds
    late."""

    def __init__(self, network: Network) -> None:
        super().__init__(daemon=True)
        self._network = network
        self._over = threading.Event()
        self.published = BEFORE

    def run(self) -> None:
        identity = identity_of("source", "the secret of a test")
        publisher = Publisher(Broker(self._network.url, {}), identity)
        while not self._over.wait(1 / RATE_PER_S):
            time_us = time.time_ns() // 1000
            if self.published % LATE_EVERY == 0:
                time_us -= 4_000_000
            event = encode_event(
                (identity.id, self.published + 1), time_us, {"n": self.published}, ("in",), b""
            )
            publisher.send([event])
            self.published += 1
        publisher.flush()
        publisher.close()

    def stop(self) -> int:
        self._over.set()
        self.join()
        return self.published


@pytest.mark.soak
@pytest.mark.spark
def test_a_query_that_is_killed_loses_nothing_and_publishes_nothing_twice(
    java: None, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    with live_history(tmp_path / "storage") as network:
        network.publish("in", *({"n": n} for n in range(BEFORE)))
        listener, source = Listener(network.urls[1], "out"), Source(network)
        source.start()
        with copying(network, checkpoint) as program:
            heard = listener.wait(300, program)
        assert unfinished(checkpoint), "the query was never killed in the middle of a batch"
        with copying(network, checkpoint) as program:
            listener.wait(heard + 600, program)
            count = source.stop()
            listener.wait(count, program)
        stored = network.wait("out", count)
        assert Counter(event["n"] for event in stored) == Counter(range(count))
        assert set(listener.close().values()) == {1}, "a live subscriber got an event twice"


def unfinished(checkpoint: Path) -> bool:
    """Return whether a batch has begun and not ended."""
    begun, ended = (
        {path.name for path in (checkpoint / name).iterdir() if path.name.isdigit()}
        for name in ("offsets", "commits")
    )
    return begun > ended
