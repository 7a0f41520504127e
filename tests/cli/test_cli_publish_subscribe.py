"""`reefcast publish` and `reefcast subscribe` against a real broker."""

from __future__ import annotations

import json
import os
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import reefcast
from children import Children, ended, line_of
from live_networks import path_network, running
from reefcast.cli import event_rows
from reefcast.errors import InvalidValueError, LocalError
from reefcast.network.file import NetworkFile
from reefcast.network.sections import BrokerEntry
from reefcast.server.node import Node


@pytest.fixture
async def url(unused_tcp_port: int):
    listen = f"127.0.0.1:{unused_tcp_port}"
    node = Node(NetworkFile(broker=[BrokerEntry("b1", listen)]).validate(), "b1")
    await node.start()
    yield f"reefcast://{listen}"
    await node.stop()


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


async def subscribed(children: Children, *arguments: object) -> Process:
    process = await children.start("subscribe", *arguments)
    assert await line_of(process.stderr) == b"reefcast: subscribed\n"
    return process


async def test_one_event_from_the_command_line(url: str, children: Children) -> None:
    reader = await subscribed(
        children, url, "symbol = 'IBM' AND price < 100", "--json", "--count", 1
    )
    code, _, errors = await children.run(
        "publish",
        url,
        "symbol=IBM",
        "price=99.5",
        "n=3",
        "up=true",
        'zip="0815"',
        "none=null",
        "--topic",
        "a/b",
        "--payload",
        "hello",
        "--advertise",
        "price > 0",
    )
    assert (code, errors.startswith("published 1 event in ")) == (0, True)
    code, output, errors = await ended(reader)
    event = json.loads(output)
    assert event.pop("publisher").startswith("publish-")
    assert event.pop("time_us") > 1_600_000_000_000_000
    assert event == {
        "seq": 1,
        "attributes": {"symbol": "IBM", "price": 99.5, "n": 3, "up": True, "zip": "0815"},
        "topics": ["a/b"],
        "payload": "aGVsbG8=",
    }
    assert (code, errors) == (0, "reefcast: 1 event\n")


async def test_what_the_broker_drops_is_said(children: Children) -> None:
    """For a while nobody reads what the command prints."""
    async with running(path_network(1, queue_limit=10)) as [url]:
        reader = await subscribed(children, url, "TRUE")
        async with reefcast.connect(url) as client:
            # As many as may wait in the reader; then what fills all buffers, and that place, too,
            # if the first ones have been printed by then.
            for n in range(4000):
                await client.publish(n=n, text="x" * 20_000 if n >= 1000 else "")
        printed = 1
        while b"n=3999" not in await line_of(reader.stdout):
            printed += 1
        reader.send_signal(signal.SIGINT)
        code, _, errors = await ended(reader)
    assert (code, printed < 4000) == (0, True)
    assert "the broker drops the oldest" in errors
    assert f"{printed:,} events, and {4000 - printed:,} that were dropped" in errors


async def test_json_lines_from_standard_input_as_text(url: str, children: Children) -> None:
    reader = await subscribed(children, url, "TRUE", "--count", 2)
    code, output, _ = await children.run(
        "publish", url, "--json", "--rate", 1000, input=b'{"x": 1, "s": "a b"}\n\n{"x": 2.5}'
    )
    assert (code, json.loads(output)["published"]) == (0, 2)
    text = (await ended(reader))[1].splitlines()
    assert text[0].endswith("#1  x=1  s=a b")
    assert text[1].endswith("#2  x=2.5")


async def test_ctrl_c_ends_a_reader_cleanly_with_its_count(url: str, children: Children) -> None:
    reader = await subscribed(children, url, "TRUE")
    async with reefcast.connect(url) as client:
        await client.publish(x=1, payload=b"12", topics=["t"])
    line = await line_of(reader.stdout)
    assert line.endswith(b"#1  x=1  topics=t  payload=2 bytes\n")
    reader.send_signal(signal.SIGINT)
    assert (await ended(reader))[::2] == (0, "reefcast: 1 event\n")


async def test_a_reader_whose_output_nobody_wants_any_more(url: str, children: Children) -> None:
    source, sink = os.pipe()
    reader = await children.start("subscribe", url, "TRUE", stdout=sink)
    os.close(sink)
    assert await line_of(reader.stderr) == b"reefcast: subscribed\n"
    os.close(source)
    async with reefcast.connect(url) as client:
        await client.publish(x=1)
    assert (await ended(reader))[::2] == (0, "reefcast: 0 events\n")


async def test_time_is_over(url: str, children: Children) -> None:
    assert (await children.run("subscribe", url, "TRUE", "--timeout", 0.05))[0] == 0
    assert (await children.run("subscribe", url, "TRUE", "--timeout", 0.05, "--count", 1))[0] == 1


async def test_errors_are_sentences_on_standard_error(url: str, children: Children) -> None:
    code, output, errors = await children.run("subscribe", url, "price < ")
    assert (code, output) == (2, "")
    assert errors.startswith("reefcast: line 1, column ") and "^" in errors
    assert "Traceback" not in errors
    code, _, errors = await children.run("publish", url, "--advertise", "AND", "x=1")
    assert code == 2 and "^" in errors
    code, _, errors = await children.run("publish", url, "x")
    assert code == 2 and "write name=value" in errors
    code, _, errors = await children.run("publish", "127.0.0.1:7301", "x=1")
    assert code == 2 and "reefcast://host:port" in errors
    code, _, errors = await children.run("publish", url, "--advertise", "x > 0", "x=-1")
    assert code == 2 and "was refused" in errors
    code, _, errors = await children.run("publish", url, input=b'{"x": 1}\n[1]\n')
    assert code == 2 and "line 2 is not a JSON object" in errors
    code, _, errors = await children.run("publish", url, input=b'{"x": 1}\n{"x": [1]}\n')
    assert code == 2 and "event 2: attribute 'x'" in errors
    code, _, errors = await children.run("publish", url, "--rate", -1, "x=1")
    assert code == 2 and "not in the range" in errors
    code, _, errors = await children.run("publish", url, "--file", __file__, "x=1")
    assert code == 2 and "not both" in errors


def rows_of(path: Path, format: str | None = None) -> list[dict]:
    format = format or event_rows.format_of(path)
    return [row for batch in event_rows.read_rows(path, format) for row in batch]


def test_csv_cells_are_typed_and_empty_ones_missing(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('name,n,x,ok\n"O\'Hare, IL",1,2.5,true\n"two\nlines",,1e3,[1]\n')
    assert rows_of(path) == [
        {"name": "O'Hare, IL", "n": 1, "x": 2.5, "ok": True},
        {"name": "two\nlines", "n": None, "x": 1000.0, "ok": "[1]"},
    ]
    path.write_text("a,b\n1\n")
    with pytest.raises(InvalidValueError, match="line 2: the number of cells"):
        rows_of(path)


def test_parquet_values(tmp_path: Path) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "rows.parquet"
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    table = pa.table(
        {
            "when": [moment, None],
            "naive": [moment.replace(tzinfo=None)] * 2,
            "day": [date(2026, 1, 2)] * 2,
            "amount": [Decimal("1.5")] * 2,
            "n": [1, None],
        }
    )
    parquet.write_table(table, path)
    micros = 1767323045000006
    assert rows_of(path) == [
        {"when": micros, "naive": micros, "day": "2026-01-02", "amount": 1.5, "n": 1},
        {"when": None, "naive": micros, "day": "2026-01-02", "amount": 1.5, "n": None},
    ]
    assert event_rows.row_count(path, "parquet") == 2
    assert event_rows.row_count(path, "csv") is None
    with pytest.raises(LocalError, match="name a file"):
        list(event_rows.read_rows(None, "parquet"))


def test_formats_by_name() -> None:
    names = ["a.jsonl", "a.json", "a.csv", "a.parquet", "a.pq", "a"]
    assert [event_rows.format_of(Path(name)) for name in names] == [
        "jsonl",
        "jsonl",
        "csv",
        "parquet",
        "parquet",
        "jsonl",
    ]


async def test_a_filter_that_looks_like_a_mistake_is_told_once(
    url: str, children: Children
) -> None:
    code, _, errors = await children.run(
        "subscribe", url, 'symbol = "IBM"', "price < 5", "--timeout", 0.01
    )
    doubt, *rest = errors.splitlines()
    assert doubt.startswith('reefcast: warning: symbol = "IBM": "IBM" is the name of an attribute')
    assert not any("IBM" in line for line in rest)
    assert code == 0
