"""The traces that live brokers write."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from live_brokers import Live
from raw_client import expect

from live_networks import has_traceback, make_network, until
from reefcast.network.sections import TraceSection
from reefcast.traces.files import TraceRecorder


def rows(directory: Path, kind: str) -> list[dict[str, Any]]:
    files = sorted((directory / kind).glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


async def carry(live: Live, directory: Path, level: str, count: int = 20) -> None:
    """Publish `count` events from a to two subscribers at b, and as many that nobody wants."""
    trace = TraceSection(level=level, directory=str(directory), sample=0.3)
    nodes = await live.up(make_network("ab", [("a", "b")], trace=trace))
    subscribers = [await live.client(nodes["b"], name) for name in ("s", "t")]
    for subscriber in subscribers:
        await subscriber.subscribe("wanted = TRUE")
        await subscriber.subscribe("n > 0 AND wanted = TRUE")
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    publisher.publish(count, wanted=True)
    for subscriber in subscribers:
        expect(await subscriber.seqs_of(count), 1, count)
    publisher.publish(count, wanted=False)
    await publisher.until_acknowledged(2 * count + 1)
    for name in ("a", "b"):
        await nodes[name].stop()


async def test_full_traces_tell_everything(live: Live, tmp_path: Path):
    await carry(live, tmp_path, "full")
    published = rows(tmp_path, "publish")
    assert [(row["broker"], row["seq"]) for row in published] == [("a", n) for n in range(1, 41)]
    assert all(row["size_bytes"] > 10 for row in published)
    deliveries = rows(tmp_path, "delivery")
    assert [row["seq"] for row in deliveries] == list(range(1, 21))
    (kinds,) = {
        (row["broker"], row["subscribers"], row["subscriptions"], row["hops"]) for row in deliveries
    }
    assert kinds == ("b", 2, 4, 1)
    messages = rows(tmp_path, "message")
    assert sum(row["message"] == "publish" and row["link"] == "b" for row in messages) == 20
    assert {"advertise", "subscribe", "settled"} <= {row["message"] for row in messages}
    discards = rows(tmp_path, "discard")
    assert [(row["seq"], row["reason"]) for row in discards] == [
        (n, "unwanted") for n in range(21, 41)
    ]
    matching = rows(tmp_path, "matching")
    assert len(matching) == 60 and all(row["duration_ns"] > 0 for row in matching)
    assert {row["table"] for row in rows(tmp_path, "table")} == {"SRT", "PRT"}
    assert {row["link"] for row in rows(tmp_path, "queue")} == {"a", "b"}


async def test_what_a_neighbour_that_is_away_did_not_get(live: Live, tmp_path: Path):
    """The rows are those of simulated brokers, with the link on which an event was lost."""
    trace = TraceSection(level="full", directory=str(tmp_path))
    nodes = await live.up(make_network("ab", [("a", "b")], trace=trace, link_buffer=2))
    subscriber = await live.client(nodes["b"], "s")
    await subscriber.subscribe("n > 0")
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    await live.crash(nodes["b"])
    await until(lambda: nodes["a"].links["b"].state == "broken")
    publisher.publish(5)
    await publisher.until_acknowledged(6)
    await nodes["a"].stop()
    lost = rows(tmp_path, "discard")
    assert [(row["broker"], row["seq"], row["link"], row["reason"]) for row in lost] == [
        ("a", seq, "b", "link_lost") for seq in (1, 2, 3)
    ]


async def test_sampled_traces_choose_the_same_publications_everywhere(live: Live, tmp_path: Path):
    await carry(live, tmp_path, "sampled", count=200)
    published = {row["seq"] for row in rows(tmp_path, "publish")}
    assert 60 < len(published) < 180
    delivered = {row["seq"] for row in rows(tmp_path, "delivery")}
    assert delivered == {seq for seq in published if seq <= 200}


@pytest.mark.parametrize("level", ["off", "counters"])
async def test_levels_without_details(live: Live, tmp_path: Path, level: str):
    await carry(live, tmp_path, level)
    assert not rows(tmp_path, "publish")
    assert bool(rows(tmp_path, "counter")) == (level == "counters")


async def test_a_trace_that_cannot_be_written_any_more_costs_only_itself(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    def full(recorder: TraceRecorder, rows: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(TraceRecorder, "write", full)
    await carry(live, tmp_path, "full")
    assert not rows(tmp_path, "publish")
    assert " of the trace lost: [Errno 28] No space left on device" in caplog.text


async def test_whatever_goes_wrong_with_the_trace_costs_only_itself(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    def fault(recorder: TraceRecorder, rows: object) -> int:
        raise RuntimeError("a fault of the recorder")

    monkeypatch.setattr(TraceRecorder, "write", fault)
    await carry(live, tmp_path, "full")
    assert " of the trace lost: a fault of the recorder" in caplog.text
    assert has_traceback(caplog)


async def test_rows_with_numbers_beyond_64_bits_are_lost_and_no_others(
    live: Live, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    trace = TraceSection(level="full", directory=str(tmp_path))
    node = await live.node(make_network("a", trace=trace), "a")
    assert node.host.journal.trace is not None
    odd = {"odd": 2**63, "even": 2}
    node.host.journal.trace.snapshot(odd, {}, {}, {})
    await node.stop()
    told = {row["table"]: row["rows"] for row in rows(tmp_path, "table")}
    assert told["even"] == 2 and "odd" not in told and "PRT" in told
    assert "1 row of the trace lost: numbers beyond 64 bits" in caplog.text
