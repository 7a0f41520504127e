"""The tasks of the client programs, and the logs that they write."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reefcast.errors import PeerError
from reefcast.network.file import NetworkFile
from reefcast.network.sections import BrokerEntry, LinkEntry
from reefcast_lab.demos.flooding import sample_events, simulate_flooding
from reefcast_lab.demos.harness import Program
from reefcast_lab.demos.program import run_program
from reefcast_lab.demos.replay import (
    Replay,
    publisher_tasks,
    subscriber_tasks,
    until_quiet,
)
from reefcast_lab.demos.replay_log import DELIVERIES, Log
from reefcast_lab.demos.replay_protocol import START, Progress, PublisherTask, SubscriberTask
from reefcast_lab.demos.replay_publisher import read_events
from reefcast_lab.demos.replay_subscriber import read_workload
from reefcast_lab.demos.subscriptions import Wanted

NETWORK = NetworkFile(
    broker=[BrokerEntry(name=f"b{i}", listen=f"127.0.0.1:{7300 + i}") for i in (1, 2, 3)],
    link=[LinkEntry(between=("b1", "b2")), LinkEntry(between=("b2", "b3"))],
)


def a_replay(folder):
    return Replay(
        network=NETWORK,
        events=folder / "events.parquet",
        count=4,
        rate_per_s=100.0,
        publishers={"JFK": "b3", "EWR": "b1"},
        workload=folder / "subscriptions.parquet",
        folder=folder / "logs",
    )


def write_events(path):
    rows = {
        "event": [0, 1, 2, 3, 4],
        "time_us": [10, 20, 30, 40, 50],
        "origin": ["EWR", "JFK", "EWR", "JFK", "EWR"],
        "delay": [5, None, 7, 8, 9],
    }
    pq.write_table(pa.table(rows), path)


def test_each_publisher_has_an_airport_and_a_broker(tmp_path):
    tasks = publisher_tasks(a_replay(tmp_path))
    assert [(task.origin, task.url) for task in tasks] == [
        ("EWR", "reefcast://127.0.0.1:7301"),
        ("JFK", "reefcast://127.0.0.1:7303"),
    ]


def test_subscriber_programs_share_the_brokers(tmp_path):
    tasks = subscriber_tasks(a_replay(tmp_path))
    assert [sorted(task.urls) for task in tasks] == [["b1", "b3"], ["b2"]]
    assert {task.publishers for task in tasks} == {2}


def test_publisher_reads_its_airport_in_time_order_up_to_the_count(tmp_path):
    write_events(tmp_path / "events.parquet")
    (task, _) = publisher_tasks(a_replay(tmp_path))
    assert list(read_events(task)) == [
        {"event": 0, "origin": "EWR", "delay": 5},
        {"event": 2, "origin": "EWR", "delay": 7},
    ]


def test_subscriber_reads_what_its_clients_want(tmp_path):
    path = tmp_path / "subscriptions.parquet"
    rows = [
        Wanted(0, "a = 1", "b1", "b1-client-1"),
        Wanted(1, "a = 2", "b2", "b2-client-1"),
        Wanted(2, "a = 3", "b1", "b1-client-1"),
    ]
    pq.write_table(pa.table(dict(zip(Wanted._fields, zip(*rows, strict=True), strict=True))), path)
    task = SubscriberTask({"b1": "reefcast://127.0.0.1:7301"}, str(path), 1, "unused")
    assert read_workload(task) == {("b1", "b1-client-1"): {0: "a = 1", 2: "a = 3"}}


def test_log_is_parquet_with_the_columns_that_the_check_reads(tmp_path):
    log = Log(DELIVERIES)
    log.add(7, "p", 1, 123)
    path = tmp_path / "deep" / "log.parquet"
    log.write(path)
    table = pq.read_table(path)
    assert table.to_pylist() == [
        {"subscription": 7, "publisher": "p", "seq": 1, "received_us": 123}
    ]
    assert [str(kind) for kind in table.schema.types] == ["int64", "string", "int64", "int64"]


@pytest.mark.live
async def test_a_program_that_fails_is_an_error_not_a_hang(capfd):
    task = PublisherTask("reefcast://127.0.0.1:1", "JFK", "no such file", 1, 1.0, "unused")
    program = await Program.start("replay_publisher", task, Progress)
    try:
        program.tell(START)
        async with asyncio.timeout(60):
            with pytest.raises(PeerError, match="replay_publisher ended before it was ready"):
                await program.until("ready")
            with pytest.raises(PeerError, match="exit code 1"):
                await program.end()
    finally:
        await program.kill()
    assert "no such file" in capfd.readouterr().err


def test_ctrl_c_is_left_to_the_demo(monkeypatch):
    """In a terminal it reaches every process: the demo ends its programs, and they print
    nothing."""

    async def run(task):
        heard.append((task.origin, signal.getsignal(signal.SIGINT)))

    heard, before = [], signal.getsignal(signal.SIGINT)
    task = PublisherTask("reefcast://127.0.0.1:1", "JFK", "events", 1, 1.0, "log")
    monkeypatch.setattr(sys, "argv", ["program", msgspec.json.encode(task).decode()])
    try:
        run_program(run, PublisherTask)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [("JFK", signal.SIG_IGN)]


def test_flooding_crosses_every_link_of_the_tree(tmp_path):
    path: Path = tmp_path / "events.parquet"
    write_events(path)
    events = sample_events(path, 4)
    assert [event["origin"] for event in events] == ["EWR", "JFK", "EWR", "JFK"]
    wanted = [Wanted(0, "delay > 6", "b3", "b3-client-1")]
    flooding = simulate_flooding(NETWORK.graph(), wanted, {"EWR": "b1", "JFK": "b3"}, events)
    assert (flooding.events, flooding.link_messages) == (4, 8)


class Busy:
    """An overlay whose brokers have passed on so many publications at each look, which is a
    connection, and whose links are empty at each look."""

    def __init__(self, counts):
        self.counts = counts
        self.looks = []

    async def status(self):
        self.looks.append("counts")
        looks = self.looks.count("counts")
        counters = {"forwarded": self.counts.pop(0), "connected": looks}
        return {"a": {"counters": counters}, "b": None}

    async def linked(self):
        self.looks.append("links")


async def test_the_network_is_quiet_when_nothing_moved_between_two_looks():
    overlay = Busy([1, 2, 2, 3])
    await until_quiet(overlay)
    assert overlay.looks == ["counts", "links", "counts", "links", "counts"]
    assert overlay.counts == [3]
